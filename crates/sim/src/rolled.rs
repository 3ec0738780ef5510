//! Points of an old day that are rolled up while more of them arrive: none is lost, and none is counted
//! twice.
//!
//! The value of a point is a power of two, given by its second within the step, so the sum of a rollup
//! identifies the points that it contains. Each point is sent once. It is found either as it was sent,
//! or in the one rollup of its step. All acknowledged points are found, and none that was never sent.
//! Every second series has a tag.
//!
//! A process that adopts a dead writer may store copies of points that were not acknowledged, and more
//! copies if it is interrupted. A copy that arrives after its step was rolled up stays in addition to
//! the rollup.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use sandur_engine::{RollupStep, RollupSteps, RollupsNow};
use sandur_model::{
    Aggregate, DAY_NS, GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Labels, MatchOp, Matcher, RollupLabels,
    graphite_path_labels, graphite_tagged_labels,
};

use crate::corrections::Instant;

/// The first node of the paths of these points, and the name of series with a tag.
const ROOT: &str = "old";
/// The tag that distinguishes tagged series.
const TAG: &str = "p";
const NAME: &str = "__name__";
/// Seconds of a step.
const STEP: i64 = 60;
/// Only the first seconds of a step may have a point, so that their sum is exact.
const POINTS: i64 = 48;
/// Days between the points and the start of a run.
const DAYS: i64 = 3;

/// The rollup rule: after a day, points below [`ROOT`] become steps of a minute.
pub struct Minutes {
    /// The age at which a step is rolled up.
    ages_ns: [i64; 1],
    matcher: Matcher,
}

/// The matcher of these series.
pub fn matcher() -> Result<Matcher> {
    Ok(Matcher::new(NAME, MatchOp::Regex, format!("{ROOT}(\\..+)?"))?)
}

/// Returns the labels under which a series is sent: those of a path, or of a name with a tag.
pub fn labels_of(series: &str) -> Result<Labels> {
    let tag = series.split_once(';').and_then(|(name, tag)| Some((name, tag.split_once('=')?)));
    Ok(match tag {
        Some((name, tag)) => graphite_tagged_labels(name, [tag])?,
        None => graphite_path_labels(series)?,
    })
}

fn name_of(labels: &Labels) -> String {
    let name = labels.get(NAME).unwrap_or_default();
    labels.get(TAG).map_or(name.to_owned(), |tag| format!("{name};{TAG}={tag}"))
}

impl Minutes {
    /// The rollup rule.
    pub fn new() -> Result<Self> {
        Ok(Self { ages_ns: [DAY_NS], matcher: matcher()? })
    }
}

impl RollupSteps for Minutes {
    fn version(&self) -> u64 {
        1
    }

    fn ages_ns(&self) -> &[i64] {
        &self.ages_ns
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        vec![vec![self.matcher.clone()]]
    }

    fn steps(&self, labels: &Labels, _: i64) -> Option<RollupStep> {
        labels
            .get(NAME)
            .is_some_and(|name| self.matcher.matches(name))
            .then_some(RollupStep { finest: 1, step: STEP })
    }
}

/// A series that a reader found.
#[derive(Debug)]
pub struct FoundSeries {
    /// Its labels.
    pub labels: Labels,
    /// Samples: milliseconds since the epoch, and values.
    pub samples: Vec<(i64, f64)>,
}

/// A step of a path, by its start in milliseconds since the epoch.
type Step = (String, i64);

/// The points of a step, as the bits of a sum.
#[derive(Clone, Copy, Debug, Default)]
struct Points {
    sent: u64,
    acknowledged: u64,
}

/// Every point that was ever sent.
#[derive(Debug, Default)]
pub struct OldPoints {
    steps: BTreeMap<Step, Points>,
}

/// What a reader found for a step.
#[derive(Debug, Default)]
struct FoundStep {
    as_sent: u64,
    aggregates: BTreeMap<Aggregate, f64>,
}

impl OldPoints {
    /// Chooses up to `count` points that were not sent yet, of a path and a minute of the day, and
    /// records them as sent.
    pub fn send(&mut self, start_ns: i64, (path, minute): (u64, i64), count: u32) -> Vec<(Instant, u64)> {
        let day = (start_ns - DAYS * DAY_NS).div_euclid(DAY_NS) * DAY_NS;
        let series = match path % 2 {
            0 => format!("{ROOT};{TAG}={path}"),
            _ => format!("{ROOT}.p{path}"),
        };
        let (path, begin_ms) = (series, day / 1_000_000 + minute * STEP * 1_000);
        let points = self.steps.entry((path.clone(), begin_ms)).or_default();
        let free = (0..POINTS).filter(|second| points.sent & 1 << second == 0).take(count as usize);
        let chosen: Vec<i64> = free.collect();
        chosen.iter().for_each(|second| points.sent |= 1 << second);
        let value = |second: i64| ((1u64 << second) as f64).to_bits();
        chosen.into_iter().map(|second| ((path.clone(), begin_ms + second * 1_000), value(second))).collect()
    }

    /// Records that these points were acknowledged.
    pub fn acknowledged(&mut self, points: &[(Instant, u64)]) {
        for ((path, ms), _) in points {
            let (step, bit) = step_of(path, *ms);
            if let Some(points) = self.steps.get_mut(&step) {
                points.acknowledged |= bit;
            }
        }
    }

    /// Checks all series below [`ROOT`] that a reader found. With `all`, every acknowledged point must
    /// be found. Returns the number of steps that are rolled up.
    pub fn check(&self, reader: &str, found: &[FoundSeries], all: bool) -> Result<usize> {
        let found = steps_of(reader, found)?;
        for (step, FoundStep { as_sent, aggregates }) in &found {
            let Points { sent, acknowledged } = self.steps.get(step).copied().unwrap_or_default();
            let rolled = match aggregates.is_empty() {
                true => 0,
                false => points_of(aggregates)
                    .with_context(|| format!("{reader} found a wrong rollup at {step:?}: {aggregates:?}"))?,
            };
            ensure!(
                (as_sent | rolled) & !sent == 0,
                "{reader} found points at {step:?} that were never sent"
            );
            let twice = as_sent & rolled & acknowledged;
            ensure!(twice == 0, "{reader} found points at {step:?} both in a rollup and as sent: {twice:#b}");
        }
        for (step, points) in self.steps.iter().filter(|_| all) {
            let is_there = |step: &FoundStep| step.as_sent | points_of(&step.aggregates).unwrap_or(0);
            let there = found.get(step).map_or(0, is_there);
            let lost = points.acknowledged & !there;
            ensure!(lost == 0, "{reader} does not find acknowledged points at {step:?}: {lost:#b}");
        }
        Ok(found.values().filter(|step| !step.aggregates.is_empty()).count())
    }
}

fn step_of(path: &str, ms: i64) -> (Step, u64) {
    let (begin, second) = (ms.div_euclid(STEP * 1_000) * STEP * 1_000, ms.rem_euclid(STEP * 1_000) / 1_000);
    ((path.to_owned(), begin), 1 << second)
}

fn steps_of(reader: &str, found: &[FoundSeries]) -> Result<BTreeMap<Step, FoundStep>> {
    let mut steps: BTreeMap<Step, FoundStep> = BTreeMap::new();
    for FoundSeries { labels, samples } in found {
        let path = name_of(labels);
        let names = labels.get(GRAPHITE_ARCHIVE).zip(labels.get(GRAPHITE_ROLLUP));
        let rollup = names.and_then(|(archive, rollup)| RollupLabels::of(archive, rollup));
        for (ms, value) in samples {
            let (step, bit) = step_of(&path, *ms);
            let of_step = steps.entry(step).or_default();
            match rollup {
                None if names.is_none() && *value == bit as f64 && of_step.as_sent & bit == 0 => {
                    of_step.as_sent |= bit;
                }
                Some(RollupLabels { step: STEP, finest: 1, aggregate }) if bit == 1 => {
                    let before = of_step.aggregates.insert(aggregate, *value);
                    ensure!(before.is_none(), "{reader} found two rollups of {path} at {ms}");
                }
                _ => bail!("{reader} found {value} of {labels} at {ms}, which was never made"),
            }
        }
    }
    Ok(steps)
}

/// Returns the points from which all aggregates of a step were computed.
fn points_of(aggregates: &BTreeMap<Aggregate, f64>) -> Option<u64> {
    let of = |aggregate| aggregates.get(&aggregate).copied();
    let points = of(Aggregate::Sum)? as u64;
    let first = 1u64.checked_shl(points.trailing_zeros())?;
    let last = 1u64 << points.ilog2();
    let is_made_of = of(Aggregate::Count)? == f64::from(points.count_ones())
        && [Aggregate::First, Aggregate::Min].into_iter().all(|one| of(one) == Some(first as f64))
        && [Aggregate::Last, Aggregate::Max].into_iter().all(|one| of(one) == Some(last as f64))
        && of(Aggregate::Nearest).is_none();
    is_made_of.then_some(points)
}

/// Returns the rollup rule for an engine.
pub fn rules() -> Result<RollupsNow> {
    let rules: Arc<dyn RollupSteps> = Arc::new(Minutes::new()?);
    Ok(Arc::new(move || Some(Arc::clone(&rules))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, rollup: Option<&str>, samples: &[(i64, f64)]) -> FoundSeries {
        let path = graphite_path_labels(path).unwrap();
        let own = rollup.map(|rollup| [(GRAPHITE_ARCHIVE, "60"), (GRAPHITE_ROLLUP, rollup)]);
        let labels = Labels::from_pairs(path.iter().chain(own.into_iter().flatten()));
        FoundSeries { labels, samples: samples.to_vec() }
    }

    /// The rollup of points with this sum.
    fn rolled(begin_ms: i64, sum: u64) -> Vec<FoundSeries> {
        let (count, first) = (sum.count_ones(), 1u64 << sum.trailing_zeros());
        let last = 1u64 << sum.ilog2();
        let values = [
            ("count_1s", u64::from(count)),
            ("first_1s", first),
            ("last_1s", last),
            ("max_1s", last),
            ("min_1s", first),
            ("sum_1s", sum),
        ];
        values.map(|(name, value)| found("old.p1", Some(name), &[(begin_ms, value as f64)])).into()
    }

    #[test]
    fn lost_duplicated_and_invented_points_are_detected() {
        let mut points = OldPoints::default();
        let tagged = points.send(4 * DAY_NS, (2, 2), 1);
        assert_eq!(name_of(&labels_of(&tagged[0].0.0).unwrap()), "old;p=2");
        let three = points.send(4 * DAY_NS, (1, 2), 3);
        let begin = DAY_NS / 1_000_000 + 120_000;
        assert_eq!(three[2], (("old.p1".to_owned(), begin + 2_000), 4f64.to_bits()));
        points.acknowledged(&three[..2]);
        let late = points.send(4 * DAY_NS, (1, 2), 1);
        assert_eq!(late[0].1, 8f64.to_bits());
        let raw = |samples: &[(i64, f64)]| vec![found("old.p1", None, samples)];
        let check = |series: Vec<FoundSeries>| points.check("r", &series, true);
        assert_eq!(check(raw(&[(begin, 1.0), (begin + 1_000, 2.0)])).unwrap(), 0);
        assert_eq!(check(rolled(begin, 3)).unwrap(), 1);
        let raw_point = raw(&[(begin + 3_000, 8.0)]);
        assert_eq!(check(rolled(begin, 7).into_iter().chain(raw_point).collect()).unwrap(), 1);
        assert!(check(rolled(begin, 1)).is_err(), "an acknowledged point is not in the rollup");
        assert!(check(raw(&[(begin, 1.0)])).is_err(), "lost");
        let doubled = raw(&[(begin + 1_000, 2.0)]);
        assert!(check(rolled(begin, 3).into_iter().chain(doubled).collect()).is_err(), "duplicated");
        let again = raw(&[(begin + 2_000, 4.0)]);
        assert_eq!(check(rolled(begin, 7).into_iter().chain(again).collect()).unwrap(), 1, "a copy");
        assert!(check(rolled(begin, 19)).is_err(), "it was never sent");
        assert!(check(raw(&[(begin, 3.0), (begin + 1_000, 2.0)])).is_err(), "another value");
        let mut fewer = rolled(begin, 3);
        fewer.pop();
        assert!(check(fewer).is_err(), "an aggregate is missing");
    }
}
