//! Computes series from the values of others: holds the open intervals and finds those that are due.
//!
//! **Invariants.** At most [`SERIES_MAX`] series, [`INTERVALS_MAX`] intervals and [`VALUES_MAX`] values
//! are held, within the bytes that the budget grants for them and for the names. Values beyond a limit
//! are refused; the caller counts them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sandur_memory::{MemoryBudget, Reservation};

use crate::model::aggregate::{Aggregate, Closing, Function, Stamp};

/// The largest number of computed series that are open at a time.
pub const SERIES_MAX: usize = 200_000;
/// The largest number of open intervals of all series.
pub const INTERVALS_MAX: usize = 1_000_000;
/// The largest number of values that are kept for quantiles and deviations.
pub const VALUES_MAX: usize = 4_000_000;
/// Bytes of a series without its name: 72 for its slot in a hash table that may be half empty, 192 for
/// the first node of its intervals, and the allocator's overhead for three allocations.
const SERIES_BYTES: u64 = 512;
/// Bytes of an interval: 128 for itself, and 16 for a place in nodes that may be half empty.
const INTERVAL_BYTES: u64 = 192;
/// Bytes of a kept value, in a vector that may be half empty.
const VALUE_BYTES: u64 = 16;

/// A computed point.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The index of the stage that computed it.
    pub stage: usize,
    /// The name of the computed series.
    pub name: Arc<[u8]>,
    /// The computed value.
    pub value: f64,
    /// The timestamp, in seconds since the epoch.
    pub time: i64,
}

#[derive(Clone, Debug)]
struct Interval {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    last: f64,
    oldest: (f64, f64),
    newest: (f64, f64),
    values: Vec<f64>,
    /// When it was last computed, as the start of the interval that was current then. `None` if values
    /// arrived since.
    computed: Option<i64>,
}

struct Series {
    function: Function,
    /// Boxed, because a node of the map has space for eleven entries and most series have one or two.
    intervals: BTreeMap<i64, Box<Interval>>,
    /// When open intervals are computed again, in seconds since the epoch.
    due: i64,
}

type Key = (u32, u32, Arc<[u8]>);

/// All open series.
pub struct Aggregation {
    series: HashMap<Key, Series, foldhash::fast::RandomState>,
    intervals: usize,
    values: usize,
    held: Reservation,
}

/// Points that are due and were removed from the open series. Their values may not be computed yet.
pub struct Due {
    points: Vec<(Computed, Value)>,
    /// The memory of the removed intervals.
    _held: Reservation,
}

enum Value {
    Known(f64),
    Of(Function, Box<Interval>),
}

impl Due {
    /// Computes the points and appends them to `out`, in the order of stages, names and times.
    pub fn compute(self, out: &mut Vec<Computed>) {
        let first = out.len();
        out.extend(self.points.into_iter().filter_map(|(point, value)| {
            let value = match value {
                Value::Known(value) => value,
                Value::Of(function, mut interval) => interval.value(function)?,
            };
            Some(Computed { value, ..point })
        }));
        out[first..].sort_by(|one, other| {
            (one.stage, &one.name, one.time).cmp(&(other.stage, &other.name, other.time))
        });
    }
}

impl Aggregation {
    /// Without any series; memory is reserved from this budget.
    pub fn new(memory: &MemoryBudget) -> Self {
        let held = memory.reserve(0).expect("a reservation of 0 bytes fits every budget");
        Self { series: HashMap::default(), intervals: 0, values: 0, held }
    }

    /// Adds a value to a series. Returns false when its interval is closed or too far ahead, or a limit
    /// is reached.
    pub fn add(
        &mut self,
        place: (usize, usize),
        rule: &Aggregate,
        name: &[u8],
        point: (f64, f64),
        now: i64,
    ) -> bool {
        let (stage, compute) = place;
        let (time, value) = point;
        let Some(own) = rule.computes.get(compute) else { return false };
        let time = time as i64;
        let start = time.saturating_sub(time.rem_euclid(i64::from(rule.interval)));
        if !fits(rule, start, now) {
            return false;
        }
        let key = (stage as u32, compute as u32, Arc::from(name));
        let known = self.series.get(&key);
        let is_open = known.is_some_and(|series| series.intervals.contains_key(&start));
        let is_full = self.series.len() >= SERIES_MAX || self.intervals >= INTERVALS_MAX;
        let keeps = keeps_values(own.function);
        if (is_full && !is_open) || (keeps && self.values >= VALUES_MAX) {
            return false;
        }
        let mut more = if keeps { VALUE_BYTES } else { 0 };
        more += if is_open { 0 } else { INTERVAL_BYTES };
        more += if known.is_some() { 0 } else { SERIES_BYTES + name.len() as u64 };
        if more > 0 && self.held.grow(more).is_err() {
            return false;
        }
        let due = match rule.closing {
            Closing::Repeated { every, .. } => now.saturating_add(seconds(every)),
            Closing::After(_) => 0,
        };
        let new = || Series { function: own.function, intervals: BTreeMap::new(), due };
        let series = self.series.entry(key).or_insert_with(new);
        let interval = series.intervals.entry(start).or_insert_with(|| {
            self.intervals += 1;
            Box::new(Interval::empty())
        });
        interval.add(point.0, value);
        if keeps {
            interval.values.push(value);
            self.values += 1;
        }
        true
    }

    /// Removes what is due at `now`, and the intervals that are over. Only intervals that remain are
    /// computed here, because they may still get values.
    pub fn take_due(&mut self, rules: &dyn Fn(usize) -> Option<Aggregate>, now: i64) -> Due {
        let mut points = Vec::new();
        let mut known: HashMap<u32, Option<Aggregate>> = HashMap::new();
        let (mut intervals, mut values, mut bytes) = (0, 0, 0);
        self.series.retain(|(stage, _, name), series| {
            let rule = known.entry(*stage).or_insert_with(|| rules(*stage as usize));
            let Some(rule) = rule else { return false };
            let mut emit = |start: i64, value: Value| {
                let time = start.saturating_add(shift(rule));
                let name = Arc::clone(name);
                points.push((Computed { stage: *stage as usize, name, value: 0.0, time }, value));
            };
            match rule.closing {
                Closing::After(after) => close(series, seconds(after), now, &mut emit),
                Closing::Repeated { every, intervals } => {
                    if now >= series.due {
                        series.due = now.saturating_add(seconds(every));
                        repeat(series, rule.interval, intervals, now, &mut emit);
                    }
                }
            }
            intervals += series.intervals.len();
            values += series.intervals.values().map(|interval| interval.values.len()).sum::<usize>();
            let stays = !series.intervals.is_empty();
            bytes += if stays { SERIES_BYTES + name.len() as u64 } else { 0 };
            stays
        });
        (self.intervals, self.values) = (intervals, values);
        bytes += intervals as u64 * INTERVAL_BYTES + values as u64 * VALUE_BYTES;
        if self.series.len() < self.series.capacity() / 4 {
            self.series.shrink_to(self.series.len() * 2);
        }
        let over = self.held.bytes().saturating_sub(bytes);
        Due { points, _held: self.held.split(over) }
    }

    /// Returns the number of open series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns whether no series is open.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 2)
}

/// Returns whether an interval is still open and not too far in the future, where it would be held for
/// long.
fn fits(rule: &Aggregate, start: i64, now: i64) -> bool {
    match rule.closing {
        Closing::Repeated { .. } => true,
        Closing::After(after) => {
            let (after, interval) = (seconds(after), i64::from(rule.interval));
            start.saturating_add(after) > now && start <= now.saturating_add(after).saturating_add(interval)
        }
    }
}

fn shift(rule: &Aggregate) -> i64 {
    match rule.stamp {
        Stamp::Start => 0,
        Stamp::Middle => i64::from(rule.interval / 2),
        Stamp::End => i64::from(rule.interval),
    }
}

fn close(series: &mut Series, after: i64, now: i64, emit: &mut dyn FnMut(i64, Value)) {
    while let Some(first) = series.intervals.first_entry() {
        if first.key().saturating_add(after) > now {
            return;
        }
        let (start, interval) = first.remove_entry();
        emit(start, Value::Of(series.function, interval));
    }
}

/// Computes as carbon does: every interval that got values since the last time, even if it is still
/// open.
fn repeat(series: &mut Series, length: u32, kept: u32, now: i64, emit: &mut dyn FnMut(i64, Value)) {
    let length = i64::from(length);
    let current = now - now.rem_euclid(length);
    let threshold = current.saturating_sub(i64::from(kept).saturating_mul(length));
    let function = series.function;
    series.intervals.retain(|start, interval| match interval.computed {
        None => {
            if let Some(value) = interval.value(function) {
                emit(*start, Value::Known(value));
            }
            interval.computed = Some(current);
            true
        }
        Some(computed) => computed >= threshold,
    });
    while series.intervals.len() > kept as usize + 2 {
        series.intervals.pop_first();
    }
}

fn keeps_values(function: Function) -> bool {
    use Function::{Deviation, Exclusive, NearestRank, Quantile, Variance};
    matches!(function, Quantile(_) | NearestRank(_) | Exclusive(_) | Variance | Deviation)
}

impl Interval {
    fn empty() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        let (oldest, newest) = ((f64::INFINITY, 0.0), (f64::NEG_INFINITY, 0.0));
        let (values, computed) = (Vec::new(), None);
        Self { count: 0, sum: 0.0, min, max, last: 0.0, oldest, newest, values, computed }
    }

    fn add(&mut self, time: f64, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
        if time < self.oldest.0 {
            self.oldest = (time, value);
        }
        if time > self.newest.0 {
            self.newest = (time, value);
        }
        self.computed = None;
    }

    fn value(&mut self, function: Function) -> Option<f64> {
        let value = match function {
            Function::Sum => self.sum,
            Function::Average => self.sum / self.count as f64,
            Function::Min => self.min,
            Function::Max => self.max,
            Function::Count => self.count as f64,
            Function::Last => self.last,
            Function::Delta => self.max - self.min,
            Function::Derive => {
                let span = self.newest.0 - self.oldest.0;
                if span <= 0.0 {
                    return None;
                }
                (self.newest.1 - self.oldest.1) / span
            }
            Function::Variance => self.variance(),
            Function::Deviation => self.variance().sqrt(),
            Function::Quantile(share) => {
                let rank = share * (self.sorted().len() - 1) as f64;
                let (left, right) = (rank.floor(), rank.ceil());
                let (low, high) = (self.values[left as usize], self.values[right as usize]);
                if left == right { low } else { low * (right - rank) + high * (rank - left) }
            }
            Function::NearestRank(percent) => {
                let rank = (f64::from(percent) / 100.0 * self.sorted().len() as f64 + 0.9) as usize;
                self.values[rank.clamp(1, self.values.len()) - 1]
            }
            Function::Exclusive(percent) => {
                let count = self.sorted().len();
                let rank = percent / 100.0 * (count as f64 + 1.0);
                let floor = rank as usize;
                if rank < 1.0 {
                    self.values[0]
                } else if floor >= count {
                    self.values[count - 1]
                } else {
                    let (low, high) = (self.values[floor - 1], self.values[floor]);
                    low + (rank - floor as f64) * (high - low)
                }
            }
        };
        Some(value).filter(|value| !value.is_nan())
    }

    /// Returns the values in order; there is at least one, because only intervals with values are
    /// computed.
    fn sorted(&mut self) -> &[f64] {
        self.values.sort_by(f64::total_cmp);
        &self.values
    }

    fn variance(&self) -> f64 {
        let mean = self.sum / self.count as f64;
        self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::aggregate::{Compute, Output};
    use crate::model::matcher::Matcher;
    use crate::model::template::Template;

    fn rule(function: Function, closing: Closing) -> Aggregate {
        Aggregate {
            matcher: Matcher::everything(),
            expressions: Vec::new(),
            interval: 10,
            closing,
            stamp: Stamp::End,
            computes: vec![Compute { function, name: Template::text("x") }],
            output: Output::Stage(0),
            stops: false,
        }
    }

    fn computed(aggregation: &mut Aggregation, rule: &Aggregate, now: i64) -> Vec<(i64, f64)> {
        let mut out = Vec::new();
        aggregation.take_due(&|_| Some(rule.clone()), now).compute(&mut out);
        out.into_iter().map(|computed| (computed.time, computed.value)).collect()
    }

    #[test]
    fn every_function_gives_the_result_of_its_program() {
        let expected = [
            (Function::Sum, 11.0),
            (Function::Average, 2.75),
            (Function::Min, 1.0),
            (Function::Max, 5.0),
            (Function::Count, 4.0),
            (Function::Last, 2.0),
            (Function::Delta, 4.0),
            (Function::Derive, (2.0 - 5.0) / 3.0),
            (Function::Variance, 2.1875),
            (Function::Deviation, 2.1875_f64.sqrt()),
            (Function::Quantile(0.5), 2.5),
            (Function::NearestRank(50), 2.0),
            (Function::NearestRank(95), 5.0),
            (Function::Exclusive(50.0), 2.5),
            (Function::Exclusive(99.0), 5.0),
        ];
        for (function, value) in expected {
            let rule = rule(function, Closing::After(Duration::from_secs(20)));
            let mut aggregation = Aggregation::new(&MemoryBudget::root("aggregations", 1 << 20));
            for (time, value) in [(100.0, 5.0), (101.0, 3.0), (102.0, 1.0), (103.0, 2.0)] {
                assert!(aggregation.add((0, 0), &rule, b"x", (time, value), 105));
            }
            assert_eq!(computed(&mut aggregation, &rule, 119), []);
            assert_eq!(computed(&mut aggregation, &rule, 120), [(110, value)], "{function:?}");
            assert!(aggregation.is_empty());
            assert!(!aggregation.add((0, 0), &rule, b"x", (100.0, 1.0), 120), "too late");
            assert!(!aggregation.add((0, 0), &rule, b"x", (1e18, 1.0), 120), "too far ahead");
        }
    }

    #[test]
    fn late_values_make_carbon_compute_an_interval_again() {
        let every = Duration::from_secs(10);
        let rule = rule(Function::Sum, Closing::Repeated { every, intervals: 2 });
        let mut aggregation = Aggregation::new(&MemoryBudget::root("aggregations", 1 << 20));
        let add = |aggregation: &mut Aggregation, time, now| {
            assert!(aggregation.add((0, 0), &rule, b"x", (time, 1.0), now));
        };
        add(&mut aggregation, 101.0, 101);
        assert_eq!(computed(&mut aggregation, &rule, 110), []);
        assert_eq!(computed(&mut aggregation, &rule, 111), [(110, 1.0)]);
        add(&mut aggregation, 102.0, 115);
        assert_eq!(computed(&mut aggregation, &rule, 121), [(110, 2.0)]);
        assert_eq!(computed(&mut aggregation, &rule, 131), []);
        assert_eq!(computed(&mut aggregation, &rule, 171), []);
        assert!(aggregation.is_empty());
        for start in 0..50 {
            add(&mut aggregation, f64::from(start) * 10.0, 200);
        }
        computed(&mut aggregation, &rule, 210);
        assert_eq!(aggregation.intervals, 4, "intervals beyond the limit are dropped");
    }

    #[test]
    fn names_and_values_stay_within_the_memory_of_aggregations() {
        let memory = MemoryBudget::root("aggregations", 1 << 20);
        let mut aggregation = Aggregation::new(&memory);
        let after = Closing::After(Duration::from_secs(20));
        let (sum, median) = (rule(Function::Sum, after), rule(Function::Quantile(0.5), after));
        let name = |number: usize| format!("{number:04000}").into_bytes();
        let add = |aggregation: &mut Aggregation, number: usize, time: f64| {
            aggregation.add((0, 0), &sum, &name(number), (time, 1.0), 105)
        };
        let taken = (0..1_000).filter(|number| add(&mut aggregation, *number, 100.0)).count();
        assert_eq!((taken, memory.used()), (222, 222 * (4_000 + SERIES_BYTES + INTERVAL_BYTES)));
        assert!(add(&mut aggregation, 0, 101.0), "a value of an open interval needs no memory");
        let names: usize = aggregation.series.keys().map(|(_, _, name)| name.len()).sum();
        assert!(names < 1 << 20, "{names} bytes of names");
        // The memory of removed intervals counts until their points are computed.
        let due = aggregation.take_due(&|_| Some(sum.clone()), 120);
        assert!(memory.used() > 1 << 19 && aggregation.is_empty());
        let mut out = Vec::new();
        due.compute(&mut out);
        assert_eq!((out.len(), memory.used()), (222, 0));
        let add = |aggregation: &mut Aggregation| aggregation.add((0, 0), &median, b"x", (100.0, 1.0), 105);
        let values = (0..100_000).filter(|_| add(&mut aggregation)).count() as u64;
        assert_eq!(values, ((1 << 20) - SERIES_BYTES - INTERVAL_BYTES - 1) / VALUE_BYTES);
    }
}
