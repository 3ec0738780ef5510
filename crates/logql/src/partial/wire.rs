//! The bytes of sub-queries and partial answers ([`sandur_query::wire`]).

use std::sync::Arc;

use sandur_protobuf::Writer as _;
use sandur_query::wire::{Fields, Put as _, begin, malformed};
use sandur_query::{Direction, Error, QueryContext};

use super::{Found, Partial, SubQuery, rows, steps_of};
use crate::ast::Expr;
use crate::evaluate::ranges;
use crate::range_scan::RangeScan;
use crate::request::{Kind, Request};

/// The most bytes of a sub-query: its text has a limit of its own.
pub(super) const SUB_QUERY_BYTES_MAX: usize = 4 << 20;

impl SubQuery {
    /// The sub-query for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Request { query, kind, limit, direction, interval_ns } = &self.request;
        let mut out = Vec::new();
        begin(&mut out);
        out.bytes(2, query.as_bytes());
        match kind {
            Kind::Instant { time_ns } => out.put_signed(3, *time_ns),
            Kind::Range { start_ns, end_ns, step_ns } => {
                for (field, time) in [(4, start_ns), (5, end_ns), (6, step_ns)] {
                    out.put_signed(field, *time);
                }
            }
        }
        out.varint(7, u64::from(*limit));
        out.varint(8, u64::from(*direction == Direction::Backward));
        out.put_signed(9, *interval_ns);
        out.varint(10, self.number as u64);
        out.bytes(11, self.expr.as_bytes());
        out.put_signed(12, self.begun_ns);
        out
    }

    /// The sub-query that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of_request(bytes, SUB_QUERY_BYTES_MAX)?;
        let (mut query, mut expr, mut number, mut begun_ns) = (String::new(), String::new(), 0, 0);
        let (mut limit, mut direction, mut interval_ns) = (0, Direction::Forward, 0);
        let (mut instant, mut times) = (None, [0; 3]);
        while let Some(field) = fields.field()? {
            match field {
                2 => fields.text()?.clone_into(&mut query),
                3 => instant = Some(fields.signed()?),
                4..=6 => times[field as usize - 4] = fields.signed()?,
                7 => limit = u32::try_from(fields.number()?).map_err(|_| malformed("a limit above 2^32"))?,
                8 if fields.number()? == 1 => direction = Direction::Backward,
                8 => direction = Direction::Forward,
                9 => interval_ns = fields.signed()?,
                10 => number = fields.number()? as usize,
                11 => fields.text()?.clone_into(&mut expr),
                12 => begun_ns = fields.signed()?,
                _ => fields.skip()?,
            }
        }
        let [start_ns, end_ns, step_ns] = times;
        let kind = match instant {
            Some(time_ns) => Kind::Instant { time_ns },
            None => Kind::Range { start_ns, end_ns, step_ns },
        };
        let request = Request { query, kind, limit, direction, interval_ns };
        Ok(Self { request, begun_ns, number, expr })
    }
}

impl Partial {
    /// The answer for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        out.varint(2, self.number as u64);
        self.warnings.iter().for_each(|warning| out.bytes(3, warning.as_bytes()));
        match &self.found {
            Found::Rows(all, _) => rows::write((4, 5), all, &mut out),
            Found::Groups(groups) => groups.write(6, &mut out),
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
        let mut fields = Fields::of_message(bytes)?;
        let number = match fields.field()? {
            Some(2) => fields.number()? as usize,
            _ => return Err(malformed("an answer without its number")),
        };
        let (mut warnings, mut memory) = (Vec::new(), context.budget().reserve(0)?);
        let (mut sets, mut found) = (Vec::new(), Vec::new());
        let mut groups = match expr {
            Expr::Log(_) => None,
            Expr::Metric(metric) => {
                let (steps, all) = (steps_of(request)?, ranges(metric));
                let missing = || malformed(format_args!("the query has no range aggregation {number}"));
                let (range, outer) = all.get(number).ok_or_else(missing)?;
                let scan = RangeScan::new(range, outer.as_ref(), steps.windows(range));
                Some(scan.no_groups(context)?)
            }
        };
        while let Some(field) = fields.field()? {
            match (field, &mut groups) {
                (3, _) => {
                    let warning = fields.text()?;
                    memory.grow(warning.len() as u64 + 64)?;
                    warnings.push(warning.to_owned());
                }
                (4, None) => sets.push(Arc::new(fields.labels(&mut memory)?)),
                (5, None) => found.push(rows::read(&mut fields.message()?, &sets, &mut memory)?),
                (6, Some(groups)) => groups.read(&mut fields.message()?)?,
                (4..=6, _) => return Err(malformed("an answer to another query")),
                _ => fields.skip()?,
            }
        }
        let found = match groups {
            Some(groups) => Found::Groups(Box::new(groups)),
            None => Found::Rows(found, vec![memory]),
        };
        Ok(Self { number, found, warnings })
    }
}
