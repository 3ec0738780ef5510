//! Decides which segment is reclaimed next, which is spared, and which records are written again:
//! applies [`crate::policy::reclaim`] and [`crate::policy::Reinsertion`] to the table of segments.
//!
//! Invariant: no I/O. Empty segments are reclaimed before any others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::expiry::is_expired;
use super::format::Class;
use super::segments::{Segment, SegmentState};
use crate::policy::reclaim::{Arrivals, Conditions, Oldest, Step, TailAge, next_step};
use crate::policy::{Class as PolicyClass, RecordFacts, Reinsertion};

/// The state that reclaiming and appending share.
pub(super) struct ReclaimPolicy {
    choices: Mutex<Choices>,
    /// Recent admissions.
    pub arrivals: Arrivals,
    /// How long the oldest protected segment has gone unread.
    pub tail_age: TailAge,
}

impl ReclaimPolicy {
    /// A policy that writes at most `amplification` bytes for each byte admitted.
    pub fn new(amplification: f64) -> Self {
        let choices = Mutex::new(Choices::new(amplification));
        Self { choices, arrivals: Arrivals::default(), tail_age: TailAge::default() }
    }

    /// Counts a sealed segment in the allowance of reinsertion, which only new records increase.
    pub fn count_sealed(&self, class: Class, record_bytes: u64, written_bytes: u64, segment_bytes: u64) {
        self.choices().sealed(record_bytes, class != Class::Protected, written_bytes, segment_bytes);
    }

    /// The conditions of the next choice.
    pub fn conditions(&self, segment_bytes: u64) -> Conditions {
        self.choices().conditions(segment_bytes, &self.arrivals)
    }

    /// Counts a segment that was spared, or freed after those that were.
    pub fn note_spared(&self, is_spared: bool) {
        let mut choices = self.choices();
        choices.spared = if is_spared { choices.spared + 1 } else { 0 };
    }

    /// The positions of the records of a segment that are written again, with the uses that they keep.
    pub fn choose(&self, class: Class, segment_bytes: u64, facts: &[RecordFacts]) -> Vec<(usize, u8)> {
        let mut chosen = Vec::new();
        let class = policy_class(class);
        self.choices().reinsertion.choose(class, segment_bytes, facts, |at, uses| chosen.push((at, uses)));
        chosen
    }

    fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state between two choices.
struct Choices {
    reinsertion: Reinsertion,
    /// Segments spared since the last one was freed.
    spared: u32,
    /// Bytes of records in sealed segments.
    sealed_bytes: u64,
    /// Bytes of other writes counted so far.
    other_bytes: u64,
}

impl Choices {
    /// A state that allows at most `amplification` bytes written for each byte admitted.
    fn new(amplification: f64) -> Self {
        let reinsertion = Reinsertion::up_to(amplification);
        Self { reinsertion, spared: 0, sealed_bytes: 0, other_bytes: 0 }
    }

    /// Counts a sealed segment. `written_bytes` is the sum of all writes to the device. Records of open
    /// segments count as other writes until they are sealed, but only once.
    fn sealed(&mut self, record_bytes: u64, is_admitted: bool, written_bytes: u64, segment_bytes: u64) {
        self.sealed_bytes += record_bytes;
        if is_admitted {
            self.reinsertion.admitted(record_bytes, segment_bytes);
        }
        let others = written_bytes.saturating_sub(self.sealed_bytes);
        self.reinsertion.wrote_other(others.saturating_sub(self.other_bytes), segment_bytes);
        self.other_bytes = self.other_bytes.max(others);
    }

    fn conditions(&self, segment_bytes: u64, arrivals: &Arrivals) -> Conditions {
        arrivals.conditions(self.spared, self.reinsertion.spare_share(segment_bytes))
    }
}

pub(super) fn policy_class(class: Class) -> PolicyClass {
    match class {
        Class::Ingest | Class::Image => PolicyClass::Ingest,
        Class::Probation => PolicyClass::Probation,
        Class::Protected => PolicyClass::Protected,
        Class::Brief => PolicyClass::Brief,
    }
}

fn sealed(segments: &[Segment]) -> impl Iterator<Item = &Segment> {
    segments.iter().filter(|segment| segment.state == SegmentState::Sealed)
}

fn oldest_of(segments: &[Segment], class: Class) -> Option<&Segment> {
    sealed(segments).filter(|segment| segment.class == class).min_by_key(|segment| segment.placed)
}

/// The oldest segment of each class.
pub(super) fn oldest(segments: &[Segment]) -> Vec<Oldest> {
    let line = |class| {
        let oldest = oldest_of(segments, class)?;
        Some(Oldest {
            class: policy_class(class),
            placed: oldest.placed,
            placed_at: oldest.placed_at,
            bytes: oldest.record_bytes,
            used_bytes: oldest.used_bytes,
            spent: false,
            unproven: oldest.unproven,
            class_bytes: sealed(segments).filter(|s| s.class == class).map(|s| s.record_bytes).sum(),
        })
    };
    Class::OF_RECORDS.into_iter().filter_map(line).collect()
}

/// A segment without live records.
fn spent(segments: &[Segment], now: u32) -> Option<&Segment> {
    sealed(segments).find(|segment| segment.live_bytes == 0 || is_expired(segment.latest_expiry, now))
}

/// The segment that was written first, of any class.
fn first_written(segments: &[Segment]) -> Option<&Segment> {
    sealed(segments).min_by_key(|segment| segment.id)
}

/// The next segment to reclaim, and the step to take with it.
pub(super) fn next_victim(
    segments: &[Segment],
    now: u32,
    conditions: Option<Conditions>,
) -> Option<(Segment, Step)> {
    let free = |segment: &Segment| (*segment, Step::Free(policy_class(segment.class)));
    if let Some(spent) = spent(segments, now) {
        return Some(free(spent));
    }
    // Without conditions the policy has no choice to make.
    let Some(conditions) = conditions else { return first_written(segments).map(free) };
    let largest = sealed(segments).map(|segment| segment.record_bytes).max();
    let capacity = segments.len() as u64 * largest.unwrap_or_default();
    let step = next_step(&oldest(segments), capacity, conditions)?;
    let chosen = match step {
        Step::Free(class) | Step::Spare(class) => class,
        Step::Join => PolicyClass::Probation,
    };
    let class = Class::OF_RECORDS.into_iter().find(|&class| policy_class(class) == chosen)?;
    oldest_of(segments, class).map(|segment| (*segment, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(slot: u32, class: Class, live: u64, used: u64) -> Segment {
        Segment {
            slot,
            state: SegmentState::Sealed,
            class,
            unproven: false,
            id: 100 + u64::from(slot),
            placed: 100 + u64::from(slot),
            placed_at: 0,
            opened_at: 0,
            latest_expiry: 0,
            record_bytes: 1000,
            live_bytes: live,
            used_bytes: used,
            errors: 0,
        }
    }

    #[test]
    fn other_writes_than_records_are_counted_once() {
        let reinsertion = || Reinsertion::up_to(1.25);
        let mut expected = reinsertion();
        let mut choices = Choices::new(1.25);
        // A new segment, a segment of rewritten records, and other writes of one byte in twenty.
        choices.sealed(1000, true, 1050, 1000);
        choices.sealed(500, false, 1550, 1000);
        choices.sealed(1000, true, 2600, 1000);
        for (admitted, others) in [(1000, 50), (0, 0), (1000, 50)] {
            expected.admitted(admitted, 1000);
            expected.wrote_other(others, 1000);
        }
        assert_eq!(choices.reinsertion, expected);
    }

    #[test]
    fn empty_segments_are_reclaimed_first_and_then_the_policy_chooses() {
        let next = |segments: &[Segment]| {
            let conditions = Conditions { spared: 0, spare_share: 0.5, credit_bytes: 0, has_misses: true };
            next_victim(segments, 50, Some(conditions))
                .map(|(s, step)| (s.slot, matches!(step, Step::Spare(_))))
        };
        let open = Segment { state: SegmentState::Open, ..segment(0, Class::Probation, 0, 0) };
        let (used, old) = (segment(1, Class::Protected, 900, 900), segment(2, Class::Ingest, 900, 100));
        let dead = segment(3, Class::Ingest, 0, 0);
        let expired = Segment { latest_expiry: 50, ..segment(4, Class::Brief, 900, 900) };
        let lasting = Segment { latest_expiry: 51, ..segment(5, Class::Brief, 900, 900) };
        assert_eq!(next(&[open, used, old, dead]), Some((3, false)));
        assert_eq!(next(&[open, used, old, expired]), Some((4, false)));
        assert_eq!(next(&[open, used, old, lasting]), Some((1, true)));
        assert_eq!(next(&[open, old, lasting]), Some((2, false)));
        assert_eq!(next(&[open]), None);
    }

    #[test]
    fn without_rewriting_the_segment_written_first_is_reclaimed_first() {
        let next = |segments: &[Segment]| next_victim(segments, 50, None);
        let open = Segment { state: SegmentState::Open, ..segment(0, Class::Probation, 900, 0) };
        // It was read, and became protected after the other was written.
        let first = Segment { placed: 200, ..segment(1, Class::Protected, 900, 900) };
        let second = segment(2, Class::Probation, 900, 0);
        let spent = segment(3, Class::Brief, 0, 0);
        assert_eq!(next(&[second, open, first]), Some((first, Step::Free(PolicyClass::Protected))));
        assert_eq!(next(&[second, open]), Some((second, Step::Free(PolicyClass::Probation))));
        assert_eq!(next(&[second, first, spent]), Some((spent, Step::Free(PolicyClass::Brief))));
    }
}
