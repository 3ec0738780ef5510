//! Compares the series of a query that pass through a box of time and values with the other series: which
//! labels have other values inside.
//!
//! Two queries for one instant find the series: `last_over_time` of a subquery over the range, and one over
//! the box. Both yield one value for each series, and series are evaluated one after the other, so the memory
//! does not depend on the number of steps. The times that the query names, such as `@ start()` or `range()`,
//! are those of the plot.
//!
//! **Bounds.** The queries are evaluated within the usual limits of a query. Each series is counted once,
//! with all labels of the answer. Counts of a label with at most 10,000 values are exact; series with further
//! values are counted together. The memory of the counts is reserved from the query's budget, and
//! both vectors keep their reservations until they are compared.

use std::collections::HashSet;
use std::fmt::Write;

use sandur_memory::Reservation;
use sandur_memory::job::{reserve_exactly, spend};
use sandur_model::Labels;
use sandur_promql::{Answer, Options, Request, Times, Type, Value};
use sandur_query::differences::{Differences, FieldOrigin, Sides, Table, ranked};
use sandur_query::{Error, QueryStats};

use super::evaluate::evaluate;
use super::{Failed, PromqlQuery, Rows, parse};

/// Estimated work of counting a label, in units of [`spend`].
const LABEL_UNITS: usize = 60;
/// Bytes of a series in the set of those inside: a reference and a byte, in a table that is at least 7/16
/// full.
const ENTRY_BYTES: u64 = 24;
/// Bytes by which a reservation grows at least.
const GROWTH_BYTES: u64 = 64 << 10;

/// A part of a plot. A series is inside if it has a point in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesBox {
    /// The first step, in milliseconds since the epoch.
    pub first_ms: i64,
    /// The last step, in milliseconds since the epoch.
    pub last_ms: i64,
    /// The least and the largest value; `None`: any point is inside, also a histogram.
    pub values: Option<(f64, f64)>,
}

impl PromqlQuery<'_> {
    /// Evaluates the query at the steps of its range and compares its series. All steps, also those of the
    /// box, are multiples of the step. A query whose result is no instant vector is refused.
    pub async fn differences(&self, inside: SeriesBox) -> Result<Differences, Failed> {
        let Times { start, end, .. } = self.request.times;
        let whole = SeriesBox { first_ms: start, last_ms: end, values: None };
        let compared = async {
            if matches!(self.checked().await?.value_type(), Type::Scalar | Type::String) {
                let text = "the query has no series over time to compare: its result is a number or a text";
                return Err(Failed::Reading(Error::Invalid(text.to_owned())));
            }
            let in_box = self.series_in(inside).await?;
            let all = self.series_in(whole).await?;
            let memory = self.context.budget().reserve(0).map_err(Error::from)?;
            Ok::<_, Failed>(self.context.compute(move || compare(&in_box, &all, memory)).await?)
        };
        let found = self.context.in_time(compared).await??;
        QueryStats::add(&self.context.stats().entries_returned, found.fields.len() as u64);
        Ok(found)
    }

    /// The series with a point in a part of the plot.
    async fn series_in(&self, part: SeriesBox) -> Result<Answer, Failed> {
        let text = selecting(&self.request.query, part, self.request.times.step);
        // The nesting around the query may be too deep for it.
        let expr = parse(&self.context, &text).await.map_err(Failed::Reading)?;
        let times = Times { start: part.last_ms, end: part.last_ms, step: 0 };
        let options = Options { named_times: Some(self.request.times), ..self.request.options };
        let request = Request { query: text, times, options };
        match evaluate(self.queries, &self.context, &request, &expr).await?.rows {
            Rows::Evaluated(answer) => Ok(answer),
            Rows::Joined(_) => Err(Error::Internal(NO_VECTOR.to_owned()).into()),
        }
    }
}

/// The answer for one instant is an instant vector.
const NO_VECTOR: &str = "the series to compare are no instant vector";

/// The labels of the series of an answer.
fn series_of(answer: &Answer) -> Result<impl ExactSizeIterator<Item = &Labels>, Error> {
    match &answer.value {
        Value::Vector(series) => Ok(series.iter().map(|(labels, _)| labels)),
        _ => Err(Error::Internal(NO_VECTOR.to_owned())),
    }
}

/// A query for the last step of a part that yields each series with a point in the part.
fn selecting(query: &str, part: SeriesBox, step: i64) -> String {
    // A comment at the end of the query ends with the line.
    let mut bounded = format!("({query}\n)");
    if let Some((least, most)) = part.values {
        // Writing to a String cannot fail. A comparison leaves histograms and NaN out.
        let _ = write!(bounded, " >= {} <= {}", number(least), number(most));
    }
    // The range of a subquery excludes its start.
    let range_ms = part.last_ms.saturating_sub(part.first_ms).saturating_add(1);
    format!("last_over_time(({bounded})[{range_ms}ms:{step}ms])")
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => format!("{value:e}"),
    }
}

fn compare(in_box: &Answer, all: &Answer, memory: Reservation) -> Result<Differences, Error> {
    let mut counting = Counting { table: Table::default(), memory };
    let in_box = series_of(in_box)?;
    let _set = reserve_exactly(in_box.len() as u64 * ENTRY_BYTES)?;
    let mut inside = HashSet::with_capacity(in_box.len());
    for labels in in_box {
        inside.insert(labels);
        counting.add(labels, true)?;
    }
    for labels in series_of(all)?.filter(|labels| !inside.contains(labels)) {
        counting.add(labels, false)?;
    }
    let (rows, has_more) = (counting.table.rows, counting.table.has_more);
    Ok(Differences { rows, every: [1, 1], fields: ranked(counting.table, 1), has_more })
}

/// The counts, and the reservation of their memory.
struct Counting {
    table: Table,
    memory: Reservation,
}

impl Counting {
    /// Counts the labels of a series.
    fn add(&mut self, labels: &Labels, is_inside: bool) -> Result<(), Error> {
        let side: Sides = if is_inside { [1, 0] } else { [0, 1] };
        self.table.rows[usize::from(!is_inside)] += 1;
        let mut number = 0;
        for (name, value) in labels.iter() {
            self.table.add(FieldOrigin::Label, name, value, side);
            number += 1;
        }
        if let Some(missing) = self.table.bytes().checked_sub(self.memory.bytes()).filter(|n| *n > 0) {
            self.memory.grow(missing.max(GROWTH_BYTES))?;
        }
        Ok(spend(LABEL_UNITS * number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_part_are_selected_by_a_query() {
        let part = SeriesBox { first_ms: 60_000, last_ms: 120_000, values: None };
        assert_eq!(
            selecting("sum(up) # all", part, 30_000),
            "last_over_time(((sum(up) # all\n))[60001ms:30000ms])"
        );
        let bounded = SeriesBox { values: Some((-1.5, f64::INFINITY)), ..part };
        let text = selecting("up", bounded, 1_000);
        assert_eq!(text, "last_over_time(((up\n) >= -1.5e0 <= +Inf)[60001ms:1000ms])");
        for value in [0.0, -0.0, 1e300, f64::MIN, f64::MIN_POSITIVE, f64::NEG_INFINITY, 0.1] {
            let bounded = SeriesBox { values: Some((value, value)), ..part };
            let text = selecting("rate(x[5m])", bounded, 1);
            assert!(sandur_promql::parse(&text).is_ok(), "{text}");
        }
    }
}
