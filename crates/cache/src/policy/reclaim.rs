//! Which segment of flash is reclaimed next.
//!
//! Segments of a class stand in a line, oldest first. What reads brought is on probation and goes first
//! while it fills more than its share; otherwise the oldest segment of all goes, wherever it stands. A
//! proven or newly written segment of which enough was read since it was last judged is spared: it moves
//! to the young end of its line as it is, and pays with one use of each of its records. So the hot part
//! of flash stays where it is and costs no writes; this is CLOCK (Corbató 1968) over segments, with the
//! probation queue of S3-FIFO before it.
//!
//! What is enough depends on what may be written again. A spared segment keeps its unread records too,
//! one that is freed keeps its read ones and costs their writes. With a full allowance nothing is spared;
//! as the allowance shrinks, the segments that would cost the most writes for the least room are.
//!
//! **Invariants.** Nothing here owns segments: the caller does what is said and asks again. At most
//! [`SPARES_MAX`] segments are spared before one is freed, so a call for space ends. The answer depends
//! on the arguments alone.

use super::churn::Class;

/// Part of the capacity that values on probation may fill before they are the first to go.
pub const PROBATION_SHARE: f64 = 0.07;
/// Most segments spared in a row.
pub const SPARES_MAX: u32 = 16;

/// The oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its class.
    pub class: Class,
    /// When it was sealed or last spared: any number that grows.
    pub placed: u64,
    /// Its bytes, dead records included.
    pub bytes: u64,
    /// Bytes of its live records with at least one use.
    pub used_bytes: u64,
    /// Whether all it holds has expired or is dead.
    pub spent: bool,
    /// Bytes of all segments of the class.
    pub class_bytes: u64,
}

/// What sparing depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spare {
    /// Segments spared since the last one was freed.
    pub in_a_row: u32,
    /// Part of a segment's bytes that must have been read for it to be spared:
    /// [`super::Reinsertion::spare_share`].
    pub share: f64,
}

/// What to do with the oldest segment of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Free it, after writing again what [`super::Reinsertion`] chooses.
    Free(Class),
    /// Move it to the young end of its class, and take one use from each of its records.
    Spare(Class),
}

/// The next step towards free space, of classes that have sealed segments; nothing if none has.
pub fn next_step(oldest: &[Oldest], capacity: u64, spare: Spare) -> Option<Step> {
    if let Some(spent) = oldest.iter().find(|segment| segment.spent) {
        return Some(Step::Free(spent.class));
    }
    let over = |segment: &&Oldest| {
        segment.class == Class::Fill && segment.class_bytes as f64 > capacity as f64 * PROBATION_SHARE
    };
    if oldest.iter().any(|segment| over(&segment)) {
        return Some(Step::Free(Class::Fill));
    }
    let proven = oldest.iter().filter(|segment| segment.class != Class::Fill);
    let next = proven.min_by_key(|segment| segment.placed).or(oldest.first())?;
    let hot = next.used_bytes as f64 > next.bytes as f64 * spare.share;
    let may_spare = matches!(next.class, Class::Ingest | Class::Kept) && spare.in_a_row < SPARES_MAX;
    Some(if hot && may_spare { Step::Spare(next.class) } else { Step::Free(next.class) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 10_000;
    const HALF: Spare = Spare { in_a_row: 0, share: 0.5 };

    fn oldest(class: Class, placed: u64, used_bytes: u64) -> Oldest {
        Oldest { class, placed, bytes: 100, used_bytes, spent: false, class_bytes: 500 }
    }

    #[test]
    fn the_oldest_proven_segment_goes_unless_enough_of_it_was_read() {
        let lines = [oldest(Class::Ingest, 7, 50), oldest(Class::Fill, 1, 0), oldest(Class::Kept, 5, 51)];
        assert_eq!(next_step(&lines, CAPACITY, HALF), Some(Step::Spare(Class::Kept)));
        assert_eq!(
            next_step(&lines, CAPACITY, Spare { in_a_row: SPARES_MAX, ..HALF }),
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
}
