//! Compares answers with the expectations of a script.

use sandur_model::histogram::Buckets;
use sandur_model::{FloatHistogram, Labels, is_stale};
use sandur_promql::{Answer, Point, Series, Times, Value, almost_equal};

use super::script::{Eval, Match};
use sandur_promql::series_text::Sample;

/// Largest allowed difference of two numbers, relative to their sum.
const EPSILON: f64 = 1e-6;

fn same(a: f64, b: f64) -> bool {
    if is_stale(a) || is_stale(b) {
        return is_stale(a) && is_stale(b);
    }
    almost_equal(a, b, EPSILON)
}

fn same_buckets(a: &Buckets, b: &Buckets) -> bool {
    a.indices == b.indices && a.counts.iter().zip(&b.counts).all(|(a, b)| same(*a, *b))
}

fn same_histogram(wanted: &FloatHistogram, found: &FloatHistogram, hint: bool) -> bool {
    let (mut a, mut b) = (wanted.clone(), found.clone());
    a.compact();
    b.compact();
    a.schema == b.schema
        && same(a.count, b.count)
        && same(a.sum, b.sum)
        && (!a.is_custom() || a.bounds == b.bounds)
        && a.zero_threshold == b.zero_threshold
        && same(a.zero_count, b.zero_count)
        && same_buckets(&a.positive, &b.positive)
        && same_buckets(&a.negative, &b.negative)
        && (!hint || a.reset == b.reset)
}

fn same_sample(wanted: &Sample, found: &Point) -> bool {
    match (wanted, found) {
        (Sample::Float(wanted), Point::Float(found)) => same(*wanted, *found),
        (Sample::Histogram(wanted, hint), Point::Histogram(found)) => same_histogram(wanted, found, *hint),
        _ => false,
    }
}

fn show(point: &Point) -> String {
    match point {
        Point::Float(value) => value.to_string(),
        Point::Histogram(histogram) => format!("{histogram} {:?}", histogram.reset),
    }
}

fn show_sample(sample: &Sample) -> String {
    match sample {
        Sample::Omitted => "_".to_owned(),
        Sample::Float(value) => value.to_string(),
        Sample::Histogram(histogram, hint) => format!("{histogram} {:?} {hint}", histogram.reset),
    }
}

/// Checks the warnings and infos of an answer. The error says what is wrong.
pub fn notes(eval: &Eval, answer: &Answer) -> Result<(), String> {
    let check = |kind: &str, wanted: &[Match], found: &[String], none: bool| {
        if none && !found.is_empty() {
            return Err(format!("unexpected {kind}: {found:?}"));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        for one in wanted {
            if !found.iter().any(|text| one.fits(text)) {
                let what = match one {
                    Match::Text(text) => text.clone(),
                    Match::Regex(regex) => regex.to_string(),
                };
                return Err(format!("missing {kind} '{what}', found {found:?}"));
            }
        }
        match found.iter().find(|text| !wanted.iter().any(|one| one.fits(text))) {
            Some(text) => Err(format!("unexpected {kind} '{text}'")),
            None => Ok(()),
        }
    };
    check("warning", &eval.warn, &answer.warnings, eval.no_warn)?;
    check("info", &eval.info, &answer.infos, eval.no_info)
}

/// Checks the value of an answer. The error says what is wrong.
pub fn value(eval: &Eval, value: &Value) -> Result<(), String> {
    match value {
        Value::String(found) => match &eval.string {
            Some(wanted) if wanted == found => Ok(()),
            wanted => Err(format!("expected the string {wanted:?}, got {found:?}")),
        },
        Value::Scalar(found) => match &eval.expected[..] {
            [(None, samples)] if same_sample(&samples[0], &Point::Float(*found)) => Ok(()),
            [(None, samples)] => Err(format!("expected {}, got {found}", show_sample(&samples[0]))),
            _ => Err(format!("expected series, got the scalar {found}")),
        },
        Value::Vector(found) => vector(eval, found),
        Value::Matrix(found) => matrix(eval, found),
    }
}

/// Returns the expectation for a series and its position; the later of two descriptions counts.
fn described<'a>(eval: &'a Eval, labels: &Labels) -> Option<(usize, &'a [Sample])> {
    let all = eval.expected.iter().enumerate();
    let mut own = all.filter(|(_, (own, _))| own.as_ref() == Some(labels));
    own.next_back().map(|(n, (_, samples))| (n, &samples[..]))
}

fn missing(eval: &Eval, has: impl Fn(&Labels) -> bool) -> Result<(), String> {
    match eval.expected.iter().filter_map(|(labels, _)| labels.as_ref()).find(|labels| !has(labels)) {
        Some(labels) => Err(format!("expected {labels}, which is missing")),
        None => Ok(()),
    }
}

fn vector(eval: &Eval, found: &[(Labels, Point)]) -> Result<(), String> {
    if eval.expected.iter().any(|(labels, _)| labels.is_none()) {
        return Err("expected a scalar, got a vector".to_owned());
    }
    for (place, (labels, point)) in found.iter().enumerate() {
        let Some((at, samples)) = described(eval, labels) else {
            return Err(format!("unexpected {labels} {}", show(point)));
        };
        if eval.ordered && at != place {
            return Err(format!("expected {labels} at place {at}, got it at {place}"));
        }
        if !same_sample(&samples[0], point) {
            return Err(format!("expected {labels} {}, got {}", show_sample(&samples[0]), show(point)));
        }
    }
    missing(eval, |labels| found.iter().any(|(own, _)| own == labels))
}

fn matrix(eval: &Eval, found: &[Series]) -> Result<(), String> {
    if eval.ordered || eval.expected.iter().any(|(labels, _)| labels.is_none()) {
        return Err("expected no matrix, got one".to_owned());
    }
    is_sorted(found)?;
    let Times { start, step, .. } = eval.window.unwrap_or(eval.times);
    for series in found {
        let labels = &series.labels;
        let Some((_, samples)) = described(eval, labels) else {
            return Err(format!("unexpected {labels} {:?} {:?}", series.floats, series.histograms));
        };
        let time = |n: usize| start + n as i64 * step;
        let (mut floats, mut histograms) = (series.floats.iter(), series.histograms.iter());
        for (n, wanted) in samples.iter().enumerate() {
            let point = match wanted {
                Sample::Omitted => continue,
                Sample::Float(_) => floats.next().map(|(at, value)| (*at, Point::Float(*value))),
                Sample::Histogram(..) => {
                    histograms.next().map(|(at, histogram)| (*at, Point::Histogram(histogram.clone())))
                }
            };
            let wanted_at = time(n);
            match point {
                Some((at, point)) if at == wanted_at && same_sample(wanted, &point) => {}
                Some((at, point)) => {
                    let (wanted, got) = (show_sample(wanted), show(&point));
                    return Err(format!(
                        "{labels} at {wanted_at}: expected {wanted}, got {got} at {at}, of {:?}",
                        series.floats
                    ));
                }
                None => {
                    let wanted = show_sample(wanted);
                    return Err(format!(
                        "{labels} at {wanted_at}: expected {wanted}, of {:?}",
                        series.floats
                    ));
                }
            }
        }
        if floats.next().is_some() || histograms.next().is_some() {
            return Err(format!("{labels} has more samples: {:?} {:?}", series.floats, series.histograms));
        }
    }
    missing(eval, |labels| found.iter().any(|series| &series.labels == labels))
}

/// Checks that the series of a range query's answer are sorted by labels.
pub fn is_sorted(found: &[Series]) -> Result<(), String> {
    let pairs =
        |labels: &Labels| labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect::<Vec<_>>();
    match found.windows(2).find(|pair| pairs(&pair[0].labels) > pairs(&pair[1].labels)) {
        Some(pair) => Err(format!("{} comes before {}", pair[0].labels, pair[1].labels)),
        None => Ok(()),
    }
}
