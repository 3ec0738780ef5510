//! Which records of a segment are written again when the segment is reclaimed, and which are evicted.
//!
//! Their reads decide: metadata, and records that were read since they were last judged, are written again as
//! far as the allowance goes. A record on probation must have been read twice while the allowance is short.
//! Unread and expired records are dropped.
//!
//! **Invariants.** Bytes written again, and those written besides records, are over all at most a quarter
//! of the bytes admitted: the write amplification stays below [`WRITE_AMPLIFICATION_MAX`]. The choice depends
//! on the calls alone.

use super::churn::Class;

/// Bytes written to flash per byte admitted, at worst.
pub const WRITE_AMPLIFICATION_MAX: f64 = 1.25;
/// Part of a segment's bytes that must have been read for it to be spared when nothing may be written.
const SPARE_SHARE_LEAST: f64 = 0.40;
/// The same with a full allowance: to write more than this again frees hardly any room.
const SPARE_SHARE_MOST: f64 = 0.90;
/// Level of the allowance from which on a single use on probation is enough.
const PLENTY: f64 = 0.5;
/// Unused allowance, in segments, beyond which no more is saved up.
const SAVED_SEGMENTS_MAX: f64 = 8.0;

/// What is known about a record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFacts {
    /// Bytes on flash.
    pub bytes: u32,
    /// Uses counted since it was last judged, 0 to 3.
    pub uses: u8,
    /// Whether it is metadata.
    pub metadata: bool,
    /// Whether the index still points here: not deleted, overwritten or expired.
    pub live: bool,
}

impl RecordFacts {
    /// Whether it is worth writing again, where that takes so many uses.
    fn is_wanted(&self, proof: u8) -> bool {
        self.live && (self.metadata || self.uses >= proof)
    }
}

/// Chooses records, and keeps the account of what may be written again.
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
    /// Writes at most `amplification` bytes per byte admitted; 1.0 for no rewriting at all.
    pub fn up_to(amplification: f64) -> Self {
        Self { share: (amplification - 1.0).clamp(0.0, 1.0), allowance: 0.0 }
    }

    /// Counts bytes that were admitted, which allow others to be written again.
    pub fn admitted(&mut self, bytes: u64, segment_bytes: u64) {
        let most = segment_bytes as f64 * SAVED_SEGMENTS_MAX;
        self.allowance = (self.allowance + bytes as f64 * self.share).min(most);
    }

    /// Counts bytes that were written besides records: superblocks, footers, the journal, images. They come
    /// out of the same allowance.
    pub fn wrote_besides(&mut self, bytes: u64, segment_bytes: u64) {
        let most = segment_bytes as f64 * SAVED_SEGMENTS_MAX;
        self.allowance = (self.allowance - bytes as f64).max(-most);
    }

    /// Part of a segment's bytes that must have been read for it to be spared whole: the less may be
    /// written again, the smaller, so that the allowance is spent where it frees most.
    pub fn spare_share(&self, segment_bytes: u64) -> f64 {
        SPARE_SHARE_LEAST + (SPARE_SHARE_MOST - SPARE_SHARE_LEAST) * self.level(segment_bytes)
    }

    /// Uses that a record must have had to be written again.
    fn proof(&self, class: Class, segment_bytes: u64) -> u8 {
        let is_short = self.level(segment_bytes) < PLENTY;
        if class == Class::Probation && is_short { 2 } else { 1 }
    }

    /// Allowance in parts of the most that is saved up, 0 to 1.
    fn level(&self, segment_bytes: u64) -> f64 {
        (self.allowance / (segment_bytes.max(1) as f64 * SAVED_SEGMENTS_MAX)).clamp(0.0, 1.0)
    }

    /// Calls `keep` with the positions of the records of a segment to write again, in their order, and
    /// with the uses that each begins its next life with.
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

/// Uses on probation make a record protected; every further second chance costs one.
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
        fn stays_within_the_share_and_writes_what_was_read(
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
            // What is left of the share is less than any wanted record that was left out.
            let mut left_out = (0..records.len()).filter(|at| !kept.contains(at));
            let would_fit = |at: usize| bytes as f64 + f64::from(records[at].bytes) <= allowed;
            prop_assert!(left_out.all(|at| !records[at].is_wanted(1) || !would_fit(at)));
        }
    }

    #[test]
    fn probation_asks_for_two_uses_when_writes_are_short_and_every_round_costs_one() {
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
    fn less_is_spared_the_more_may_be_written() {
        let mut reinsertion = Reinsertion::default();
        assert_eq!(reinsertion.spare_share(1_000), SPARE_SHARE_LEAST);
        reinsertion.admitted(16_000, 1_000);
        assert!((0.64..0.66).contains(&reinsertion.spare_share(1_000)));
        reinsertion.admitted(160_000, 1_000);
        assert_eq!(reinsertion.spare_share(1_000), SPARE_SHARE_MOST);
    }

    #[test]
    fn a_hot_cache_rewrites_a_quarter_of_what_it_admits_less_what_else_is_written() {
        let hot = [RecordFacts { bytes: 10, uses: 3, metadata: false, live: true }; 100];
        for besides in [0, 50] {
            let mut reinsertion = Reinsertion::default();
            let mut again = 0u64;
            for _ in 0..100 {
                reinsertion.admitted(1_000, 1_000);
                reinsertion.wrote_besides(besides, 1_000);
                reinsertion.choose(Class::Protected, 1_000, &hot, |_, _| again += 10);
            }
            let (least, most) = (24_000 - 100 * besides, 25_000 - 100 * besides);
            assert!((least..=most).contains(&again), "{again} bytes again for 100,000 admitted");
        }
        let mut never = Reinsertion::up_to(1.0);
        never.admitted(1_000, 1_000);
        never.choose(Class::Protected, 1_000, &hot, |_, _| unreachable!("nothing may be rewritten"));
    }
}
