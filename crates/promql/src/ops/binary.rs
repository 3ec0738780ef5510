//! Arithmetic and comparisons between the series of two vectors.
//!
//! Series are matched by a number for the labels of the matching. The labels of results are computed once
//! for each pair of series.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::ast::Cardinality;
use crate::column::{Column, Grid, Sample};
use crate::labels::{LabelPool, LabelsId, Text, TextSet, is_reserved};
use crate::ops::chain::{LeftSide, Made, RightSide, Stage, Step};
use crate::ops::elements::{changes_metric, floats, samples};
use crate::run::{Pull, Run};
use crate::span::Span;
use crate::token::Kind;

/// The labels on which series match.
pub struct Signature {
    /// The labels of `on` or `ignoring`.
    pub names: TextSet,
    /// Whether series match on these labels (`on`), not on all others (`ignoring`).
    pub on: bool,
}

impl Signature {
    /// The subset of a series's labels on which it matches.
    pub fn of(&self, labels: LabelsId, pool: &mut LabelPool) -> LabelsId {
        let on = self.on;
        pool.filtered(labels, |name| match on {
            true => self.names.contains(name),
            false => !is_reserved(name) && !self.names.contains(name),
        })
    }
}

/// An operator between two vectors.
pub struct VectorVector {
    /// The gathered series of the left side.
    pub left: LeftSide,
    /// The right side.
    pub right: RightSide,
    /// The operator.
    pub op: Kind,
    /// Whether a comparison yields 0 or 1 (`bool`).
    pub returns_bool: bool,
    /// How many series of each side a match may have.
    pub cardinality: Cardinality,
    /// The labels on which series match.
    pub signature: Signature,
    /// The labels of `group_left` or `group_right`: copied from the "one" side to the result.
    pub include: Vec<Text>,
    /// The values of `fill` for a missing series: on the left side, on the right side.
    pub fill: [Option<f64>; 2],
    /// The steps.
    pub grid: Grid,
    /// The place of the operator and its operands in the query.
    pub span: Span,
    /// The results, once they are computed.
    pub made: Option<Made>,
}

/// The bytes that matching a series takes besides its samples: its signature, its place, its result.
const MATCH_BYTES: u64 = 256;

/// The series of one side, each with the number of its signature.
struct Side {
    columns: Vec<Column>,
    signatures: Vec<usize>,
}

impl Stage for VectorVector {
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error> {
        if let Some(made) = &mut self.made {
            return Ok(Step::Give(made.next(run)));
        }
        if !self.left.take_in(came, run)? {
            return Ok(Step::Left);
        }
        if let Some(leaf) = self.right.ready(run)? {
            return Ok(Step::Give(Pull::Need(leaf)));
        }
        let ((left, left_bytes), (right, right_bytes)) = (self.left.take(), self.right.take());
        let before = run.held_bytes();
        let columns = self.match_up(left, right, run)?;
        let made = Made::new(columns, left_bytes + right_bytes, before, run)?;
        Ok(Step::Give(self.made.insert(made).next(run)))
    }
}

/// The state while results are computed.
struct Making {
    results: HashMap<(LabelsId, LabelsId), LabelsId>,
    places: HashMap<LabelsId, usize>,
    columns: Vec<Column>,
    /// The signatures that have a result at the current step.
    matched: Vec<bool>,
    /// The signatures and labels of results at the current step.
    inserted: HashSet<(usize, LabelsId)>,
}

impl VectorVector {
    fn side(
        &self,
        columns: Vec<Column>,
        numbers: &mut HashMap<LabelsId, usize>,
        run: &mut Run,
    ) -> Result<Side, Stopped> {
        spend(columns.len() * 64)?;
        run.keep(columns.len() as u64 * MATCH_BYTES)?;
        let mut number = |column: &Column| {
            let labels = self.signature.of(column.labels, &mut run.pool);
            let next = numbers.len();
            *numbers.entry(labels).or_insert(next)
        };
        let signatures = columns.iter().map(&mut number).collect();
        run.pool.check()?;
        Ok(Side { columns, signatures })
    }

    fn match_up(&self, left: Vec<Column>, right: Vec<Column>, run: &mut Run) -> Result<Vec<Column>, Error> {
        let mut numbers = HashMap::new();
        let (left, right) = (self.side(left, &mut numbers, run)?, self.side(right, &mut numbers, run)?);
        let swapped = self.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        if let Some(columns) = self.whole_columns(&many, &one, numbers.len(), run)? {
            return Ok(columns);
        }
        let mut making = Making {
            results: HashMap::new(),
            places: HashMap::new(),
            columns: Vec::new(),
            matched: vec![false; numbers.len()],
            inserted: HashSet::new(),
        };
        let [fill_left, fill_right] = self.fill;
        let (many_fill, one_fill) = if swapped { (fill_right, fill_left) } else { (fill_left, fill_right) };
        let has_fill = many_fill.or(one_fill).is_some();
        let mut ones: Vec<Option<usize>> = vec![None; numbers.len()];
        for step in 0..self.grid.steps {
            spend((many.columns.len() + one.columns.len()) * 4 + 8)?;
            let is_empty = |side: &Side| !side.columns.iter().any(|column| column.has(step));
            if (is_empty(&many) || is_empty(&one)) && (!has_fill || is_empty(&many) && is_empty(&one)) {
                continue;
            }
            ones.fill(None);
            making.matched.fill(false);
            making.inserted.clear();
            for (n, column) in one.columns.iter().enumerate().filter(|(_, column)| column.has(step)) {
                let slot = &mut ones[one.signatures[n]];
                if let Some(other) = *slot {
                    return Err(self.duplicate(&one.columns[other], column, swapped, run));
                }
                *slot = Some(n);
            }
            for (n, column) in many.columns.iter().enumerate() {
                let Some(sample) = column.sample(step) else { continue };
                let number = many.signatures[n];
                let (other, labels) = match (ones[number], one_fill) {
                    (Some(other), _) => (one.columns[other].sample(step), one.columns[other].labels),
                    (None, Some(fill)) => {
                        (Some(Sample::Float(fill)), self.signature.of(column.labels, &mut run.pool))
                    }
                    (None, None) => continue,
                };
                let Some(other) = other else { continue };
                self.pair(step, (sample, column.labels), (other, labels), number, &mut making, run)?;
            }
            let Some(fill) = many_fill else { continue };
            for (n, column) in one.columns.iter().enumerate() {
                let number = one.signatures[n];
                let Some(sample) = column.sample(step).filter(|_| !making.matched[number]) else { continue };
                let labels = self.signature.of(column.labels, &mut run.pool);
                let filled = (Sample::Float(fill), labels);
                self.pair(step, filled, (sample, column.labels), number, &mut making, run)?;
            }
        }
        making.columns.retain(Column::has_any);
        Ok(making.columns)
    }

    /// The common case: only floats, and at most one series per signature. Complete columns are combined at
    /// once.
    fn whole_columns(
        &self,
        many: &Side,
        one: &Side,
        signatures: usize,
        run: &mut Run,
    ) -> Result<Option<Vec<Column>>, Error> {
        let is_float = |side: &Side| side.columns.iter().all(|column| column.histograms.is_none());
        let has_fill = self.fill.iter().any(Option::is_some);
        if has_fill || floats(self.op, 0.0, 0.0).is_none() || !is_float(many) || !is_float(one) {
            return Ok(None);
        }
        let mut ones: Vec<Option<usize>> = vec![None; signatures];
        for (n, signature) in one.signatures.iter().enumerate() {
            if ones[*signature].replace(n).is_some() {
                return Ok(None);
            }
        }
        let mut taken = vec![false; signatures];
        let mut labels_seen = HashSet::new();
        let mut columns = Vec::with_capacity(many.columns.len());
        for (column, signature) in many.columns.iter().zip(&many.signatures) {
            let is_second = std::mem::replace(&mut taken[*signature], true);
            if is_second && self.cardinality == Cardinality::OneToOne {
                return Ok(None);
            }
            let Some(other) = ones[*signature].map(|n| &one.columns[n]) else { continue };
            spend(self.grid.steps * 2 + 8)?;
            let labels = self.result_labels(column.labels, other.labels, run)?;
            if !labels_seen.insert(labels) {
                return Ok(None);
            }
            run.keep(Column::bytes(self.grid.steps))?;
            let result = self.whole_column(column, other, labels);
            if result.has_any() {
                columns.push(result);
            }
        }
        Ok(Some(columns))
    }

    fn whole_column(&self, many: &Column, one: &Column, labels: LabelsId) -> Column {
        let swapped = self.cardinality == Cardinality::OneToMany;
        let (left, right) = if swapped { (one, many) } else { (many, one) };
        let pairs = left.values.iter().zip(&right.values);
        let mut keeps: Vec<bool> = Vec::new();
        let values: Vec<f64> = match self.op {
            Kind::Add => pairs.map(|(a, b)| a + b).collect(),
            Kind::Sub => pairs.map(|(a, b)| a - b).collect(),
            Kind::Mul => pairs.map(|(a, b)| a * b).collect(),
            Kind::Div => pairs.map(|(a, b)| a / b).collect(),
            op => {
                let found = pairs.map(|(a, b)| floats(op, *a, *b).unwrap_or((f64::NAN, false)));
                let (values, found): (Vec<f64>, Vec<bool>) = found.unzip();
                keeps = found;
                values
            }
        };
        let words = left.present.iter().zip(&right.present);
        let present = words.map(|(a, b)| a & b).collect();
        let mut result = Column { labels, drop_name: self.returns_bool, present, values, histograms: None };
        for (step, keep) in keeps.into_iter().enumerate() {
            if self.returns_bool {
                result.values[step] = f64::from(u8::from(keep));
            } else if !keep {
                result.unmark(step);
            }
        }
        result
    }

    fn pair(
        &self,
        step: usize,
        (many, many_labels): (Sample, LabelsId),
        (one, one_labels): (Sample, LabelsId),
        number: usize,
        making: &mut Making,
        run: &mut Run,
    ) -> Result<(), Error> {
        let swapped = self.cardinality == Cardinality::OneToMany;
        let (left, right) = if swapped { (&one, &many) } else { (&many, &one) };
        [left, right].into_iter().try_for_each(|sample| spend(sample.work()))?;
        let found = samples(self.op, left, right, &mut run.notes, self.span);
        let Some((mut result, mut keep)) = found else { return Ok(()) };
        if self.returns_bool {
            result = Sample::Float(f64::from(u8::from(keep)));
            keep = true;
        }
        let labels = match making.results.get(&(many_labels, one_labels)) {
            Some(labels) => *labels,
            None => {
                let labels = self.result_labels(many_labels, one_labels, run)?;
                run.keep(48)?;
                making.results.insert((many_labels, one_labels), labels);
                labels
            }
        };
        let invalid = |what: &str| Err(Error::Invalid(format!("multiple matches for labels: {what}")));
        if self.cardinality == Cardinality::OneToOne {
            if making.matched[number] {
                return invalid("many-to-one matching must be explicit (group_left/group_right)");
            }
        } else if !making.inserted.insert((number, labels)) {
            return invalid("grouping labels must ensure unique matches");
        }
        making.matched[number] = true;
        if !keep {
            return Ok(());
        }
        let next = making.columns.len();
        let place = *making.places.entry(labels).or_insert(next);
        if place == next {
            making.columns.push(run.column(labels, self.returns_bool, self.grid.steps)?);
        }
        let column = &mut making.columns[place];
        if column.has(step) {
            return Err(same_labels());
        }
        Ok(run.put(column, step, result)?)
    }

    fn result_labels(&self, many: LabelsId, one: LabelsId, run: &mut Run) -> Result<LabelsId, Stopped> {
        let pool = &mut run.pool;
        spend(self.include.len() * 64)?;
        let mut labels = many;
        if changes_metric(self.op) {
            labels = pool.nameless(labels);
        }
        if self.cardinality == Cardinality::OneToOne {
            let on = self.signature.on;
            labels = pool.filtered(labels, |name| self.signature.names.contains(name) == on);
        }
        for name in &self.include {
            let value = pool.get(one, *name);
            labels = pool.with(labels, *name, value);
        }
        pool.check()?;
        Ok(labels)
    }

    fn duplicate(&self, first: &Column, second: &Column, swapped: bool, run: &mut Run) -> Error {
        let group = self.signature.of(second.labels, &mut run.pool);
        let mut shown = [first, second].map(|column| run.pool.show(column.labels));
        shown.sort();
        let (group, side) = (run.pool.show(group), if swapped { "left" } else { "right" });
        Error::Invalid(format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the operation: \
             [{}, {}];many-to-many matching not allowed: matching labels must be unique on one side",
            shown[0], shown[1]
        ))
    }
}

/// The error that two series have the same labels at one step.
pub fn same_labels() -> Error {
    Error::Invalid("vector cannot contain metrics with the same labelset".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Options;

    const GRID: Grid = Grid { start: 0, interval: 1, steps: 2 };

    /// A series with labels written as `name=value name=value`, and its samples at two steps.
    fn column(labels: &str, samples: [Option<f64>; 2], pool: &mut LabelPool) -> Column {
        let mut id = LabelsId::EMPTY;
        for (name, value) in labels.split(' ').filter_map(|pair| pair.split_once('=')) {
            let (name, value) = (pool.text_id(name), pool.text_id(value));
            id = pool.with(id, name, value);
        }
        let mut column = Column::empty(id, false, 2);
        samples.into_iter().enumerate().for_each(|(step, value)| {
            value.into_iter().for_each(|value| column.put(step, value));
        });
        column
    }

    fn minus(cardinality: Cardinality, fill: [Option<f64>; 2], signature: Signature) -> VectorVector {
        VectorVector {
            left: LeftSide::default(),
            right: RightSide::new(Box::new(crate::ops::simple::Ready(None))),
            op: Kind::Sub,
            returns_bool: false,
            cardinality,
            signature,
            include: Vec::new(),
            fill,
            grid: GRID,
            span: Span::default(),
            made: None,
        }
    }

    /// Evaluates `one - on (host) group_right many`; returns the results' labels and their samples at each
    /// step.
    fn one_minus_many(fill: [Option<f64>; 2]) -> Vec<(String, [Option<f64>; 2])> {
        let mut run = Run::new(Options::default());
        let on = run.pool.text_id("host");
        let operator =
            minus(Cardinality::OneToMany, fill, Signature { names: [on].into_iter().collect(), on: true });
        let one = ["host=a", "host=b"].map(|labels| column(labels, [Some(10.0), None], &mut run.pool));
        let many = ["dev=x host=a", "dev=y host=c"];
        let many = many.map(|labels| column(labels, [Some(1.0), Some(2.0)], &mut run.pool));
        let found = operator.match_up(one.to_vec(), many.to_vec(), &mut run).unwrap();
        let value = |column: &Column, step| column.has(step).then(|| column.values[step]);
        let mut shown: Vec<_> =
            found.iter().map(|c| (run.pool.show(c.labels), [value(c, 0), value(c, 1)])).collect();
        shown.sort_by(|a, b| a.0.cmp(&b.0));
        shown
    }

    #[test]
    fn fill_replaces_missing_series_of_the_side_that_it_names() {
        let (x, y, b) = (
            r#"{dev="x", host="a"}"#.to_owned(),
            r#"{dev="y", host="c"}"#.to_owned(),
            r#"{host="b"}"#.to_owned(),
        );
        let both = [(x.clone(), [Some(9.0), None])];
        assert_eq!(one_minus_many([None, None]), both);
        let left = [(x.clone(), [Some(9.0), Some(98.0)]), (y.clone(), [Some(99.0), Some(98.0)])];
        assert_eq!(one_minus_many([Some(100.0), None]), left);
        let right = (b, [Some(3.0), None]);
        assert_eq!(one_minus_many([None, Some(7.0)]), [&both[..], std::slice::from_ref(&right)].concat());
        assert_eq!(
            one_minus_many([Some(100.0), Some(7.0)]),
            [&left[..], std::slice::from_ref(&right)].concat()
        );
    }

    #[test]
    fn matching_ignores_the_name_type_and_unit() {
        let pool = &mut LabelPool::default();
        let labels = "__name__=m __type__=gauge __unit__=s host=a job=j";
        let labels = column(labels, [None, None], pool).labels;
        let [host, kind] = ["host", "__type__"].map(|name| pool.text_id(name));
        let mut of = |names: &[Text], on| {
            let signature = Signature { names: names.iter().copied().collect(), on };
            let labels = signature.of(labels, pool);
            pool.show(labels)
        };
        assert_eq!(of(&[], false), r#"{host="a", job="j"}"#);
        assert_eq!(of(&[host], false), r#"{job="j"}"#);
        assert_eq!(of(&[kind], true), r#"{__type__="gauge"}"#, "except where it is named");
    }
}
