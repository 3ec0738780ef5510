//! Rollups: the aggregates of the points of a step, which are kept when the points are removed.
//!
//! A rollup of a path or a tagged series is a group of series. Each has the labels of the original, the
//! step in [`GRAPHITE_ARCHIVE`](crate::GRAPHITE_ARCHIVE), and the aggregate and the finest step in
//! [`GRAPHITE_ROLLUP`]: `sum_10s` is the sum of the values of steps of ten seconds. The timestamp of a
//! sample is the beginning of its step.
//!
//! **Invariants.** Each step with a value has six aggregates. The seventh, [`Aggregate::Nearest`],
//! exists only where a step has both negative and positive values, because otherwise it follows from the
//! others. Joining the rollups of consecutive steps gives the rollup that the points themselves would
//! give, except for the rounding of sums.

/// The label that contains the aggregate of a rollup and its finest step. It sorts after the labels of
/// levels.
pub const GRAPHITE_ROLLUP: &str = "__rollup__";

/// A number that a rollup keeps for each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    /// The number of finest steps that have a value.
    Count,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
    /// The value nearest to 0, if the smallest value is negative and the largest is positive.
    Nearest,
    /// The sum of the values.
    Sum,
}

impl Aggregate {
    /// All aggregates, in the order of their names.
    pub const ALL: [Self; 7] =
        [Self::Count, Self::First, Self::Last, Self::Max, Self::Min, Self::Nearest, Self::Sum];

    /// The name of the aggregate.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::First => "first",
            Self::Last => "last",
            Self::Max => "max",
            Self::Min => "min",
            Self::Nearest => "nearest",
            Self::Sum => "sum",
        }
    }

    /// The value of [`GRAPHITE_ROLLUP`] for an aggregate of steps of `finest` seconds.
    pub fn label(self, finest: i64) -> String {
        format!("{}_{finest}s", self.name())
    }

    /// The aggregate and the finest step, in seconds, of a value of [`GRAPHITE_ROLLUP`].
    pub fn of_label(value: &str) -> Option<(Self, i64)> {
        let (name, finest) = value.strip_suffix('s')?.rsplit_once('_')?;
        let aggregate = Self::ALL.into_iter().find(|aggregate| aggregate.name() == name)?;
        let finest = finest.parse().ok().filter(|finest| *finest > 0)?;
        (aggregate.label(finest) == value).then_some((aggregate, finest))
    }
}

/// The contents of the labels of a rollup series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupLabels {
    /// Length of a step in seconds.
    pub step: i64,
    /// Length of the finest steps in seconds.
    pub finest: i64,
    /// The aggregate.
    pub aggregate: Aggregate,
}

impl RollupLabels {
    /// Parses the values of [`GRAPHITE_ARCHIVE`](crate::GRAPHITE_ARCHIVE) and [`GRAPHITE_ROLLUP`];
    /// `None` unless they have the form that compaction writes.
    pub fn of(archive: &str, rollup: &str) -> Option<Self> {
        let (aggregate, finest) = Aggregate::of_label(rollup)?;
        let step = archive.parse::<i64>().ok().filter(|step| *step > 0 && step % finest == 0)?;
        Some(Self { step, finest, aggregate })
    }
}

/// The aggregates of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rollup {
    /// The number of values.
    pub count: f64,
    /// The sum of the values.
    pub sum: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The first value.
    pub first: f64,
    /// The last value.
    pub last: f64,
    /// The value nearest to 0; the first of several that are equally near.
    pub nearest: f64,
}

impl Rollup {
    /// The rollup of one value.
    pub fn of(value: f64) -> Self {
        let (sum, min, max, first, last, nearest) = (value, value, value, value, value, value);
        Self { count: 1.0, sum, min, max, first, last, nearest }
    }

    /// Adds a rollup of later steps.
    pub fn join(&mut self, later: &Self) {
        self.count += later.count;
        self.sum += later.sum;
        self.last = later.last;
        if later.min < self.min {
            self.min = later.min;
        }
        if later.max > self.max {
            self.max = later.max;
        }
        if later.nearest.abs() < self.nearest.abs() {
            self.nearest = later.nearest;
        }
    }

    /// The value farthest from 0; the positive one of two that are equally far.
    pub fn farthest(&self) -> f64 {
        if self.min.abs() > self.max.abs() { self.min } else { self.max }
    }

    /// The value of an aggregate; `None` if it is not stored.
    pub fn get(&self, aggregate: Aggregate) -> Option<f64> {
        Some(match aggregate {
            Aggregate::Count => self.count,
            Aggregate::First => self.first,
            Aggregate::Last => self.last,
            Aggregate::Max => self.max,
            Aggregate::Min => self.min,
            Aggregate::Sum => self.sum,
            Aggregate::Nearest if self.min < 0.0 && self.max > 0.0 => self.nearest,
            Aggregate::Nearest => return None,
        })
    }

    /// Rebuilds a rollup from its stored aggregates; `None` unless the six are present.
    pub fn of_kept(mut kept: impl FnMut(Aggregate) -> Option<f64>) -> Option<Self> {
        let count = kept(Aggregate::Count).filter(|count| *count >= 1.0)?;
        let (min, max) = (kept(Aggregate::Min)?, kept(Aggregate::Max)?);
        let nearest = match min >= 0.0 {
            true => min,
            false if max > 0.0 => kept(Aggregate::Nearest)?,
            false => max,
        };
        let (first, last) = (kept(Aggregate::First)?, kept(Aggregate::Last)?);
        Some(Self { count, sum: kept(Aggregate::Sum)?, min, max, first, last, nearest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolled(values: &[f64]) -> Rollup {
        let mut all = values.iter().map(|value| Rollup::of(*value));
        let mut rollup = all.next().unwrap();
        all.for_each(|one| rollup.join(&one));
        rollup
    }

    #[test]
    fn labels_contain_the_aggregate_and_the_finest_step() {
        assert!(Aggregate::ALL.map(Aggregate::name).is_sorted());
        for aggregate in Aggregate::ALL {
            assert_eq!(Aggregate::of_label(&aggregate.label(10)), Some((aggregate, 10)));
        }
        for wrong in ["", "sum", "sum_", "sum_10", "sum_0s", "sum_-1s", "sum_+1s", "sum_01s", "mean_10s"] {
            assert_eq!(Aggregate::of_label(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn joined_rollups_equal_the_rollup_of_all_values() {
        let values = [3.0, -1.0, 5.0, -7.0, 2.0, 2.0];
        for cut in 1..values.len() {
            let mut joined = rolled(&values[..cut]);
            joined.join(&rolled(&values[cut..]));
            assert_eq!(joined, rolled(&values));
        }
        let Rollup { count, sum, min, max, first, last, nearest } = rolled(&values);
        assert_eq!((count, sum, min, max, first, last, nearest), (6.0, 4.0, -7.0, 5.0, 3.0, 2.0, -1.0));
        assert_eq!(rolled(&values).farthest(), -7.0);
    }

    #[test]
    fn the_nearest_value_is_stored_only_where_it_does_not_follow_from_others() {
        for (values, is_kept) in [
            (&[1.0, 2.0][..], false),
            (&[-3.0, -2.0][..], false),
            (&[0.0, -2.0][..], false),
            (&[0.0][..], false),
            (&[4.0, -2.0, 3.0][..], true),
        ] {
            let rollup = rolled(values);
            assert_eq!(rollup.get(Aggregate::Nearest).is_some(), is_kept, "{values:?}");
            assert_eq!(Rollup::of_kept(|aggregate| rollup.get(aggregate)), Some(rollup), "{values:?}");
        }
        let without = |missing| Rollup::of_kept(|one| rolled(&[1.0]).get(one).filter(|_| one != missing));
        assert!(Aggregate::ALL.into_iter().all(|one| without(one).is_none() || one == Aggregate::Nearest));
    }
}
