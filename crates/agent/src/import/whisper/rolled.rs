//! Compares rollups, which a server has in place of points, with the points of a file.
//!
//! A step within the range of the points is compared if the server has counted as many values in it as
//! the file has. If other senders sent points too, the server counted more, and the step is skipped.

use std::collections::BTreeMap;

use sandur_model::{Aggregate, GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Rollup, RollupLabels};
use sandur_whisper::Point;

/// Relative tolerance: sums may be computed in another order.
const SUM_PRECISION: f64 = 1e-9;

/// Steps of rollups by their start, in seconds.
#[derive(Debug, Default)]
pub struct RolledSteps {
    groups: BTreeMap<(i64, i64), BTreeMap<i64, Rollup>>,
}

impl RolledSteps {
    /// The rollups of a path, from the labels and values of their series.
    pub fn of(series: Vec<(BTreeMap<String, String>, BTreeMap<i64, f64>)>) -> Self {
        let mut kept: BTreeMap<(i64, i64), BTreeMap<Aggregate, BTreeMap<i64, f64>>> = BTreeMap::new();
        for (labels, values) in series {
            let of_rollup = labels.get(GRAPHITE_ARCHIVE).zip(labels.get(GRAPHITE_ROLLUP));
            let computed = of_rollup.and_then(|(archive, rollup)| RollupLabels::of(archive, rollup));
            if let Some(RollupLabels { step, finest, aggregate }) = computed {
                kept.entry((step, finest)).or_default().insert(aggregate, values);
            }
        }
        let steps = |of: BTreeMap<Aggregate, BTreeMap<i64, f64>>| {
            let times = of.get(&Aggregate::Count).into_iter().flat_map(BTreeMap::keys);
            let at = |time: &i64| Rollup::of_kept(|one| of.get(&one)?.get(time).copied());
            times.filter_map(|time| Some((time.div_euclid(1_000), at(time)?))).collect()
        };
        Self { groups: kept.into_iter().map(|(key, of)| (key, steps(of))).collect() }
    }

    /// Whether a rollup covers the point at this second.
    pub fn hold(&self, time: i64) -> bool {
        self.groups.iter().any(|((step, _), steps)| steps.contains_key(&(time - time.rem_euclid(*step))))
    }

    /// The differences between rollups and the points that they cover.
    pub fn differences(&self, points: &[Point]) -> Vec<String> {
        let Some((first, last)) = points.first().zip(points.last()) else { return Vec::new() };
        let mut found = Vec::new();
        for ((step, finest), steps) in &self.groups {
            let (first, end) = (i64::from(first.time), i64::from(last.time) + finest);
            let within = |begin: &i64| *begin >= first && begin + step <= end;
            for (begin, stored) in steps.iter().filter(|(begin, _)| within(begin)) {
                let Some(computed) = rollup_of(points, (*begin, begin + step), *finest) else { continue };
                if stored.count == computed.count && !is_same(stored, &computed)
                    || stored.count < computed.count
                {
                    found.push(format!(
                        "{begin}: a rollup of {step} s is {stored:?}, but that of its points is {computed:?}"
                    ));
                }
            }
        }
        found
    }
}

/// The rollup of the points of a range of seconds; of several points in one of the finest steps the last
/// counts.
fn rollup_of(points: &[Point], (begin, end): (i64, i64), finest: i64) -> Option<Rollup> {
    let mut values: BTreeMap<i64, f64> = BTreeMap::new();
    for point in points.iter().filter(|point| (begin..end).contains(&i64::from(point.time))) {
        values.insert(i64::from(point.time).div_euclid(finest), point.value);
    }
    let mut all = values.into_values().map(Rollup::of);
    let first = all.next()?;
    Some(all.fold(first, |mut joined, one| {
        joined.join(&one);
        joined
    }))
}

fn is_same(stored: &Rollup, computed: &Rollup) -> bool {
    let is_near = (stored.sum - computed.sum).abs()
        <= SUM_PRECISION * computed.sum.abs().max(computed.max.abs()).max(1.0);
    is_near && Rollup { sum: computed.sum, ..*stored } == *computed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        values.iter().zip((600..).step_by(10)).map(|(value, time)| Point { time, value: *value }).collect()
    }

    fn rolled(rollup: &Rollup) -> RolledSteps {
        let one = |aggregate: Aggregate| {
            let labels = [(GRAPHITE_ARCHIVE, "60".to_owned()), (GRAPHITE_ROLLUP, aggregate.label(10))];
            let labels = labels.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            (labels, rollup.get(aggregate).map(|value| (600_000, value)).into_iter().collect())
        };
        RolledSteps::of(Aggregate::ALL.map(one).to_vec())
    }

    #[test]
    fn a_rollup_is_compared_with_the_points_of_its_step() {
        let points = points(&[3.0, -1.0, 0.1, 0.2, 0.3, 5.0, 7.0]);
        let computed = rollup_of(&points, (600, 660), 10).unwrap();
        assert_eq!((computed.count, computed.min, computed.last), (6.0, -1.0, 5.0));
        assert!(rolled(&computed).differences(&points).is_empty());
        let near = Rollup { sum: computed.sum + 1e-14, ..computed };
        assert!(rolled(&near).differences(&points).is_empty());
        for other in [
            Rollup { max: 6.0, ..computed },
            Rollup { count: 5.0, ..computed },
            Rollup { sum: 8.0, ..computed },
        ] {
            assert_eq!(rolled(&other).differences(&points).len(), 1, "{other:?}");
        }
        assert!(
            rolled(&Rollup { count: 7.0, max: 9.0, ..computed }).differences(&points).is_empty(),
            "others sent"
        );
        assert!(
            rolled(&Rollup { max: 6.0, ..computed }).differences(&points[..5]).is_empty(),
            "not covered completely"
        );
        let steps = rolled(&computed);
        assert_eq!([599, 600, 659, 660].map(|time| steps.hold(time)), [false, true, true, false]);
    }
}
