//! Binary operators between numbers and vectors, with Prometheus's rules for matching series.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::ast::{BinaryOp, Cardinality, Matching};
use crate::matrix::{Labels, Matrix, Series, label, sorted_labels};
use crate::range::slots::{ABSENT, is_absent};

const DUPLICATE: &str = "many-to-many matching not allowed: matching labels must be unique on one side";
const IMPLICIT: &str =
    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)";
const AMBIGUOUS: &str = "multiple matches for labels: grouping labels must ensure unique matches";

/// The work of a series, without its labels and values.
const SERIES_UNITS: usize = 200;

/// Applies the operator to two numbers; comparisons yield 1 or 0.
pub fn apply(op: BinaryOp, left: f64, right: f64) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        BinaryOp::Add => left + right,
        BinaryOp::Subtract => left - right,
        BinaryOp::Multiply => left * right,
        // Unlike Prometheus, Loki yields NaN for a division by zero.
        BinaryOp::Divide | BinaryOp::Modulo if right == 0.0 => f64::NAN,
        BinaryOp::Divide => left / right,
        BinaryOp::Modulo => left % right,
        BinaryOp::Power => left.powf(right),
        BinaryOp::Equal => truth(left == right),
        BinaryOp::NotEqual => truth(left != right),
        BinaryOp::Less => truth(left < right),
        BinaryOp::LessOrEqual => truth(left <= right),
        BinaryOp::Greater => truth(left > right),
        BinaryOp::GreaterOrEqual => truth(left >= right),
        BinaryOp::Or | BinaryOp::And | BinaryOp::Unless => f64::NAN,
    }
}

/// The result for a pair of values: absent if a filtering comparison is false, `kept` if it is true.
fn merge(op: BinaryOp, left: f64, right: f64, kept: f64, return_bool: bool) -> f64 {
    let value = apply(op, left, right);
    match (op.is_comparison(), return_bool) {
        (true, false) if value == 0.0 => ABSENT,
        (true, false) => kept,
        _ => value,
    }
}

/// Applies an operator to a number and a vector.
pub fn with_number(
    op: BinaryOp,
    mut vector: Matrix,
    number: f64,
    number_left: bool,
    return_bool: bool,
) -> Result<Matrix, Stopped> {
    for series in &mut vector.series {
        spend(50 + 20 * series.values.len())?;
        for value in series.values.iter_mut().filter(|value| !is_absent(**value)) {
            let (left, right) = if number_left { (number, *value) } else { (*value, number) };
            *value = merge(op, left, right, *value, return_bool);
        }
    }
    Ok(vector)
}

/// The labels of a series on which it matches.
fn signature(labels: &Labels, matching: &Matching) -> Labels {
    let named = |name: &str| matching.labels.iter().any(|l| l == name);
    // As everywhere in matching, a label with an empty value counts as absent.
    let kept = labels.iter().filter(|(name, value)| named(name) == matching.on && !value.is_empty());
    kept.cloned().collect::<Vec<_>>().into()
}

type BySignature = HashMap<Labels, Vec<usize>, FixedState>;

fn by_signature(side: &Matrix, matching: &Matching) -> Result<BySignature, Stopped> {
    let mut map = BySignature::default();
    for (n, series) in side.series.iter().enumerate() {
        spend(SERIES_UNITS + 10 * (1 + matching.labels.len()) * series.labels.len())?;
        map.entry(signature(&series.labels, matching)).or_default().push(n);
    }
    Ok(map)
}

/// The series of each signature, in the order of their first series.
fn groups(side: &Matrix, matching: &Matching) -> Result<Vec<(Labels, Vec<usize>)>, Stopped> {
    let mut groups: Vec<(Labels, Vec<usize>)> = by_signature(side, matching)?.into_iter().collect();
    groups.sort_by_key(|(_, members)| members[0]);
    Ok(groups)
}

/// Applies an operator to two vectors.
pub fn vectors(
    op: BinaryOp,
    left: Matrix,
    right: Matrix,
    matching: &Matching,
    bool: bool,
) -> Result<Matrix, Error> {
    match op {
        BinaryOp::And => Ok(filtered(left, &right, matching, true)?),
        BinaryOp::Unless => Ok(filtered(left, &right, matching, false)?),
        BinaryOp::Or => Ok(union(left, right, matching)?),
        _ => joined(op, &left, &right, matching, bool),
    }
}

/// The values of the left side at which the right side has a match, or has none.
fn filtered(mut left: Matrix, right: &Matrix, matching: &Matching, wanted: bool) -> Result<Matrix, Stopped> {
    let partners = by_signature(right, matching)?;
    for series in &mut left.series {
        spend(SERIES_UNITS + 10 * (1 + matching.labels.len()) * series.labels.len())?;
        let partners = partners.get(&signature(&series.labels, matching));
        for (step, value) in series.values.iter_mut().enumerate() {
            spend(4 + partners.map_or(0, |partners| 4 * partners.len()))?;
            let met = partners.is_some_and(|p| p.iter().any(|&n| !is_absent(right.series[n].values[step])));
            if met != wanted {
                *value = ABSENT;
            }
        }
    }
    Ok(left)
}

/// The left side, and the values of the right side at which the left side has no match.
fn union(left: Matrix, right: Matrix, matching: &Matching) -> Result<Matrix, Stopped> {
    let ordered = left.ordered || right.ordered;
    let rest = filtered(right, &left, matching, false)?;
    let mut output = Collected::new(left.steps, ordered);
    for series in left.series.into_iter().chain(rest.series) {
        spend(SERIES_UNITS + (20 + 20 * series.labels.len()) * series.values.len())?;
        for (step, value) in series.values.iter().enumerate() {
            if !is_absent(*value) {
                output.set(&series.labels, step, *value);
            }
        }
    }
    Ok(output.matrix)
}

/// Whether two series of a side have the same signature and a value at the same step, with or without a
/// match.
fn is_ambiguous(side: &Matrix, signatures: &BySignature) -> Result<bool, Stopped> {
    let present = |n: &usize, step: usize| !is_absent(side.series[*n].values[step]);
    for members in signatures.values().filter(|members| members.len() > 1) {
        for step in 0..side.steps {
            spend(4 * members.len())?;
            if members.iter().filter(|n| present(n, step)).count() > 1 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Combines the series of both sides that match.
fn joined(
    op: BinaryOp,
    left: &Matrix,
    right: &Matrix,
    matching: &Matching,
    bool: bool,
) -> Result<Matrix, Error> {
    let swapped = matching.cardinality == Cardinality::OneToMany;
    let (many, one) = if swapped { (right, left) } else { (left, right) };
    let ones = by_signature(one, matching)?;
    if is_ambiguous(one, &ones)? {
        let side = if swapped { "left" } else { "right" };
        return Err(Error::Invalid(format!("found duplicate series on the {side} hand-side;{DUPLICATE}")));
    }
    let ordered = left.ordered || right.ordered;
    let mut output = Collected::new(left.steps, ordered);
    for (signature, members) in groups(many, matching)? {
        let Some(partners) = ones.get(&signature) else { continue };
        for step in 0..left.steps {
            spend(50 + 4 * (members.len() + partners.len()))?;
            let present = |side: &Matrix, list: &[usize]| -> Vec<usize> {
                list.iter().copied().filter(|&n| !is_absent(side.series[n].values[step])).collect()
            };
            let (members, partners) = (present(many, &members), present(one, partners));
            let Some(&partner) = partners.first() else { continue };
            if members.len() > 1 && matching.cardinality == Cardinality::OneToOne {
                return Err(Error::Invalid(IMPLICIT.to_owned()));
            }
            let mut seen: HashSet<Labels, FixedState> = HashSet::default();
            for member in members {
                let read = many.series[member].labels.len() + matching.include.len();
                spend(SERIES_UNITS + 20 * (1 + matching.labels.len()) * read)?;
                let labels =
                    result_labels(&many.series[member].labels, &one.series[partner].labels, matching);
                if !seen.insert(labels.clone()) {
                    return Err(Error::Invalid(AMBIGUOUS.to_owned()));
                }
                let (m, o) = (many.series[member].values[step], one.series[partner].values[step]);
                let (l, r) = if swapped { (o, m) } else { (m, o) };
                let value = merge(op, l, r, l, bool);
                if !is_absent(value) {
                    output.set(&labels, step, value);
                }
            }
        }
    }
    Ok(output.matrix)
}

fn result_labels(many: &Labels, one: &Labels, matching: &Matching) -> Labels {
    let named = |name: &str| matching.labels.iter().any(|l| l == name);
    let mut pairs: Vec<(Arc<str>, Arc<str>)> = match matching.cardinality {
        Cardinality::OneToOne => {
            many.iter().filter(|(name, _)| named(name) == matching.on).cloned().collect()
        }
        _ => many.to_vec(),
    };
    // As in Prometheus, a rebuilt label set has no empty labels.
    pairs.retain(|(_, value)| !value.is_empty());
    for name in &matching.include {
        pairs.retain(|(n, _)| **n != **name);
        if let Some(value) = label(one, name).filter(|v| !v.is_empty()) {
            pairs.push((name.as_str().into(), value.into()));
        }
    }
    sorted_labels(pairs)
}

/// Series that are built value by value.
struct Collected {
    matrix: Matrix,
    places: HashMap<Labels, usize, FixedState>,
}

impl Collected {
    fn new(steps: usize, ordered: bool) -> Self {
        Self { matrix: Matrix { ordered, ..Matrix::new(steps) }, places: HashMap::default() }
    }

    fn set(&mut self, labels: &Labels, step: usize, value: f64) {
        let matrix = &mut self.matrix;
        let place = *self.places.entry(labels.clone()).or_insert_with(|| {
            matrix.series.push(Series { labels: labels.clone(), values: vec![ABSENT; matrix.steps] });
            matrix.series.len() - 1
        });
        matrix.series[place].values[step] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::testing::matrix;

    fn on(labels: &[&str]) -> Matching {
        let labels = labels.iter().map(|l| (*l).to_owned()).collect();
        Matching { on: true, labels, explicit: true, ..Matching::default() }
    }

    fn run(
        op: BinaryOp,
        left: &Matrix,
        right: &Matrix,
        matching: &Matching,
        bool: bool,
    ) -> Result<Vec<String>, String> {
        let result = vectors(op, left.clone(), right.clone(), matching, bool).map_err(|e| e.to_string())?;
        let mut lines = result.to_text();
        lines.sort();
        Ok(lines)
    }

    #[test]
    fn operators_on_numbers_follow_loki() {
        assert!(apply(BinaryOp::Divide, 1.0, 0.0).is_nan());
        assert!(apply(BinaryOp::Modulo, 1.0, 0.0).is_nan());
        assert_eq!(apply(BinaryOp::Modulo, -7.0, 3.0), -1.0);
        assert_eq!(apply(BinaryOp::Power, 2.0, 3.0), 8.0);
        let vector = || matrix(&[("a=1", &[1.0, 5.0])]);
        assert_eq!(
            with_number(BinaryOp::Greater, vector(), 2.0, false, false).unwrap().to_text(),
            ["a=1: _ 5"]
        );
        assert_eq!(
            with_number(BinaryOp::Greater, vector(), 2.0, true, false).unwrap().to_text(),
            ["a=1: 1 _"]
        );
        assert_eq!(
            with_number(BinaryOp::Greater, vector(), 2.0, false, true).unwrap().to_text(),
            ["a=1: 0 1"]
        );
        assert_eq!(
            with_number(BinaryOp::Subtract, vector(), 2.0, true, false).unwrap().to_text(),
            ["a=1: 1 -3"]
        );
    }

    #[test]
    fn one_to_one_matching() {
        let left = matrix(&[("a=1,x=l", &[1.0, 2.0]), ("a=2,x=l", &[3.0, ABSENT])]);
        let right = matrix(&[("a=1,x=r", &[10.0, 20.0]), ("a=2,x=r", &[30.0, 40.0])]);
        assert_eq!(
            run(BinaryOp::Add, &left, &right, &on(&["a"]), false).unwrap(),
            ["a=1: 11 22", "a=2: 33 _"]
        );
        assert!(run(BinaryOp::Add, &left, &right, &Matching::default(), false).unwrap().is_empty());
        let ignoring = Matching { labels: vec!["x".to_owned()], ..Matching::default() };
        assert_eq!(run(BinaryOp::Less, &left, &right, &ignoring, false).unwrap(), ["a=1: 1 2", "a=2: 3 _"]);
        assert_eq!(run(BinaryOp::Greater, &left, &right, &ignoring, true).unwrap(), ["a=1: 0 0", "a=2: 0 _"]);
        let error = run(BinaryOp::Add, &left, &right, &on(&[]), false).unwrap_err();
        assert!(error.starts_with("found duplicate series on the right hand-side;many-to-many"), "{error}");
    }

    #[test]
    fn many_to_one_matching() {
        let many = matrix(&[("a=1,m=x", &[1.0]), ("a=1,m=y", &[2.0])]);
        let one = matrix(&[("a=1,o=z", &[10.0])]);
        let include = vec!["o".to_owned()];
        let left = Matching { cardinality: Cardinality::ManyToOne, include, ..on(&["a"]) };
        assert_eq!(
            run(BinaryOp::Multiply, &many, &one, &left, false).unwrap(),
            ["a=1,m=x,o=z: 10", "a=1,m=y,o=z: 20"]
        );
        let right = Matching { cardinality: Cardinality::OneToMany, include: Vec::new(), ..left };
        assert_eq!(
            run(BinaryOp::Subtract, &one, &many, &right, false).unwrap(),
            ["a=1,m=x: 9", "a=1,m=y: 8"]
        );
        let error = run(BinaryOp::Add, &many, &one, &on(&["a"]), false).unwrap_err();
        assert_eq!(error, IMPLICIT);
    }

    #[test]
    fn set_operators() {
        let left = matrix(&[("a=1", &[1.0, ABSENT]), ("a=2", &[2.0, 2.0])]);
        let right = matrix(&[("a=1", &[10.0, 10.0]), ("a=3", &[30.0, 30.0])]);
        let plain = Matching::default();
        assert_eq!(run(BinaryOp::And, &left, &right, &plain, false).unwrap(), ["a=1: 1 _"]);
        assert_eq!(run(BinaryOp::Unless, &left, &right, &plain, false).unwrap(), ["a=2: 2 2"]);
        assert_eq!(
            run(BinaryOp::Or, &left, &right, &plain, false).unwrap(),
            ["a=1: 1 10", "a=2: 2 2", "a=3: 30 30"]
        );
    }
}
