//! What is kept of the points of a step when the points themselves leave: a rollup.
//!
//! A rollup of a path or of a series with tags is a group of series with its labels, with
//! [`GRAPHITE_ARCHIVE`](crate::GRAPHITE_ARCHIVE) as the step, and with [`GRAPHITE_ROLLUP`] as the aggregate
//! and the finest step: `sum_10s` is the sum of the values of steps of ten seconds. A step stands at its
//! begin.
//!
//! **Invariants.** Six aggregates stand at each step that has a value. The seventh, [`Aggregate::Nearest`],
//! stands where values of both signs meet, since the others do not tell it there. Rollups of steps that
//! follow each other join to one of a longer step as if it were made of the points, but for the rounding of
//! sums.

/// The label that tells the aggregate of a rollup, and of how fine steps. It sorts after those of levels.
pub const GRAPHITE_ROLLUP: &str = "__rollup__";

/// A number that a rollup keeps of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    /// How many of the finest steps have a value.
    Count,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
    /// The value nearest to 0, where the smallest is below 0 and the largest above.
    Nearest,
    /// The sum of values.
    Sum,
}

impl Aggregate {
    /// All of them in the order of their names.
    pub const ALL: [Self; 7] =
        [Self::Count, Self::First, Self::Last, Self::Max, Self::Min, Self::Nearest, Self::Sum];

    /// Its name.
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

    /// The value of [`GRAPHITE_ROLLUP`] for aggregates of steps of so many seconds.
    pub fn label(self, finest: i64) -> String {
        format!("{}_{finest}s", self.name())
    }

    /// The aggregate and the finest step that a value of [`GRAPHITE_ROLLUP`] names.
    pub fn of_label(value: &str) -> Option<(Self, i64)> {
        let (name, finest) = value.strip_suffix('s')?.rsplit_once('_')?;
        let aggregate = Self::ALL.into_iter().find(|aggregate| aggregate.name() == name)?;
        let finest = finest.parse().ok().filter(|finest| *finest > 0)?;
        (aggregate.label(finest) == value).then_some((aggregate, finest))
    }
}

/// What the labels of a series of a rollup tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupLabels {
    /// Seconds of a step.
    pub step: i64,
    /// Seconds of the steps that it was made of.
    pub finest: i64,
    /// What is kept.
    pub aggregate: Aggregate,
}

impl RollupLabels {
    /// By the values of [`GRAPHITE_ARCHIVE`](crate::GRAPHITE_ARCHIVE) and [`GRAPHITE_ROLLUP`]; nothing unless
    /// they are as compaction makes them.
    pub fn of(archive: &str, rollup: &str) -> Option<Self> {
        let (aggregate, finest) = Aggregate::of_label(rollup)?;
        let step = archive.parse::<i64>().ok().filter(|step| *step > 0 && step % finest == 0)?;
        Some(Self { step, finest, aggregate })
    }
}

/// The aggregates of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rollup {
    /// How many values.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
    /// The nearest to 0; of several that are equally near the first.
    pub nearest: f64,
}

impl Rollup {
    /// Of one value.
    pub fn of(value: f64) -> Self {
        let (sum, min, max, first, last, nearest) = (value, value, value, value, value, value);
        Self { count: 1.0, sum, min, max, first, last, nearest }
    }

    /// Adds what comes later.
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

    /// The value farthest from 0; of two that are equally far the positive one.
    pub fn farthest(&self) -> f64 {
        if self.min.abs() > self.max.abs() { self.min } else { self.max }
    }

    /// One aggregate, if it is kept.
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

    /// What the kept aggregates tell; nothing unless the six are there.
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
    fn names_tell_the_aggregate_and_the_finest_step() {
        assert!(Aggregate::ALL.map(Aggregate::name).is_sorted());
        for aggregate in Aggregate::ALL {
            assert_eq!(Aggregate::of_label(&aggregate.label(10)), Some((aggregate, 10)));
        }
        for wrong in ["", "sum", "sum_", "sum_10", "sum_0s", "sum_-1s", "sum_+1s", "sum_01s", "mean_10s"] {
            assert_eq!(Aggregate::of_label(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rollups_join_as_their_values_do() {
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
    fn the_nearest_value_is_kept_where_others_do_not_tell_it() {
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
