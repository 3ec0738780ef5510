//! Which times the blocks with all samples cover, to judge blocks that Thanos has downsampled.

use std::collections::BTreeMap;

use sandur_tsdb::BlockMeta;

/// The times of blocks with all samples, by external labels: begin, and end (exclusive).
pub struct Coverage(BTreeMap<Vec<(String, String)>, Vec<(i64, i64)>>);

impl Coverage {
    /// The times of those blocks that are not downsampled.
    pub fn of<'a>(metas: impl Iterator<Item = &'a BlockMeta>) -> Self {
        let mut of = BTreeMap::<_, Vec<(i64, i64)>>::new();
        for meta in metas.filter(|meta| !meta.is_downsampled()) {
            of.entry(labels(meta)).or_default().push((meta.min_ms, meta.max_ms));
        }
        for times in of.values_mut() {
            times.sort_unstable();
            times.dedup_by(|next, last| {
                let goes_on = next.0 <= last.1;
                if goes_on {
                    last.1 = last.1.max(next.1);
                }
                goes_on
            });
        }
        Self(of)
    }

    /// Whether the blocks with the same external labels cover the time of a block.
    pub fn has_all_samples_of(&self, meta: &BlockMeta) -> bool {
        let Some(times) = self.0.get(&labels(meta)) else { return false };
        let begun = times.partition_point(|(min, _)| *min <= meta.min_ms);
        begun > 0 && times[begun - 1].1 >= meta.max_ms
    }
}

fn labels(meta: &BlockMeta) -> Vec<(String, String)> {
    meta.external_labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(times: (i64, i64), cluster: &str, resolution: i64) -> BlockMeta {
        let (min, max) = times;
        let json = format!(
            r#"{{"ulid":"01A","minTime":{min},"maxTime":{max},"version":1,"thanos":{{
                "labels":{{"cluster":"{cluster}"}},"downsample":{{"resolution":{resolution}}}}}}}"#
        );
        BlockMeta::decode(json.as_bytes()).unwrap()
    }

    #[test]
    fn blocks_that_follow_each_other_cover_their_time() {
        let all = [
            meta((20, 30), "a", 0),
            meta((0, 10), "a", 0),
            meta((10, 20), "a", 0),
            meta((40, 50), "a", 0),
            meta((30, 40), "b", 0),
            meta((50, 60), "a", 300_000),
        ];
        let coverage = Coverage::of(all.iter());
        for (times, cluster, expected) in [
            ((0, 30), "a", true),
            ((5, 25), "a", true),
            ((40, 50), "a", true),
            ((20, 50), "a", false),
            ((-1, 10), "a", false),
            ((50, 60), "a", false),
            ((30, 40), "b", true),
            ((0, 30), "b", false),
            ((0, 30), "c", false),
        ] {
            let found = coverage.has_all_samples_of(&meta(times, cluster, 300_000));
            assert_eq!(found, expected, "{times:?} {cluster}");
        }
    }
}
