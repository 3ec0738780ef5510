//! The windows of time that blocks belong to.

use std::collections::BTreeSet;

use sandur_model::{DAY_NS, HOUR_NS, Signal, TimeRange};

/// The latest slots of one tenant that get a block each; rows of earlier ones share a block per day, so
/// that a backfill of a year does not make 8,760 blocks.
const SLOTS_MAX: usize = 48;

/// Length of the shortest window of a signal: an hour of logs, two hours of samples, as users of Prometheus
/// know blocks.
pub(crate) fn slot_ns(signal: Signal) -> i64 {
    match signal {
        Signal::Logs => HOUR_NS,
        Signal::Metrics => 2 * HOUR_NS,
    }
}

/// Windows with the rows that belong to them, given the numbers of the slots that have rows: the latest slots
/// for themselves, the rest by day. Of days whose slots are kept apart up to as many more are for themselves.
pub(crate) fn windows(
    slots: &BTreeSet<i64>,
    slot_ns: i64,
    is_apart: impl Fn(TimeRange) -> bool,
) -> Vec<(TimeRange, TimeRange)> {
    let first_single = slots.iter().nth_back(SLOTS_MAX - 1).or(slots.first()).copied();
    let Some(first_single) = first_single else { return Vec::new() };
    let slot = |slot: i64| TimeRange::new(slot * slot_ns, (slot + 1) * slot_ns);
    let per_day = DAY_NS / slot_ns;
    let days: BTreeSet<i64> = slots.range(..first_single).map(|slot| slot.div_euclid(per_day)).collect();
    let (mut earlier, mut left) = (Vec::new(), SLOTS_MAX);
    for day in days.into_iter().rev() {
        let window = TimeRange::new(day * DAY_NS, (day + 1) * DAY_NS);
        let slots = slots.range(day * per_day..first_single.min((day + 1) * per_day)).rev();
        let count = slots.clone().count();
        if count <= left && is_apart(window) {
            left -= count;
            earlier.extend(slots.map(|&s| (slot(s), slot(s))));
        } else {
            earlier.push((window, TimeRange::new(window.start, window.end.min(first_single * slot_ns))));
        }
    }
    earlier.into_iter().rev().chain(slots.range(first_single..).map(|&s| (slot(s), slot(s)))).collect()
}

/// The day that holds an instant.
pub(crate) fn day_of(instant_ns: i64) -> TimeRange {
    let start = instant_ns.div_euclid(DAY_NS) * DAY_NS;
    TimeRange::new(start, start.saturating_add(DAY_NS))
}
