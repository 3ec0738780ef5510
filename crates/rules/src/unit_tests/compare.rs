//! Compares what was expected with what a test found.

use sandur_model::go_text::labels_text;
use sandur_model::{FloatHistogram, Labels};

use crate::data::Number;
use crate::spec::Pairs;

/// Alerts as texts.
#[derive(Default)]
pub struct AlertSet(Vec<String>);

impl AlertSet {
    /// Adds an alert.
    pub fn add(&mut self, labels: &Labels, annotations: &Pairs) {
        let mut sorted = annotations.clone();
        sorted.sort();
        let annotations = labels_text(sorted.iter().map(|(name, value)| (&**name, &**value)));
        self.0.push(format!("Labels:{labels} Annotations:{annotations}"));
    }

    /// The alerts in a fixed order.
    pub fn sorted(mut self) -> Vec<String> {
        self.0.sort();
        self.0
    }
}

type Sample = (Labels, Number);

/// Why the samples differ, in any order.
pub fn samples_differ(mut expected: Vec<Sample>, mut got: Vec<Sample>, is_fuzzy: bool) -> Option<String> {
    let order = |a: &Sample, b: &Sample| a.0.cmp(&b.0);
    expected.sort_by(order);
    got.sort_by(order);
    let same = expected.len() == got.len()
        && expected.iter().zip(&got).all(|(a, b)| a.0 == b.0 && are_equal(&a.1, &b.1, is_fuzzy));
    (!same).then(|| format!("  expected: {}\n  got:      {}", shown(&expected), shown(&got)))
}

fn shown(samples: &[Sample]) -> String {
    let one = |(labels, number): &Sample| match number {
        Number::Float(value) => format!("{labels} {value}"),
        Number::Histogram(histogram) => format!("{labels} {histogram}"),
    };
    match samples.is_empty() {
        true => "nil".to_owned(),
        false => samples.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

fn are_equal(a: &Number, b: &Number, is_fuzzy: bool) -> bool {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => equal(*a, *b, is_fuzzy),
        (Number::Histogram(a), Number::Histogram(b)) => {
            let [mut a, mut b] = [a, b].map(|histogram| FloatHistogram::clone(histogram));
            a.compact();
            b.compact();
            // Series in memory have no counter reset hints.
            b.reset = a.reset;
            a.to_string() == b.to_string()
        }
        _ => false,
    }
}

/// Whether values are equal; with `is_fuzzy` also if they are neighbours.
fn equal(a: f64, b: f64, is_fuzzy: bool) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (is_fuzzy && (a.next_up() == b || a.next_down() == b))
}
