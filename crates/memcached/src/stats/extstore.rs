//! `stats extstore`, and the flash tier's part of `stats`, under extstore's names.
//!
//! A segment is what extstore calls a page. Some segments are always kept free as a reserve for
//! reclaiming; they are not shown, so that no page is free when flash is full. Records that are written
//! again when their segment is reused or compacted count as rescued.

use super::report::Report;
use crate::command_context::CommandContext;
use sandur_cache::FlashTierStats;
use sandur_cache::flash::{Dropped, Segment, SegmentState};

/// Adds the totals.
pub(super) fn add_totals(flash: &FlashTierStats, report: &mut Report) {
    let (device, counts) = (&flash.device, &flash.device.counts);
    let shown = shown(flash);
    let free = shown.iter().filter(|segment| segment.state == SegmentState::Free).count() as u64;
    let live: u64 = device.segments.iter().map(|segment| segment.live_bytes).sum();
    let held: u64 = device.segments.iter().map(|segment| segment.record_bytes).sum();
    let evicted = counts.dropped_for(Dropped::Evicted);
    report.add("extstore_memory_pressure", "0.00");
    report.add("extstore_compact_lost", 0);
    report.add("extstore_compact_rescues", counts.records_reinserted);
    report.add("extstore_compact_resc_cold", 0);
    report.add("extstore_compact_resc_old", 0);
    report.add("extstore_compact_skipped", counts.segments_spared);
    report.add("extstore_page_allocs", counts.segments_opened);
    report.add("extstore_page_evictions", counts.segments_reclaimed);
    report.add("extstore_page_reclaims", counts.segments_reclaimed);
    report.add("extstore_pages_free", free);
    report.add("extstore_pages_used", shown.len() as u64 - free);
    report.add("extstore_objects_evicted", evicted);
    report.add("extstore_objects_read", counts.reads_hit);
    report.add("extstore_objects_written", counts.records_written);
    report.add("extstore_objects_used", device.records);
    report.add("extstore_bytes_evicted", counts.bytes_evicted);
    report.add("extstore_bytes_written", counts.bytes_written);
    report.add("extstore_bytes_read", counts.bytes_read);
    report.add("extstore_bytes_used", live);
    report.add("extstore_bytes_fragmented", held.saturating_sub(live));
    report.add("extstore_limit_maxbytes", device.capacity_bytes);
    report.add("extstore_io_queue", device.queued_writes);
    report.add("extstore_journal_waiting", device.journal_waiting);
    report.add("extstore_recovering", u64::from(device.is_recovering));
}

/// Returns all segments except the free ones of the reserve.
fn shown(flash: &FlashTierStats) -> Vec<Segment> {
    let device = &flash.device;
    let mut reserve = flash.reserve_bytes / device.segment_bytes.max(1);
    let mut shows = |segment: &&Segment| {
        let hidden = segment.state == SegmentState::Free && reserve > 0;
        reserve -= u64::from(hidden);
        !hidden
    };
    device.segments.iter().filter(|segment| shows(segment)).copied().collect()
}

/// Reports each segment.
pub(super) fn report(turn: &CommandContext<'_>) -> Report {
    let mut report = Report::default();
    let stats = turn.cache().stats();
    for (page, segment) in stats.flash.iter().flat_map(shown).enumerate() {
        report.add(format!("{page}:version"), segment.id);
        report.add(format!("{page}:bytes"), segment.live_bytes);
        report.add(format!("{page}:bucket"), segment.class as u8);
        let is_kept = stats.flash.as_ref().is_some_and(|flash| segment.slot >= flash.device.kept_from);
        report.add(format!("{page}:free_bucket"), u8::from(is_kept));
    }
    report
}
