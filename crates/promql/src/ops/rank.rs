//! Aggregations that keep some series of each group: `topk`, `bottomk`, `limitk` and `limit_ratio`.

use std::cmp::Ordering;

use foldhash::{HashMap, HashMapExt};
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::labels::LabelsId;
use crate::notes::Note;
use crate::ops::grouping::Grouping;
use crate::order::sorted;
use crate::run::{AnyOperator, Gathered, Operator, Outbox, Pull, Run, ScalarArg};
use crate::span::Span;
use crate::token::Kind;

/// The bytes of a series besides its samples while it is ranked: its place, its rank, its result.
const MEMBER_BYTES: u64 = 64 + size_of::<Option<Column>>() as u64;

/// An aggregation that keeps some series.
pub struct Rank {
    /// The input operator.
    pub inner: AnyOperator,
    /// The gathered input.
    pub gathered: Gathered,
    /// The aggregation operator.
    pub op: Kind,
    /// The number or ratio of series to keep.
    pub param: ScalarArg,
    /// The place of the parameter in the query.
    pub param_span: Span,
    /// The groups.
    pub grouping: Grouping,
    /// The steps.
    pub grid: Grid,
    /// The place of the aggregation in the query.
    pub span: Span,
    /// The results, once they are computed.
    pub outbox: Option<Outbox>,
}

impl Operator for Rank {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some(leaf) = self.param.ready(run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        if let Some(leaf) = self.gathered.gather(&mut self.inner, run)? {
            return Ok(Pull::Need(leaf));
        }
        // Labels decide between equal values, whatever the order of arrival.
        let mut columns = std::mem::take(&mut self.gathered.columns);
        let compare = |a: &Column, b: &Column| run.pool.compare_series(a.labels, b.labels);
        spend(columns.len() * 8)?;
        if !columns.is_sorted_by(|a, b| compare(a, b).is_le()) {
            columns = sorted(columns, compare)?;
        }
        let kept = if self.check(run)? { self.choose(columns, run)? } else { Vec::new() };
        Ok(self.outbox.insert(Outbox::new(kept)).next())
    }
}

impl Rank {
    /// Whether any series is kept; fails if the parameter is invalid.
    fn check(&self, run: &mut Run) -> Result<bool, Error> {
        let values = self.param.values();
        let has_nan = values.iter().any(|value| value.is_nan());
        let numbers = || values.iter().copied().filter(|value| !value.is_nan());
        let most = numbers().fold(f64::NEG_INFINITY, f64::max);
        let least = numbers().fold(f64::INFINITY, f64::min);
        let invalid = |text: String| Err(Error::Invalid(text));
        let shown = |value: f64| sandur_model::histogram::GoNumber(value).to_string();
        if self.op == Kind::LimitRatio {
            if has_nan {
                return invalid("Ratio value is NaN".to_owned());
            }
            for (wrong, value, to) in [(most > 1.0, most, 1.0f64), (least < -1.0, least, -1.0)] {
                if wrong {
                    run.notes.add(Note::InvalidRatio(value.to_bits(), to.to_bits()), self.param_span);
                }
            }
            return Ok(most != 0.0 || least != 0.0);
        }
        if has_nan {
            return invalid("Parameter value is NaN".to_owned());
        }
        if most < 1.0 {
            return Ok(false);
        }
        if least <= i64::MIN as f64 {
            return invalid(format!("Scalar value {} underflows int64", shown(least)));
        }
        if most >= i64::MAX as f64 {
            return invalid(format!("Scalar value {} overflows int64", shown(most)));
        }
        Ok(true)
    }

    fn choose(&mut self, columns: Vec<Column>, run: &mut Run) -> Result<Vec<Column>, Error> {
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (n, column) in columns.iter().enumerate() {
            let group = self.grouping.group_of(column.labels, run)?;
            run.keep(MEMBER_BYTES)?;
            if group == members.len() {
                members.push(Vec::new());
            }
            members[group].push(n);
        }
        let mut hashes: HashMap<LabelsId, f64> = HashMap::new();
        if self.op == Kind::LimitRatio {
            for column in &columns {
                let part = run.pool.hash(column.labels) as f64 / u64::MAX as f64;
                hashes.insert(column.labels, part);
            }
        }
        let mut kept: Vec<Option<Column>> = vec![None; columns.len()];
        let mut order = Vec::new();
        for step in 0..self.grid.steps {
            spend(columns.len() * 8 + 8)?;
            let param = self.param.at(step);
            for group in &members {
                for n in self.ranked(&columns, group, step, param, &hashes, run) {
                    let column = &columns[n];
                    if kept[n].is_none() {
                        order.push(n);
                        kept[n] = Some(run.column(column.labels, column.drop_name, self.grid.steps)?);
                    }
                    if let (Some(slot), Some(sample)) = (&mut kept[n], column.sample(step)) {
                        run.put(slot, step, sample)?;
                    }
                }
            }
        }
        Ok(order.into_iter().filter_map(|n| kept[n].take()).collect())
    }

    /// The members of a group that are kept at a step, in the order of their rank.
    fn ranked(
        &self,
        columns: &[Column],
        group: &[usize],
        step: usize,
        param: f64,
        hashes: &HashMap<LabelsId, f64>,
        run: &mut Run,
    ) -> Vec<usize> {
        let present = group.iter().copied().filter(|n| columns[*n].has(step));
        if self.op == Kind::LimitRatio {
            let ratio = param.clamp(-1.0, 1.0);
            let is_in = |n: &usize| {
                let part = hashes.get(&columns[*n].labels).copied().unwrap_or(0.0);
                if ratio >= 0.0 { part < ratio } else { part >= 1.0 + ratio }
            };
            return present.filter(|n| ratio != 0.0 && is_in(n)).collect();
        }
        let count = (param as i64).clamp(0, columns.len() as i64) as usize;
        if count == 0 {
            return Vec::new();
        }
        if self.op == Kind::Limitk {
            return present.take(count).collect();
        }
        let mut floats: Vec<(f64, usize)> = Vec::new();
        for n in present {
            match columns[n].histogram(step) {
                Some(_) => run.notes.add(Note::IgnoredInAggregation(self.op), self.span),
                None => floats.push((columns[n].values[step], n)),
            }
        }
        let largest = self.op == Kind::Topk;
        // NaN ranks last for both operators; of equal values, the first one by labels ranks first.
        let order = |(a, m): &(f64, usize), (b, n): &(f64, usize)| {
            let by_value = match (a.is_nan(), b.is_nan()) {
                (false, false) if largest => b.partial_cmp(a).unwrap_or(Ordering::Equal),
                (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                (a, b) => a.cmp(&b),
            };
            by_value.then(m.cmp(n))
        };
        // Selecting the first few is cheaper than sorting all.
        if count < floats.len() {
            floats.select_nth_unstable_by(count, order);
            floats.truncate(count);
        }
        floats.sort_unstable_by(order);
        floats.into_iter().map(|(_, n)| n).collect()
    }
}
