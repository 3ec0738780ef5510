//! The common part of get, getk, touch, gat and gatk.

use crate::next::Next;
use crate::operations::{fetch, settle};
use crate::time::expires_at;
use sandur_cache::{Answer, Item, Read};

use super::call::{Call, number_32};
use super::header::Status;

/// What a command returns, and whether it touches the item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Whether the answer repeats the key.
    pub key: bool,
    /// Whether the item gets a new expiry.
    pub touches: bool,
    /// Whether the answer has no value.
    pub bare: bool,
}

/// Answers a packet.
pub(crate) fn run(call: &mut Call<'_>, shown: Shown) -> Next {
    let context = call.context;
    let touch = shown.touches.then(|| expires_at(i64::from(number_32(call.extras, 0)), context.now));
    let range = shown.bare.then_some(0..0);
    let found =
        fetch::present(context.cache().get(call.key, &Read { expires_at: touch, range, ..Read::default() }));
    let (header, quiet, was_pending) = (call.header, call.quiet, matches!(found, Answer::Pending(_)));
    settle(context, call.output, call.key, found, move |context, key, found: Option<Item>, out| {
        fetch::count(context, key, found.as_ref(), shown.touches);
        let shown_key = if shown.key { key } else { &[] };
        match found {
            Some(item) => {
                let (cas, flags) = (context.shown_cas(item.cas), item.flags.to_be_bytes());
                header.write_value(cas, &flags, shown_key, item.value, out);
            }
            None => {
                if was_pending {
                    context.counters.totals.miss_from_extstore.add(1);
                }
                if !quiet && shown.key {
                    header.write(Status::NotFound, 0, &[], shown_key, &[], out);
                } else if !quiet {
                    header.write_error(Status::NotFound, out);
                }
            }
        }
    });
    // reads do not wait for each other
    Next::Done
}
