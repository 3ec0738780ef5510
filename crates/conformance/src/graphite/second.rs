//! Judges answers by those of another program and of graphite-web. Where these two differ, graphite-web
//! is followed.

use serde_json::Value;

use super::cases::string;
use super::report::Report;
use crate::world::Place;

/// The verdict on a case.
pub(super) enum Verdict {
    /// The answer equals that of the other program.
    Equal,
    /// The answer equals that of graphite-web, which differs from the other program's.
    Followed,
    /// The answer equals neither. Holds the difference.
    Wrong(String),
}

/// Returns why graphite-web is followed.
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

/// Returns the report of judged cases.
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
