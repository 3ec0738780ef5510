//! Quantiles and fractions of classic histograms, from the series of their buckets, and of native ones.

use foldhash::{HashMap, HashMapExt};
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::functions::buckets::{
    Classic, ForcedBuckets, classic_fraction, classic_quantile, native_fraction, native_quantile,
};
use crate::labels::{LabelsId, Text};
use crate::notes::{Forced, Note};
use crate::ops::binary::same_labels;
use crate::run::{AnyOperator, Gathered, Operator, Outbox, Pull, Run, ScalarArg, scalars_ready};
use crate::span::Span;
use crate::text::GoNumber;

/// The function that is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// `histogram_quantile`: the quantile of the argument.
    Quantile,
    /// `histogram_quantiles`: a quantile for each argument, distinguished by this label.
    Quantiles(String),
    /// `histogram_fraction`: the fraction of observations between two arguments.
    Fraction,
}

/// Evaluates a function of histograms.
pub struct Histograms {
    /// The input operator.
    pub inner: AnyOperator,
    /// The gathered input.
    pub gathered: Gathered,
    /// The function.
    pub question: Question,
    /// The quantiles or bounds.
    pub args: Vec<ScalarArg>,
    /// The places of the arguments in the query.
    pub arg_spans: Vec<Span>,
    /// The steps.
    pub grid: Grid,
    /// The place of the vector in the query.
    pub span: Span,
    /// The results, once they are computed.
    pub outbox: Option<Outbox>,
}

/// The bytes of a series besides its samples: its group, its place there, the place of its result.
const GROUP_BYTES: u64 = 128;

/// The bucket series of one classic histogram, with their upper bounds.
struct Group {
    labels: LabelsId,
    buckets: Vec<(f64, usize)>,
}

/// The results by their labels.
#[derive(Default)]
struct Answers {
    places: HashMap<LabelsId, usize>,
    columns: Vec<Column>,
    steps: usize,
}

impl Operator for Histograms {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some(leaf) = scalars_ready(&mut self.args, run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        if let Some(leaf) = self.gathered.gather(&mut self.inner, run)? {
            return Ok(Pull::Need(leaf));
        }
        let columns = std::mem::take(&mut self.gathered.columns);
        let columns = self.answer(&columns, run)?;
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

impl Histograms {
    fn answer(&self, columns: &[Column], run: &mut Run) -> Result<Vec<Column>, Error> {
        let groups = self.groups(columns, run)?;
        let by_labels: HashMap<LabelsId, usize> =
            groups.iter().enumerate().map(|(n, group)| (group.labels, n)).collect();
        let mut answers = Answers { places: HashMap::new(), columns: Vec::new(), steps: self.grid.steps };
        let mut buckets = Vec::new();
        for step in 0..self.grid.steps {
            spend(columns.len() * 8 + 16)?;
            self.note_quantiles(step, run);
            let mut hidden = vec![false; groups.len()];
            for (n, column) in columns.iter().enumerate() {
                let Some(histogram) = column.histogram(step).filter(|_| column.has(step)) else { continue };
                // A series with both a native and a classic histogram has no result.
                let classic = by_labels
                    .get(&column.labels)
                    .filter(|group| !hidden[**group] && has_buckets(&groups[**group], columns, step));
                let metric = run.pool.get(columns[n].labels, Text::NAME);
                if let Some(group) = classic {
                    run.notes.add(Note::MixedClassicNative(metric), self.span);
                    hidden[*group] = true;
                    continue;
                }
                for n in 0..self.answers() {
                    spend(histogram.memory_bytes() as usize + 64)?;
                    let (labels, args) = self.asked(column.labels, n, step, run);
                    let (notes, span) = (&mut run.notes, self.span);
                    let mut note = |note: Note| notes.add(note, span);
                    let value = match self.question {
                        Question::Fraction => native_fraction(args.0, args.1, histogram, metric, &mut note),
                        _ => native_quantile(args.0, histogram, metric, &mut note),
                    };
                    answers.put(labels, step, value, run)?;
                }
            }
            for (group, _) in groups.iter().zip(&hidden).filter(|(_, hidden)| !**hidden) {
                buckets.clear();
                let present = group.buckets.iter().filter(|(_, n)| is_bucket(&columns[*n], step));
                buckets.extend(
                    present.map(|(upper, n)| Classic { upper: *upper, count: columns[*n].values[step] }),
                );
                if buckets.is_empty() {
                    continue;
                }
                let metric = run.pool.get(group.labels, Text::NAME);
                for n in 0..self.answers() {
                    spend(buckets.len() * 8 + 64)?;
                    let (labels, args) = self.asked(group.labels, n, step, run);
                    let value = match self.question {
                        Question::Fraction => classic_fraction(args.0, args.1, &mut buckets),
                        _ => {
                            let (value, forced) = classic_quantile(args.0, &mut buckets);
                            self.note_forced(forced, metric, step, run);
                            value
                        }
                    };
                    answers.put(labels, step, value, run)?;
                }
            }
        }
        Ok(answers.columns)
    }

    /// The number of results for each histogram.
    fn answers(&self) -> usize {
        if matches!(self.question, Question::Quantiles(_)) { self.args.len() } else { 1 }
    }

    /// The labels of the n-th result, and its arguments.
    fn asked(&self, labels: LabelsId, n: usize, step: usize, run: &mut Run) -> (LabelsId, (f64, f64)) {
        let Question::Quantiles(label) = &self.question else {
            let second = if self.args.len() > 1 { self.args[1].at(step) } else { 0.0 };
            return (labels, (self.args[0].at(step), second));
        };
        let (label, value) = (run.pool.text_id(label), open_metrics_number(self.args[n].at(step)));
        let value = run.pool.text_id(&value);
        (run.pool.with(labels, label, value), (self.args[n].at(step), 0.0))
    }

    fn note_quantiles(&self, step: usize, run: &mut Run) {
        if self.question == Question::Fraction {
            return;
        }
        for (arg, span) in self.args.iter().zip(&self.arg_spans) {
            let q = arg.at(step);
            if !(0.0..=1.0).contains(&q) {
                run.notes.add(Note::InvalidQuantile(q.to_bits()), *span);
            }
        }
    }

    fn note_forced(&self, forced: Option<ForcedBuckets>, metric: Text, step: usize, run: &mut Run) {
        let Some(ForcedBuckets { lowest, highest, difference }) = forced else { return };
        let at = self.grid.time(step);
        let forced = Forced { times: (at, at), buckets: (lowest, highest), difference };
        run.notes.add_forced(metric, self.span, forced);
    }

    fn groups(&self, columns: &[Column], run: &mut Run) -> Result<Vec<Group>, Stopped> {
        run.keep(columns.len() as u64 * GROUP_BYTES)?;
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<LabelsId, usize> = HashMap::new();
        for (n, column) in columns.iter().enumerate() {
            spend(column.values.len() / 64 + 64)?;
            let is_float = |step: usize| column.histogram(step).is_none();
            if !column.steps().any(is_float) {
                continue;
            }
            let bound = run.pool.get(column.labels, Text::LE);
            let Some(upper) = bound_of(run.pool.text(bound)) else {
                let metric = run.pool.get(column.labels, Text::NAME);
                run.notes.add(Note::BadBucketLabel(metric, bound), self.span);
                continue;
            };
            let labels = run.pool.filtered(column.labels, |name| name != Text::LE);
            let next = groups.len();
            let place = *places.entry(labels).or_insert(next);
            if place == next {
                groups.push(Group { labels, buckets: Vec::new() });
            }
            groups[place].buckets.push((upper, n));
        }
        Ok(groups)
    }
}

fn is_bucket(column: &Column, step: usize) -> bool {
    column.has(step) && column.histogram(step).is_none()
}

fn has_buckets(group: &Group, columns: &[Column], step: usize) -> bool {
    group.buckets.iter().any(|(_, n)| is_bucket(&columns[*n], step))
}

/// The upper bound in a label's value; `None` if it is not a number.
fn bound_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|bound: &f64| !bound.is_nan())
}

/// Formats a number for a label, as OpenMetrics does: with a decimal point or an exponent.
pub fn open_metrics_number(number: f64) -> String {
    let text = GoNumber(number).to_string();
    match number.is_finite() && !text.contains(['.', 'e']) {
        true => text + ".0",
        false => text,
    }
}

impl Answers {
    fn put(&mut self, labels: LabelsId, step: usize, value: f64, run: &mut Run) -> Result<(), Error> {
        let next = self.columns.len();
        let place = *self.places.entry(labels).or_insert(next);
        if place == next {
            run.keep(GROUP_BYTES)?;
            self.columns.push(run.column(labels, true, self.steps)?);
        }
        if self.columns[place].has(step) {
            return Err(same_labels());
        }
        self.columns[place].put(step, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_not_a_bucket_bound() {
        for (text, bound) in
            [("0.5", 0.5), ("1e3", 1e3), ("+Inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY)]
        {
            assert_eq!(bound_of(text), Some(bound), "{text}");
        }
        for text in ["", "NaN", "nan", "+NaN", "one", "0.5s"] {
            assert_eq!(bound_of(text), None, "{text}");
        }
    }
}
