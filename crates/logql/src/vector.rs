//! Functions over the vector at each instant: `sum`, `topk` and similar ones. The parser and the
//! documentation are made from the table [`FUNCTIONS`].

use std::collections::HashMap;

use foldhash::fast::FixedState;
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::exact::{ExactSum, Moments};

use crate::grouping::{Grouping, group_labels};
use crate::matrix::{Labels, Matrix, Series};
use crate::range::slots::{ABSENT, is_absent};

/// An entry in the table of functions.
pub struct VectorFunction {
    /// The name.
    pub name: &'static str,
    /// What it does, for the reference page.
    pub doc: &'static str,
    /// Whether it takes a count before the vector.
    pub takes_count: bool,
    /// Whether it orders an instant vector; such a function takes no grouping.
    pub sorts: bool,
    /// The implementation.
    pub kind: Kind,
}

/// The implementation of a function.
#[derive(Clone, Copy)]
pub enum Kind {
    /// One value per group, which does not depend on the order of its values.
    Fold(Fold),
    /// Selects the series of each group with the greatest or least values.
    Select {
        /// Whether the greatest values are selected, not the least.
        greatest: bool,
    },
    /// Sorts all series by value.
    Sort {
        /// Whether the greatest value comes first.
        descending: bool,
    },
}

impl std::fmt::Debug for VectorFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Computes the value of a group at one instant from its values, of which there is at least one.
pub type Fold = fn(&[f64]) -> f64;

const fn fold(name: &'static str, doc: &'static str, fold: Fold) -> VectorFunction {
    VectorFunction { name, doc, takes_count: false, sorts: false, kind: Kind::Fold(fold) }
}

const fn other(name: &'static str, doc: &'static str, kind: Kind) -> VectorFunction {
    let takes_count = matches!(kind, Kind::Select { .. });
    VectorFunction { name, doc, takes_count, sorts: !takes_count, kind }
}

/// Every function.
pub const FUNCTIONS: &[VectorFunction] = &[
    fold("sum", "The sum of each group.", |values| sum(values).value()),
    fold("avg", "The mean of each group.", |values| sum(values).mean(values.len() as f64)),
    fold("min", "The least value of each group.", |values| {
        numbers(values).min_by(f64::total_cmp).unwrap_or(f64::NAN)
    }),
    fold("max", "The greatest value of each group.", |values| {
        numbers(values).max_by(f64::total_cmp).unwrap_or(f64::NAN)
    }),
    fold("count", "The number of series in each group.", |values| values.len() as f64),
    fold("stddev", "The standard deviation of each group.", |values| variance(values).sqrt()),
    fold("stdvar", "The variance of each group.", variance),
    other("topk", "The series with the greatest values of each group.", Kind::Select { greatest: true }),
    other("bottomk", "The series with the least values of each group.", Kind::Select { greatest: false }),
    other("approx_topk", "The same as `topk`; the result is exact.", Kind::Select { greatest: true }),
    other("sort", "Sorts the series by ascending value.", Kind::Sort { descending: false }),
    other("sort_desc", "Sorts the series by descending value.", Kind::Sort { descending: true }),
];

/// The function of this name.
pub fn find(name: &str) -> Option<&'static VectorFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

fn sum(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

fn numbers(values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().copied().filter(|value| !value.is_nan())
}

/// The variance of the population. As in Loki, that of one value is 0, even if the value is infinite.
fn variance(values: &[f64]) -> f64 {
    if values.len() == 1 {
        return 0.0;
    }
    let mut moments = Moments::default();
    values.iter().for_each(|value| moments.add(*value));
    moments.variance()
}

/// Applies a function to every instant.
pub fn apply(
    function: &VectorFunction,
    parameter: Option<i64>,
    grouping: Option<&Grouping>,
    input: Matrix,
) -> Result<Matrix, Stopped> {
    match function.kind {
        Kind::Fold(fold) => fold_groups(fold, grouping, &input),
        Kind::Select { greatest } => {
            let count = usize::try_from(parameter.unwrap_or(1)).unwrap_or(usize::MAX);
            select(greatest, count, grouping, input)
        }
        Kind::Sort { descending } => Ok(sort(descending, input)),
    }
}

/// The series of each group, in the order of their first series.
fn groups(grouping: Option<&Grouping>, input: &Matrix) -> Result<Vec<(Labels, Vec<usize>)>, Stopped> {
    let mut places: HashMap<Labels, usize, FixedState> = HashMap::default();
    let mut groups: Vec<(Labels, Vec<usize>)> = Vec::new();
    for (n, series) in input.series.iter().enumerate() {
        let named = grouping.map_or(1, |grouping| 1 + grouping.labels.len());
        spend(100 + 10 * named * series.labels.len())?;
        let labels = group_labels(&series.labels, grouping);
        let place = *places.entry(labels.clone()).or_insert_with(|| {
            groups.push((labels, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(n);
    }
    Ok(groups)
}

fn fold_groups(fold: Fold, grouping: Option<&Grouping>, input: &Matrix) -> Result<Matrix, Stopped> {
    let mut output = Matrix::new(input.steps);
    let mut present = Vec::new();
    for (labels, members) in groups(grouping, input)? {
        let mut values = Vec::with_capacity(input.steps);
        for step in 0..input.steps {
            spend(50 + 4 * members.len())?;
            let all = members.iter().map(|member| input.series[*member].values[step]);
            present.clear();
            present.extend(all.filter(|value| !is_absent(*value)));
            values.push(if present.is_empty() { ABSENT } else { fold(&present) });
        }
        output.series.push(Series { labels, values });
    }
    Ok(output)
}

/// Compares by descending rank; NaN ranks last in both directions.
fn rank(greatest: bool, a: f64, b: f64) -> std::cmp::Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) => std::cmp::Ordering::Greater,
        (false, true) => std::cmp::Ordering::Less,
        _ if greatest => b.total_cmp(&a),
        _ => a.total_cmp(&b),
    }
}

fn select(
    greatest: bool,
    count: usize,
    grouping: Option<&Grouping>,
    mut input: Matrix,
) -> Result<Matrix, Stopped> {
    let mut kept: Vec<Vec<f64>> = vec![vec![ABSENT; input.steps]; input.series.len()];
    for (_, members) in groups(grouping, &input)? {
        for step in 0..input.steps {
            // Members are sorted by their values.
            spend(50 + 100 * members.len())?;
            for member in best(greatest, count, step, &members, &input) {
                let (to, from) = (&mut kept[member], &input.series[member].values);
                to[step] = from[step];
            }
        }
    }
    for (series, values) in input.series.iter_mut().zip(kept) {
        series.values = values;
    }
    Ok(input)
}

/// The members with the best values at a step.
fn best(greatest: bool, count: usize, step: usize, members: &[usize], input: &Matrix) -> Vec<usize> {
    let value = |n: &usize| input.series[*n].values[step];
    let mut present: Vec<usize> = members.iter().copied().filter(|n| !is_absent(value(n))).collect();
    // Of equal values, the series that comes first by its labels ranks first.
    present.sort_by(|a, b| {
        let labels = || input.series[*a].labels.cmp(&input.series[*b].labels);
        rank(greatest, value(a), value(b)).then_with(labels)
    });
    present.truncate(count);
    present
}

fn sort(descending: bool, input: Matrix) -> Matrix {
    if input.steps != 1 {
        return input;
    }
    let mut order: Vec<usize> =
        (0..input.series.len()).filter(|&n| !is_absent(input.series[n].values[0])).collect();
    let value = |n: &usize| input.series[*n].values[0];
    order.sort_by(|a, b| {
        let labels = || input.series[*a].labels.cmp(&input.series[*b].labels);
        rank(descending, value(a), value(b)).then_with(labels)
    });
    input.reordered(&order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::testing::matrix;

    fn run(name: &str, parameter: Option<i64>, by: &[&str], input: Matrix) -> Vec<String> {
        let grouping = Grouping { without: false, labels: by.iter().map(|l| (*l).to_owned()).collect() };
        apply(find(name).unwrap(), parameter, Some(&grouping), input).unwrap().to_text()
    }

    fn input() -> Matrix {
        matrix(&[("a=1,b=x", &[1.0, 2.0]), ("a=2,b=x", &[3.0, ABSENT]), ("a=3,b=y", &[5.0, 7.0])])
    }

    #[test]
    fn folds_combine_each_group() {
        assert_eq!(run("sum", None, &["b"], input()), ["b=x: 4 2", "b=y: 5 7"]);
        assert_eq!(run("avg", None, &[], input()), [": 3 4.5"]);
        assert_eq!(run("min", None, &[], input()), [": 1 2"]);
        assert_eq!(run("max", None, &[], input()), [": 5 7"]);
        assert_eq!(run("count", None, &[], input()), [": 3 2"]);
        assert_eq!(run("stdvar", None, &["b"], input()), ["b=x: 1 0", "b=y: 0 0"]);
        assert_eq!(run("stddev", None, &["b"], input()), ["b=x: 1 0", "b=y: 0 0"]);
        assert_eq!(run("sum", None, &["missing"], input()), [": 9 9"]);
    }

    #[test]
    fn topk_selects_and_sort_orders() {
        assert_eq!(run("topk", Some(1), &[], input()), ["a=3,b=y: 5 7"]);
        assert_eq!(run("topk", Some(1), &["b"], input()), ["a=1,b=x: _ 2", "a=2,b=x: 3 _", "a=3,b=y: 5 7"]);
        assert_eq!(run("bottomk", Some(2), &[], input()), ["a=1,b=x: 1 2", "a=2,b=x: 3 _", "a=3,b=y: _ 7"]);
        let one = || matrix(&[("a=1", &[2.0]), ("a=2", &[f64::NAN]), ("a=3", &[1.0]), ("a=4", &[2.0])]);
        assert_eq!(run("sort", None, &[], one()), ["a=3: 1", "a=1: 2", "a=4: 2", "a=2: NaN"]);
        assert_eq!(run("sort_desc", None, &[], one()), ["a=1: 2", "a=4: 2", "a=3: 1", "a=2: NaN"]);
        assert_eq!(run("topk", Some(2), &[], one()), ["a=1: 2", "a=4: 2"]);
        assert_eq!(run("bottomk", Some(3), &[], one()), ["a=1: 2", "a=3: 1", "a=4: 2"]);
    }

    #[test]
    fn infinities_follow_prometheus() {
        let infinite = f64::INFINITY;
        assert_eq!(run("avg", None, &[], matrix(&[("a=1", &[infinite]), ("a=2", &[1.0])])), [": +Inf"]);
        assert_eq!(run("avg", None, &[], matrix(&[("a=1", &[infinite]), ("a=2", &[-infinite])])), [": NaN"]);
    }
}
