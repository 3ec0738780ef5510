//! Answers of other programs, where graphite-web's is known beside: equal, or graphite-web's is followed.

use serde_json::Value;

use super::{Report, string};
use crate::world::Place;

/// What a case shows.
pub(super) enum Verdict {
    /// The answer is that of the other program.
    Equal,
    /// The answer is graphite-web's, which differs.
    Followed,
    /// Neither, and why.
    Wrong(String),
}

/// Why graphite-web is followed.
fn reason(case: &Value) -> String {
    let web = &case["graphite_web"];
    let differs: Vec<&str> =
        case["differs_in"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match (differs.is_empty(), web["error"].as_str()) {
        (false, _) => format!("graphite-web differs in {}", differs.join(", ")),
        (true, Some(error)) => format!("graphite-web refuses it: {error}"),
        (true, None) => "graphite-web answers it".to_owned(),
    }
}

/// The report of cases that were judged.
pub(super) fn report(name: &'static str, judged: Vec<(Value, Verdict)>) -> Report {
    let count = judged.len();
    let (mut failures, mut followed) = (Vec::new(), Vec::new());
    for (case, verdict) in judged {
        let id = string(&case, "id");
        match verdict {
            Verdict::Equal => {}
            Verdict::Followed => followed.push((id.to_owned(), reason(&case))),
            Verdict::Wrong(wrong) => failures.push(format!("{id}: {}\n  {wrong}", string(&case, "target"))),
        }
    }
    let mut report = Report::new(name, Place::Memory, count, failures);
    report.explained.extend(followed);
    report
}
