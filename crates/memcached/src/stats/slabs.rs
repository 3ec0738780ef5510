//! `stats slabs`: the slabs that memcached would use for the present items.
//!
//! `total_malloced` counts the chunks in use, and at least one page, as memcached always has.

use super::report::Report;
use crate::command_context::CommandContext;
use crate::slab_classes::PAGE_BYTES;

pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let server = context.server;
    let found = server.survey.of(&server.env, &server.cache, &server.classes);
    let sums = server.sums().since(&server.base().sums);
    let mut report = Report::default();
    let (mut active, mut malloced) = (0, server.settings.memory_taken.max(PAGE_BYTES));
    for class in 1..=server.classes.last() {
        let items = found.classes[class];
        if items.items == 0 {
            continue;
        }
        let per_page = (PAGE_BYTES / server.classes.chunk(class)).max(1);
        let pages = items.chunks.div_ceil(per_page);
        active += 1;
        malloced += items.chunks * server.classes.chunk(class);
        let mut add = |name: &str, value: u64| report.add(format!("{class}:{name}"), value);
        add("chunk_size", server.classes.chunk(class));
        add("chunks_per_page", per_page);
        add("total_pages", pages);
        add("total_chunks", pages * per_page);
        add("used_chunks", items.chunks);
        add("free_chunks", pages * per_page - items.chunks);
        add("free_chunks_end", 0);
        let counts = sums.classes[class];
        add("get_hits", counts.get_hits);
        add("cmd_set", counts.set_cmds);
        add("delete_hits", counts.delete_hits);
        add("incr_hits", counts.incr_hits);
        add("decr_hits", counts.decr_hits);
        add("cas_hits", counts.cas_hits);
        add("cas_badval", counts.cas_badval);
        add("touch_hits", counts.touch_hits);
    }
    report.add("active_slabs", active);
    report.add("total_malloced", malloced);
    report
}
