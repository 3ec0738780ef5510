//! Which records of a segment are written again when the segment is reclaimed, and which go.
//!
//! Reading its uses decides: metadata first, then records that were read most since they were
//! written, within a share of the segment's bytes. What nobody read is dropped; so is what has
//! expired. The share is what bounds the write amplification: 20 % of each reclaimed segment rewritten
//! is 1 / (1 - 0.2) = 1.25 bytes written per byte admitted, at worst.
//!
//! **Invariants.** The bytes chosen never exceed the share. Among equals the younger record (later in
//! the segment) is chosen. The choice depends on its arguments alone.

/// Largest share of a segment that is written again.
pub const REINSERTION_SHARE: f64 = 0.20;
/// Levels of merit: 0 is dropped.
const MERITS: usize = 5;

/// What is known about a record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFacts {
    /// Bytes on flash.
    pub bytes: u32,
    /// Uses counted since it was written, 0 to 3.
    pub uses: u8,
    /// Whether it is metadata.
    pub metadata: bool,
    /// Whether the index still points here: not deleted, overwritten or expired.
    pub live: bool,
}

/// Chooses records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reinsertion {
    share: f64,
}

impl Default for Reinsertion {
    fn default() -> Self {
        Self { share: REINSERTION_SHARE }
    }
}

impl Reinsertion {
    /// Rewrites at most this part of a segment, 0.0 (none: plain first in, first out) to 1.0.
    pub fn up_to(share: f64) -> Self {
        Self { share: share.clamp(0.0, 1.0) }
    }

    /// Calls `keep` with the positions of the records to write again, in their order.
    pub fn choose(&self, segment_bytes: u64, records: &[RecordFacts], mut keep: impl FnMut(usize)) {
        let allowed = (segment_bytes as f64 * self.share) as u64;
        let mut bytes_of = [0u64; MERITS];
        for record in records {
            bytes_of[merit(record)] += u64::from(record.bytes);
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
            let merit = merit(record);
            if merit == 0 || merit < partial {
                continue;
            }
            if merit == partial && skip > 0 {
                skip = skip.saturating_sub(u64::from(record.bytes));
                continue;
            }
            keep(at);
        }
    }
}

/// 0 for what is dropped, more for what is kept rather.
fn merit(record: &RecordFacts) -> usize {
    match record {
        RecordFacts { live: false, .. } => 0,
        RecordFacts { metadata: true, .. } => MERITS - 1,
        RecordFacts { uses, .. } => (*uses).min(3) as usize,
    }
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
            share in 0.0f64..1.0,
        ) {
            let total: u64 = records.iter().map(|r| u64::from(r.bytes)).sum();
            let mut kept = Vec::new();
            Reinsertion::up_to(share).choose(total, &records, |at| kept.push(at));
            let bytes: u64 = kept.iter().map(|at| u64::from(records[*at].bytes)).sum();
            prop_assert!(bytes as f64 <= total as f64 * share);
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(kept.iter().all(|at| merit(&records[*at]) > 0));
            let worst = kept.iter().map(|at| merit(&records[*at])).min().unwrap_or(MERITS);
            let left_out = (0..records.len()).filter(|at| !kept.contains(at));
            let best_left = left_out.map(|at| merit(&records[at])).max().unwrap_or(0);
            prop_assert!(best_left <= worst);
            // Greedy: what is left of the share is less than one more record of the level it ended in.
            if best_left > 0 {
                prop_assert!(bytes + 1_000 > (total as f64 * share) as u64);
            }
        }
    }

    #[test]
    fn the_default_rewrites_a_fifth() {
        let hot = RecordFacts { bytes: 10, uses: 1, metadata: false, live: true };
        let mut kept = Vec::new();
        Reinsertion::default().choose(1_000, &[hot; 100], |at| kept.push(at));
        assert_eq!(kept, (80..100).collect::<Vec<_>>());
    }
}
