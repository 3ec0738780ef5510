//! Chooses the segment of flash that is reclaimed next.
//!
//! Segments of a class form a FIFO queue. Probation is reclaimed first while it holds more than its
//! share; otherwise the oldest segment of all classes is. A protected or newly written segment of which
//! enough was read gets a second chance: it moves to the young end of its queue without being rewritten,
//! and each of its records loses one use. So the hot part of flash stays in place and costs no writes.
//! This is CLOCK (Corbató 1968) over segments, preceded by the probation queue of S3-FIFO.
//!
//! While the protected segments leave room, a segment that probation cannot hold becomes protected without
//! being rewritten, as *unproven*. Otherwise a loop of requests that is longer than probation would always
//! miss. Each byte that is admitted as protected lets ten bytes of unproven segments be judged instead of
//! probation: they get a second chance or are reclaimed. While the [miss rate](MissRate) of admitted values
//! is low, a segment becomes protected only if enough of it was read; the others are evicted in FIFO order.
//!
//! A ghost hit is admitted as protected if its reuse distance is below the [tail age](TailAge): the time
//! for which the oldest protected segment has gone unread.
//!
//! How much of a segment must have been read depends on how much may be written again. A second chance
//! keeps unread records too; reclaiming costs the writes of the records that were read. With a full
//! allowance of writes only segments that were read almost completely get a second chance. As the
//! allowance shrinks, more do: those that would cost the most writes for the least room.
//!
//! **Invariants.** This module owns no segments: the caller executes a step and asks for the next one.
//! At most [`SPARES_MAX`] segments get a second chance before one is freed, and a segment becomes
//! protected only once, so that a call for space ends. The answer depends only on the arguments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::churn::Class;
use super::miss_rate::MissRate;

/// Share of the capacity that probation may hold before it is reclaimed first.
pub const PROBATION_SHARE: f64 = 0.07;
/// Share of the capacity that must remain on probation when a segment of it becomes protected. It is a little
/// more than probation's own share, so that the next scan does not fill the room of a reclaimed segment.
const OVERFLOW_SHARE: f64 = 0.10;
/// Unproven bytes that may be judged for each byte that is admitted as protected.
const CREDIT_PER_PROTECTED: u64 = 10;
/// Most credit, as a divisor of the capacity.
const CREDIT_SHARE: u64 = 20;
/// Share of the tail age that is subtracted if all of the oldest segment was read, because its records
/// have not gone unread for long. The remainder admits ghost hits with a short reuse distance to a tier
/// of which everything is read.
const READ_DISCOUNT: f64 = 0.9;
/// Most segments that are spared in a row.
pub const SPARES_MAX: u32 = 16;

/// The oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its class.
    pub class: Class,
    /// When it was sealed or last spared: any number that increases.
    pub placed: u64,
    /// The value of [`TailAge::time`] at that time.
    pub placed_at: u64,
    /// Bytes of its records, including dead ones.
    pub bytes: u64,
    /// Bytes of its live records with at least one use.
    pub used_bytes: u64,
    /// Whether all its records have expired or are dead.
    pub spent: bool,
    /// Whether it became protected by [`Step::Join`] and has not been judged since.
    pub unproven: bool,
    /// Bytes of all segments of the class.
    pub class_bytes: u64,
}

/// The inputs of a judgement other than the segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Segments spared since the last one was freed.
    pub spared: u32,
    /// Share of a segment's bytes that must have been read for it to be spared:
    /// [`super::Reinsertion::spare_share`].
    pub spare_share: f64,
    /// Bytes of unproven segments that may be judged.
    pub credit_bytes: u64,
    /// Whether the miss rate of values admitted on probation is high.
    pub has_misses: bool,
}

/// Recent admissions: the unproven bytes that may be judged in return, and the miss rate.
#[derive(Debug, Default)]
pub struct Arrivals {
    credit: Credit,
    miss_rate: MissRate,
}

impl Arrivals {
    /// Counts a value of `bytes` bytes that was admitted to `class` in a tier of `capacity` bytes.
    pub fn admitted(&self, class: Class, bytes: u64, capacity: u64) {
        match class {
            Class::Protected => self.credit.protect(bytes, capacity),
            Class::Probation => self.miss_rate.note_admitted(bytes, capacity),
            Class::Ingest | Class::Brief | Class::Ram => {}
        }
    }

    /// Counts a lookup that missed in both tiers.
    pub fn missed(&self) {
        self.miss_rate.note_miss();
    }

    /// Counts an unproven segment that was judged.
    pub fn judged(&self, bytes: u64) {
        self.credit.judged(bytes);
    }

    /// The conditions of the next judgement, after `spared` segments were spared in a row.
    pub fn conditions(&self, spared: u32, spare_share: f64) -> Conditions {
        let (credit_bytes, has_misses) = (self.credit.bytes(), self.miss_rate.is_high());
        Conditions { spared, spare_share, credit_bytes, has_misses }
    }
}

/// Bytes of unproven segments that may be judged, in return for bytes admitted as protected.
#[derive(Debug, Default)]
struct Credit(AtomicU64);

impl Credit {
    /// Counts bytes that were admitted as protected to a tier of `capacity` bytes.
    fn protect(&self, bytes: u64, capacity: u64) {
        let credit = self.bytes().saturating_add(bytes.saturating_mul(CREDIT_PER_PROTECTED));
        self.0.store(credit.min(capacity / CREDIT_SHARE), Relaxed);
    }

    /// Counts an unproven segment that was judged.
    fn judged(&self, bytes: u64) {
        self.0.store(self.bytes().saturating_sub(bytes), Relaxed);
    }

    /// Bytes of unproven segments that may be judged.
    fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How long the oldest protected segment has gone unread: the reuse distance that a ghost hit must beat.
/// Time is measured in bytes that left probation or were refused, as the admission's ghost measures it.
///
/// The oldest protected segment is reclaimed next: only a key with a shorter reuse distance is worth more.
#[derive(Debug, Default)]
pub struct TailAge {
    time: AtomicU64,
    /// When the oldest protected segment was placed.
    since: AtomicU64,
    /// Share of it that was read since, as the bits of an `f64`.
    read: AtomicU64,
}

impl TailAge {
    /// Sets the current time.
    pub fn set_time(&self, time: u64) {
        self.time.store(time, Relaxed);
    }

    /// The current time, to be stored with a segment that takes its place in a queue.
    pub fn time(&self) -> u64 {
        self.time.load(Relaxed)
    }

    /// Updates from the oldest segments of all classes, after one of them has left its place.
    pub fn look_at(&self, oldest: impl IntoIterator<Item = Oldest>) {
        let protected = oldest.into_iter().filter(|segment| segment.class != Class::Probation);
        let Some(end) = protected.min_by_key(|segment| segment.placed) else { return };
        self.since.store(end.placed_at, Relaxed);
        let read = end.used_bytes as f64 / end.bytes.max(1) as f64;
        self.read.store(read.min(1.0).to_bits(), Relaxed);
    }

    /// The reuse distance below which a ghost hit is admitted as protected. Before the first eviction it
    /// is the complete time.
    pub fn bytes(&self) -> u64 {
        let stood = self.time().saturating_sub(self.since.load(Relaxed));
        let unread = 1.0 - READ_DISCOUNT * f64::from_bits(self.read.load(Relaxed));
        (stood as f64 * unread).round() as u64
    }

    /// Halves all times when a sample is halved.
    pub(crate) fn halve(&mut self) {
        *self.time.get_mut() /= 2;
        *self.since.get_mut() /= 2;
    }
}

/// What to do next with the oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Free it, after the records that [`super::Reinsertion`] chooses were written again.
    Free(Class),
    /// Move it to the young end of its class, and take one use from each of its records. It is no longer
    /// unproven.
    Spare(Class),
    /// Move the oldest segment on probation to the young end of [`Class::Protected`], where it is unproven.
    Join,
}

/// The next step towards free space, given the oldest segments of the classes that have any; `None`
/// without segments.
pub fn next_step(oldest: &[Oldest], capacity: u64, conditions: Conditions) -> Option<Step> {
    if let Some(spent) = oldest.iter().find(|segment| segment.spent) {
        return Some(Step::Free(spent.class));
    }
    let protected = || oldest.iter().filter(|segment| segment.class != Class::Probation);
    let share = |part| (capacity as f64 * part) as u64;
    let probation = oldest.iter().find(|segment| segment.class == Class::Probation);
    if let Some(probation) = probation.filter(|line| line.class_bytes > share(PROBATION_SHARE)) {
        let overflows = probation.class_bytes >= share(OVERFLOW_SHARE) + probation.bytes;
        if overflows && (conditions.has_misses || is_hot(probation, conditions)) {
            return Some(Step::Join);
        }
        let unproven =
            protected().find(|segment| segment.unproven && segment.bytes <= conditions.credit_bytes);
        return Some(unproven.map_or(Step::Free(Class::Probation), |segment| judge(segment, conditions)));
    }
    let next = protected().min_by_key(|segment| segment.placed).or(oldest.first())?;
    Some(judge(next, conditions))
}

/// Whether enough of the segment was read for it to stay.
fn is_hot(segment: &Oldest, conditions: Conditions) -> bool {
    segment.used_bytes as f64 > segment.bytes as f64 * conditions.spare_share
}

fn judge(segment: &Oldest, conditions: Conditions) -> Step {
    let may_spare =
        matches!(segment.class, Class::Ingest | Class::Protected) && conditions.spared < SPARES_MAX;
    if is_hot(segment, conditions) && may_spare {
        Step::Spare(segment.class)
    } else {
        Step::Free(segment.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 10_000;
    const HALF: Conditions = Conditions { spared: 0, spare_share: 0.5, credit_bytes: 0, has_misses: true };

    fn oldest(class: Class, placed: u64, used_bytes: u64) -> Oldest {
        let unproven = false;
        let placed_at = placed * 100;
        Oldest { class, placed, placed_at, bytes: 100, used_bytes, spent: false, unproven, class_bytes: 500 }
    }

    #[test]
    fn the_oldest_protected_segment_is_freed_unless_enough_of_it_was_read() {
        let lines =
            [oldest(Class::Ingest, 7, 50), oldest(Class::Probation, 1, 0), oldest(Class::Protected, 5, 51)];
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Spare(Class::Protected)));
        assert_eq!(
            next_step(&lines, CAPACITY, Conditions { spared: SPARES_MAX, ..HALF }),
            Some(Step::Free(Class::Protected))
        );
        assert_eq!(next_step(&lines[..2], CAPACITY, HALF), Some(Step::Free(Class::Ingest)));
        assert_eq!(next_step(&lines[1..2], CAPACITY, HALF), Some(Step::Free(Class::Probation)));
        assert_eq!(next_step(&[], CAPACITY, HALF), None);
    }

    #[test]
    fn spent_segments_and_probation_above_its_share_are_freed_first() {
        let probation = Oldest { class_bytes: 1_001, ..oldest(Class::Probation, 9, 100) };
        let mut lines = vec![oldest(Class::Ingest, 1, 0), probation];
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Free(Class::Probation)));
        lines.push(Oldest { spent: true, ..oldest(Class::Brief, 10, 0) });
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Free(Class::Brief)));
    }

    #[test]
    fn segments_that_expire_soon_get_no_second_chance() {
        assert_eq!(
            next_step(&[oldest(Class::Brief, 1, 100)], CAPACITY, HALF),
            Some(Step::Free(Class::Brief))
        );
    }

    #[test]
    fn probation_overflows_into_free_room_of_protected_segments() {
        let next = |class_bytes| {
            let probation = Oldest { class_bytes, ..oldest(Class::Probation, 9, 0) };
            next_step(&[oldest(Class::Protected, 1, 0), probation], CAPACITY, HALF)
        };
        assert_eq!(next(1_100), Some(Step::Join));
        assert_eq!(next(1_099), Some(Step::Free(Class::Probation)));
        assert_eq!(next(700), Some(Step::Free(Class::Protected)));
    }

    #[test]
    fn without_misses_unread_segments_are_reclaimed_in_fifo_order() {
        let next = |used_bytes, spare_share| {
            let probation = Oldest { class_bytes: 5_000, ..oldest(Class::Probation, 1, used_bytes) };
            let conditions = Conditions { spare_share, has_misses: false, ..HALF };
            next_step(&[oldest(Class::Protected, 9, 0), probation], CAPACITY, conditions)
        };
        assert_eq!(next(50, 0.5), Some(Step::Free(Class::Probation)));
        assert_eq!(next(51, 0.5), Some(Step::Join));
        assert_eq!(next(100, 1.0), Some(Step::Free(Class::Probation)), "read records are written again");
    }

    #[test]
    fn unproven_segments_are_judged_for_bytes_admitted_as_protected() {
        let probation = Oldest { class_bytes: 1_001, ..oldest(Class::Probation, 9, 0) };
        let next = |used_bytes, credit: &Credit| {
            let unproven = Oldest { unproven: true, ..oldest(Class::Protected, 1, used_bytes) };
            next_step(&[unproven, probation], CAPACITY, Conditions { credit_bytes: credit.bytes(), ..HALF })
        };
        let credit = Credit::default();
        credit.protect(9, CAPACITY);
        assert_eq!(
            next(0, &credit),
            Some(Step::Free(Class::Probation)),
            "90 bytes are less than the segment"
        );
        credit.protect(1, CAPACITY);
        assert_eq!(next(50, &credit), Some(Step::Free(Class::Protected)));
        assert_eq!(next(51, &credit), Some(Step::Spare(Class::Protected)));
        credit.judged(100);
        assert_eq!(next(0, &credit), Some(Step::Free(Class::Probation)));
        credit.protect(CAPACITY, CAPACITY);
        assert_eq!(credit.bytes(), CAPACITY / 20, "the credit is bounded");
    }

    #[test]
    fn the_tail_age_grows_with_time_and_shrinks_with_reads() {
        let tail_age = TailAge::default();
        tail_age.set_time(5_000);
        assert_eq!(tail_age.bytes(), 5_000, "nothing was evicted yet");
        let lines = |used| {
            [oldest(Class::Probation, 1, 0), oldest(Class::Ingest, 30, 0), oldest(Class::Protected, 20, used)]
        };
        for (used, least) in [(0, 3_000), (40, 1_920), (80, 840)] {
            tail_age.look_at(lines(used));
            assert_eq!(tail_age.bytes(), least, "{used} of 100 bytes were read");
        }
        tail_age.look_at([oldest(Class::Probation, 40, 0)]);
        assert_eq!(tail_age.bytes(), 840, "probation does not count");
    }
}
