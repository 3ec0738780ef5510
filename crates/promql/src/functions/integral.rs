//! The integral over time of the floats in a window.
//!
//! **Invariants:** sums are compensated. A NaN counts as zero, so that the areas next to it keep the part
//! of the other sample. The mean of two finite values does not overflow.

use sandur_model::histogram::kahan_add;

use crate::functions::window::{Site, Value, Window};
use crate::notes::Note;

/// The rule for the area between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The area has the height of the earlier sample.
    Left,
    /// The area has the height of the later sample.
    Right,
    /// The area has the mean height of both.
    Trapezoid,
}

impl Rule {
    /// The rule with this number; `None` if there is none.
    fn numbered(number: f64) -> Option<Self> {
        match number {
            0.0 => Some(Self::Left),
            1.0 => Some(Self::Right),
            2.0 => Some(Self::Trapezoid),
            _ => None,
        }
    }

    /// The height of the area between two samples, and its rounding error.
    fn height(self, before: f64, after: f64) -> (f64, f64) {
        match self {
            Self::Left => (before, 0.0),
            Self::Right => (after, 0.0),
            Self::Trapezoid => {
                let (sum, lost) = kahan_add(after, before, 0.0);
                if sum.is_infinite() && before.is_finite() && after.is_finite() {
                    return kahan_add(after / 2.0, before / 2.0, 0.0);
                }
                (sum / 2.0, lost / 2.0)
            }
        }
    }
}

fn or_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

fn area(rule: Rule, times: &[i64], values: &[f64]) -> f64 {
    let (mut area, mut lost) = (0.0, 0.0);
    for (times, values) in times.windows(2).zip(values.windows(2)) {
        let (height, rest) = rule.height(or_zero(values[0]), or_zero(values[1]));
        if height != 0.0 || rest != 0.0 {
            let seconds = (times[1] - times[0]) as f64 / 1000.0;
            (area, lost) = kahan_add(height * seconds, area, lost + rest * seconds);
        }
    }
    if area.is_infinite() { area } else { area + lost }
}

/// The integral by the rule of the second argument; by trapezoids if there is none.
pub fn integral(window: &Window<'_>, site: &mut Site<'_>) -> Result<Value, String> {
    if window.values.is_empty() {
        return Ok(Value::None);
    }
    window.ignore_histograms(site);
    let rule = window.args.first().map_or(Some(Rule::Trapezoid), |number| Rule::numbered(*number));
    let rule = rule.unwrap_or_else(|| {
        let number = window.args.first().map_or(0, |number| number.to_bits());
        site.notes.add(Note::InvalidIntegralRule(number), site.parameter);
        Rule::Trapezoid
    });
    Ok(area(rule, window.times, window.values).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Rule; 3] = [Rule::Left, Rule::Right, Rule::Trapezoid];

    fn areas(values: &[f64]) -> [f64; 3] {
        let times: Vec<i64> = (0i64..).take(values.len()).map(|n| n * 10_000).collect();
        ALL.map(|rule| area(rule, &times, values))
    }

    #[test]
    fn each_rule_uses_its_own_height() {
        assert_eq!(areas(&[1.0, 2.0, 4.0]), [30.0, 60.0, 45.0]);
        assert_eq!(areas(&[7.0]), [0.0; 3]);
        assert_eq!(area(Rule::Left, &[0, 500, 2_500], &[2.0, 3.0, 9.0]), 7.0);
    }

    #[test]
    fn nan_counts_as_zero_and_infinity_does_not() {
        assert_eq!(areas(&[f64::NAN, 4.0, f64::NAN]), [40.0, 40.0, 40.0]);
        assert_eq!(areas(&[f64::INFINITY, 1.0])[0], f64::INFINITY);
        assert!(areas(&[1.0, f64::INFINITY, f64::NEG_INFINITY])[2].is_nan());
    }

    #[test]
    fn large_values_neither_overflow_nor_hide_small_ones() {
        assert_eq!(area(Rule::Trapezoid, &[0, 1_000], &[f64::MAX, f64::MAX]), f64::MAX);
        assert_eq!(areas(&[0.0, 1.0, 1e100, 1.0, -1e100, 1.0, 0.0]), [30.0; 3]);
    }

    #[test]
    fn rules_have_integer_numbers() {
        assert_eq!([0.0, 1.0, 2.0, -0.0].map(Rule::numbered), [ALL[0], ALL[1], ALL[2], ALL[0]].map(Some));
        for wrong in [-1.0, 0.5, 3.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rule::numbered(wrong), None, "{wrong}");
        }
    }
}
