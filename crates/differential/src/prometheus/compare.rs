//! Compares two answers.

use std::fmt::Write as _;

use super::answer::{Answer, Data, NOTES_MAX, Names, Point, Row, ShownHistogram, says_omitted};

/// The permitted difference of numbers, relative to the larger one.
const TOLERANCE: f64 = 1e-12;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One returns an answer, the other an error.
    Refused,
    /// Both return errors, with different texts.
    Words,
    /// Both return errors with the same text, but different types.
    ErrorType,
    /// The types of the results.
    Shape,
    /// The set of series.
    Series,
    /// The times of samples, or whether they are histograms.
    Samples,
    /// The values of samples.
    Values,
    /// The order of series that were sorted.
    Order,
    /// Warnings.
    Warnings,
    /// Infos.
    Infos,
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The kind.
    pub kind: Kind,
    /// A readable description.
    pub detail: String,
}

fn difference(kind: Kind, detail: impl Into<String>) -> Option<Difference> {
    Some(Difference { kind, detail: detail.into() })
}

/// Returns how our answer differs from Prometheus's. With `ordered` the order of series is significant.
pub fn compare(theirs: &Answer, ours: &Answer, ordered: bool) -> Option<Difference> {
    let (left, right) = match (&theirs.outcome, &ours.outcome) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(left), Err(right)) if left == right => return compare_error_types(theirs, ours),
        (Err(left), Err(right)) => return difference(Kind::Words, format!("{left}\n      | {right}")),
        (Err(left), Ok(_)) => return difference(Kind::Refused, format!("{left}\n      | an answer")),
        (Ok(_), Err(right)) => return difference(Kind::Refused, format!("an answer\n      | {right}")),
    };
    compare_data(left, right, ordered)
        .or_else(|| compare_notes(Kind::Warnings, &theirs.warnings, &ours.warnings))
        .or_else(|| compare_notes(Kind::Infos, &theirs.infos, &ours.infos))
}

fn compare_error_types(theirs: &Answer, ours: &Answer) -> Option<Difference> {
    match (&theirs.error_type, &ours.error_type) {
        (Some(left), Some(right)) if left != right => {
            difference(Kind::ErrorType, format!("{left}\n      | {right}"))
        }
        _ => None,
    }
}

fn compare_notes(kind: Kind, theirs: &[String], ours: &[String]) -> Option<Difference> {
    let sorted = |list: &[String]| {
        let mut list: Vec<String> = list.iter().filter(|text| !says_omitted(text)).cloned().collect();
        list.sort();
        list
    };
    let (left, right) = (sorted(theirs), sorted(ours));
    // Of many annotations the API returns ten, in no particular order.
    let is_cut = theirs.iter().any(|text| says_omitted(text)) || ours.iter().any(|text| says_omitted(text));
    let fits = match is_cut {
        true => left.len().min(right.len()) >= NOTES_MAX,
        false => left == right,
    };
    if fits {
        return None;
    }
    let only = |a: &[String], b: &[String]| -> Vec<String> {
        a.iter().filter(|text| !b.contains(text)).take(3).cloned().collect()
    };
    difference(
        kind,
        format!("only Prometheus {:?}\n      | only we {:?}", only(&left, &right), only(&right, &left)),
    )
}

fn compare_data(left: &Data, right: &Data, ordered: bool) -> Option<Difference> {
    match (left, right) {
        (Data::Scalar(a), Data::Scalar(b)) if close(*a, *b) => None,
        (Data::Scalar(a), Data::Scalar(b)) => difference(Kind::Values, format!("{a} | {b}")),
        (Data::Text(a), Data::Text(b)) if a == b => None,
        (Data::Text(a), Data::Text(b)) => difference(Kind::Values, format!("{a} | {b}")),
        (Data::Vector(a), Data::Vector(b)) => compare_rows(a, b, ordered),
        (Data::Matrix(a), Data::Matrix(b)) => compare_rows(a, b, true),
        _ => difference(Kind::Shape, format!("{left:.100?} | {right:.100?}")),
    }
}

fn compare_rows(left: &[Row], right: &[Row], ordered: bool) -> Option<Difference> {
    let sorted = |rows: &[Row]| {
        let mut rows: Vec<Row> = rows.to_vec();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    let (a, b) = (sorted(left), sorted(right));
    if !a.iter().map(|row| &row.0).eq(b.iter().map(|row| &row.0)) {
        let only = |a: &[Row], b: &[Row]| -> Vec<Names> {
            a.iter()
                .map(|row| &row.0)
                .filter(|names| !b.iter().any(|row| row.0 == **names))
                .take(2)
                .cloned()
                .collect()
        };
        let mut text = format!("{} series | {} series", a.len(), b.len());
        let _ =
            write!(text, "\n      only Prometheus {:?}\n      | only we {:?}", only(&a, &b), only(&b, &a));
        return difference(Kind::Series, text);
    }
    for ((names, left), (_, right)) in a.iter().zip(&b) {
        if let Some((kind, text)) = compare_points(left, right) {
            return difference(kind, format!("{names:?}: {text}"));
        }
    }
    if ordered && !left.iter().map(|row| &row.0).eq(right.iter().map(|row| &row.0)) {
        let order = |rows: &[Row]| format!("{:?}", rows.iter().map(|row| &row.0).take(4).collect::<Vec<_>>());
        return difference(Kind::Order, format!("{}\n      | {}", order(left), order(right)));
    }
    None
}

fn compare_points(left: &[(i64, Point)], right: &[(i64, Point)]) -> Option<(Kind, String)> {
    let is_float = |point: &Point| matches!(point, Point::Float(_));
    let place = |(time, point): &(i64, Point)| (*time, is_float(point));
    if !left.iter().map(place).eq(right.iter().map(place)) {
        let at = left.iter().zip(right).position(|(a, b)| place(a) != place(b));
        let at = at.unwrap_or(left.len().min(right.len()));
        let (a, b) = (left.get(at), right.get(at));
        return Some((
            Kind::Samples,
            format!("{} samples | {} samples; at {at} {a:?}\n      | {b:?}", left.len(), right.len()),
        ));
    }
    left.iter()
        .zip(right)
        .find(|((_, a), (_, b))| !same(a, b))
        .map(|((time, a), (_, b))| (Kind::Values, format!("at {time}: {a:?}\n      | {b:?}")))
}

/// Returns whether points have the same times and close values.
pub fn are_same_points(left: &[(i64, Point)], right: &[(i64, Point)]) -> bool {
    compare_points(left, right).is_none()
}

fn same(left: &Point, right: &Point) -> bool {
    match (left, right) {
        (Point::Float(a), Point::Float(b)) => close(*a, *b),
        (Point::Histogram(a), Point::Histogram(b)) => same_histogram(a, b),
        _ => false,
    }
}

fn same_histogram(left: &ShownHistogram, right: &ShownHistogram) -> bool {
    let same_bucket = |((a, x), (b, y)): (&(u64, [f64; 3]), &(u64, [f64; 3]))| {
        a == b && x.iter().zip(y).all(|(x, y)| close(*x, *y))
    };
    close(left.count, right.count)
        && close(left.sum, right.sum)
        && left.buckets.len() == right.buckets.len()
        && left.buckets.iter().zip(&right.buckets).all(same_bucket)
}

/// Returns whether two numbers are the same within [`TOLERANCE`]; NaN equals NaN.
pub fn close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer::from_json(text.as_bytes())
    }

    fn matrix(rows: &str) -> Answer {
        answer(&format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{rows}]}}}}"#))
    }

    fn kind(left: &Answer, right: &Answer) -> Option<Kind> {
        compare(left, right, false).map(|difference| difference.kind)
    }

    #[test]
    fn kinds_of_differences_are_distinguished() {
        let base = r#"{"metric":{"a":"1"},"values":[[1,"1"],[2.5,"0.3"]]}"#;
        let rounded = r#"{"metric":{"a":"1"},"values":[[1,"1"],[2.5,"0.30000000000000004"]]}"#;
        let other = r#"{"metric":{"a":"1"},"values":[[1,"1"],[2.5,"0.31"]]}"#;
        let fewer = r#"{"metric":{"a":"1"},"values":[[1,"1"]]}"#;
        let renamed = r#"{"metric":{"a":"2"},"values":[[1,"1"],[2.5,"0.3"]]}"#;
        let to_base = |rows: &str| kind(&matrix(base), &matrix(rows));
        assert_eq!(to_base(base), None);
        assert_eq!(to_base(rounded), None);
        assert_eq!(to_base(other), Some(Kind::Values));
        assert_eq!(to_base(fewer), Some(Kind::Samples));
        assert_eq!(to_base(renamed), Some(Kind::Series));
        let (one, two) = (format!("{base},{renamed}"), format!("{renamed},{base}"));
        assert_eq!(kind(&matrix(&one), &matrix(&two)), Some(Kind::Order));
        let refusal = answer(r#"{"status":"error","error":"invalid parameter \"query\": 1:1: no"}"#);
        assert_eq!(kind(&refusal, &matrix(base)), Some(Kind::Refused));
        assert_eq!(kind(&refusal, &Answer::refusal("1:1: no")), None);
        assert_eq!(kind(&refusal, &Answer::refusal("1:1: yes")), Some(Kind::Words));
        let of = |kind: &str| answer(&format!(r#"{{"status":"error","errorType":"{kind}","error":"no"}}"#));
        assert_eq!(kind(&of("bad_data"), &of("execution")), Some(Kind::ErrorType));
        assert_eq!(kind(&of("bad_data"), &of("bad_data")), None);
        assert_eq!(kind(&of("bad_data"), &Answer::refusal("no")), None, "the engine has no types");
    }

    #[test]
    fn histograms_are_compared_bucket_by_bucket() {
        let one = |count: &str| {
            let histogram = format!(r#"{{"count":"3","sum":"1","buckets":[[0,"1","2","{count}"]]}}"#);
            matrix(&format!(r#"{{"metric":{{}},"histograms":[[1,{histogram}]]}}"#))
        };
        assert_eq!(kind(&one("3"), &one("3")), None);
        assert_eq!(kind(&one("3"), &one("2")), Some(Kind::Values));
    }
}
