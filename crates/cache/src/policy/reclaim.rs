//! Which segment of flash is reclaimed next.
//!
//! Segments of a class stand in a line, oldest first. What reads brought is on probation and goes first
//! while it fills more than its share; otherwise the oldest segment of all goes, wherever it stands. A
//! proven or newly written segment of which enough was read since it was last judged is spared: it moves
//! to the young end of its line as it is, and pays with one use of each of its records. So the hot part
//! of flash stays where it is and costs no writes; this is CLOCK (Corbató 1968) over segments, with the
//! probation queue of S3-FIFO before it.
//!
//! As long as the proven leave it room, what probation cannot hold joins them as it is, *unproven*: a loop of
//! requests that is longer than probation would find nothing otherwise. Unproven segments stay until the
//! proven need their room, or until others show that they would use it better: each byte that proves itself
//! asks for a turn of ten unproven ones, which are then judged in the place of probation. Where
//! nobody asks for what comes, only what was read since joins them: the rest goes in the
//! order in which it was written.
//!
//! A newcomer that comes back proves itself by coming back sooner than the proven go unread: the
//! [tenure](Tenure) of the oldest of them is what it has to beat.
//!
//! What is enough depends on what may be written again. A spared segment keeps its unread records too,
//! one that is freed keeps its read ones and costs their writes. With a full allowance nothing is spared;
//! as the allowance shrinks, the segments that would cost the most writes for the least room are.
//!
//! **Invariants.** Nothing here owns segments: the caller does what is said and asks again. At most
//! [`SPARES_MAX`] segments are spared before one is freed, and what joins the proven does so once, so a call
//! for space ends. The answer depends on the arguments alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::churn::Class;
use super::demand::Demand;

/// Part of the capacity that values on probation may fill before they are the first to go.
pub const PROBATION_SHARE: f64 = 0.07;
/// Part of the capacity that probation must hold beside a segment of it that joins the proven: a little more
/// than its share, so that the gap that a freed segment leaves is not filled by the next scan.
const OVERFLOW_SHARE: f64 = 0.10;
/// Unproven bytes that are judged for each byte that proves itself.
const TURN_PER_PROVEN: u64 = 10;
/// Most bytes of turns that are saved up, in parts of the capacity.
const TURNS_SHARE: u64 = 20;
/// Part of a tenure that is taken off it where all of the oldest segment was read: what was read has not
/// gone unread for long. The rest keeps a tier of which everything is read open for what is wanted much more.
const READ_DISCOUNT: f64 = 0.9;
/// Most segments spared in a row.
pub const SPARES_MAX: u32 = 16;

/// The oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its class.
    pub class: Class,
    /// When it was sealed or last spared: any number that grows.
    pub placed: u64,
    /// What [`Tenure::time`] was then.
    pub placed_at: u64,
    /// Its bytes, dead records included.
    pub bytes: u64,
    /// Bytes of its live records with at least one use.
    pub used_bytes: u64,
    /// Whether all it holds has expired or is dead.
    pub spent: bool,
    /// Whether it joined its class by [`Step::Join`] and was not judged since.
    pub unproven: bool,
    /// Bytes of all segments of the class.
    pub class_bytes: u64,
}

/// What a judgement depends on besides the segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leeway {
    /// Segments spared since the last one was freed.
    pub spared: u32,
    /// Part of a segment's bytes that must have been read for it to be spared:
    /// [`super::Reinsertion::spare_share`].
    pub spare_share: f64,
    /// Bytes of unproven segments whose turn it is.
    pub turn_bytes: u64,
    /// Whether somebody asks for what comes on probation.
    pub is_wanted: bool,
}

/// What a tier owes its newcomers: turns for those that prove themselves, and the room that the proven leave
/// for those that were asked for.
#[derive(Debug, Default)]
pub struct Newcomers {
    turns: Turns,
    demand: Demand,
}

impl Newcomers {
    /// Counts a value of so many bytes that was admitted to `class` in a tier of `capacity` bytes.
    pub fn admitted(&self, class: Class, bytes: u64, capacity: u64) {
        match class {
            Class::Kept => self.turns.proven(bytes, capacity),
            Class::Fill => self.demand.came(bytes, capacity),
            Class::Ingest | Class::Brief | Class::Ram => {}
        }
    }

    /// Counts a value that somebody asked for and that is nowhere.
    pub fn missed(&self) {
        self.demand.missed();
    }

    /// Counts an unproven segment that was judged.
    pub fn judged(&self, bytes: u64) {
        self.turns.judged(bytes);
    }

    /// What the next judgement depends on, after so many segments were spared.
    pub fn leeway(&self, spared: u32, spare_share: f64) -> Leeway {
        let (turn_bytes, is_wanted) = (self.turns.bytes(), self.demand.is_wanted());
        Leeway { spared, spare_share, turn_bytes, is_wanted }
    }
}

/// Bytes of unproven segments that have to make room for what proves itself.
#[derive(Debug, Default)]
struct Turns(AtomicU64);

impl Turns {
    /// Counts bytes that were admitted as proven to a tier of `capacity` bytes.
    fn proven(&self, bytes: u64, capacity: u64) {
        let turns = self.bytes().saturating_add(bytes.saturating_mul(TURN_PER_PROVEN));
        self.0.store(turns.min(capacity / TURNS_SHARE), Relaxed);
    }

    /// Counts an unproven segment that was judged.
    fn judged(&self, bytes: u64) {
        self.0.store(self.bytes().saturating_sub(bytes), Relaxed);
    }

    /// Bytes whose turn it is.
    fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How long the oldest of the proven has gone unread, for newcomers that want to join them. Time is counted
/// in bytes that left probation or were refused, as the admission's ghost counts it.
///
/// The end of the proven is what goes next: only who is wanted at shorter intervals is worth its place.
#[derive(Debug, Default)]
pub struct Tenure {
    time: AtomicU64,
    /// When the oldest of the proven was placed.
    since: AtomicU64,
    /// Part of it that was read since: the bits of an `f64`.
    read: AtomicU64,
}

impl Tenure {
    /// Says what time it is.
    pub fn set_time(&self, time: u64) {
        self.time.store(time, Relaxed);
    }

    /// What time it is, to be noted with a segment that is placed.
    pub fn time(&self) -> u64 {
        self.time.load(Relaxed)
    }

    /// Looks at the oldest segments of all classes, after one of them has left its place.
    pub fn look_at(&self, oldest: impl IntoIterator<Item = Oldest>) {
        let proven = oldest.into_iter().filter(|segment| segment.class != Class::Fill);
        let Some(end) = proven.min_by_key(|segment| segment.placed) else { return };
        self.since.store(end.placed_at, Relaxed);
        let read = end.used_bytes as f64 / end.bytes.max(1) as f64;
        self.read.store(read.min(1.0).to_bits(), Relaxed);
    }

    /// The time that a newcomer must have been away for less than: all of it while nothing had to go yet.
    pub fn bytes(&self) -> u64 {
        let stood = self.time().saturating_sub(self.since.load(Relaxed));
        let unread = 1.0 - READ_DISCOUNT * f64::from_bits(self.read.load(Relaxed));
        (stood as f64 * unread).round() as u64
    }

    /// Halves all times, as a sample is halved.
    pub(crate) fn halve(&mut self) {
        *self.time.get_mut() /= 2;
        *self.since.get_mut() /= 2;
    }
}

/// What to do with the oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Free it, after writing again what [`super::Reinsertion`] chooses.
    Free(Class),
    /// Move it to the young end of its class, and take one use from each of its records. It is not unproven
    /// any more.
    Spare(Class),
    /// Move the oldest segment on probation to the young end of [`Class::Kept`], where it is unproven.
    Join,
}

/// The next step towards free space, of classes that have sealed segments; nothing if none has.
pub fn next_step(oldest: &[Oldest], capacity: u64, leeway: Leeway) -> Option<Step> {
    if let Some(spent) = oldest.iter().find(|segment| segment.spent) {
        return Some(Step::Free(spent.class));
    }
    let proven = || oldest.iter().filter(|segment| segment.class != Class::Fill);
    let share = |part| (capacity as f64 * part) as u64;
    let probation = oldest.iter().find(|segment| segment.class == Class::Fill);
    if let Some(probation) = probation.filter(|line| line.class_bytes > share(PROBATION_SHARE)) {
        let overflows = probation.class_bytes >= share(OVERFLOW_SHARE) + probation.bytes;
        if overflows && (leeway.is_wanted || is_hot(probation, leeway)) {
            return Some(Step::Join);
        }
        let turn = proven().find(|segment| segment.unproven && segment.bytes <= leeway.turn_bytes);
        return Some(turn.map_or(Step::Free(Class::Fill), |segment| judge(segment, leeway)));
    }
    let next = proven().min_by_key(|segment| segment.placed).or(oldest.first())?;
    Some(judge(next, leeway))
}

/// Whether enough of it was read for it to stay as it is.
fn is_hot(segment: &Oldest, leeway: Leeway) -> bool {
    segment.used_bytes as f64 > segment.bytes as f64 * leeway.spare_share
}

fn judge(segment: &Oldest, leeway: Leeway) -> Step {
    let may_spare = matches!(segment.class, Class::Ingest | Class::Kept) && leeway.spared < SPARES_MAX;
    if is_hot(segment, leeway) && may_spare { Step::Spare(segment.class) } else { Step::Free(segment.class) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 10_000;
    const HALF: Leeway = Leeway { spared: 0, spare_share: 0.5, turn_bytes: 0, is_wanted: true };

    fn oldest(class: Class, placed: u64, used_bytes: u64) -> Oldest {
        let unproven = false;
        let placed_at = placed * 100;
        Oldest { class, placed, placed_at, bytes: 100, used_bytes, spent: false, unproven, class_bytes: 500 }
    }

    #[test]
    fn the_oldest_proven_segment_goes_unless_enough_of_it_was_read() {
        let lines = [oldest(Class::Ingest, 7, 50), oldest(Class::Fill, 1, 0), oldest(Class::Kept, 5, 51)];
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Spare(Class::Kept)));
        assert_eq!(
            next_step(&lines, CAPACITY, Leeway { spared: SPARES_MAX, ..HALF }),
            Some(Step::Free(Class::Kept))
        );
        assert_eq!(next_step(&lines[..2], CAPACITY, HALF), Some(Step::Free(Class::Ingest)));
        assert_eq!(next_step(&lines[1..2], CAPACITY, HALF), Some(Step::Free(Class::Fill)));
        assert_eq!(next_step(&[], CAPACITY, HALF), None);
    }

    #[test]
    fn probation_above_its_share_and_spent_segments_go_first() {
        let probation = Oldest { class_bytes: 1_001, ..oldest(Class::Fill, 9, 100) };
        let mut lines = vec![oldest(Class::Ingest, 1, 0), probation];
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Free(Class::Fill)));
        lines.push(Oldest { spent: true, ..oldest(Class::Brief, 10, 0) });
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Free(Class::Brief)));
    }

    #[test]
    fn what_expires_soon_is_never_spared() {
        assert_eq!(
            next_step(&[oldest(Class::Brief, 1, 100)], CAPACITY, HALF),
            Some(Step::Free(Class::Brief))
        );
    }

    #[test]
    fn probation_overflows_into_the_room_that_the_proven_leave() {
        let next = |class_bytes| {
            let probation = Oldest { class_bytes, ..oldest(Class::Fill, 9, 0) };
            next_step(&[oldest(Class::Kept, 1, 0), probation], CAPACITY, HALF)
        };
        assert_eq!(next(1_100), Some(Step::Join));
        assert_eq!(next(1_099), Some(Step::Free(Class::Fill)));
        assert_eq!(next(700), Some(Step::Free(Class::Kept)));
    }

    #[test]
    fn what_nobody_asked_for_leaves_in_order_unless_it_was_read() {
        let next = |used_bytes, spare_share| {
            let probation = Oldest { class_bytes: 5_000, ..oldest(Class::Fill, 1, used_bytes) };
            let leeway = Leeway { spare_share, is_wanted: false, ..HALF };
            next_step(&[oldest(Class::Kept, 9, 0), probation], CAPACITY, leeway)
        };
        assert_eq!(next(50, 0.5), Some(Step::Free(Class::Fill)));
        assert_eq!(next(51, 0.5), Some(Step::Join));
        assert_eq!(next(100, 1.0), Some(Step::Free(Class::Fill)), "what was read is written again");
    }

    #[test]
    fn the_unproven_are_judged_in_the_place_of_probation_when_others_prove_themselves() {
        let probation = Oldest { class_bytes: 1_001, ..oldest(Class::Fill, 9, 0) };
        let next = |used_bytes, turns: &Turns| {
            let unproven = Oldest { unproven: true, ..oldest(Class::Kept, 1, used_bytes) };
            next_step(&[unproven, probation], CAPACITY, Leeway { turn_bytes: turns.bytes(), ..HALF })
        };
        let turns = Turns::default();
        turns.proven(9, CAPACITY);
        assert_eq!(next(0, &turns), Some(Step::Free(Class::Fill)), "90 bytes are less than the segment");
        turns.proven(1, CAPACITY);
        assert_eq!(next(50, &turns), Some(Step::Free(Class::Kept)));
        assert_eq!(next(51, &turns), Some(Step::Spare(Class::Kept)));
        turns.judged(100);
        assert_eq!(next(0, &turns), Some(Step::Free(Class::Fill)));
        turns.proven(CAPACITY, CAPACITY);
        assert_eq!(turns.bytes(), CAPACITY / 20, "a burst is not saved up for ever");
    }

    #[test]
    fn who_stood_for_long_and_unread_is_easily_beaten() {
        let tenure = Tenure::default();
        tenure.set_time(5_000);
        assert_eq!(tenure.bytes(), 5_000, "nothing had to go yet");
        let lines =
            |used| [oldest(Class::Fill, 1, 0), oldest(Class::Ingest, 30, 0), oldest(Class::Kept, 20, used)];
        for (used, least) in [(0, 3_000), (40, 1_920), (80, 840)] {
            tenure.look_at(lines(used));
            assert_eq!(tenure.bytes(), least, "{used} of 100 bytes were read");
        }
        tenure.look_at([oldest(Class::Fill, 40, 0)]);
        assert_eq!(tenure.bytes(), 840, "probation is no rival");
    }
}
