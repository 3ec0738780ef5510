//! Series over the steps of a query: the values of metric expressions.

use std::sync::Arc;

use crate::range::slots::is_absent;

/// Pairs of name and value, sorted by name.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// A series with one value per step; a step without a value has the absent one.
#[derive(Clone, Debug)]
pub struct Series {
    /// The labels.
    pub labels: Labels,
    /// The values.
    pub values: Vec<f64>,
}

/// Series over the same steps.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Number of steps.
    pub steps: usize,
    /// The series. Two may have equal labels only after `label_replace`.
    pub series: Vec<Series>,
    /// Whether the order of the series is part of the result.
    pub ordered: bool,
}

impl Matrix {
    /// A matrix without series.
    pub fn new(steps: usize) -> Self {
        Self { steps, series: Vec::new(), ordered: false }
    }

    /// One series without labels that has the same value at all steps.
    pub fn constant(steps: usize, value: f64) -> Self {
        let series = Series { labels: Labels::default(), values: vec![value; steps] };
        Self { steps, series: vec![series], ordered: false }
    }

    /// The selected series in this order.
    pub fn reordered(self, order: &[usize]) -> Self {
        let series = order.iter().map(|&n| self.series[n].clone()).collect();
        Self { steps: self.steps, series, ordered: true }
    }

    /// The bytes of the series.
    pub fn memory_bytes(&self) -> u64 {
        let labels = |s: &Series| s.labels.iter().map(|(n, v)| n.len() + v.len() + 64).sum::<usize>();
        self.series.iter().map(|s| (s.values.len() * 8 + labels(s) + 48) as u64).sum()
    }

    /// The number of values, including absent ones; a series without steps counts as one.
    pub fn values(&self) -> usize {
        self.series.len() * self.steps.max(1)
    }

    /// Removes series without values.
    pub fn without_empty(mut self) -> Self {
        self.series.retain(|series| series.values.iter().any(|v| !is_absent(*v)));
        self
    }
}

/// The value of a label.
pub fn label<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels.iter().find(|(n, _)| **n == *name).map(|(_, v)| &**v)
}

/// Sorts pairs by name.
pub fn sorted_labels(mut pairs: Vec<(Arc<str>, Arc<str>)>) -> Labels {
    pairs.sort();
    pairs.into()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use sandur_model::go_text::format_float;

    /// Series from labels like `a=1,b=x` and values.
    pub fn matrix(series: &[(&str, &[f64])]) -> Matrix {
        let one = |(labels, values): &(&str, &[f64])| {
            let pairs = labels.split(',').filter(|l| !l.is_empty()).map(|l| {
                let (name, value) = l.split_once('=').unwrap();
                (name.into(), value.into())
            });
            Series { labels: sorted_labels(pairs.collect()), values: values.to_vec() }
        };
        let steps = series.first().map_or(0, |(_, values)| values.len());
        Matrix { steps, series: series.iter().map(one).collect(), ordered: false }
    }

    impl Matrix {
        /// A line per series, empty ones left out.
        pub fn to_text(&self) -> Vec<String> {
            let value = |v: &f64| if is_absent(*v) { "_".to_owned() } else { format_float(*v) };
            let filled = self.clone().without_empty();
            let line = |series: &Series| {
                let labels: Vec<String> = series.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
                let values: Vec<String> = series.values.iter().map(value).collect();
                format!("{}: {}", labels.join(","), values.join(" "))
            };
            filled.series.iter().map(line).collect()
        }
    }
}
