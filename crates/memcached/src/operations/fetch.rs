//! Counts reads of items.

use crate::command_context::CommandContext;
use crate::watch::{Event, Stream};
use sandur_cache::{Answer, Item, Lookup, Tier};

/// Counts a read and publishes it to watchers. `touched` says that it also set a new expiry, which
/// memcached counts as a touch.
#[inline]
pub(crate) fn count(context: &CommandContext<'_>, key: &[u8], found: Option<&Item>, touched: bool) {
    let totals = &context.counters.totals;
    let class = match found {
        Some(item) => {
            let class = context.class_of(key, item.length, item.flags);
            if touched {
                totals.touch_cmds.add(1);
                context.counters.class(class).touch_hits.add(1);
            } else {
                totals.get_cmds.add(1);
                context.counters.class(class).get_hits.add(1);
            }
            if item.meta.tier == Tier::Flash {
                totals.get_extstore.add(1);
            }
            class
        }
        None => {
            if touched {
                totals.touch_cmds.add(1);
                totals.touch_misses.add(1);
            } else {
                totals.get_cmds.add(1);
                totals.get_misses.add(1);
            }
            0
        }
    };
    context.server.prefixes.get(key, found.is_some());
    context.watch(Stream::Fetchers, || Event::Get {
        key,
        status: if found.is_some() { "found" } else { "not_found" },
        class,
        descriptor: context.descriptor,
        size: found.map_or(0, |item| item.length),
    });
}

/// Converts a lookup to an answer.
pub(crate) fn present(lookup: Lookup) -> Answer<Option<Item>> {
    match lookup {
        Lookup::Hit(item) => Answer::Ready(Some(item)),
        Lookup::Miss => Answer::Ready(None),
        Lookup::Pending(pending) => Answer::Pending(pending),
    }
}
