//! Aggregations to one series per group: sums, means, counts, extremes, deviations, quantiles, and counts of
//! values.
//!
//! Series are added to their groups as they come and are not kept. A group is found by the number of the
//! series's label set; its labels are those of the grouping.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use sandur_base::Stopped;
use sandur_base::job::spend;
use sandur_model::FloatHistogram;
use sandur_model::histogram::{CounterReset, kahan_add};
use sandur_query::Error;

use crate::column::{Column, Grid, Sample};
use crate::functions::over_time::HistogramMean;
use crate::functions::statistics::quantile;
use crate::labels::{LabelPool, LabelsId, Text, TextSet};
use crate::notes::{HistogramOperation, Note};
use crate::run::{AnyOperator, Operator, Outbox, Pull, Run, ScalarArg};
use crate::span::Span;
use crate::text::plain_number;
use crate::token::Kind;

/// Bytes that it takes to know the label set of a group.
const GROUP_BYTES: u64 = 64;

/// By which labels groups are made.
pub struct Grouping {
    /// The labels.
    pub names: TextSet,
    /// Whether they are left out.
    pub without: bool,
    groups: HashMap<LabelsId, usize>,
    /// The labels of each group.
    pub labels: Vec<LabelsId>,
}

impl Grouping {
    /// A grouping without groups yet.
    pub fn new(names: TextSet, without: bool) -> Self {
        let groups = HashMap::new();
        Self { names, without, groups, labels: Vec::new() }
    }

    /// The labels of the group of a label set.
    pub fn labels_of(&self, labels: LabelsId, pool: &mut LabelPool) -> LabelsId {
        match self.without {
            true => pool.filtered(labels, |name| name != Text::NAME && !self.names.contains(name)),
            false if self.names.is_empty() => LabelsId::EMPTY,
            false => pool.filtered(labels, |name| self.names.contains(name)),
        }
    }

    /// The number of the group of a label set.
    pub fn group_of(&mut self, labels: LabelsId, run: &mut Run) -> Result<usize, Stopped> {
        let own = self.labels_of(labels, &mut run.pool);
        let next = self.groups.len();
        let group = *self.groups.entry(own).or_insert(next);
        if group == next {
            run.keep(GROUP_BYTES)?;
            self.labels.push(own);
        }
        Ok(group)
    }
}

/// What a group has at a step.
#[derive(Clone, Default)]
struct State {
    value: f64,
    lost: f64,
    mean: f64,
    count: f64,
    flags: u8,
}

const SEEN: u8 = 1;
const FLOAT: u8 = 2;
const HISTOGRAM: u8 = 4;
const DROP_NAME: u8 = 8;
const RUNNING_MEAN: u8 = 16;
const INCOMPATIBLE: u8 = 32;
const RESET: u8 = 64;
const NOT_RESET: u8 = 128;

impl State {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Bytes that a histogram of a group takes beside what it holds.
const HISTOGRAM_BYTES: u64 = 64;

/// Histograms of a group at a step.
enum HistogramState {
    Sum(Box<FloatHistogram>, Option<Box<FloatHistogram>>),
    Mean(Box<HistogramMean>),
}

/// What a group has at all steps.
struct Group {
    states: Vec<State>,
    histograms: HashMap<usize, HistogramState>,
    values: Vec<Vec<f64>>,
}

/// An aggregation.
pub struct Aggregate {
    /// What comes.
    pub inner: AnyOperator,
    /// Which.
    pub op: Kind,
    /// The parameter of `quantile`.
    pub param: Option<(ScalarArg, Span)>,
    /// The groups.
    pub grouping: Grouping,
    /// The steps.
    pub grid: Grid,
    /// Where the vector stands.
    pub span: Span,
    groups: Vec<Group>,
    outbox: Option<Outbox>,
}

impl Aggregate {
    /// An aggregation that begins.
    pub fn new(
        inner: AnyOperator,
        op: Kind,
        param: Option<(ScalarArg, Span)>,
        grouping: Grouping,
        grid: Grid,
        span: Span,
    ) -> Self {
        Self { inner, op, param, grouping, grid, span, groups: Vec::new(), outbox: None }
    }
}

impl Operator for Aggregate {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some((param, _)) = &mut self.param
            && let Some(leaf) = param.ready(run, &self.grid)?
        {
            return Ok(Pull::Need(leaf));
        }
        loop {
            match self.inner.pull(run)? {
                Pull::Batch(columns) => {
                    spend(columns.len() * (self.grid.steps * 2 + 8))?;
                    for column in &columns {
                        self.add(column, run)?;
                    }
                }
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
            }
        }
        self.note_quantiles(run);
        let groups = std::mem::take(&mut self.groups);
        let mut columns = Vec::with_capacity(groups.len());
        for (group, labels) in groups.into_iter().zip(self.grouping.labels.clone()) {
            let column = self.finish(group, labels, run)?;
            if column.has_any() {
                columns.push(column);
            }
        }
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

impl Aggregate {
    fn note_quantiles(&self, run: &mut Run) {
        let Some((param, span)) = &self.param else { return };
        if self.groups.is_empty() {
            return;
        }
        let values = param.values();
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(*value), most.max(*value))
        });
        if values.iter().any(|value| value.is_nan()) {
            run.notes.add(Note::InvalidQuantile(f64::NAN.to_bits()), *span);
        }
        for (wrong, value) in [(most > 1.0, most), (least < 0.0, least)] {
            if wrong {
                run.notes.add(Note::InvalidQuantile(value.to_bits()), *span);
            }
        }
    }

    /// The group of a label set, made when it is new.
    fn group(&mut self, labels: LabelsId, run: &mut Run) -> Result<usize, Error> {
        let number = self.grouping.group_of(labels, run)?;
        let steps = self.grid.steps;
        while self.groups.len() <= number {
            let values = if self.op == Kind::Quantile { vec![Vec::new(); steps] } else { Vec::new() };
            run.keep((steps * size_of::<State>() + values.len() * 24 + 64) as u64)?;
            let states = vec![State::default(); steps];
            self.groups.push(Group { states, histograms: HashMap::new(), values });
        }
        Ok(number)
    }

    fn add(&mut self, column: &Column, run: &mut Run) -> Result<(), Error> {
        let number = self.group(column.labels, run)?;
        if self.op == Kind::Quantile {
            run.keep(column.count() as u64 * 8)?;
        }
        if self.op == Kind::Sum && column.histograms.is_none() {
            add_floats(&mut self.groups[number], column);
            return Ok(());
        }
        for step in column.steps() {
            let group = &mut self.groups[number];
            let state = &mut group.states[step];
            let histogram = column.histogram(step);
            if histogram.is_some() && ignores_histograms(self.op) {
                run.notes.add(Note::IgnoredInAggregation(self.op), self.span);
                continue;
            }
            if state.has(INCOMPATIBLE) {
                continue;
            }
            if column.drop_name {
                state.flags |= DROP_NAME;
            }
            let is_first = !state.has(SEEN);
            state.flags |= SEEN;
            state.count += 1.0;
            let sums = matches!(self.op, Kind::Sum | Kind::Avg);
            match histogram {
                None if self.op == Kind::Quantile => group.values[step].push(column.values[step]),
                None => {
                    state.flags |= FLOAT;
                    add_float(self.op, state, column.values[step], is_first);
                }
                Some(histogram) if sums => {
                    spend(histogram.memory_bytes() as usize)?;
                    let metric = run.pool.get(column.labels, Text::NAME);
                    let before = group.histogram_bytes(step);
                    let note = group.add_histogram(self.op, step, histogram, metric);
                    run.keep(group.histogram_bytes(step).saturating_sub(before))?;
                    note.into_iter().for_each(|note| run.notes.add(note, self.span));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn finish(&self, mut group: Group, labels: LabelsId, run: &mut Run) -> Result<Column, Error> {
        let mut column = run.column(labels, false, self.grid.steps)?;
        for step in 0..self.grid.steps {
            let state = &group.states[step];
            spend(4 + group.values.get(step).map_or(0, Vec::len) * 4)?;
            if !state.has(SEEN) {
                continue;
            }
            if state.has(FLOAT) && state.has(HISTOGRAM) && matches!(self.op, Kind::Sum | Kind::Avg) {
                run.notes.add(Note::MixedInAggregation, self.span);
                continue;
            }
            if state.has(INCOMPATIBLE) {
                continue;
            }
            if state.has(RESET) && state.has(NOT_RESET) {
                run.notes.add(Note::ResetCollision(HistogramOperation::Aggregation), self.span);
            }
            column.drop_name = state.has(DROP_NAME);
            if state.has(HISTOGRAM) && matches!(self.op, Kind::Sum | Kind::Avg) {
                if let Some(histogram) = group.histograms.remove(&step) {
                    run.put(&mut column, step, Sample::Histogram(Arc::new(histogram.result())))?;
                }
                continue;
            }
            let value = match self.op {
                Kind::Sum => state.value + state.lost,
                Kind::Avg if state.has(RUNNING_MEAN) => state.mean + state.lost,
                Kind::Avg => state.value / state.count + state.lost / state.count,
                Kind::Count => state.count,
                Kind::Group => 1.0,
                Kind::Stdvar => state.value / state.count,
                Kind::Stddev => (state.value / state.count).sqrt(),
                Kind::Quantile => {
                    let q = self.param.as_ref().map_or(f64::NAN, |(param, _)| param.at(step));
                    quantile(q, &mut group.values[step])
                }
                _ => state.value,
            };
            column.put(step, value);
        }
        Ok(column)
    }
}

fn ignores_histograms(op: Kind) -> bool {
    matches!(op, Kind::Min | Kind::Max | Kind::Stddev | Kind::Stdvar | Kind::Quantile)
}

/// A sum of a series that has no histogram: the common case.
fn add_floats(group: &mut Group, column: &Column) {
    let name = if column.drop_name { DROP_NAME } else { 0 };
    let add = |state: &mut State, value: f64| {
        if state.flags & (SEEN | INCOMPATIBLE) == SEEN {
            (state.value, state.lost) = kahan_add(value, state.value, state.lost);
        } else if state.flags & SEEN == 0 {
            state.value = value;
        }
        state.flags |= SEEN | FLOAT | name;
    };
    let words = group.states.chunks_mut(64).zip(column.values.chunks(64)).zip(&column.present);
    for ((states, values), bits) in words {
        if bits.count_ones() as usize == states.len() {
            states.iter_mut().zip(values).for_each(|(state, value)| add(state, *value));
            continue;
        }
        let mut bits = *bits;
        while bits != 0 {
            let n = bits.trailing_zeros() as usize;
            add(&mut states[n], values[n]);
            bits &= bits - 1;
        }
    }
}

fn add_float(op: Kind, state: &mut State, value: f64, is_first: bool) {
    if is_first {
        state.mean = value;
        state.value = match op {
            Kind::Stddev | Kind::Stdvar => {
                if value.is_finite() {
                    0.0
                } else {
                    f64::NAN
                }
            }
            _ => value,
        };
        return;
    }
    match op {
        Kind::Sum => (state.value, state.lost) = kahan_add(value, state.value, state.lost),
        Kind::Avg => {
            let count = state.count;
            if !state.has(RUNNING_MEAN) {
                let (sum, lost) = kahan_add(value, state.value, state.lost);
                if !sum.is_infinite() {
                    (state.value, state.lost) = (sum, lost);
                    return;
                }
                state.flags |= RUNNING_MEAN;
                state.mean = state.value / (count - 1.0);
                state.lost /= count - 1.0;
            }
            let part = (count - 1.0) / count;
            (state.mean, state.lost) = kahan_add(value / count, part * state.mean, part * state.lost);
        }
        Kind::Max if state.value < value || state.value.is_nan() => state.value = value,
        Kind::Min if state.value > value || state.value.is_nan() => state.value = value,
        Kind::Stddev | Kind::Stdvar => {
            let delta = value - state.mean;
            state.mean += delta / state.count;
            state.value += delta * (value - state.mean);
        }
        _ => {}
    }
}

impl Group {
    fn histogram_bytes(&self, step: usize) -> u64 {
        self.histograms.get(&step).map_or(0, |state| state.memory_bytes() + HISTOGRAM_BYTES)
    }

    /// Adds a histogram; gives what has to be noted.
    fn add_histogram(
        &mut self,
        op: Kind,
        step: usize,
        histogram: &FloatHistogram,
        metric: Text,
    ) -> Option<Note> {
        let state = &mut self.states[step];
        let had_float = state.has(FLOAT);
        state.flags |= HISTOGRAM;
        if had_float {
            return None; // a mix, which has no result
        }
        match histogram.reset {
            CounterReset::Reset => state.flags |= RESET,
            CounterReset::NotReset => state.flags |= NOT_RESET,
            _ => {}
        }
        match add_histogram(&mut self.histograms, op, step, histogram) {
            Ok(reconciled) => reconciled.then_some(Note::MismatchedBounds(HistogramOperation::Aggregation)),
            Err(()) => {
                state.flags |= INCOMPATIBLE;
                Some(Note::MixedExponentialCustom(metric))
            }
        }
    }
}

/// Whether bounds had to be reconciled; fails when histograms do not fit together.
fn add_histogram(
    all: &mut HashMap<usize, HistogramState>,
    op: Kind,
    step: usize,
    histogram: &FloatHistogram,
) -> Result<bool, ()> {
    match all.get_mut(&step) {
        None => {
            let state = match op {
                Kind::Avg => HistogramState::Mean(Box::new(HistogramMean::new(histogram))),
                _ => HistogramState::Sum(Box::new(histogram.clone()), None),
            };
            all.insert(step, state);
            Ok(false)
        }
        Some(HistogramState::Mean(mean)) => mean.add(histogram),
        Some(HistogramState::Sum(sum, lost)) => {
            let mut rest = lost.take().map(|lost| *lost);
            let added = sum.add_compensated(histogram, &mut rest).map_err(|_| ())?;
            *lost = rest.map(Box::new);
            Ok(added.bounds_reconciled)
        }
    }
}

impl HistogramState {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Sum(sum, lost) => sum.memory_bytes() + lost.as_ref().map_or(0, |lost| lost.memory_bytes()),
            Self::Mean(mean) => mean.memory_bytes(),
        }
    }

    fn result(self) -> FloatHistogram {
        let mut result = match self {
            Self::Mean(mean) => mean.result(),
            Self::Sum(mut sum, lost) => {
                if let Some(lost) = lost {
                    // Both have one layout.
                    let _ = sum.add(&lost);
                }
                *sum
            }
        };
        result.compact();
        result
    }
}

/// `count_values`: how many series have each value.
pub struct CountValues {
    /// What comes.
    pub inner: AnyOperator,
    /// The label that tells the value.
    pub label: Text,
    /// The groups, which have that label.
    pub grouping: Grouping,
    /// The steps.
    pub grid: Grid,
    columns: Vec<Column>,
    /// Groups of series with a value, by its bits.
    known: HashMap<(LabelsId, u64), usize>,
    outbox: Option<Outbox>,
}

impl CountValues {
    /// An aggregation that begins.
    pub fn new(inner: AnyOperator, label: Text, grouping: Grouping, grid: Grid) -> Self {
        let (columns, known) = (Vec::new(), HashMap::new());
        Self { inner, label, grouping, grid, columns, known, outbox: None }
    }
}

impl Operator for CountValues {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        loop {
            let columns = match self.inner.pull(run)? {
                Pull::Batch(columns) => columns,
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
            };
            for column in &columns {
                for step in column.steps() {
                    let group = self.group(column, step, run)?;
                    let count = &mut self.columns[group];
                    let before = if count.has(step) { count.values[step] } else { 0.0 };
                    count.put(step, before + 1.0);
                }
            }
        }
        Ok(self.outbox.insert(Outbox::new(std::mem::take(&mut self.columns))).next())
    }
}

impl CountValues {
    /// The group of a series with the value of a step.
    fn group(&mut self, column: &Column, step: usize, run: &mut Run) -> Result<usize, Error> {
        spend(16)?;
        let key = (column.labels, column.values[step].to_bits());
        let histogram = column.histogram(step);
        if histogram.is_none()
            && let Some(group) = self.known.get(&key)
        {
            return Ok(*group);
        }
        let text = match histogram {
            Some(histogram) => histogram.to_string(),
            None => plain_number(column.values[step]),
        };
        let value = run.pool.text_id(&text);
        let labels = run.pool.with(column.labels, self.label, value);
        let group = self.grouping.group_of(labels, run)?;
        if group == self.columns.len() {
            self.columns.push(run.column(self.grouping.labels[group], false, self.grid.steps)?);
        }
        if histogram.is_none() {
            run.keep(GROUP_BYTES)?;
            self.known.insert(key, group);
        }
        Ok(group)
    }
}
