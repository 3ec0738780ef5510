//! `stats items` and `stats sizes`: the items in memory, by slab class and by size.
//!
//! memcached's LRU has hot, warm and cold parts. Here an item that was read since it was stored counts
//! as warm, every other as cold, and none as hot, which matches how these numbers are used.

use super::report::Report;
use crate::command_context::CommandContext;
use crate::evictions::EvictionCounts;

pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let server = context.server;
    let found = server.survey.of(&server.env, &server.cache, &server.classes);
    let base = server.base();
    let sums = server.sums().since(&base.sums);
    let tuning = server.tuning().clone();
    let mut report = Report::default();
    for class in 1..=server.classes.last() {
        let items = found.classes[class];
        let gone = server.evictions.of(class).since(&base.gone[class]);
        if items.items == 0 && gone == EvictionCounts::default() {
            continue;
        }
        let mut add = |name: &str, value: u64| report.add(format!("items:{class}:{name}"), value);
        let age = items.oldest.map_or(0, |oldest| u64::from(context.now.saturating_sub(oldest)));
        add("number", items.items);
        if tuning.lru_maintainer {
            add("number_hot", 0);
            add("number_warm", items.fetched);
            add("number_cold", items.items - items.fetched);
            if tuning.temp_lru {
                add("number_temp", 0);
            }
            add("age_hot", 0);
            add("age_warm", if items.fetched > 0 { age } else { 0 });
        }
        add("age", age);
        add("mem_requested", items.bytes);
        add("evicted", gone.evicted);
        add("evicted_nonzero", gone.evicted_nonzero);
        add("evicted_time", gone.evicted_time);
        add("outofmemory", 0);
        add("tailrepairs", 0);
        add("reclaimed", gone.reclaimed);
        add("expired_unfetched", gone.expired_unfetched);
        add("evicted_unfetched", gone.evicted_unfetched);
        if tuning.lru_maintainer {
            add("evicted_active", gone.evicted_active);
        }
        add("crawler_reclaimed", 0);
        add("crawler_items_checked", 0);
        add("lrutail_reflocked", 0);
        if tuning.lru_maintainer {
            for name in
                ["moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims", "hits_to_hot"]
            {
                add(name, 0);
            }
            add("hits_to_warm", sums.classes[class].get_hits);
            add("hits_to_cold", 0);
            add("hits_to_temp", 0);
        }
    }
    report
}

/// Reports the number of items by size, in steps of 32 bytes.
pub(super) fn sizes(context: &CommandContext<'_>) -> Report {
    let server = context.server;
    let mut report = Report::default();
    if !server.settings.track_sizes {
        report.add("sizes_status", "disabled");
        return report;
    }
    let found = server.survey.of(&server.env, &server.cache, &server.classes);
    for (size, count) in &found.sizes {
        report.add(size.to_string(), count);
    }
    report
}
