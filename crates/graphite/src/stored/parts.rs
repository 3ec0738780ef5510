//! The parts of a series: points as they were sent, and the history of coarse archives, which is stored in
//! a separate series for each step (`GRAPHITE_ARCHIVE`).
//!
//! The value at a step is taken from the first of these parts that has one: points of the step that is
//! read; points as they were sent; points of finer archives, aggregated by the rule; points of coarser
//! archives. Rollups of the step that is read, or of finer steps, take precedence over points as they were
//! sent: of a rolled-up step, only points that arrived later still exist.

use sandur_memory::{Stopped, job};
use sandur_model::GRAPHITE_ARCHIVE;
use sandur_query::SeriesBatch;

use super::buckets::bucketed;
use super::rolled::{self, KeptAggregate, RolledSteps};
use crate::column::Column;
use crate::schemas::{Archive, Reading, Rule, StorageRules};
use crate::source::Fetched;

/// The precedence of a part, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Points of the step that is read.
    Same,
    /// A rollup whose step is not longer than the one that is read.
    Rolled(RolledSteps),
    /// Points as they were sent.
    Sent,
    /// Points of a finer step, in seconds.
    Finer(i64),
    /// Points of a coarser step, in seconds.
    Coarser(i64),
    /// A rollup of a longer step.
    RolledCoarser(RolledSteps),
}

/// A part of a series at the step that is read.
pub(super) struct Part {
    pub(super) fetched: Fetched,
    pub(super) rank: Rank,
    /// One of the aggregates of a rollup; such a part has no values of its own.
    pub(super) kept: Option<KeptAggregate>,
}

impl Rank {
    /// The rank of a series of a batch that is not a rollup, for values at `step`.
    pub(super) fn of(batch: &SeriesBatch, series: usize, step: i64) -> Self {
        let archive = batch.pairs(series).find(|(label, _)| *label == GRAPHITE_ARCHIVE);
        match archive.and_then(|(_, value)| value.parse::<i64>().ok()).filter(|own| *own > 0) {
            None => Self::Sent,
            Some(own) if own == step => Self::Same,
            Some(own) if own < step => Self::Finer(own),
            Some(own) => Self::Coarser(own),
        }
    }

    /// The values of a part.
    pub(super) fn values(
        self,
        rule: Rule<'_>,
        reading: Reading,
        times: &[i64],
        values: &[f64],
    ) -> Result<Column, Stopped> {
        let step = rule.archives[reading.archive].step;
        let whole = Archive { step, retention: i64::MAX };
        let archives = match self {
            Self::Sent => return bucketed(rule, reading, times, values),
            Self::Finer(own) if step % own == 0 => vec![Archive { step: own, ..whole }, whole],
            Self::Finer(_) | Self::Same | Self::Coarser(_) => vec![whole],
            Self::Rolled(_) | Self::RolledCoarser(_) => return Ok(Column::default()),
        };
        let archive = archives.len() - 1;
        bucketed(Rule { archives: &archives, ..rule }, Reading { archive, ..reading }, times, values)
    }
}

/// Combines the aggregates of each rollup to one part with its values. All aggregates of a rollup must be
/// present in `parts`. The result is sorted by name and rank.
pub(super) fn with_rollups(mut parts: Vec<Part>, rules: &StorageRules) -> Result<Vec<Part>, Stopped> {
    parts.sort_by(|a, b| (&a.fetched.name, a.rank).cmp(&(&b.fetched.name, b.rank)));
    let mut found: Vec<Part> = Vec::new();
    let mut parts = parts.into_iter().peekable();
    while let Some(mut part) = parts.next() {
        if let Rank::Rolled(steps) | Rank::RolledCoarser(steps) = part.rank
            && let Some(kept) = part.kept.take()
        {
            let mut group = vec![kept];
            let goes_on = |more: &Part| more.rank == part.rank && more.fetched.name == part.fetched.name;
            while let Some(more) = parts.next_if(goes_on) {
                group.extend(more.kept);
            }
            part.fetched.values = rolled::values(rules.of(&part.fetched.name), steps, &group)?;
        }
        found.push(part);
    }
    Ok(found)
}

/// Merges the parts of each name to one series.
pub(super) fn merged(parts: Vec<Part>, rules: &StorageRules) -> Result<Vec<Fetched>, Stopped> {
    let mut found: Vec<Fetched> = Vec::with_capacity(parts.len());
    for Part { fetched, .. } in with_rollups(parts, rules)? {
        match found.last_mut().filter(|last| last.name == fetched.name) {
            None => found.push(fetched),
            Some(first) => {
                job::spend(fetched.values.len())?;
                for (place, value) in fetched.values.iter().enumerate() {
                    if value.is_some() && first.values.get(place).is_none() {
                        first.values.set(place, value);
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Splits off the parts of the last name, of which more may follow. The parts of a name must be adjacent.
pub(super) fn split_last_name(parts: &mut Vec<Part>) -> Vec<Part> {
    let last = parts.last().map(|part| part.fetched.name.as_str());
    let whole = parts.iter().rposition(|part| Some(part.fetched.name.as_str()) != last);
    parts.split_off(whole.map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::Method;

    #[test]
    fn the_history_of_archives_fills_gaps_of_sent_points() {
        let archives = [Archive { step: 10, retention: 100 }, Archive { step: 60, retention: 10_000 }];
        let rule = Rule { archives: &archives, method: Method::Sum, x_files_factor: 0.5 };
        let reading = Reading { start: 0, end: 360, archive: 1 };
        let part = |rank: Rank, points: &[(i64, f64)]| {
            let times: Vec<i64> = points.iter().map(|(time, _)| time * 1000).collect();
            let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
            let values = rank.values(rule, reading, &times, &values).unwrap();
            let fetched = Fetched { name: "a".into(), start: 0, end: 360, step: 60, values };
            Part { fetched, rank, kept: None }
        };
        let of_sent: Vec<(i64, f64)> = (0..12).map(|n| (n * 10, 1.0)).collect();
        let parts = vec![
            part(Rank::Coarser(300), &[(0, 50.0), (300, 60.0)]),
            part(Rank::Finer(30), &[(120, 2.0), (150, 3.0)]),
            part(Rank::Sent, &of_sent),
            part(Rank::Same, &[(60, 9.0), (180, 7.0)]),
        ];
        let found = merged(parts, &StorageRules::default()).unwrap();
        let values: Vec<Option<f64>> = found[0].values.iter().collect();
        assert_eq!(values, [Some(6.0), Some(9.0), Some(5.0), Some(7.0), None, Some(60.0)]);
        assert_eq!(found.len(), 1);
    }
}
