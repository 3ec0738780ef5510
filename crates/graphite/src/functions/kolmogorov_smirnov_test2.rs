//! `kolmogorovSmirnovTest2`: computes the p-value of the two-sample Kolmogorov-Smirnov test over a
//! sliding window: the probability of points at least as different if both series have the same
//! distribution.

use std::f64::consts::PI;

use sandur_base::job::{reserve_exactly, spend};

use super::correlation::{only, window};
use crate::aggregation::sorted;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "kolmogorovSmirnovTest2",
    aliases: &["ksTest2"],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("otherSeries", Kind::SeriesList),
        required("windowSize", Kind::Integer),
    ],
    doc: "Computes the p-value of the two-sample Kolmogorov-Smirnov test over a sliding window: the \
          probability of points at least as different if both series have the same distribution.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
