//! The step cache: answers queries over many steps from cached units of steps, and evaluates the rest in
//! pieces.
//!
//! The steps of a query are on a grid. Runs of steps of the grid are units. Units are numbered from the
//! epoch, so that the same dashboard panel uses the same units a minute later. The version of a unit is
//! that of all rows that its steps read (see [`crate::Holding`]). Units that [`ResultsCache`] holds in
//! the current version are taken from it. The language evaluates the others ([`StepEvaluator`]), and
//! they are stored if the version is still the same afterwards, which proves that no data changed in
//! between.
//!
//! **Invariant.** The result is the same as that of evaluating the complete query. Steps do not depend
//! on each other, so they may be evaluated in any grouping.

use sandur_base::BoxFuture;
use sandur_base::units::MIB;
use sandur_memory::Reservation;
use sandur_model::TimeRange;

use crate::context::QueryContext;
use crate::error::Error;
use crate::holdings::{Holding, add_versions, cuts};
use crate::joined_series::JoinedSeries;
use crate::pieces::in_order;
use crate::result::{Sample, Series};
use crate::results_cache::{CachedUnit, ResultsCache, UnitKey};
use crate::source::Versions;
use crate::stats::QueryStats;
use crate::unit::{Unit, label_bytes};

/// The fewest steps of a unit, and the shortest time that it covers: short enough that continuously
/// arriving rows invalidate little, long enough that storing a unit pays off.
const UNIT_STEPS_MIN: i64 = 8;
const UNIT_NS_MIN: i64 = 300 * 1_000_000_000;
/// Raw bytes of a piece, if it reads all of them.
const PIECE_BYTES: u64 = 256 * MIB;
/// A piece is at least this many times as long as the longest window, because it reads one window more
/// than its own steps.
const WINDOWS_PER_PIECE: i64 = 4;
/// Pieces that run at the same time, so that the next one has begun when one ends.
const PIECES_AT_ONCE: usize = 2;

/// The instants at which a query is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// The first instant, in nanoseconds since the epoch.
    pub first_ns: i64,
    /// An upper bound of the last instant, inclusive.
    pub last_ns: i64,
    /// Distance of the instants in nanoseconds; at least 1.
    pub step_ns: i64,
}

impl StepTimes {
    /// The number of instants.
    pub fn count(&self) -> usize {
        if self.last_ns < self.first_ns {
            0
        } else {
            (self.last_ns.saturating_sub(self.first_ns) / self.step_ns.max(1)) as usize + 1
        }
    }
}

/// Series of a result, and the reservation of their memory.
pub struct HeldSeries {
    /// The series, sorted by labels.
    pub series: Vec<Series>,
    /// The reservation of their memory.
    pub memory: Reservation,
}

/// A parsed query of some language that can be evaluated at any of its steps.
pub trait StepEvaluator: Send + Sync {
    /// The language, because the same text has different meanings in different languages.
    fn language(&self) -> &'static str;

    /// A text of the query. Queries with the same text and the same windows must have the same result.
    fn text(&self) -> String;

    /// Length and offset, in nanoseconds, of every window that the query reads, in the order of the
    /// query. A step at `t` reads the rows after `t - offset - length` up to and including `t - offset`.
    /// Results of a query without windows are not cached.
    fn windows(&self) -> Vec<(i64, i64)>;

    /// Whether the result depends on the current time.
    fn asks_for_time(&self) -> bool;

    /// Raw bytes of rows that justify a separate piece.
    fn piece_bytes(&self) -> u64 {
        PIECE_BYTES
    }

    /// Whether the evaluated steps may be cached. Called after all of them were evaluated.
    fn may_keep(&self) -> bool {
        true
    }

    /// Evaluates the steps between two instants, both inclusive; returns series sorted by labels.
    fn evaluate(&self, instants: (i64, i64)) -> BoxFuture<'_, Result<HeldSeries, Error>>;
}

/// The series of a query over its steps, sorted by labels. Pieces are split at multiples of
/// `interval_ns`.
pub async fn over_steps(
    versions: &dyn Versions,
    context: &QueryContext,
    steps: StepTimes,
    interval_ns: i64,
    evaluator: &dyn StepEvaluator,
) -> Result<HeldSeries, Error> {
    let windows = evaluator.windows();
    let mut looks = windows.clone();
    looks.sort_unstable();
    looks.dedup();
    let grid = Grid::of(&steps);
    let query = StepQuery { versions, context, evaluator, interval_ns, grid, windows, looks };
    let asked = query.grid.asked(&steps);
    let holdings = if query.looks.is_empty() { None } else { query.holdings(&asked) };
    match holdings {
        Some(holdings) if !asked.is_empty() => query.run(&holdings, &asked).await,
        _ => evaluator.evaluate((steps.first_ns, steps.last_ns)).await,
    }
}

/// The instants at which steps can be, grouped in units.
#[derive(Clone, Copy, Debug)]
struct Grid {
    phase_ns: i64,
    step_ns: i64,
    unit_steps: i64,
}

/// The part of a unit that a query needs, by numbers of steps (inclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    unit: i64,
    first: i64,
    last: i64,
}

impl Grid {
    fn of(steps: &StepTimes) -> Self {
        let step_ns = steps.step_ns.max(1);
        let unit_steps = (UNIT_NS_MIN.saturating_add(step_ns - 1) / step_ns).max(UNIT_STEPS_MIN);
        Self { phase_ns: steps.first_ns.rem_euclid(step_ns), step_ns, unit_steps }
    }

    fn number(&self, at_ns: i64) -> i64 {
        at_ns.saturating_sub(self.phase_ns).div_euclid(self.step_ns)
    }

    fn instant(&self, number: i64) -> i64 {
        number.saturating_mul(self.step_ns).saturating_add(self.phase_ns)
    }

    fn unit_of(&self, number: i64) -> i64 {
        number.div_euclid(self.unit_steps)
    }

    /// The first and last step of a unit.
    fn steps_of(&self, unit: i64) -> (i64, i64) {
        let first = unit.saturating_mul(self.unit_steps);
        (first, first.saturating_add(self.unit_steps - 1))
    }

    /// The units that contain the steps, in order.
    fn asked(&self, steps: &StepTimes) -> Vec<Asked> {
        let count = steps.count() as i64;
        if count == 0 {
            return Vec::new();
        }
        let first = self.number(steps.first_ns);
        let last = first.saturating_add(count - 1);
        let part = |unit| {
            let (from, to) = self.steps_of(unit);
            Asked { unit, first: from.max(first), last: to.min(last) }
        };
        (self.unit_of(first)..=self.unit_of(last)).map(part).collect()
    }
}

struct StepQuery<'a> {
    versions: &'a dyn Versions,
    context: &'a QueryContext,
    evaluator: &'a dyn StepEvaluator,
    interval_ns: i64,
    grid: Grid,
    /// Windows in the order of the query.
    windows: Vec<(i64, i64)>,
    /// Distinct windows.
    looks: Vec<(i64, i64)>,
}

/// Consecutive steps of the result.
enum Part {
    Known(CachedUnit, Asked),
    Fresh(HeldSeries),
}

impl StepQuery<'_> {
    /// The time range that the steps of a unit read through one window.
    fn reach(&self, unit: i64, (range_ns, offset_ns): (i64, i64)) -> TimeRange {
        let (first, last) = self.grid.steps_of(unit);
        self.window(self.grid.instant(first), self.grid.instant(last), (range_ns, offset_ns))
    }

    fn window(&self, first_ns: i64, last_ns: i64, (range_ns, offset_ns): (i64, i64)) -> TimeRange {
        let first = first_ns.saturating_sub(offset_ns).saturating_sub(range_ns).saturating_add(1);
        TimeRange::inclusive(first, last_ns.saturating_sub(offset_ns))
    }

    /// The holdings of the rows that the units read.
    fn holdings(&self, asked: &[Asked]) -> Option<Vec<Holding>> {
        let (first, last) = (asked.first()?.unit, asked.last()?.unit);
        let all = self.looks.iter().flat_map(|look| [self.reach(first, *look), self.reach(last, *look)]);
        let whole = all.reduce(|a, b| TimeRange::new(a.start.min(b.start), a.end.max(b.end)))?;
        self.versions.holdings(self.context, whole)
    }

    fn versions(&self, holdings: &[Holding], asked: &[Asked]) -> Vec<u128> {
        let mut sums = vec![0; asked.len()];
        for (salt, look) in self.looks.iter().enumerate() {
            let reaches: Vec<TimeRange> = asked.iter().map(|a| self.reach(a.unit, *look)).collect();
            add_versions(holdings, &reaches, salt as u64, &mut sums);
        }
        sums
    }

    async fn run(&self, holdings: &[Holding], asked: &[Asked]) -> Result<HeldSeries, Error> {
        let results = self.results();
        let versions = self.versions(holdings, asked);
        let grid = self.grid;
        let identity = self.identity();
        let key = |unit| UnitKey { query: identity, number: unit };
        let kept: Vec<Option<CachedUnit>> = match results {
            None => vec![None; asked.len()],
            Some(results) => self.look_up(results, asked, &versions, key),
        };
        let runs = self.missing_runs(asked, &kept);
        let pieces = runs.iter().flat_map(|run| self.pieces(holdings, *run));
        let pieces: Vec<(i64, i64)> = pieces.collect();
        let instants = pieces.iter().map(|(first, last)| (grid.instant(*first), grid.instant(*last)));
        let futures: Vec<_> = instants.map(|instants| self.evaluator.evaluate(instants)).collect();
        let fresh = in_order(PIECES_AT_ONCE, futures).await?;
        if let Some(results) = results
            && !fresh.is_empty()
            && self.evaluator.may_keep()
        {
            self.store(results, (asked, &versions), (&pieces, &fresh), key);
        }
        let mut parts = parts(asked, kept, &pieces, fresh);
        match (parts.pop(), parts.is_empty()) {
            // Nothing was cached and nothing was split: the series are sorted already.
            (Some(Part::Fresh(series)), true) => Ok(series),
            (last, _) => self.assemble(parts.into_iter().chain(last).collect()),
        }
    }

    /// Hash of everything except the rows that determines the result. Includes the windows, because the
    /// text may show times rounded.
    fn identity(&self) -> u128 {
        let windows = self.windows.iter().flat_map(|(range_ns, offset_ns)| [*range_ns, *offset_ns]);
        let numbers: Vec<i64> = [self.grid.step_ns, self.grid.phase_ns].into_iter().chain(windows).collect();
        let (tenant, text) = (self.context.tenant().as_str(), self.evaluator.text());
        ResultsCache::identity(&[tenant, self.evaluator.language(), &text], &numbers)
    }

    /// The cache, if the result depends only on the query and the rows.
    fn results(&self) -> Option<&ResultsCache> {
        // With a limited look-back, rows leave the result as time passes.
        let by_clock = self.evaluator.asks_for_time() || self.context.earliest_ns() > i64::MIN;
        // Samples have millisecond timestamps, which must identify the step.
        let exact = self.grid.step_ns % 1_000_000 == 0 && self.grid.phase_ns % 1_000_000 == 0;
        self.context.results().filter(|_| exact && !by_clock)
    }

    fn look_up(
        &self,
        results: &ResultsCache,
        asked: &[Asked],
        versions: &[u128],
        key: impl Fn(i64) -> UnitKey,
    ) -> Vec<Option<CachedUnit>> {
        let context = self.context;
        let stats = context.stats();
        let began = context.env().monotonic();
        let get = |(a, version): (&Asked, &u128)| results.get(key(a.unit), *version, (a.first, a.last));
        let kept: Vec<Option<CachedUnit>> = asked.iter().zip(versions).map(get).collect();
        let found = kept.iter().zip(asked).filter_map(|(unit, a)| Some((unit.as_ref()?, a)));
        QueryStats::add(&stats.result_cache_requests, asked.len() as u64);
        for (unit, a) in found {
            QueryStats::add(&stats.result_cache_hits, 1);
            QueryStats::add(&stats.result_cache_bytes_received, unit.memory_bytes());
            let length = (a.last - a.first + 1).saturating_mul(self.grid.step_ns);
            QueryStats::add(&stats.result_cache_length_ns, length.unsigned_abs());
        }
        QueryStats::add_time(&stats.result_cache_ns, context.env().monotonic().saturating_sub(began));
        kept
    }

    /// Runs of steps that are not cached. Merges all runs, including the cached steps between them, if
    /// that is cheaper than reading the windows before each run.
    fn missing_runs(&self, asked: &[Asked], kept: &[Option<CachedUnit>]) -> Vec<(i64, i64)> {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (a, _) in asked.iter().zip(kept).filter(|(_, kept)| kept.is_none()) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == a.first => *last = a.last,
                _ => runs.push((a.first, a.last)),
            }
        }
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return runs };
        let whole = (first.0, last.1);
        let longest = self.looks.iter().map(|(range, _)| *range).max().unwrap_or(0);
        let length =
            |run: &(i64, i64)| (run.1 - run.0 + 1).saturating_mul(self.grid.step_ns).saturating_add(longest);
        let apart = runs.iter().fold(0i64, |sum, run| sum.saturating_add(length(run)));
        if apart > length(&whole) { vec![whole] } else { runs }
    }

    /// Splits a run of steps where no block is read twice.
    fn pieces(&self, holdings: &[Holding], (first, last): (i64, i64)) -> Vec<(i64, i64)> {
        let longest = self.looks.iter().map(|(range, _)| *range).max().unwrap_or(0);
        let offset = self.looks.iter().map(|(_, offset)| *offset).min().unwrap_or(0);
        let grid = self.grid;
        let range = self.window(grid.instant(first), grid.instant(last), (longest, offset));
        let length_min = longest.saturating_mul(WINDOWS_PER_PIECE);
        let mut pieces = Vec::new();
        let mut next = first;
        let bytes_min = self.evaluator.piece_bytes();
        for at in cuts(holdings, range, (self.interval_ns, length_min), false, |_| bytes_min) {
            // The last step whose window ends before the cut.
            let end = grid.number(at.saturating_add(offset).saturating_sub(1)).min(last);
            if end >= next && end < last {
                pieces.push((next, end));
                next = end + 1;
            }
        }
        pieces.push((next, last));
        pieces
    }

    /// Stores the evaluated steps, unit by unit, if the rows have not changed since.
    fn store(
        &self,
        results: &ResultsCache,
        (asked, versions): (&[Asked], &[u128]),
        (pieces, fresh): (&[(i64, i64)], &[HeldSeries]),
        key: impl Fn(i64) -> UnitKey,
    ) {
        let context = self.context;
        let began = context.env().monotonic();
        // A result with warnings may be incomplete, so it must not be cached.
        let Some(holdings) = self.holdings(asked).filter(|_| context.warnings().is_empty()) else { return };
        let after = self.versions(&holdings, asked);
        // Storing copies the samples; without memory for that, skips it instead of failing the query.
        let bytes = fresh.iter().map(|held| held.memory.bytes()).sum();
        let Ok(_copies) = context.budget().reserve(bytes) else { return };
        let all: Vec<&Series> = fresh.iter().flat_map(|held| &held.series).collect();
        let mut units = self.empty_units((asked, versions), &all);
        for series in all {
            let bytes = label_bytes(&series.labels);
            self.by_unit(asked, series, |unit, samples| {
                if let Some(unit) = units.get_mut(unit) {
                    unit.add(&series.labels, bytes, samples);
                }
            });
        }
        let is_fresh = |a: &Asked| {
            let inside = |&(first, last): &(i64, i64)| first <= a.last && a.first <= last;
            pieces.iter().any(inside)
        };
        for ((a, unit), after) in asked.iter().zip(units).zip(after) {
            if unit.version != after || !is_fresh(a) {
                continue;
            }
            let bytes = unit.memory_bytes();
            if results.insert(key(a.unit), unit) {
                QueryStats::add(&context.stats().result_cache_stored, 1);
                QueryStats::add(&context.stats().result_cache_bytes_sent, bytes);
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().result_cache_ns, took);
    }

    /// Empty units with capacity for the samples that the series have in each.
    fn empty_units(&self, (asked, versions): (&[Asked], &[u128]), all: &[&Series]) -> Vec<Unit> {
        let mut rooms = vec![(0, 0); asked.len()];
        for series in all {
            self.by_unit(asked, series, |unit, samples| {
                if let Some((series, room)) = rooms.get_mut(unit) {
                    *series += 1;
                    *room += samples.len();
                }
            });
        }
        let step_ms = self.grid.step_ns / 1_000_000;
        let units = asked.iter().zip(versions).zip(rooms);
        units
            .map(|((a, version), room)| Unit::with_room((a.first, a.last), step_ms, *version, room))
            .collect()
    }

    /// Calls `each` with the samples of a series for every unit, and the position of the unit in
    /// `asked`.
    fn by_unit<'s>(&self, asked: &[Asked], series: &'s Series, mut each: impl FnMut(usize, &'s [Sample])) {
        let ms = |number| self.grid.instant(number).div_euclid(1_000_000);
        let first_unit = asked.first().map_or(0, |a| a.unit);
        let mut rest = series.samples.as_slice();
        if let (Some(from), Some(to)) = (asked.first(), asked.last())
            && rest.len() as i64 == to.last - from.first + 1
        {
            // There is one sample at each step.
            for (place, a) in asked.iter().enumerate() {
                let (samples, later) = rest.split_at((a.last - a.first + 1) as usize);
                each(place, samples);
                rest = later;
            }
        }
        while let Some(first) = rest.first() {
            let number = self.grid.number(first.timestamp_ms.saturating_mul(1_000_000));
            let unit = self.grid.unit_of(number);
            let last = self.grid.steps_of(unit).1;
            let last_ms = ms(last);
            let is_inside = |sample: &Sample| sample.timestamp_ms <= last_ms;
            // Usually there is a sample at each step.
            let all = rest.len().min((last - number) as usize + 1);
            let are_all = is_inside(&rest[all - 1]) && !rest.get(all).is_some_and(is_inside);
            let count = if are_all { all } else { rest.partition_point(is_inside).max(1) };
            let (samples, later) = rest.split_at(count);
            if let Ok(place) = usize::try_from(unit - first_unit) {
                each(place, samples);
            }
            rest = later;
        }
    }

    /// Concatenates the parts, which are in the order of time; the result is sorted by labels.
    fn assemble(&self, parts: Vec<Part>) -> Result<HeldSeries, Error> {
        let mut joined = JoinedSeries::new(self.context.budget())?;
        for part in &parts {
            match part {
                Part::Fresh(held) => {
                    held.series.iter().try_for_each(|s| joined.add(&s.labels, s.samples.iter().copied()))?;
                }
                Part::Known(unit, asked) => {
                    let ms = |number| self.grid.instant(number).div_euclid(1_000_000);
                    let (first, last) = (ms(asked.first), ms(asked.last));
                    for (labels, samples) in unit.series() {
                        let samples = samples.between(first, last);
                        if samples.len() > 0 {
                            joined.add(labels, samples)?;
                        }
                    }
                }
            }
        }
        let (series, memory) = joined.sorted();
        Ok(HeldSeries { series, memory })
    }
}

/// Evaluated pieces, and cached units outside of them, in the order of time.
fn parts(
    asked: &[Asked],
    kept: Vec<Option<CachedUnit>>,
    pieces: &[(i64, i64)],
    fresh: Vec<HeldSeries>,
) -> Vec<Part> {
    let evaluated = |a: &Asked| pieces.iter().any(|(first, last)| *first <= a.last && a.first <= *last);
    let known = asked.iter().zip(kept).filter(|(a, _)| !evaluated(a));
    let known = known.filter_map(|(a, unit)| Some((a.first, Part::Known(unit?, *a))));
    let fresh = pieces.iter().zip(fresh).map(|((first, _), series)| (*first, Part::Fresh(series)));
    let mut parts: Vec<(i64, Part)> = known.chain(fresh).collect();
    parts.sort_by_key(|(first, _)| *first);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn steps(first: i64, last: i64, step: i64) -> StepTimes {
        StepTimes { first_ns: first * S, last_ns: last * S, step_ns: step * S }
    }

    /// Goal: every step is in exactly one unit, and a later query on the same grid uses the same units.
    #[test]
    fn units_partition_the_steps_and_stay_the_same() {
        for (first, last, step) in [(0, 3_600, 15), (7, 10_007, 345), (-900, 900, 60), (300, 300, 60)] {
            let steps = steps(first, last, step);
            let grid = Grid::of(&steps);
            let asked = grid.asked(&steps);
            let mut at = asked[0].first;
            for a in &asked {
                assert_eq!(a.first, at, "{first} {last} {step}");
                assert!(grid.unit_of(a.first) == a.unit && grid.unit_of(a.last) == a.unit);
                at = a.last + 1;
            }
            assert_eq!(grid.instant(asked[0].first), steps.first_ns);
            assert_eq!((at - asked[0].first) as usize, steps.count());
            let later =
                StepTimes { first_ns: steps.first_ns + step * S, last_ns: steps.last_ns + step * S, ..steps };
            assert_eq!(Grid::of(&later).asked(&later)[0].unit, grid.unit_of(asked[0].first + 1));
        }
        let none = steps(10, 0, 1);
        assert!(Grid::of(&none).asked(&none).is_empty());
    }
}
