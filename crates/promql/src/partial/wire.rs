//! The bytes of sub-queries and partial answers ([`sandur_query::wire`]).

use std::sync::Arc;

use sandur_memory::Reservation;
use sandur_protobuf::Writer as _;
use sandur_query::wire::{Fields, Put as _, begin, malformed};
use sandur_query::{Error, QueryContext, Samples};

use super::{PartSeries, Partial, Planned, SubQuery};
use crate::ast::Expr;
use crate::column::{Column, Grid};
use crate::engine::Request;
use crate::labels::LabelsId;
use crate::notes::ForeignNote;
use crate::ops::aggregate::GroupPart;
use crate::run::{LeafId, Options};
use crate::span::Span;
use crate::timing::Times;
use crate::token::Kind;

/// The most bytes of a sub-query: its text has a limit of its own.
pub(super) const SUB_QUERY_BYTES_MAX: usize = 4 << 20;

impl SubQuery {
    /// The sub-query for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Request { query, times, options } = &self.request;
        let mut out = Vec::new();
        begin(&mut out);
        out.bytes(2, query.as_bytes());
        for (field, time) in [(3, times.start), (4, times.end), (5, times.step)] {
            out.put_signed(field, time);
        }
        out.put_signed(6, options.lookback_ms);
        out.put_signed(7, options.subquery_step_ms);
        out.varint(8, u64::from(options.use_starts) | u64::from(options.type_labels) << 1);
        out.varint(9, options.samples_max);
        out.varint(10, options.points_max);
        out.varint(11, self.selector as u64);
        out.bytes(12, self.expr.as_bytes());
        out
    }

    /// The sub-query that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of_request(bytes, SUB_QUERY_BYTES_MAX)?;
        let (mut query, mut expr) = (String::new(), String::new());
        let (mut times, mut options, mut selector) =
            (Times { start: 0, end: 0, step: 0 }, Options::default(), 0);
        while let Some(field) = fields.field()? {
            match field {
                2 => fields.text()?.clone_into(&mut query),
                3 => times.start = fields.signed()?,
                4 => times.end = fields.signed()?,
                5 => times.step = fields.signed()?,
                6 => options.lookback_ms = fields.signed()?,
                7 => options.subquery_step_ms = fields.signed()?,
                8 => {
                    let flags = fields.number()?;
                    (options.use_starts, options.type_labels) = (flags & 1 != 0, flags & 2 != 0);
                }
                9 => options.samples_max = fields.number()?,
                10 => options.points_max = fields.number()?,
                11 => selector = fields.number()? as usize,
                12 => fields.text()?.clone_into(&mut expr),
                _ => fields.skip()?,
            }
        }
        Ok(Self { request: Request { query, times, options }, selector, expr })
    }
}

/// The steps of a selector's series, and the operator of its groups.
fn shape_of(request: &Request, expr: &Expr, selector: usize) -> Result<(Grid, Option<Kind>), Error> {
    let planned = Planned::of(request, expr)?;
    match planned.jobs.get(&LeafId(selector)) {
        Some(work) => Ok((work.grid(), work.fold().map(|fold| fold.op))),
        None if selector < planned.run.leaves.len() => Ok((request.times.grid(), None)),
        None => Err(malformed(format_args!("the query has no selector {selector}"))),
    }
}

impl Partial {
    /// The answer for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        out.varint(2, self.selector as u64);
        out.varint(3, self.samples_read);
        self.warnings.iter().for_each(|warning| out.bytes(4, warning.as_bytes()));
        for note in &self.notes {
            out.message(5, |out| {
                out.varint(1, u64::from(note.is_warning) | u64::from(note.is_counted) << 1);
                out.bytes(2, note.text.as_bytes());
                out.varint(3, u64::from(note.span.start));
                out.varint(4, u64::from(note.span.end));
                out.varint(5, note.count);
            });
        }
        for PartSeries { labels, column } in &self.series {
            out.message(6, |out| {
                out.put_labels(1, labels);
                out.number(2, u64::from(column.drop_name));
                out.put_integers(3, &column.present);
                out.put_floats(4, &column.values);
                for step in column.steps() {
                    if let Some(histogram) = column.histogram(step) {
                        out.varint(5, step as u64);
                        out.put_histogram(6, histogram);
                    }
                }
            });
        }
        self.groups.iter().for_each(|group| out.message(7, |out| group.write(out)));
        for (labels, samples) in &self.stored {
            out.message(8, |out| {
                out.put_labels(1, labels);
                out.put_times(2, &samples.times);
                out.put_floats(3, &samples.values);
                out.put_times(4, &samples.starts);
                out.put_times(5, &samples.histogram_times);
                samples.histograms.iter().for_each(|histogram| out.put_histogram(6, histogram));
                out.put_times(7, &samples.histogram_starts);
            });
        }
        out
    }

    /// The answer of another process to a sub-query of this request. Reserves its memory in the query's
    /// budget.
    pub fn from_bytes(
        bytes: &[u8],
        context: &QueryContext,
        request: &Request,
        expr: &Expr,
    ) -> Result<Self, Error> {
        let (mut answer, mut memory) = (Self::empty(), context.budget().reserve(0)?);
        let mut fields = Fields::of_message(bytes)?;
        let mut shape = None;
        while let Some(field) = fields.field()? {
            match (field, shape) {
                (2, None) => {
                    answer.selector = fields.number()? as usize;
                    shape = Some(shape_of(request, expr, answer.selector)?);
                }
                (3, _) => answer.samples_read = fields.number()?,
                (4, _) => {
                    let warning = fields.text()?;
                    memory.grow(warning.len() as u64 + 64)?;
                    answer.warnings.push(warning.to_owned());
                }
                (5, _) => answer.notes.push(note(&mut fields.message()?, &mut memory)?),
                (6, Some((grid, _))) => {
                    answer.series.push(series(&mut fields.message()?, grid.steps, &mut memory)?);
                }
                (7, Some((grid, Some(op)))) => {
                    answer.groups.push(GroupPart::read(&mut fields.message()?, op, grid.steps, &mut memory)?);
                }
                (8, Some(_)) => answer.stored.push(stored(&mut fields.message()?, &mut memory)?),
                (2 | 6..=8, _) => return Err(malformed("an answer to another sub-query")),
                _ => fields.skip()?,
            }
        }
        answer.paid.push(super::Paid::Received(memory));
        Ok(answer)
    }
}

fn note(fields: &mut Fields<'_>, memory: &mut Reservation) -> Result<ForeignNote, Error> {
    let (text, span) = (String::new(), Span::default());
    let mut note = ForeignNote { is_warning: false, is_counted: false, text, span, count: 0 };
    let place = |number: u64| u32::try_from(number).map_err(|_| malformed("a place outside of the query"));
    memory.grow(size_of::<ForeignNote>() as u64)?;
    while let Some(field) = fields.field()? {
        match field {
            1 => {
                let flags = fields.number()?;
                (note.is_warning, note.is_counted) = (flags & 1 != 0, flags & 2 != 0);
            }
            2 => {
                let text = fields.text()?;
                memory.grow(text.len() as u64)?;
                text.clone_into(&mut note.text);
            }
            3 => note.span.start = place(fields.number()?)?,
            4 => note.span.end = place(fields.number()?)?,
            5 => note.count = fields.number()?,
            _ => fields.skip()?,
        }
    }
    Ok(note)
}

fn series(fields: &mut Fields<'_>, steps: usize, memory: &mut Reservation) -> Result<PartSeries, Error> {
    let (mut labels, mut step) = (sandur_model::Labels::default(), 0);
    memory.grow(size_of::<PartSeries>() as u64)?;
    let mut column = Column { values: Vec::new(), ..Column::empty(LabelsId::EMPTY, false, 0) };
    while let Some(field) = fields.field()? {
        match field {
            1 => labels = fields.labels(memory)?,
            2 => column.drop_name = fields.number()? != 0,
            3 => column.present = fields.integers(memory)?,
            4 => column.values = fields.floats(memory)?,
            5 => step = fields.number()? as usize,
            6 => {
                let histogram = Arc::new(fields.histogram(memory)?);
                if column.histograms.is_none() {
                    memory.grow(steps as u64 * 8)?;
                    column.histograms = Some(vec![None; steps]);
                }
                let slot = column.histograms.as_mut().and_then(|all| all.get_mut(step));
                *slot.ok_or_else(|| malformed("a histogram of a step that does not exist"))? =
                    Some(histogram);
            }
            _ => fields.skip()?,
        }
    }
    let is_whole = column.values.len() == steps && column.present.len() == steps.div_ceil(64);
    let is_inside = |column: &Column| column.steps().all(|step| step < steps);
    match is_whole && is_inside(&column) {
        true => Ok(PartSeries { labels, column }),
        false => Err(malformed("a series of other steps")),
    }
}

fn stored(
    fields: &mut Fields<'_>,
    memory: &mut Reservation,
) -> Result<(sandur_model::Labels, Samples), Error> {
    let (mut labels, mut of) = (sandur_model::Labels::default(), Samples::default());
    memory.grow(size_of::<(sandur_model::Labels, Samples)>() as u64)?;
    while let Some(field) = fields.field()? {
        match field {
            1 => labels = fields.labels(memory)?,
            2 => of.times = fields.times(memory)?.into(),
            3 => of.values = fields.floats(memory)?,
            4 => of.starts = fields.times(memory)?,
            5 => of.histogram_times = fields.times(memory)?,
            6 => of.histograms.push(Arc::new(fields.histogram(memory)?)),
            7 => of.histogram_starts = fields.times(memory)?,
            _ => fields.skip()?,
        }
    }
    let has = |starts: &[i64], samples: usize| starts.is_empty() || starts.len() == samples;
    let rises = |times: &[i64]| times.is_sorted_by(|a, b| a < b);
    let is_valid = of.times.len() == of.values.len()
        && of.histogram_times.len() == of.histograms.len()
        && has(&of.starts, of.values.len())
        && has(&of.histogram_starts, of.histograms.len())
        && rises(&of.times)
        && rises(&of.histogram_times);
    match is_valid {
        true => Ok((labels, of)),
        false => Err(malformed("the samples of a series are not valid")),
    }
}
