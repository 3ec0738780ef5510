//! Compares two series: Pearson's correlation, and the Kolmogorov-Smirnov test.

use std::f64::consts::PI;
use std::ops::Range;

use sandur_memory::job::{reserve_exactly, spend};

use super::keys::take_first;
use crate::aggregation::{order, sorted};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::Transform)
    .named("pearson", "Computes the Pearson correlation of two series over a sliding window.", pearson)
    .taking(&[SERIES, required("otherSeries", Kind::SeriesList), required("windowSize", Kind::Integer)])
    .of_carbonapi();

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "kolmogorovSmirnovTest2",
        aliases: &["ksTest2"],
        doc: "Computes the p-value of the two-sample Kolmogorov-Smirnov test over a sliding window: the \
              probability of points at least as different if both series have the same distribution.",
        body: Body::Series(kolmogorov_smirnov_test2),
        ..BASE
    },
    BASE.named(
        "pearsonClosest",
        "Keeps the `n` series with the strongest Pearson correlation to one series: of either sign \
              (`abs`), positive (`pos`) or negative (`neg`).",
        pearson_closest,
    )
    .taking(&[
        required("series", Kind::SeriesList),
        required("seriesList", Kind::SeriesList),
        required("n", Kind::Integer),
        optional("direction", Kind::Text).or(Preset::Text("abs")).of(&["abs", "pos", "neg"]),
    ]),
];

fn pearson(mut call: Call) -> Result<Vec<Series>> {
    let first = only(call.list(0)?, "pearson")?;
    let second = only(call.list(1)?, "pearson")?;
    let size = window(call.integer(2)?)?;
    let mut values = Column::with_room(first.values.len())?;
    for end in 1..=first.values.len() {
        let value = match end.checked_sub(size) {
            Some(begin) => correlation(&first, &second, begin..end)?,
            None => None,
        };
        values.push(value);
    }
    let name = format!("pearson({},{},{size})", first.name, second.name);
    Ok(vec![first.derived(name, values)])
}

fn pearson_closest(mut call: Call) -> Result<Vec<Series>> {
    let reference = only(call.list(0)?, "pearsonClosest")?;
    let (list, n, direction) = (call.list(1)?, call.integer(2)?, call.text(3)?);
    let rank = |coefficient: f64| match direction.as_str() {
        "abs" => Some(coefficient.abs()),
        "pos" => Some(coefficient).filter(|coefficient| *coefficient >= 0.0),
        "neg" => Some(-coefficient).filter(|rank| *rank >= 0.0),
        _ => None,
    };
    if !matches!(direction.as_str(), "abs" | "pos" | "neg") {
        return Err(Error::invalid("direction must be one of: pos, neg, abs"));
    }
    let count = reference.values.len();
    let mut ranked = Vec::new();
    for series in list.into_iter().filter(|series| series.values.len() == count) {
        if let Some(rank) = correlation(&reference, &series, 0..count)?.and_then(rank) {
            ranked.push((rank, series));
        }
    }
    ranked.sort_by(|(a, _), (b, _)| order(*b, *a));
    let ranked: Vec<Series> = ranked.into_iter().map(|(_, series)| series).collect();
    Ok(take_first(ranked, n.max(0)))
}

fn kolmogorov_smirnov_test2(mut call: Call) -> Result<Vec<Series>> {
    let first = only(call.list(0)?, "kolmogorovSmirnovTest2")?;
    let second = only(call.list(1)?, "kolmogorovSmirnovTest2")?;
    let size = window(call.integer(2)?)?;
    let count = first.values.len();
    let _held = reserve_exactly(16 * size.min(count) as u64)?;
    let mut values = Column::with_room(count)?;
    for place in 0..count {
        // The first result is one point after the first full window.
        let value = match place.checked_sub(size) {
            Some(before) => {
                spend(size.saturating_mul(8))?;
                let places = before + 1..place + 1;
                likelihood(&sorted(first.values.part(places.clone())), &sorted(second.values.part(places)))
            }
            None => None,
        };
        values.push(value);
    }
    let name = format!("kolmogorovSmirnovTest2({},{},{size})", first.name, second.name);
    Ok(vec![first.derived(name, values)])
}

/// The p-value for two samples in ascending order; `None` if one is empty.
fn likelihood(first: &[f64], second: &[f64]) -> Option<f64> {
    let (count_a, count_b) = (first.len() as f64, second.len() as f64);
    let (mut a, mut b, mut distance) = (0, 0, 0.0_f64);
    while let (Some(&next_a), Some(&next_b)) = (first.get(a), second.get(b)) {
        let next = if next_b < next_a { next_b } else { next_a };
        a += first[a..].iter().take_while(|value| **value <= next).count();
        b += second[b..].iter().take_while(|value| **value <= next).count();
        distance = distance.max((a as f64 / count_a - b as f64 / count_b).abs());
        if next.is_nan() {
            return None;
        }
    }
    let effective = (count_a * count_b / (count_a + count_b)).sqrt();
    (count_a > 0.0 && count_b > 0.0).then(|| survival(effective * distance))
}

/// The survival function of Kolmogorov's distribution, by one series for small distances and another one
/// for large ones.
fn survival(distance: f64) -> f64 {
    if distance == 0.0 {
        return 1.0;
    }
    if distance < 1.18 {
        let exponent = -PI * PI / 8.0 / (distance * distance);
        let terms = [1, 9, 25, 49].map(|n| (f64::from(n) * exponent).exp());
        return 1.0 - (2.0 * PI).sqrt() / distance * terms.iter().sum::<f64>();
    }
    let term = |n: f64| (-2.0 * n * n * distance * distance).exp();
    2.0 * (term(1.0) - term(2.0) + term(3.0))
}

/// The series of an argument that must have exactly one.
pub(super) fn only(list: Vec<Series>, function: &str) -> Result<Series> {
    let count = list.len();
    match <[Series; 1]>::try_from(list) {
        Ok([series]) => Ok(series),
        Err(_) => Err(Error::invalid(format!("{function} compares single series, but is given {count}"))),
    }
}

/// Checks a number of points: at least 1.
pub(super) fn window(size: i64) -> Result<usize> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0);
    size.ok_or_else(|| Error::invalid("a window must have at least 1 point"))
}

/// Pearson's correlation coefficient over the places at which both series have a value; `None` if one of
/// them is constant there.
pub(super) fn correlation(first: &Series, second: &Series, places: Range<usize>) -> Result<Option<f64>> {
    spend(places.len().saturating_mul(2))?;
    let both = || {
        let pairs = first.values.part(places.clone()).zip(second.values.part(places.clone()));
        pairs.filter_map(|(a, b)| a.zip(b))
    };
    let (mut count, mut sum_a, mut sum_b) = (0.0, 0.0, 0.0);
    for (a, b) in both() {
        (count, sum_a, sum_b) = (count + 1.0, sum_a + a, sum_b + b);
    }
    let (mean_a, mean_b) = (sum_a / count, sum_b / count);
    let (mut product, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (a, b) in both() {
        let (a, b) = (a - mean_a, b - mean_b);
        (product, square_a, square_b) = (product + a * b, square_a + a * a, square_b + b * b);
    }
    let coefficient: f64 = product / (f64::sqrt(square_a) * f64::sqrt(square_b));
    Ok((!coefficient.is_nan()).then_some(coefficient))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_the_same_distribution_have_a_large_p_value() {
        let sample = |begin: usize| (begin..begin + 20).map(|n| n as f64).collect::<Vec<_>>();
        assert_eq!(likelihood(&sample(0), &sample(0)), Some(1.0));
        assert!(likelihood(&sample(0), &sample(2)).unwrap() > 0.9);
        assert!(likelihood(&sample(0), &sample(15)).unwrap() < 1e-3);
        assert_eq!(likelihood(&sample(0), &[]), None);
        // Both series have the same value where they meet.
        assert!((survival(1.18) - survival(1.18 - 1e-12)).abs() < 1e-7);
    }
}
