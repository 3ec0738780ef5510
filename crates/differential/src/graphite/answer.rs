//! Answers, and their comparison.

use serde_json::Value;

/// The permitted difference of numbers, relative to the larger one.
const TOLERANCE: f64 = 1e-9;

/// A series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub target: String,
    /// Its tags.
    pub tags: Value,
    /// Values and times in seconds since the epoch.
    pub points: Vec<(Option<f64>, i64)>,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Series.
    Rows(Vec<Row>),
    /// An error that rejects the request.
    Refused(String),
    /// An exception, or no answer in time; graphite-web then has no answer.
    Failed(String),
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// graphite-web answers, we reject.
    Refused,
    /// graphite-web rejects, we answer.
    Answered,
    /// Our answer is broken.
    Broken,
    /// The number of series.
    Series,
    /// Names.
    Names,
    /// Tags.
    Tags,
    /// Times or the number of points.
    Times,
    /// Values.
    Values,
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The kind.
    pub kind: Kind,
    /// A readable description.
    pub detail: String,
}

impl Answer {
    /// Parses an answer in JSON.
    pub fn read(body: &str) -> Self {
        let finite = body.replace("-1e9999", "\"-inf\"").replace("1e9999", "\"inf\"");
        let Ok(value) = serde_json::from_str::<Value>(&finite) else {
            return Self::Failed(format!("not JSON: {}", body.chars().take(300).collect::<String>()));
        };
        let rows = value.as_array().and_then(|rows| rows.iter().map(row).collect::<Option<Vec<_>>>());
        rows.map_or_else(|| Self::Failed("no series".to_owned()), Self::Rows)
    }
}

fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

fn row(value: &Value) -> Option<Row> {
    let points = value["datapoints"].as_array()?.iter();
    let points = points.map(|point| Some((number(&point[0]), point[1].as_i64()?)));
    let target = value["target"].as_str()?.to_owned();
    Some(Row { target, tags: value["tags"].clone(), points: points.collect::<Option<_>>()? })
}

/// Returns how our answer differs. `cancels` says that the answer contains differences of large numbers.
pub fn compare(theirs: &Answer, ours: &Answer, cancels: bool) -> Option<Difference> {
    let difference = |kind, detail: String| Some(Difference { kind, detail });
    let (left, right) = match (theirs, ours) {
        (_, Answer::Failed(why)) => return difference(Kind::Broken, why.clone()),
        (Answer::Failed(_), _) | (Answer::Refused(_), Answer::Refused(_)) => return None,
        (Answer::Refused(why), Answer::Rows(_)) => return difference(Kind::Answered, why.clone()),
        (Answer::Rows(rows), Answer::Refused(why)) => {
            return difference(Kind::Refused, format!("{} series\n      | {why}", rows.len()));
        }
        (Answer::Rows(left), Answer::Rows(right)) => (left, right),
    };
    let names = |rows: &[Row]| rows.iter().map(|row| row.target.clone()).collect::<Vec<_>>();
    if left.len() != right.len() {
        return difference(Kind::Series, format!("{:?}\n      | {:?}", names(left), names(right)));
    }
    if names(left) != names(right) {
        return difference(Kind::Names, format!("{:?}\n      | {:?}", names(left), names(right)));
    }
    left.iter().zip(right).find_map(|(left, right)| {
        let name = &left.target;
        if !left.points.iter().map(|(_, time)| time).eq(right.points.iter().map(|(_, time)| time)) {
            let ends = |row: &Row| {
                let times = |point: Option<&(Option<f64>, i64)>| point.map(|(_, time)| *time);
                format!("{} {:?} {:?}", row.points.len(), times(row.points.first()), times(row.points.last()))
            };
            return difference(Kind::Times, format!("{name}: {}\n      | {}", ends(left), ends(right)));
        }
        let sizes = left.points.iter().filter_map(|(value, _)| *value).map(f64::abs);
        let scale = if cancels { sizes.filter(|size| size.is_finite()).fold(0.0, f64::max) } else { 0.0 };
        let mut pairs = left.points.iter().zip(&right.points);
        if let Some(((a, time), (b, _))) = pairs.find(|((a, _), (b, _))| !is_close(*a, *b, scale)) {
            return difference(Kind::Values, format!("{name} at {time}: {a:?}\n      | {b:?}"));
        }
        let wrong = !is_same_tags(&left.tags, &right.tags);
        wrong.then(|| Difference {
            kind: Kind::Tags,
            detail: format!("{name}: {}\n      | {}", left.tags, right.tags),
        })
    })
}

/// Returns whether tags are the same; numbers in them may be formatted differently.
fn is_same_tags(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else { return left == right };
    let is_same = |(name, own): (&String, &Value)| {
        let other = right.get(name);
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
        other == Some(own) || other.is_some_and(|other| is_close_number(number(own), number(other)))
    };
    left.len() == right.len() && left.iter().all(is_same)
}

fn is_close_number(a: Option<f64>, b: Option<f64>) -> bool {
    a.is_some() && is_close(a, b, 0.0)
}

/// Returns whether two values agree, relative to the larger one or to a scale.
fn is_close(a: Option<f64>, b: Option<f64>, scale: f64) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.is_finite() && b.is_finite() => {
            a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(scale)
        }
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_differences_are_distinguished() {
        let answer = |name: &str, point: &str| {
            Answer::read(&format!(r#"[{{"target":"{name}","tags":{{}},"datapoints":[{point}]}}]"#))
        };
        let base = answer("a", "[1.0, 60]");
        let kind = |theirs: &Answer, ours: &Answer| compare(theirs, ours, false).map(|found| found.kind);
        assert_eq!(kind(&base, &answer("a", "[1, 60]")), None);
        assert_eq!(kind(&base, &answer("a", "[null, 60]")), Some(Kind::Values));
        assert_eq!(kind(&base, &answer("a", "[1e9999, 60]")), Some(Kind::Values));
        assert_eq!(kind(&base, &answer("a", "[1, 120]")), Some(Kind::Times));
        assert_eq!(kind(&base, &answer("b", "[1, 60]")), Some(Kind::Names));
        assert_eq!(kind(&base, &Answer::read("[]")), Some(Kind::Series));
        let refused = Answer::Refused("no".to_owned());
        assert_eq!(kind(&base, &refused), Some(Kind::Refused));
        assert_eq!(kind(&refused, &base), Some(Kind::Answered));
        assert_eq!(kind(&Answer::Failed("an exception".to_owned()), &refused), None);
        assert_eq!(kind(&base, &Answer::read("{")), Some(Kind::Broken));
    }
}
