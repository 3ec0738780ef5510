//! The run-time options of extstore for the flash tier, and the thread that applies them.
//!
//! By default the cache decides which values move to flash and which return to memory. `ext_item_age`
//! moves idle items to flash early, `ext_recache_rate` 0 or 1 lets all or none of the values read from
//! flash stay there, and `ext_compact_under` requests compaction. All can be set while the server runs
//! (`extstore NAME VALUE`).
//!
//! Invariant: scans of the items in memory use at most a tenth of one CPU.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use sandur_cache::flash::{Compaction, Counts};
use sandur_cache::{Demotion, Promotion};

use super::server::Server;
use super::settings::Tuning;
use super::watch::{Event, Stream};

/// How often the options are applied.
const TICK: Duration = Duration::from_millis(100);
/// A scan of memory is followed by a pause of at least this many times its duration.
const PAUSE: u32 = 9;
/// The age that turns early demotion off: items stay in memory as long as there is room.
const NEVER: u32 = u32::MAX;

/// Passes the current options to the cache.
pub(super) fn turn(server: &Server) {
    let tuning = server.tuning().clone();
    server.cache.set_promotion(promotion(&tuning));
    server.cache.set_compaction(compaction(&tuning));
}

/// Applies the options periodically until `stop` becomes readable.
pub(super) fn run(server: &Server, stop: &OwnedFd) {
    turn(server);
    let mut published = None;
    let mut pause = TICK;
    while !is_stopped(stop, pause) {
        let tuning = server.tuning().clone();
        let started = server.env.monotonic();
        demote(server, &tuning);
        pause = TICK.max((server.env.monotonic().saturating_sub(started)) * PAUSE);
        publish(server, &tuning, &mut published);
    }
}

fn is_stopped(stop: &OwnedFd, pause: Duration) -> bool {
    let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    let mut watched = [PollFd::new(stop, PollFlags::IN)];
    // an interrupted wait just ends early
    poll(&mut watched, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn promotion(tuning: &Tuning) -> Promotion {
    match tuning.ext_recache_rate {
        0 => Promotion::Never,
        1 => Promotion::Always,
        // an operator who moves idle items to flash does not want every read to bring one back
        _ if tuning.ext_item_age != NEVER => Promotion::Again,
        _ => Promotion::Worthy,
    }
}

/// Numbers of pages refer to the configured page size, whatever the size of segments.
fn compaction(tuning: &Tuning) -> Compaction {
    let bytes = |pages: u32| u64::from(pages).saturating_mul(tuning.ext_page_size);
    Compaction {
        below_free_bytes: bytes(tuning.ext_compact_under),
        live_share_below: tuning.ext_max_frag,
        drop_unread_below_free_bytes: if tuning.ext_drop_unread { bytes(tuning.ext_drop_under) } else { 0 },
        is_forbidden: tuning.ext_max_frag == 0.0,
    }
}

fn demote(server: &Server, tuning: &Tuning) {
    if tuning.ext_item_age == NEVER {
        return;
    }
    let demotion = Demotion { idle_s: tuning.ext_item_age, least_bytes: u64::from(tuning.ext_item_size) };
    for shard in 0..server.cache.shards() {
        server.cache.demote(shard, &demotion);
    }
}

/// Publishes to watchers of system events what compaction has done since the last call.
fn publish(server: &Server, tuning: &Tuning, published: &mut Option<Counts>) {
    if !server.watchers.wants(Stream::System) {
        *published = None;
        return;
    }
    let Some(flash) = server.cache.stats().flash else { return };
    let counts = flash.device.counts;
    let before = published.replace(counts.clone()).unwrap_or_else(|| counts.clone());
    let now_ns = server.env.now_ns();
    let segments = counts.segments_compacted - before.segments_compacted;
    if segments > 0 {
        let rescues = counts.records_reinserted - before.records_reinserted;
        server.watchers.publish(Stream::System, &Event::Compacted { segments, rescues }, now_ns);
    }
    let bytes = (flash.device.segment_bytes as f64 * tuning.ext_max_frag) as u64;
    let event = Event::Fragmentation { ratio: tuning.ext_max_frag, bytes };
    server.watchers.publish(Stream::System, &event, now_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_keep_their_meaning_and_the_defaults_change_nothing() {
        let tuning = Tuning::default();
        assert_eq!(promotion(&tuning), Promotion::default());
        assert_eq!(compaction(&tuning).below_free_bytes, 0);
        assert_eq!(tuning.ext_item_age, NEVER);
        let tuned = Tuning {
            ext_recache_rate: 0,
            ext_compact_under: 3,
            ext_drop_under: 2,
            ext_drop_unread: true,
            ext_page_size: 8 << 20,
            ..tuning
        };
        assert_eq!(promotion(&tuned), Promotion::Never);
        let wanted = Compaction {
            below_free_bytes: 24 << 20,
            live_share_below: 0.8,
            drop_unread_below_free_bytes: 16 << 20,
            is_forbidden: false,
        };
        assert_eq!(compaction(&tuned), wanted);
    }
}
