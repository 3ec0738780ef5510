//! Chooses the records of a reclaimed segment that are written again; the others are evicted.
//!
//! The choice depends on reads: metadata, and records that were read since they were last judged, are
//! written again as far as the allowance permits. While the allowance is short, a record on probation
//! must have been read twice. Unread and expired records are dropped.
//!
//! **Invariants.** Over all time, bytes written again and bytes of other writes are at most a quarter of
//! the bytes admitted: the write amplification stays below [`WRITE_AMPLIFICATION_MAX`]. The choice
//! depends only on the calls.

use super::churn::Class;

/// Most bytes written to flash per byte admitted.
pub const WRITE_AMPLIFICATION_MAX: f64 = 1.25;
/// Share of a segment's bytes that must have been read for it to be spared when nothing may be written again.
const SPARE_SHARE_LEAST: f64 = 0.40;
/// The same with a full allowance: rewriting more than this frees hardly any room.
const SPARE_SHARE_MOST: f64 = 0.90;
/// Level of the allowance from which on a single use on probation suffices.
const PLENTY: f64 = 0.5;
/// Most unused allowance that is saved up, in segments.
const SAVED_SEGMENTS_MAX: f64 = 8.0;

/// The facts about a record that decide its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFacts {
    /// Bytes that it occupies on flash.
    pub bytes: u32,
    /// Number of uses since it was last judged, 0 to 3.
    pub uses: u8,
    /// Whether it is metadata.
    pub metadata: bool,
    /// Whether the index still names this record: it was not deleted, overwritten or expired.
    pub live: bool,
}

impl RecordFacts {
    /// Whether it is worth writing again, if that requires `proof` uses.
    fn is_wanted(&self, proof: u8) -> bool {
        self.live && (self.metadata || self.uses >= proof)
    }
}

/// Chooses records, and keeps the account of the bytes that may be written again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reinsertion {
    /// Bytes written again per byte admitted.
    share: f64,
    /// Bytes that may be written again now.
    allowance: f64,
}

impl Default for Reinsertion {
    fn default() -> Self {
        Self::up_to(WRITE_AMPLIFICATION_MAX)
    }
}

impl Reinsertion {
    /// Allows at most `amplification` bytes written per byte admitted; 1.0 means no rewriting at all.
    pub fn up_to(amplification: f64) -> Self {
        Self { share: (amplification - 1.0).clamp(0.0, 1.0), allowance: 0.0 }
    }

    /// Counts admitted bytes, which increase the allowance.
    pub fn admitted(&mut self, bytes: u64, segment_bytes: u64) {
        let most = segment_bytes as f64 * SAVED_SEGMENTS_MAX;
        self.allowance = (self.allowance + bytes as f64 * self.share).min(most);
    }

    /// Counts bytes of writes other than records: superblocks, footers, the journal, images. They are
    /// taken from the same allowance.
    pub fn wrote_other(&mut self, bytes: u64, segment_bytes: u64) {
        let most = segment_bytes as f64 * SAVED_SEGMENTS_MAX;
        self.allowance = (self.allowance - bytes as f64).max(-most);
    }

    /// Share of a segment's bytes that must have been read for it to be spared. It shrinks with the
    /// allowance, so that the allowance is spent where it frees the most room.
    pub fn spare_share(&self, segment_bytes: u64) -> f64 {
        SPARE_SHARE_LEAST + (SPARE_SHARE_MOST - SPARE_SHARE_LEAST) * self.level(segment_bytes)
    }

    /// Number of uses that a record needs to be written again.
    fn proof(&self, class: Class, segment_bytes: u64) -> u8 {
        let is_short = self.level(segment_bytes) < PLENTY;
        if class == Class::Probation && is_short { 2 } else { 1 }
    }

    /// The allowance as a share of its maximum, 0 to 1.
    fn level(&self, segment_bytes: u64) -> f64 {
        (self.allowance / (segment_bytes.max(1) as f64 * SAVED_SEGMENTS_MAX)).clamp(0.0, 1.0)
    }

    /// Calls `keep` with the positions of the records of a segment to write again, in their order, and
    /// with the number of uses that each keeps.
    pub fn choose(
        &mut self,
        class: Class,
        segment_bytes: u64,
        records: &[RecordFacts],
        mut keep: impl FnMut(usize, u8),
    ) {
        let proof = self.proof(class, segment_bytes);
        for (at, record) in records.iter().enumerate() {
            if record.is_wanted(proof) && f64::from(record.bytes) <= self.allowance {
                self.allowance -= f64::from(record.bytes);
                keep(at, uses_after(class, record.uses));
            }
        }
    }
}

/// Uses on probation make a record protected and are consumed; elsewhere each second chance costs one use.
fn uses_after(class: Class, uses: u8) -> u8 {
    if class == Class::Probation { 0 } else { uses.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts() -> impl Strategy<Value = RecordFacts> {
        (1u32..1_000, 0u8..=3, prop::bool::weighted(0.1), prop::bool::weighted(0.8))
            .prop_map(|(bytes, uses, metadata, live)| RecordFacts { bytes, uses, metadata, live })
    }

    proptest! {
        #[test]
        fn rewrites_stay_within_the_allowance_and_use_it_up(
            records in prop::collection::vec(facts(), 0..200),
            admitted in 0u64..400_000,
        ) {
            let total: u64 = records.iter().map(|r| u64::from(r.bytes)).sum();
            let mut reinsertion = Reinsertion::default();
            reinsertion.admitted(admitted, total);
            let allowed = (total as f64 * SAVED_SEGMENTS_MAX).min(admitted as f64 * 0.25);
            let mut kept = Vec::new();
            reinsertion.choose(Class::Protected, total, &records, |at, _| kept.push(at));
            let bytes: u64 = kept.iter().map(|at| u64::from(records[*at].bytes)).sum();
            prop_assert!(bytes as f64 <= allowed);
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(kept.iter().all(|at| records[*at].is_wanted(1)));
            // The rest of the allowance is smaller than any wanted record that was left out.
            let mut left_out = (0..records.len()).filter(|at| !kept.contains(at));
            let would_fit = |at: usize| bytes as f64 + f64::from(records[at].bytes) <= allowed;
            prop_assert!(left_out.all(|at| !records[at].is_wanted(1) || !would_fit(at)));
        }
    }

    #[test]
    fn probation_requires_two_uses_when_writes_are_short_and_each_round_costs_one() {
        let record = |uses, metadata| RecordFacts { bytes: 10, uses, metadata, live: true };
        let records = [record(0, false), record(1, false), record(0, true), record(3, false)];
        let kept = |class, admitted| {
            let mut reinsertion = Reinsertion::default();
            reinsertion.admitted(admitted, 1_000);
            let mut kept = Vec::new();
            reinsertion.choose(class, 1_000, &records, |at, uses| kept.push((at, uses)));
            kept
        };
        assert_eq!(kept(Class::Probation, 1_000), [(2, 0), (3, 0)]);
        assert_eq!(kept(Class::Probation, 100_000), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(kept(Class::Ingest, 1_000), [(1, 0), (2, 0), (3, 2)]);
        assert_eq!(kept(Class::Ingest, 100), [(1, 0), (2, 0)], "25 bytes may be written again");
    }

    #[test]
    fn fewer_segments_are_spared_the_more_may_be_written() {
        let mut reinsertion = Reinsertion::default();
        assert_eq!(reinsertion.spare_share(1_000), SPARE_SHARE_LEAST);
        reinsertion.admitted(16_000, 1_000);
        assert!((0.64..0.66).contains(&reinsertion.spare_share(1_000)));
        reinsertion.admitted(160_000, 1_000);
        assert_eq!(reinsertion.spare_share(1_000), SPARE_SHARE_MOST);
    }

    #[test]
    fn a_hot_cache_rewrites_a_quarter_of_the_admitted_bytes_minus_other_writes() {
        let hot = [RecordFacts { bytes: 10, uses: 3, metadata: false, live: true }; 100];
        for others in [0, 50] {
            let mut reinsertion = Reinsertion::default();
            let mut again = 0u64;
            for _ in 0..100 {
                reinsertion.admitted(1_000, 1_000);
                reinsertion.wrote_other(others, 1_000);
                reinsertion.choose(Class::Protected, 1_000, &hot, |_, _| again += 10);
            }
            let (least, most) = (24_000 - 100 * others, 25_000 - 100 * others);
            assert!((least..=most).contains(&again), "{again} bytes again for 100,000 admitted");
        }
        let mut never = Reinsertion::up_to(1.0);
        never.admitted(1_000, 1_000);
        never.choose(Class::Protected, 1_000, &hot, |_, _| unreachable!("nothing may be rewritten"));
    }
}
