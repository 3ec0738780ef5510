//! extstore's options of the flash tier that are set at run time, and the thread that applies them.
//!
//! Left alone, the cache decides by itself what goes to flash and what comes back. `ext_item_age` moves
//! idle items there early, `ext_recache_rate` 0 and 1 keep all or none of what is read from coming back,
//! and `ext_compact_under` asks for compaction. All can be turned while the server runs
//! (`extstore NAME VALUE`).
//!
//! Invariant: passes over the items in memory take at most a tenth of one processor.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use sandur_cache::flash::{Compaction, Counts};
use sandur_cache::{Demotion, Promotion};

use super::server::Server;
use super::settings::Tuning;
use super::watch::{Event, Stream};

/// How often the knobs are looked at.
const TICK: Duration = Duration::from_millis(100);
/// A pass over memory is followed by a pause of at least so many times its length.
const PAUSE: u32 = 9;
/// The age at which items stay in memory as long as there is room.
const NEVER: u32 = u32::MAX;

/// Gives the cache the knobs as they stand.
pub(super) fn turn(server: &Server) {
    let tuning = server.tuning().clone();
    server.cache.set_promotion(promotion(&tuning));
    server.cache.set_compaction(compaction(&tuning));
}

/// Does what the knobs ask for, again and again, until `stop` can be read.
pub(super) fn run(server: &Server, stop: &OwnedFd) {
    turn(server);
    let mut told = None;
    let mut pause = TICK;
    while !is_stopped(stop, pause) {
        let tuning = server.tuning().clone();
        let started = server.env.monotonic();
        demote(server, &tuning);
        pause = TICK.max((server.env.monotonic().saturating_sub(started)) * PAUSE);
        tell(server, &tuning, &mut told);
    }
}

fn is_stopped(stop: &OwnedFd, pause: Duration) -> bool {
    let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    let mut watched = [PollFd::new(stop, PollFlags::IN)];
    // interrupted waits are short ones
    poll(&mut watched, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn promotion(tuning: &Tuning) -> Promotion {
    match tuning.ext_recache_rate {
        0 => Promotion::Never,
        1 => Promotion::Always,
        // who has idle items moved away does not want every read to bring one back
        _ if tuning.ext_item_age != NEVER => Promotion::Again,
        _ => Promotion::Worthy,
    }
}

/// Numbers of pages are of the pages that were asked for, whatever the size of segments.
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

/// Tells who watches system events what compaction has done since the last time.
fn tell(server: &Server, tuning: &Tuning, told: &mut Option<Counts>) {
    if !server.watchers.wants(Stream::System) {
        *told = None;
        return;
    }
    let Some(flash) = server.cache.stats().flash else { return };
    let counts = flash.device.counts;
    let before = told.replace(counts.clone()).unwrap_or_else(|| counts.clone());
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
    fn knobs_keep_their_meaning_and_their_defaults_change_nothing() {
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
