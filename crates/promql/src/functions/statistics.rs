//! Quantiles, deviations, regressions and smoothing over windows.

use std::cmp::Ordering;

use sandur_model::histogram::{GoNumber, kahan_add};

use crate::functions::window::{Site, Value, Window};
use crate::notes::Note;

type Answer = Result<Value, String>;

/// Compares floats; NaN comes first.
fn order(a: &f64, b: &f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (a, b) => b.cmp(&a),
    }
}

/// The quantile of the values, interpolated between neighbours. Reorders the values; runs in linear time.
pub fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if !(0.0..=1.0).contains(&q) {
        return if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let last = values.len() - 1;
    let rank = q * last as f64;
    let lower = rank.floor().max(0.0);
    let upper = (lower as usize + 1).min(last);
    let weight = rank - rank.floor();
    let (_, low, above) = values.select_nth_unstable_by(lower as usize, order);
    let low = *low;
    if weight == 0.0 {
        // The upper neighbour has no weight and is left out, because zero times infinity is NaN.
        return low;
    }
    let high = if upper > lower as usize { above.iter().copied().min_by(order).unwrap_or(low) } else { low };
    low * (1.0 - weight) + high * weight
}

pub fn quantile_over_time(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let q = window.args[0];
    if window.values.is_empty() {
        return Ok(Value::None);
    }
    if !(0.0..=1.0).contains(&q) {
        site.note(Note::InvalidQuantile(q.to_bits()));
    }
    if !window.histograms.is_empty() {
        site.note(Note::IgnoredInRange(site.metric));
    }
    Ok(quantile(q, &mut window.values.to_vec()).into())
}

/// The median of the absolute deviations from the median.
pub fn mad(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if window.values.is_empty() {
        return Ok(Value::None);
    }
    window.ignore_histograms(site);
    if window.values.iter().any(|value| value.is_nan()) {
        return Ok(f64::NAN.into());
    }
    let mut values = window.values.to_vec();
    let median = quantile(0.5, &mut values);
    values.iter_mut().for_each(|value| *value = (*value - median).abs());
    Ok(quantile(0.5, &mut values).into())
}

fn variance(window: &Window<'_>, site: &mut Site<'_>) -> Option<f64> {
    if window.values.is_empty() {
        return None;
    }
    window.ignore_histograms(site);
    let (mut count, mut mean, mut mean_lost, mut squares, mut squares_lost) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for value in window.values {
        count += 1.0;
        let delta = value - (mean + mean_lost);
        (mean, mean_lost) = kahan_add(delta / count, mean, mean_lost);
        (squares, squares_lost) = kahan_add(delta * (value - (mean + mean_lost)), squares, squares_lost);
    }
    Some((squares + squares_lost) / count)
}

pub fn stdvar(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    Ok(variance(window, site).map_or(Value::None, Value::Float))
}

pub fn stddev(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    Ok(variance(window, site).map_or(Value::None, |variance| Value::Float(variance.sqrt())))
}

/// The slope of the linear regression through the samples, and its value at `at`.
fn regression(times: &[i64], values: &[f64], at: i64) -> (f64, f64) {
    let first = values[0];
    let mut sums = [(0.0, 0.0); 4];
    let mut is_constant = true;
    for (time, value) in times.iter().zip(values) {
        is_constant &= *value == first;
        let x = (time - at) as f64 / 1e3;
        for (sum, term) in sums.iter_mut().zip([x, *value, x * value, x * x]) {
            *sum = kahan_add(term, sum.0, sum.1);
        }
    }
    if is_constant {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let n = values.len() as f64;
    let [x, y, xy, xx] = sums.map(|(sum, lost)| sum + lost);
    let slope = (xy - x * y / n) / (xx - x * x / n);
    (slope, y / n - slope * x / n)
}

/// Whether there are enough floats for a regression; adds a note about ignored histograms.
fn has_line(window: &Window<'_>, site: &mut Site<'_>) -> bool {
    if !window.values.is_empty() {
        window.ignore_histograms(site);
    }
    window.values.len() >= 2
}

pub fn deriv(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if !has_line(window, site) {
        return Ok(Value::None);
    }
    // A time near the samples, for accuracy.
    Ok(regression(window.times, window.values, window.times[0]).0.into())
}

pub fn predict_linear(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if !has_line(window, site) {
        return Ok(Value::None);
    }
    let (slope, intercept) = regression(window.times, window.values, window.at);
    Ok((slope * window.args[0] + intercept).into())
}

/// Fails if a factor is not between 0 and 1, both exclusive.
pub fn check_smoothing(smoothing: f64, trend: f64) -> Result<(), String> {
    for (name, short, factor) in [("smoothing", "sf", smoothing), ("trend", "tf", trend)] {
        if factor <= 0.0 || factor >= 1.0 {
            let got = if factor.is_finite() { format!("{factor:.6}") } else { GoNumber(factor).to_string() };
            return Err(format!("invalid {name} factor. Expected: 0 < {short} < 1, got: {got}"));
        }
    }
    Ok(())
}

pub fn double_exponential_smoothing(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let (smoothing, trend) = (window.args[0], window.args[1]);
    check_smoothing(smoothing, trend)?;
    if !has_line(window, site) {
        return Ok(Value::None);
    }
    let values = window.values;
    let (mut before, mut smoothed, mut slope) = (0.0, values[0], values[1] - values[0]);
    for (n, value) in values.iter().enumerate().skip(1) {
        if n > 1 {
            slope = trend * (smoothed - before) + (1.0 - trend) * slope;
        }
        let next = smoothing * value + (1.0 - smoothing) * (smoothed + slope);
        (before, smoothed) = (smoothed, next);
    }
    Ok(smoothed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn a_quantile_at_the_rank_of_a_value_ignores_an_infinite_neighbour() {
        let of = |q: f64, values: &[f64]| quantile(q, &mut values.to_vec());
        assert_eq!(of(0.5, &[INF, 1.0, 2.0]), 2.0);
        assert_eq!(of(0.5, &[2.0, 3.0, -INF]), 2.0);
        assert_eq!(of(1.0, &[INF, 1.0]), INF);
        assert_eq!(of(0.0, &[-INF]), -INF);
        assert_eq!(of(0.5, &[1.0, INF]), INF, "half of infinity is infinity");
        assert!(of(0.5, &[-INF, INF]).is_nan());
        assert_eq!(of(0.25, &[1.0, 2.0, 3.0, 4.0]), 1.75);
    }
}
