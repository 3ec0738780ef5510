//! Parts of a query: which series one of several processes reads.
//!
//! A hash of its labels assigns each series, or stream of logs, to one of 256 virtual shards. A part is a
//! range of virtual shards. The parts of a query divide the series among processes, each series to one part.
//! A series is never divided, because functions over windows and the detection of duplicate rows need all of
//! its samples.
//!
//! The assignment never changes, because processes of several versions answer parts of one query.

use sandur_model::{GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Labels, StreamId};

use crate::error::Error;

/// Number of virtual shards.
pub const SHARDS: u16 = 256;

/// The virtual shards from `first` to `end`, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    first: u16,
    end: u16,
}

impl Part {
    /// All series.
    pub const WHOLE: Self = Self { first: 0, end: SHARDS };

    /// Part `index` of `count`, counted from 0. The parts are almost equal, and together they are the whole.
    pub fn of(index: u16, count: u16) -> Result<Self, Error> {
        if count == 0 || count > SHARDS || index >= count {
            return Err(Error::Invalid(format!(
                "part {index} of {count} does not exist: there are 1 to {SHARDS} parts, counted from 0"
            )));
        }
        let start = |index: u16| (u32::from(index) * u32::from(SHARDS) / u32::from(count)) as u16;
        Ok(Self { first: start(index), end: start(index + 1) })
    }

    /// The part with these virtual shards; the end is exclusive.
    pub fn between(first: u16, end: u16) -> Result<Self, Error> {
        if first >= end || end > SHARDS {
            return Err(Error::Invalid(format!(
                "the virtual shards {first} to {end} are no part: they are numbered from 0 to {SHARDS}"
            )));
        }
        Ok(Self { first, end })
    }

    /// The first virtual shard, and the one after the last.
    pub fn bounds(self) -> (u16, u16) {
        (self.first, self.end)
    }

    /// Whether the part is the whole.
    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// Whether the part is the first one, which also answers what no series has, such as metadata of metrics.
    pub fn is_first(self) -> bool {
        self.first == 0
    }

    /// Whether a series with this id is in the part.
    pub fn has(self, id: StreamId) -> bool {
        (self.first..self.end).contains(&shard_of(id))
    }

    /// Whether the series with these labels is in the part. Series with the points of a Graphite path and
    /// series with its coarser archives and rollups are in one part, because a fetch joins them.
    pub fn has_labels(self, labels: &Labels) -> bool {
        let is_of_archive = |name: &str| name == GRAPHITE_ARCHIVE || name == GRAPHITE_ROLLUP;
        if self.is_whole() {
            return true;
        }
        match labels.iter().any(|(name, _)| is_of_archive(name)) {
            false => self.has(labels.stream_id()),
            true => {
                let path = labels.iter().filter(|(name, _)| !is_of_archive(name));
                self.has(Labels::from_pairs(path).stream_id())
            }
        }
    }
}

/// The virtual shard of a series: the highest eight bits of its id.
pub fn shard_of(StreamId(id): StreamId) -> u16 {
    (id >> 120) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_divide_all_shards() {
        for count in [1, 2, 3, 7, 100, 255, 256] {
            let parts: Vec<Part> = (0..count).map(|index| Part::of(index, count).unwrap()).collect();
            let mut next = 0;
            for part in &parts {
                assert_eq!(part.first, next);
                assert!(part.end > part.first, "part of {count} has no shard");
                next = part.end;
            }
            assert_eq!(next, SHARDS);
            let id = Labels::from_pairs([("app", format!("a{count}"))]).stream_id();
            assert_eq!(parts.iter().filter(|part| part.has(id)).count(), 1);
        }
        assert!(Part::of(0, 1).unwrap().is_whole() && !Part::of(1, 2).unwrap().is_first());
        let refused = Part::of(3, 3).unwrap_err().to_string();
        assert!(refused.contains("part 3 of 3 does not exist"), "{refused}");
        assert!(Part::of(0, 257).is_err() && Part::between(5, 5).is_err() && Part::between(0, 257).is_err());
    }

    #[test]
    fn the_archives_of_a_path_are_in_the_part_of_its_points() {
        for n in 0..50 {
            let path = Labels::from_pairs([("__g0__", "servers"), ("__g1__", &*format!("web{n}"))]);
            let archive = Labels::from_pairs(path.iter().chain([(GRAPHITE_ARCHIVE, "60")]));
            let rollup = Labels::from_pairs(path.iter().chain([(GRAPHITE_ROLLUP, "sum")]));
            let part = Part::of(n % 3, 3).unwrap();
            assert_eq!(part.has_labels(&archive), part.has_labels(&path));
            assert_eq!(part.has_labels(&rollup), part.has_labels(&path));
        }
    }

    #[test]
    fn the_shard_of_a_series_never_changes() {
        let shard = |pairs: &[(&str, &str)]| shard_of(Labels::from_pairs(pairs.iter().copied()).stream_id());
        assert_eq!(shard(&[]), 153);
        assert_eq!(shard(&[("app", "api")]), 239);
        assert_eq!(shard(&[("__name__", "up"), ("job", "node")]), 97);
    }
}
