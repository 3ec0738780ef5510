//! Values of rollups: combines the aggregates of a step, which are separate series, to the value that the
//! rule defines.
//!
//! **Invariants.** The current rule applies, also to points that were rolled up under another one. A step
//! has no value if one of the six aggregates is missing. From the step of the rollup on, values pass
//! through the archives of the rule as points do.

use sandur_memory::{Reservation, Stopped, job};
use sandur_model::{Aggregate, GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Rollup, RollupLabels};
use sandur_query::{Samples, SeriesBatch};

use super::buckets::bucketed;
use crate::column::Column;
use crate::schemas::{Archive, Method, Reading, Rule};

/// The steps in the labels of a rollup series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RolledSteps {
    /// The step, in seconds.
    pub(super) step: i64,
    /// The step of the points that were rolled up, in seconds.
    pub(super) finest: i64,
}

/// An aggregate of a rollup in the window that is read.
pub(super) struct KeptAggregate {
    pub(super) aggregate: Aggregate,
    reading: Reading,
    times: Vec<i64>,
    values: Vec<f64>,
    _held: Option<Reservation>,
}

/// The rollup and the aggregate of a series; `None` if it is not a rollup. Fails if the labels differ from
/// those that compaction writes.
pub(super) fn of_series(batch: &SeriesBatch, series: usize) -> Option<Result<(RolledSteps, Aggregate), ()>> {
    let (_, rollup) = batch.pairs(series).find(|(label, _)| *label == GRAPHITE_ROLLUP)?;
    let archive = batch.pairs(series).find(|(label, _)| *label == GRAPHITE_ARCHIVE);
    let labels = archive.and_then(|(_, archive)| RollupLabels::of(archive, rollup));
    let steps = |RollupLabels { step, finest, aggregate }| (RolledSteps { step, finest }, aggregate);
    Some(labels.map(steps).ok_or(()))
}

impl KeptAggregate {
    pub(super) fn new(aggregate: Aggregate, reading: Reading, samples: &Samples) -> Result<Self, Stopped> {
        let first = samples.times.partition_point(|time| time.div_euclid(1000) < reading.start);
        let end = samples.times.partition_point(|time| time.div_euclid(1000) < reading.end);
        let rows = first..end.max(first);
        job::spend(rows.len())?;
        let held = job::reserve_exactly(rows.len() as u64 * 16)?;
        let (times, values) = (samples.times[rows.clone()].to_vec(), samples.values[rows].to_vec());
        Ok(Self { aggregate, reading, times, values, _held: held })
    }
}

/// The values of a rollup at the step that is read.
pub(super) fn values(rule: Rule<'_>, steps: RolledSteps, kept: &[KeptAggregate]) -> Result<Column, Stopped> {
    let Some(reading) = kept.first().map(|kept| kept.reading) else { return Ok(Column::default()) };
    let counts = kept.iter().find(|kept| kept.aggregate == Aggregate::Count);
    let times = counts.map_or(&[][..], |counts| &counts.times);
    job::spend(times.len().saturating_mul(kept.len()))?;
    let _held = job::reserve_exactly(times.len() as u64 * 16)?;
    let (mut known, mut values) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
    let places = steps.step / steps.finest;
    let mut at = vec![0; kept.len()];
    for time in times {
        let rollup = Rollup::of_kept(|aggregate| {
            let of = kept.iter().position(|kept| kept.aggregate == aggregate)?;
            let (kept, at) = (&kept[of], &mut at[of]);
            while kept.times.get(*at).is_some_and(|own| own < time) {
                *at += 1;
            }
            kept.times.get(*at).filter(|own| *own == time).map(|_| kept.values[*at])
        });
        if let Some(rollup) = rollup.filter(|rollup| rollup.count / places as f64 >= rule.x_files_factor) {
            known.push(*time);
            values.push(value_of(&rollup, rule.method, places));
        }
    }
    let archives = archives_from(rule, reading, steps.step);
    let archive = archives.len() - 1;
    bucketed(Rule { archives: &archives, ..rule }, Reading { archive, ..reading }, &known, &values)
}

/// The archives through which values of a step pass until the one that is read.
fn archives_from(rule: Rule<'_>, reading: Reading, step: i64) -> Vec<Archive> {
    let read = rule.archives[reading.archive];
    if step >= read.step || read.step % step != 0 {
        return vec![read];
    }
    let later =
        rule.archives[..=reading.archive].iter().filter(|one| one.step > step && one.step % step == 0);
    [Archive { step, ..read }].into_iter().chain(later.copied()).collect()
}

fn value_of(rollup: &Rollup, method: Method, places: i64) -> f64 {
    match method {
        Method::Average => rollup.sum / rollup.count,
        Method::Sum => rollup.sum,
        Method::Last => rollup.last,
        Method::Max => rollup.max,
        Method::Min => rollup.min,
        Method::AvgZero => rollup.sum / places as f64,
        Method::AbsMax => rollup.farthest(),
        Method::AbsMin => rollup.nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::StorageRules;
    use crate::source::Fetched;
    use crate::stored::parts::{Part, Rank, merged, split_last_name, with_rollups};

    const ARCHIVES: [Archive; 4] = [
        Archive { step: 10, retention: 100 },
        Archive { step: 60, retention: 1_000 },
        Archive { step: 120, retention: 2_000 },
        Archive { step: 360, retention: 100_000 },
    ];

    /// Points each ten seconds, with gaps, from the start of a day that is not rolled up.
    fn points(is_full: bool) -> (Vec<i64>, Vec<f64>) {
        let is_there = |n: &i64| is_full || !(n % 7 < 3 || (40..60).contains(n));
        // No two values have the same absolute value.
        let value = |n: i64| ((n * 7_919) % 101 - 50) as f64 + 0.25;
        (0..108).filter(is_there).map(|n| (n * 10_000, value(n))).unzip()
    }

    fn kept(step: i64, (times, values): &(Vec<i64>, Vec<f64>), reading: Reading) -> Vec<KeptAggregate> {
        let mut steps: Vec<(i64, Rollup)> = Vec::new();
        for (time, value) in times.iter().zip(values) {
            let begin = time - time.rem_euclid(step * 1_000);
            match steps.last_mut().filter(|(last, _)| *last == begin) {
                Some((_, rollup)) => rollup.join(&Rollup::of(*value)),
                None => steps.push((begin, Rollup::of(*value))),
            }
        }
        let one = |aggregate| {
            let known = steps.iter().filter_map(|(time, rollup)| Some((*time, rollup.get(aggregate)?)));
            let (times, values): (Vec<i64>, Vec<f64>) = known.unzip();
            let samples = Samples { times: times.into(), values, ..Samples::default() };
            KeptAggregate::new(aggregate, reading, &samples).unwrap()
        };
        Aggregate::ALL.map(one).into_iter().collect()
    }

    /// The values computed from points, and those computed from rollups of a step.
    fn both(method: Method, share: f64, step: i64, archive: usize, is_full: bool) -> [Vec<Option<f64>>; 2] {
        let rule = Rule { archives: &ARCHIVES, method, x_files_factor: share };
        let (reading, points) = (Reading { start: 0, end: 1_080, archive }, points(is_full));
        let before = bucketed(rule, reading, &points.0, &points.1).unwrap();
        let steps = RolledSteps { step, finest: 10 };
        let after = values(rule, steps, &kept(step, &points, reading)).unwrap();
        [before, after].map(|column| column.iter().collect())
    }

    #[test]
    fn rollups_equal_their_points_for_each_method_and_fraction() {
        for (_, method) in Method::NAMED {
            for share in [0.0, 0.1, 0.5, 0.6, 0.9, 1.0] {
                for (archive, is_full) in [1, 2, 3].into_iter().flat_map(|n| [(n, true), (n, false)]) {
                    let [before, after] = both(method, share, 60, archive, is_full);
                    assert_eq!(before, after, "{method:?} {share} {archive} {is_full}");
                }
            }
        }
    }

    /// Without gaps, the mean of means is the mean, and a fraction of fractions is the fraction.
    #[test]
    fn a_rollup_that_skips_archives_equals_its_points_without_gaps() {
        for (_, method) in Method::NAMED {
            let [before, after] = both(method, 1.0, 360, 3, true);
            let is_near = |(a, b): (&Option<f64>, &Option<f64>)| (a.unwrap() - b.unwrap()).abs() < 1e-9;
            assert!(before.iter().zip(&after).all(is_near), "{method:?} {before:?} {after:?}");
        }
        // With gaps the results differ: the rollup includes all points, also those of steps that have too
        // few values.
        let [before, after] = both(Method::Sum, 0.55, 360, 3, false);
        assert_eq!(before.len(), after.len());
        assert_ne!(before, after);
    }

    #[test]
    fn a_rollup_coarser_than_the_step_is_at_its_start() {
        let [_, after] = both(Method::Max, 0.0, 360, 1, true);
        let known: Vec<usize> = (0..after.len()).filter(|place| after[*place].is_some()).collect();
        assert_eq!(known, [0, 6, 12]);
    }

    #[test]
    fn a_step_without_one_of_the_aggregates_has_no_value() {
        let rule = Rule { archives: &ARCHIVES, method: Method::Sum, x_files_factor: 0.0 };
        let reading = Reading { start: 0, end: 1_080, archive: 1 };
        let mut kept = kept(60, &points(true), reading);
        kept[1].times.remove(2);
        kept[1].values.remove(2);
        let known: Vec<Option<f64>> =
            values(rule, RolledSteps { step: 60, finest: 10 }, &kept).unwrap().iter().collect();
        assert!(known[2].is_none() && known.iter().flatten().count() == 17);
    }

    /// A request keeps one part of each rollup, not one of each aggregate.
    #[test]
    fn aggregates_are_combined_batch_by_batch() {
        let (reading, rules) = (Reading { start: 0, end: 1_080, archive: 0 }, StorageRules::default());
        let parts_of = |name: &str, finest: i64| {
            let rank = Rank::Rolled(RolledSteps { step: 60, finest });
            let part = |kept| {
                let (name, values) = (name.to_owned(), Column::default());
                Part {
                    fetched: Fetched { name, start: 0, end: 1_080, step: 60, values },
                    rank,
                    kept: Some(kept),
                }
            };
            kept(60, &points(true), reading).into_iter().map(part).collect::<Vec<_>>()
        };
        let all = || ["a", "b", "c"].into_iter().flat_map(|name| [(name, 10), (name, 20)]);
        let all = || all().flat_map(|(name, finest)| parts_of(name, finest)).collect::<Vec<_>>();
        // The first batch ends between the aggregates of "b".
        let mut batch = all();
        let later = batch.split_off(18);
        let last = split_last_name(&mut batch);
        assert!(batch.iter().all(|part| part.fetched.name == "a") && !last.is_empty());
        let found = with_rollups(batch, &rules).unwrap();
        let later = with_rollups(last.into_iter().chain(later).collect(), &rules).unwrap();
        let mut found: Vec<Part> = found.into_iter().chain(later).collect();
        assert_eq!((found.len(), found.iter().all(|part| part.kept.is_none())), (6, true));
        found.reverse();
        let (once, twice) = (merged(all(), &rules).unwrap(), merged(found, &rules).unwrap());
        let shown = |all: &[Fetched]| -> Vec<(String, Vec<Option<f64>>)> {
            all.iter().map(|one| (one.name.clone(), one.values.iter().collect())).collect()
        };
        assert_eq!((shown(&once), once.len()), (shown(&twice), 3));
    }
}
