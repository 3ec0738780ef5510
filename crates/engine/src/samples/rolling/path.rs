//! Rolls the points of one path: a pure function of the path's series.
//!
//! **Invariants.** A step that already has a rollup is not rolled again: its points stay. Series that
//! are not in the form of our rollups stay. Either the rows become at most half as many, or nothing changes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use sandur_format::block::compare_series;
use sandur_format::stamp::Stamp;
use sandur_model::{Aggregate, Labels, Rollup, RollupLabels, is_stale};

use crate::path_labels::{ARCHIVE, ROLLUP, is_archive_label};
use crate::policy::rollups::RollupStep;

/// Points are rolled only if this divides the number of rows by at least this factor.
pub(super) const LEAST_FACTOR: usize = 2;

/// A series with its points, by ascending time in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathSeries {
    pub(super) labels: Labels,
    pub(super) times: Vec<i64>,
    pub(super) values: Vec<f64>,
    /// Stamps of points that stay; none in a rollup, whose points have no conflicts.
    pub(super) stamps: Vec<Stamp>,
}

/// Numbers of rows before and after rolling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RolledRows {
    /// Number of rolled rows.
    pub(super) before: u64,
    /// Number of rows that replaced them.
    pub(super) after: u64,
}

/// The kind of a path's series, by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Points as they were sent.
    Sent,
    /// An aggregate of steps.
    Rolled(RollupLabels),
    /// An archive that was imported, or an unknown kind.
    Other,
}

impl Kind {
    pub(super) fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let value = |name| pairs.clone().find(|(label, _)| *label == name).map(|(_, value)| value);
        match (value(ARCHIVE), value(ROLLUP)) {
            (None, None) => Self::Sent,
            (Some(archive), Some(rollup)) => {
                RollupLabels::of(archive, rollup).map_or(Self::Other, Self::Rolled)
            }
            _ => Self::Other,
        }
    }
}

/// Steps by their first second, with their aggregates.
type Steps = Vec<(i64, Rollup)>;

/// The series of an existing rollup, by their positions among the series of the path.
type Group = Vec<(Aggregate, usize)>;

/// Rolls the series of a path, and returns them in the order of a block. Changes nothing if a new series
/// would have to precede the last series that was written, because other series with the same name are
/// between those of the path.
pub(super) fn rolled(
    series: Vec<PathSeries>,
    to: RollupStep,
    written: Option<&Labels>,
) -> (Vec<PathSeries>, RolledRows) {
    let Some(mut roll) = Roll::new(&series, to) else { return (series, RolledRows::default()) };
    roll.take_finer(&series);
    let sent = series.iter().position(|one| Kind::of(one.labels.iter()) == Kind::Sent);
    let left = sent.map(|at| (at, roll.take_points(&series[at])));
    let rows = roll.rows();
    if rows.before == 0 || rows.after.saturating_mul(LEAST_FACTOR as u64) > rows.before {
        return (series, RolledRows::default());
    }
    let made = roll.made(&series[0].labels);
    let comes_after = |last: &Labels| {
        made.iter().all(|one| compare_series(last.iter(), one.labels.iter()) == Ordering::Less)
    };
    if !written.is_none_or(comes_after) {
        return (series, RolledRows::default());
    }
    let mut all: Vec<PathSeries> = Vec::with_capacity(series.len() + made.len());
    for (at, one) in series.into_iter().enumerate() {
        match &left {
            Some((sent, left)) if *sent == at => all.extend(of_rows(one, left)),
            _ if roll.gone.contains(&at) => {}
            _ => all.push(one),
        }
    }
    all.extend(made);
    all.sort_by(|a, b| compare_series(a.labels.iter(), b.labels.iter()));
    (all, rows)
}

/// Some rows of a series; `None` if there are none.
fn of_rows(one: PathSeries, rows: &[usize]) -> Option<PathSeries> {
    let times: Vec<i64> = rows.iter().map(|row| one.times[*row]).collect();
    let values = rows.iter().map(|row| one.values[*row]).collect();
    let stamps = rows.iter().filter_map(|row| one.stamps.get(*row).copied()).collect();
    (!times.is_empty()).then_some(PathSeries { labels: one.labels, times, values, stamps })
}

/// A path that is being rolled.
struct Roll {
    to: RollupStep,
    groups: BTreeMap<(i64, i64), Group>,
    /// Seconds with rollups: the first and the end of each step, ascending.
    known: Vec<(i64, i64)>,
    /// Existing steps, by the finest step.
    old: BTreeMap<i64, Steps>,
    /// New steps, by the finest step.
    new: BTreeMap<i64, Steps>,
    /// The positions of series that are replaced.
    gone: Vec<usize>,
    /// The number of rows that are replaced.
    before: u64,
}

impl Roll {
    /// Returns `None` if the path has rollups in an unknown form.
    fn new(series: &[PathSeries], to: RollupStep) -> Option<Self> {
        let (mut groups, mut known) = (BTreeMap::<_, Group>::new(), Vec::new());
        for (at, one) in series.iter().enumerate() {
            if let Kind::Rolled(RollupLabels { step, finest, aggregate }) = Kind::of(one.labels.iter()) {
                groups.entry((step, finest)).or_default().push((aggregate, at));
                known.extend(one.times.iter().map(|time| (second(*time), second(*time) + step)));
            }
        }
        known.sort_unstable();
        known.dedup();
        let (old, new) = (BTreeMap::new(), BTreeMap::new());
        let mut roll = Self { to, groups, known, old, new, gone: Vec::new(), before: 0 };
        let same: Vec<i64> =
            roll.groups.keys().filter(|(step, _)| *step == to.step).map(|key| key.1).collect();
        for finest in same {
            let steps = steps_of(series, &roll.groups[&(to.step, finest)], to.step)?;
            roll.gone.extend(roll.groups[&(to.step, finest)].iter().map(|(_, at)| *at));
            roll.old.insert(finest, steps);
        }
        Some(roll)
    }

    /// Adds rollups of finer steps.
    fn take_finer(&mut self, series: &[PathSeries]) {
        for ((step, finest), group) in &self.groups {
            let is_finer = *step < self.to.step && self.to.step % step == 0 && !self.old.contains_key(finest);
            let Some(steps) = steps_of(series, group, *step).filter(|_| is_finer) else { continue };
            // Two rollups with the same finest step would be merged into one.
            if self.new.contains_key(finest) {
                continue;
            }
            let made = self.new.entry(*finest).or_default();
            steps
                .iter()
                .for_each(|(begin, rollup)| add(made, begin - begin.rem_euclid(self.to.step), rollup));
            self.gone.extend(group.iter().map(|(_, at)| *at));
            self.before += group.iter().map(|(_, at)| series[*at].times.len() as u64).sum::<u64>();
        }
    }

    /// Adds points; of several in one of the finest steps the last counts. Returns the rows that stay.
    fn take_points(&mut self, sent: &PathSeries) -> Vec<usize> {
        let RollupStep { finest, step } = self.to;
        let (mut steps, mut stay, mut at): (Steps, Vec<usize>, usize) = (Vec::new(), Vec::new(), 0);
        let mut last: Option<(i64, f64)> = None;
        for (row, (time, value)) in sent.times.iter().zip(&sent.values).enumerate() {
            let begin = second(*time) - second(*time).rem_euclid(step);
            while self.known.get(at).is_some_and(|(_, end)| *end <= begin) {
                at += 1;
            }
            if self.known.get(at).is_some_and(|(first, _)| *first < begin + step) {
                stay.push(row);
                continue;
            }
            self.before += 1;
            if value.is_nan() || is_stale(*value) {
                continue;
            }
            let bucket = second(*time) - second(*time).rem_euclid(finest);
            if let Some((before, value)) = last.filter(|(before, _)| *before != bucket) {
                add(&mut steps, before - before.rem_euclid(step), &Rollup::of(value));
            }
            last = Some((bucket, *value));
        }
        if let Some((before, value)) = last {
            add(&mut steps, before - before.rem_euclid(step), &Rollup::of(value));
        }
        if !steps.is_empty() {
            let made = self.new.entry(finest).or_default();
            made.extend(steps);
            made.sort_by_key(|(begin, _)| *begin);
        }
        stay
    }

    fn rows(&self) -> RolledRows {
        let after = self.new.values().flatten().map(|(_, rollup)| kept(rollup).count() as u64).sum();
        RolledRows { before: self.before, after }
    }

    /// Returns the series of the rollups of all steps.
    fn made(&mut self, of: &Labels) -> Vec<PathSeries> {
        let mut all = std::mem::take(&mut self.old);
        for (finest, steps) in std::mem::take(&mut self.new) {
            let of_finest = all.entry(finest).or_default();
            of_finest.extend(steps);
            of_finest.sort_by_key(|(begin, _)| *begin);
        }
        let archive = self.to.step.to_string();
        let mut made = Vec::new();
        for (finest, steps) in all {
            for aggregate in Aggregate::ALL {
                let known = steps.iter().filter_map(|(begin, of)| Some((begin * 1_000, of.get(aggregate)?)));
                let (times, values): (Vec<i64>, Vec<f64>) = known.unzip();
                if times.is_empty() {
                    continue;
                }
                let label = aggregate.label(finest);
                let own = [(ARCHIVE, archive.as_str()), (ROLLUP, label.as_str())];
                let labels = Labels::from_pairs(path_pairs(of).chain(own));
                made.push(PathSeries { labels, times, values, stamps: Vec::new() });
            }
        }
        made
    }
}

/// The labels of a series' path.
fn path_pairs(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().filter(|(name, _)| !is_archive_label(name))
}

/// The aggregates that are stored for a step.
fn kept(rollup: &Rollup) -> impl Iterator<Item = f64> {
    Aggregate::ALL.into_iter().filter_map(|aggregate| rollup.get(aggregate))
}

fn add(steps: &mut Steps, begin: i64, rollup: &Rollup) {
    match steps.last_mut().filter(|(last, _)| *last == begin) {
        Some((_, last)) => last.join(rollup),
        None => steps.push((begin, *rollup)),
    }
}

/// The steps of a rollup; `None` unless its aggregates have the same times, which are begins of steps.
fn steps_of(series: &[PathSeries], group: &Group, step: i64) -> Option<Steps> {
    let place = |aggregate| group.iter().find(|(own, _)| *own == aggregate).map(|(_, at)| &series[*at]);
    let counts = place(Aggregate::Count)?;
    let mut nearest = 0;
    let mut steps = Vec::with_capacity(counts.times.len());
    for (row, time) in counts.times.iter().enumerate() {
        if *time % 1_000 != 0 || second(*time) % step != 0 {
            return None;
        }
        let rollup = Rollup::of_kept(|aggregate| {
            let of = place(aggregate)?;
            let row = match aggregate {
                Aggregate::Nearest => {
                    nearest += of.times[nearest..].partition_point(|own| own < time);
                    nearest
                }
                _ => row,
            };
            of.times.get(row).filter(|own| *own == time).map(|_| of.values[row])
        });
        steps.push((second(*time), rollup?));
    }
    let is_alike = |(aggregate, at): &(Aggregate, usize)| {
        *aggregate == Aggregate::Nearest || series[*at].times.len() == steps.len()
    };
    group.iter().all(is_alike).then_some(steps)
}

fn second(time_ms: i64) -> i64 {
    time_ms.div_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_labels::labels_of_path;

    fn sent(points: impl IntoIterator<Item = (i64, f64)>) -> PathSeries {
        let (times, values) = points.into_iter().map(|(second, value)| (second * 1_000, value)).unzip();
        PathSeries { labels: labels_of_path("a.b").unwrap(), times, values, stamps: Vec::new() }
    }

    fn shown(series: &[PathSeries]) -> Vec<String> {
        let one = |one: &PathSeries| {
            let (archive, rollup) = (one.labels.get(ARCHIVE), one.labels.get(ROLLUP));
            let points = one.times.iter().zip(&one.values).map(|(time, value)| (time / 1_000, *value));
            let points: Vec<(i64, f64)> = points.collect();
            format!("{} {} {points:?}", archive.unwrap_or("sent"), rollup.unwrap_or("-"))
        };
        series.iter().map(one).collect()
    }

    const TO_MINUTES: RollupStep = RollupStep { finest: 1, step: 60 };
    const TO_HOURS: RollupStep = RollupStep { finest: 1, step: 3_600 };

    fn rolled(series: Vec<PathSeries>, to: RollupStep) -> (Vec<PathSeries>, RolledRows) {
        super::rolled(series, to, None)
    }

    /// Blocks may have other series with the name of the path.
    #[test]
    fn new_series_come_after_the_last_written_one() {
        let points = || vec![sent((0..120).map(|n| (n, 1.0)))];
        let path = points()[0].labels.clone();
        for (label, is_rolled) in [("Upper", true), ("__archive_", true), ("__az", false)] {
            let pairs = path.iter().filter(|(name, _)| *name == "__name__").chain([(label, "1")]);
            let (series, rows) = super::rolled(points(), TO_MINUTES, Some(&Labels::from_pairs(pairs)));
            assert_eq!((series.len() > 1, rows.before > 0), (is_rolled, is_rolled), "{label}");
        }
    }

    #[test]
    fn points_become_aggregates_of_steps() {
        let points = (0..120).map(|n| (n, f64::from(n as i32 % 60) - 10.0));
        let (series, rows) = rolled(vec![sent(points)], TO_MINUTES);
        assert_eq!(rows, RolledRows { before: 120, after: 14 });
        assert_eq!(
            shown(&series),
            [
                "60 count_1s [(0, 60.0), (60, 60.0)]",
                "60 first_1s [(0, -10.0), (60, -10.0)]",
                "60 last_1s [(0, 49.0), (60, 49.0)]",
                "60 max_1s [(0, 49.0), (60, 49.0)]",
                "60 min_1s [(0, -10.0), (60, -10.0)]",
                "60 nearest_1s [(0, 0.0), (60, 0.0)]",
                "60 sum_1s [(0, 1170.0), (60, 1170.0)]",
            ]
        );
        assert!(series.is_sorted_by(|a, b| compare_series(a.labels.iter(), b.labels.iter()).is_lt()));
    }

    #[test]
    fn rolling_in_two_steps_equals_rolling_in_one() {
        let points =
            || (0..7_200).filter(|n| n % 13 != 5).map(|n| (n, f64::from((n * 37 % 101) as i32) - 50.0));
        let at_once = rolled(vec![sent(points())], TO_HOURS).0;
        let (minutes, _) = rolled(vec![sent(points())], TO_MINUTES);
        let (again, rows) = rolled(minutes.clone(), TO_HOURS);
        assert_eq!(again, at_once);
        assert_eq!(rows.before, minutes.iter().map(|one| one.times.len() as u64).sum::<u64>());
        assert_eq!(rolled(again.clone(), TO_HOURS), (again.clone(), RolledRows::default()), "nothing to do");
        assert_eq!(rolled(again.clone(), TO_MINUTES), (again, RolledRows::default()), "it stands");
    }

    #[test]
    fn points_stay_if_rolling_saves_too_few_rows() {
        let sparse: Vec<(i64, f64)> = (0..30).map(|n| (n * 6, 1.0)).collect();
        let series = vec![sent(sparse)];
        assert_eq!(rolled(series.clone(), TO_MINUTES), (series, RolledRows::default()));
        let (series, rows) = rolled(vec![sent((0..24).map(|n| (n * 5, 1.0)))], TO_MINUTES);
        assert_eq!((series.len(), rows), (6, RolledRows { before: 24, after: 12 }));
        assert_eq!(rolled(Vec::new(), TO_MINUTES), (Vec::new(), RolledRows::default()));
    }

    #[test]
    fn the_last_value_of_a_finest_step_counts_and_missing_values_do_not() {
        let mut one = sent((0..60).map(|n| (n, 1.0)));
        one.times.extend([60_000, 60_400, 60_999, 61_000]);
        one.values.extend([5.0, 6.0, 7.0, f64::NAN]);
        let (series, rows) = rolled(vec![one], TO_MINUTES);
        assert_eq!(rows, RolledRows { before: 64, after: 12 });
        assert_eq!(shown(&series)[0], "60 count_1s [(0, 60.0), (60, 1.0)]");
        assert_eq!(shown(&series)[5], "60 sum_1s [(0, 60.0), (60, 7.0)]");
    }

    /// A rolled step accepts no points within its own seconds or in steps that overlap it. Points of
    /// other steps are rolled, and are added to the existing rollup.
    #[test]
    fn late_points_of_a_rolled_step_stay() {
        let (mut series, _) = rolled(vec![sent((60..120).map(|n| (n, 1.0)))], TO_MINUTES);
        series.push(sent((100..180).map(|n| (n, 2.0))));
        let (series, rows) = rolled(series, TO_MINUTES);
        assert_eq!(rows, RolledRows { before: 60, after: 6 });
        let shown = shown(&series);
        assert_eq!(shown[0], "60 count_1s [(60, 60.0), (120, 60.0)]");
        assert_eq!(shown[5], "60 sum_1s [(60, 60.0), (120, 120.0)]");
        assert!(shown.len() == 7 && shown[6].starts_with("sent - [(100, 2.0), (101, 2.0)"));
        // A longer step that is partly rolled accepts no points either.
        let (hours, _) = rolled(series, TO_HOURS);
        assert_eq!(hours.last().unwrap().times.len(), 20);
        assert_eq!(self::shown(&hours)[5], "3600 sum_1s [(0, 180.0)]");
    }

    #[test]
    fn unknown_series_with_rollup_labels_stay() {
        let points = || (0..120).map(|n| (n, 1.0));
        let (series, _) = rolled(vec![sent(points())], TO_MINUTES);
        for (at, time) in [(0, 1), (1, 60_000), (5, 1)] {
            let mut spoilt = series.clone();
            spoilt[at].times[0] = time;
            spoilt[at].times.dedup();
            let values = spoilt[at].times.len();
            spoilt[at].values.truncate(values);
            assert_eq!(rolled(spoilt.clone(), TO_HOURS), (spoilt, RolledRows::default()), "{at}");
        }
        let mut fewer = series.clone();
        fewer.remove(3);
        assert_eq!(rolled(fewer.clone(), TO_HOURS), (fewer, RolledRows::default()));
        let named = |name: &str, value: &str| {
            let labels = labels_of_path("a.b").unwrap();
            let labels = Labels::from_pairs(labels.iter().chain([(name, value)]));
            PathSeries { labels, ..sent(points()) }
        };
        let imported = named(ARCHIVE, "60");
        let (all, rows) = rolled(vec![imported.clone(), sent(points())], TO_MINUTES);
        assert_eq!((rows.before, all.len(), all.contains(&imported)), (120, 7, true));
        let lone = vec![named(ROLLUP, "sum_1s"), named(ROLLUP, "nonsense")];
        assert_eq!(rolled(lone.clone(), TO_MINUTES).0, lone);
    }
}
