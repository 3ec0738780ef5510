//! Which records of a segment are written again when the segment is reclaimed, and which are evicted.
//!
//! Their reads decide: metadata first, then records that were read most since they were last judged.
//! A record on probation must have been read twice while the allowance is short, any other once; unread and
//! expired records are dropped.
//!
//! **Invariants.** Bytes written again, and those written besides records, are over all at most a quarter
//! of the bytes admitted: the write amplification stays below [`WRITE_AMPLIFICATION_MAX`]. Among equals the
//! younger record (later in the segment) is chosen. The choice depends on the calls alone.

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
/// Levels of merit: 0 is dropped.
const MERITS: usize = 5;

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
        let allowed = self.allowance.max(0.0) as u64;
        let proof = self.proof(class, segment_bytes);
        let mut bytes_of = [0u64; MERITS];
        for record in records {
            bytes_of[merit(proof, record)] += u64::from(record.bytes);
        }
        // From the best level down as long as whole levels fit; the next one is taken in part.
        let (mut level, mut left) = (MERITS, allowed);
        while level > 1 && bytes_of[level - 1] <= left {
            level -= 1;
            left -= bytes_of[level];
        }
        let partial = level - 1;
        // The youngest of the partial level have most of their life before them: skip its oldest.
        let mut skip = if partial == 0 { 0 } else { bytes_of[partial] - left };
        for (at, record) in records.iter().enumerate() {
            let merit = merit(proof, record);
            if merit == 0 || merit < partial {
                continue;
            }
            if merit == partial && skip > 0 {
                skip = skip.saturating_sub(u64::from(record.bytes));
                continue;
            }
            self.allowance -= f64::from(record.bytes);
            keep(at, uses_after(class, record.uses));
        }
    }
}

/// 0 for what is dropped, more for what is kept rather.
fn merit(proof: u8, record: &RecordFacts) -> usize {
    match record {
        RecordFacts { live: false, .. } => 0,
        RecordFacts { metadata: true, .. } => MERITS - 1,
        RecordFacts { uses, .. } if *uses < proof => 0,
        RecordFacts { uses, .. } => (*uses).min(3) as usize,
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
        fn stays_within_the_share_and_prefers_merit(
            records in prop::collection::vec(facts(), 0..200),
            admitted in 0u64..400_000,
            fill in any::<bool>(),
        ) {
            let class = if fill { Class::Probation } else { Class::Protected };
            let total: u64 = records.iter().map(|r| u64::from(r.bytes)).sum();
            let mut reinsertion = Reinsertion::default();
            reinsertion.admitted(admitted, total);
            let allowed = (total as f64 * SAVED_SEGMENTS_MAX).min(admitted as f64 * 0.25);
            let proof = reinsertion.proof(class, total);
            let mut kept = Vec::new();
            reinsertion.choose(class, total, &records, |at, _| kept.push(at));
            let bytes: u64 = kept.iter().map(|at| u64::from(records[*at].bytes)).sum();
            prop_assert!(bytes as f64 <= allowed);
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(kept.iter().all(|at| merit(proof, &records[*at]) > 0));
            let worst = kept.iter().map(|at| merit(proof, &records[*at])).min().unwrap_or(MERITS);
            let left_out = (0..records.len()).filter(|at| !kept.contains(at));
            let best_left = left_out.map(|at| merit(proof, &records[at])).max().unwrap_or(0);
            prop_assert!(best_left <= worst);
            // Greedy: what is left of the share is less than one more record of the level it ended in.
            if best_left > 0 {
                prop_assert!(bytes as f64 + 1_000.0 > allowed.floor());
            }
        }
    }

    #[test]
    fn probation_asks_for_two_uses_when_writes_are_short_and_every_round_costs_one() {
        let record = |uses| RecordFacts { bytes: 10, uses, metadata: false, live: true };
        let records = [record(0), record(1), record(2), record(3)];
        let kept = |class, admitted| {
            let mut reinsertion = Reinsertion::default();
            reinsertion.admitted(admitted, 1_000);
            let mut kept = Vec::new();
            reinsertion.choose(class, 1_000, &records, |at, uses| kept.push((at, uses)));
            kept
        };
        assert_eq!(kept(Class::Probation, 1_000), [(2, 0), (3, 0)]);
        assert_eq!(kept(Class::Probation, 100_000), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(kept(Class::Ingest, 1_000), [(1, 0), (2, 1), (3, 2)]);
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
