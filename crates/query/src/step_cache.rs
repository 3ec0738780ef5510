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
//! Rows arrive all the time, and most of them are new: they change only the last steps of the newest unit.
//! That unit is stored with a version for each of its steps, of the rows that the steps up to it read. A
//! refresh of a panel takes the steps before the change from it and evaluates only the others.
//!
//! Callers that lack the same steps of the same query at the same time evaluate them once: the first one
//! leads, and the others wait for it and look into the cache again.
//!
//! **Invariants.** The result is the same as that of evaluating the complete query. Steps do not depend
//! on each other, so they may be evaluated in any grouping. A caller waits for another one at most once, and
//! for at most half of the time that it has left, so that a failure or delay of the other one does not fail
//! this one.

use sandur_base::BoxFuture;
use sandur_base::units::MIB;
use sandur_memory::Reservation;
use sandur_model::TimeRange;
use sandur_runtime::single_flight::Role;

use crate::context::QueryContext;
use crate::error::Error;
use crate::holdings::{Holding, add_versions, cuts};
use crate::joined_series::JoinedSeries;
use crate::pieces::in_order;
use crate::result::{Sample, Series};
use crate::results_cache::{CachedUnit, ResultsCache, UnitKey};
use crate::source::Versions;
use crate::stats::QueryStats;
use crate::step_grid::{Asked, Grid, StepTimes};
use crate::unit::{Unit, UnitVersions, label_bytes};

/// Raw bytes of a piece, if it reads all of them.
const PIECE_BYTES: u64 = 256 * MIB;
/// A piece is at least this many times as long as the longest window, because it reads one window more
/// than its own steps.
const WINDOWS_PER_PIECE: i64 = 4;
/// The most versions of steps, one for each window, that are computed for a unit. A client chooses the step
/// and the number of windows.
const STEP_VERSIONS_MAX: i64 = 4_096;
/// Pieces that run at the same time, so that the next one has begun when one ends.
const PIECES_AT_ONCE: usize = 2;

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
        Some(holdings) if !asked.is_empty() => query.run(holdings, &asked).await,
        _ => evaluator.evaluate((steps.first_ns, steps.last_ns)).await,
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

/// Steps of a cached unit that are valid.
struct Known {
    unit: CachedUnit,
    steps: Asked,
}

/// Consecutive steps of the result.
enum Part {
    Known(Known),
    Fresh(HeldSeries),
}

/// The holdings of the rows that a query reads, and their versions.
struct Labelled {
    holdings: Vec<Holding>,
    /// Versions of all rows that the steps of a unit read, by unit.
    whole: Vec<u128>,
}

impl StepQuery<'_> {
    /// The time range that steps read through one window.
    fn reach(&self, (first, last): (i64, i64), look: (i64, i64)) -> TimeRange {
        self.window(self.grid.instant(first), self.grid.instant(last), look)
    }

    fn window(&self, first_ns: i64, last_ns: i64, (range_ns, offset_ns): (i64, i64)) -> TimeRange {
        let first = first_ns.saturating_sub(offset_ns).saturating_sub(range_ns).saturating_add(1);
        TimeRange::inclusive(first, last_ns.saturating_sub(offset_ns))
    }

    /// The holdings of the rows that the units read.
    fn holdings(&self, asked: &[Asked]) -> Option<Vec<Holding>> {
        let (first, last) = (asked.first()?.unit, asked.last()?.unit);
        let of = |unit, look: &(i64, i64)| self.reach(self.grid.steps_of(unit), *look);
        let all = self.looks.iter().flat_map(|look| [of(first, look), of(last, look)]);
        let whole = all.reduce(|a, b| TimeRange::new(a.start.min(b.start), a.end.max(b.end)))?;
        self.versions.holdings(self.context, whole)
    }

    /// The versions of the rows that runs of steps read; starts and ends of the runs must rise.
    fn versions(&self, holdings: &[Holding], runs: &[(i64, i64)]) -> Vec<u128> {
        let mut sums = vec![0; runs.len()];
        for (salt, look) in self.looks.iter().enumerate() {
            let reaches: Vec<TimeRange> = runs.iter().map(|run| self.reach(*run, *look)).collect();
            add_versions(holdings, &reaches, salt as u64, &mut sums);
        }
        sums
    }

    fn labelled(&self, holdings: Vec<Holding>, asked: &[Asked]) -> Labelled {
        let units: Vec<(i64, i64)> = asked.iter().map(|a| self.grid.steps_of(a.unit)).collect();
        Labelled { whole: self.versions(&holdings, &units), holdings }
    }

    /// For each of the steps, the version of the rows that the steps up to it read.
    fn by_step(&self, holdings: &[Holding], (first, last): (i64, i64)) -> Vec<u128> {
        let runs: Vec<(i64, i64)> = (first..=last).map(|step| (first, step)).collect();
        self.versions(holdings, &runs)
    }

    async fn run(&self, holdings: Vec<Holding>, asked: &[Asked]) -> Result<HeldSeries, Error> {
        let Some(results) = self.results() else {
            let known = asked.iter().map(|_| None).collect();
            return self.evaluate(None, (asked, &self.labelled(holdings, asked)), known).await;
        };
        let identity = self.identity();
        let mut labelled = self.labelled(holdings, asked);
        let mut known = self.look_up((results, identity), asked, &labelled);
        // Held until the missing steps are stored.
        let mut leader = None;
        if let Some((first, _)) = self.missing_runs(asked, &known).first() {
            match results.flights().join((identity, *first)) {
                Role::Lead(lead) => leader = Some(lead),
                // The same steps are being evaluated for another caller. Whatever becomes of that, this one
                // waits only once.
                Role::Follow(follower) => {
                    let patience = self.context.remaining() / 2;
                    let _ = self.context.env().timeout(patience, follower.value()).await;
                    if let Some(holdings) = self.holdings(asked) {
                        labelled = self.labelled(holdings, asked);
                        known = self.look_up((results, identity), asked, &labelled);
                    }
                }
            }
        }
        let answer = self.evaluate(Some((results, identity)), (asked, &labelled), known).await;
        if let Some(leader) = leader {
            leader.settle(());
        }
        answer
    }

    /// Evaluates what is not known, stores it, and joins everything.
    async fn evaluate(
        &self,
        results: Option<(&ResultsCache, u128)>,
        (asked, labelled): (&[Asked], &Labelled),
        known: Vec<Option<Known>>,
    ) -> Result<HeldSeries, Error> {
        let grid = self.grid;
        let runs = self.missing_runs(asked, &known);
        let pieces = runs.iter().flat_map(|run| self.pieces(&labelled.holdings, *run));
        let pieces: Vec<(i64, i64)> = pieces.collect();
        let instants = pieces.iter().map(|(first, last)| (grid.instant(*first), grid.instant(*last)));
        let futures: Vec<_> = instants.map(|instants| self.evaluator.evaluate(instants)).collect();
        let fresh = in_order(PIECES_AT_ONCE, futures).await?;
        let mut parts = parts(known, &pieces, fresh);
        let answer = match (parts.pop(), parts.is_empty()) {
            // Nothing was cached and nothing was split: the series are sorted already.
            (Some(Part::Fresh(series)), true) => series,
            (last, _) => self.assemble(parts.into_iter().chain(last).collect())?,
        };
        if let Some(results) = results
            && !pieces.is_empty()
            && self.evaluator.may_keep()
        {
            self.store(results, (asked, labelled), &pieces, &answer);
        }
        Ok(answer)
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

    /// The steps from the first asked one of each unit on that are cached and valid.
    fn look_up(
        &self,
        (results, identity): (&ResultsCache, u128),
        asked: &[Asked],
        labelled: &Labelled,
    ) -> Vec<Option<Known>> {
        let context = self.context;
        let stats = context.stats();
        let began = context.env().monotonic();
        let found = results.units(asked.iter().map(|a| UnitKey { query: identity, number: a.unit }));
        let mut outdated = 0;
        let known: Vec<Option<Known>> = found
            .into_iter()
            .zip(asked.iter().zip(&labelled.whole))
            .map(|(unit, (a, whole))| {
                let unit = unit?;
                let valid_to = match &unit.versions {
                    UnitVersions::Whole(version) => (version == whole).then_some(unit.last),
                    UnitVersions::BySteps(versions) => {
                        let now = self.by_step(&labelled.holdings, (unit.first, unit.last));
                        valid_to(unit.first, versions, &now)
                    }
                };
                outdated += u64::from(valid_to.is_none());
                let last = valid_to?.min(a.last);
                let is_of_use = unit.first <= a.first && a.first <= last;
                is_of_use.then_some(Known { unit, steps: Asked { last, ..*a } })
            })
            .collect();
        let complete = known.iter().zip(asked);
        let complete = complete.filter(|(known, a)| known.as_ref().is_some_and(|k| k.steps.last == a.last));
        results.count(complete.count() as u64, asked.len() as u64, outdated);
        QueryStats::add(&stats.result_cache_requests, asked.len() as u64);
        for Known { unit, steps } in known.iter().flatten() {
            QueryStats::add(&stats.result_cache_hits, 1);
            QueryStats::add(&stats.result_cache_bytes_received, unit.memory_bytes());
            let length = steps.count().saturating_mul(self.grid.step_ns);
            QueryStats::add(&stats.result_cache_length_ns, length.unsigned_abs());
        }
        QueryStats::add_time(&stats.result_cache_ns, context.env().monotonic().saturating_sub(began));
        known
    }

    /// Runs of steps that are not cached. Merges all runs, including the cached steps between them, if
    /// that is cheaper than reading the windows before each run.
    fn missing_runs(&self, asked: &[Asked], known: &[Option<Known>]) -> Vec<(i64, i64)> {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (a, known) in asked.iter().zip(known) {
            let first = known.as_ref().map_or(a.first, |known| known.steps.last + 1);
            match runs.last_mut() {
                _ if first > a.last => {}
                Some((_, last)) if *last + 1 == first => *last = a.last,
                _ => runs.push((first, a.last)),
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

    /// Stores the units of which steps were evaluated, as far as their rows have not changed since.
    fn store(
        &self,
        (results, identity): (&ResultsCache, u128),
        (asked, before): (&[Asked], &Labelled),
        pieces: &[(i64, i64)],
        answer: &HeldSeries,
    ) {
        let context = self.context;
        let began = context.env().monotonic();
        // A result with warnings may be incomplete, so it must not be cached.
        let Some(holdings) = self.holdings(asked).filter(|_| context.warnings().is_empty()) else { return };
        let after = self.labelled(holdings, asked);
        let is_fresh = |a: &Asked| pieces.iter().any(|(first, last)| *first <= a.last && a.first <= *last);
        let places = (0..asked.len()).filter(|place| is_fresh(&asked[*place]));
        let due: Vec<Due> = places.filter_map(|place| self.due(asked, place, (before, &after))).collect();
        // Storing copies the samples; without memory for that, skips it instead of failing the query.
        let Ok(_copies) = context.budget().reserve(answer.memory.bytes()) else { return };
        for (steps, unit) in self.units(due, &answer.series) {
            let bytes = unit.memory_bytes();
            if results.insert(UnitKey { query: identity, number: steps.unit }, unit) {
                QueryStats::add(&context.stats().result_cache_stored, 1);
                QueryStats::add(&context.stats().result_cache_bytes_sent, bytes);
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().result_cache_ns, took);
    }

    /// The steps of a unit that may be stored: those whose rows are the same as before. The newest unit is
    /// stored with the versions of its steps, since new rows change only its last ones, unless that are
    /// very many.
    fn due(&self, asked: &[Asked], place: usize, (before, after): (&Labelled, &Labelled)) -> Option<Due> {
        let steps = asked[place];
        let versions = steps.count().saturating_mul(self.looks.len() as i64);
        if place + 1 < asked.len() || versions > STEP_VERSIONS_MAX {
            let version = before.whole[place];
            let is_same = version == after.whole[place];
            return is_same.then_some(Due { steps, versions: UnitVersions::Whole(version) });
        }
        let run = (steps.first, steps.last);
        let mut versions = self.by_step(&before.holdings, run);
        let last = valid_to(steps.first, &versions, &self.by_step(&after.holdings, run))?;
        versions.truncate((last - steps.first + 1) as usize);
        Some(Due { steps: Asked { last, ..steps }, versions: UnitVersions::BySteps(versions) })
    }

    /// Copies steps of the series into units.
    fn units(&self, due: Vec<Due>, all: &[Series]) -> Vec<(Asked, Unit)> {
        let ms = |number| self.grid.instant(number).div_euclid(1_000_000);
        let bounds: Vec<(i64, i64)> = due.iter().map(|d| (ms(d.steps.first), ms(d.steps.last))).collect();
        let mut rooms = vec![(0, 0); due.len()];
        for series in all {
            each_run(&series.samples, &bounds, |place, samples| {
                let (count, room) = &mut rooms[place];
                *count += 1;
                *room += samples.len();
            });
        }
        let step_ms = self.grid.step_ns / 1_000_000;
        let empty = |(Due { steps, versions }, room)| {
            (steps, Unit::with_room((steps.first, steps.last), step_ms, versions, room))
        };
        let mut units: Vec<(Asked, Unit)> = due.into_iter().zip(rooms).map(empty).collect();
        for series in all {
            let bytes = label_bytes(&series.labels);
            each_run(&series.samples, &bounds, |place, samples| {
                units[place].1.add(&series.labels, bytes, samples);
            });
        }
        units
    }

    /// Concatenates the parts, which are in the order of time; the result is sorted by labels.
    fn assemble(&self, parts: Vec<Part>) -> Result<HeldSeries, Error> {
        let mut joined = JoinedSeries::new(self.context.budget())?;
        for part in &parts {
            match part {
                Part::Fresh(held) => {
                    held.series.iter().try_for_each(|s| joined.add(&s.labels, s.samples.iter().copied()))?;
                }
                Part::Known(Known { unit, steps }) => {
                    let ms = |number| self.grid.instant(number).div_euclid(1_000_000);
                    let (first, last) = (ms(steps.first), ms(steps.last));
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

/// Steps that are to be stored, and their versions.
struct Due {
    steps: Asked,
    versions: UnitVersions,
}

/// The last step, counted from `first`, up to which the versions are the same.
fn valid_to(first: i64, versions: &[u128], now: &[u128]) -> Option<i64> {
    let same = versions.iter().zip(now).rposition(|(version, now)| version == now)?;
    Some(first + same as i64)
}

/// Calls `each` with the samples of each run between two instants, both inclusive, that has any. The runs
/// are in the order of time.
fn each_run<'s>(samples: &'s [Sample], runs: &[(i64, i64)], mut each: impl FnMut(usize, &'s [Sample])) {
    let Some((first_ms, _)) = runs.first() else { return };
    // The newest runs are usually the ones, at the end of a long series.
    let mut rest = &samples[samples.partition_point(|sample| sample.timestamp_ms < *first_ms)..];
    for (place, (first_ms, last_ms)) in runs.iter().enumerate() {
        let before = rest.iter().take_while(|sample| sample.timestamp_ms < *first_ms).count();
        let inside = rest[before..].iter().take_while(|sample| sample.timestamp_ms <= *last_ms).count();
        let (run, later) = rest[before..].split_at(inside);
        if !run.is_empty() {
            each(place, run);
        }
        rest = later;
    }
}

/// Evaluated pieces, and cached steps outside of them, in the order of time.
fn parts(known: Vec<Option<Known>>, pieces: &[(i64, i64)], fresh: Vec<HeldSeries>) -> Vec<Part> {
    let is_evaluated = |known: &Known| {
        pieces.iter().any(|(first, last)| *first <= known.steps.last && known.steps.first <= *last)
    };
    let known = known.into_iter().flatten().filter(|known| !is_evaluated(known));
    let known = known.map(|known| (known.steps.first, Part::Known(known)));
    let fresh = pieces.iter().zip(fresh).map(|((first, _), series)| (*first, Part::Fresh(series)));
    let mut parts: Vec<(i64, Part)> = known.chain(fresh).collect();
    parts.sort_by_key(|(first, _)| *first);
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
#[path = "step_cache_tests.rs"]
mod tests;
