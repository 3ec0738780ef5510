//! Reads a rule and checks it as Prometheus does.

use std::time::Duration;

use sandur_model::go_text::quote;
use sandur_yaml::{Keys, Node};

use super::reading::{Errors, duration, language, pairs};
use crate::expression;
use crate::spec::{Language, Pairs, RuleKind, RuleSpec, WINDOW};
use crate::template;

/// The longest window.
const WINDOW_MAX: Duration = Duration::from_secs(31 * 86_400);

const NAME: &str = "__name__";

type Located = Vec<(String, String, usize)>;

/// Reads a rule of a group with these labels. What is wrong goes to `errors`.
pub(super) fn read(
    node: &Node,
    of_group: Language,
    group_labels: &Located,
    errors: &mut Errors,
) -> Option<RuleSpec> {
    let mut keys = errors.note(Keys::of(node))?;
    let record = errors.note(keys.text("record"))?.unwrap_or_default();
    let alert = errors.note(keys.text("alert"))?.unwrap_or_default();
    let expr = keys.take("expr");
    let hold = duration(&mut keys, "for", errors);
    let keep_firing = duration(&mut keys, "keep_firing_for", errors);
    let language = language(&mut keys, errors).unwrap_or(of_group);
    let window = window(&mut keys, language, errors);
    let own = pairs(&mut keys, "labels", errors);
    let annotations = pairs(&mut keys, "annotations", errors);
    errors.note(keys.finish(&[], &mut Vec::new()));
    check_labels(&own, errors);
    let expr = text_of(node, expr, language, errors);
    let line = node.line;
    let (name, kind) = match (record.is_empty(), alert.is_empty()) {
        (false, false) => {
            errors.add(line, "only one of 'record' and 'alert' must be set");
            return None;
        }
        (true, true) => {
            errors.add(line, "one of 'record' or 'alert' must be set");
            return None;
        }
        (false, true) => {
            let set = [
                ("annotations", !annotations.is_empty()),
                ("for", hold.is_some_and(|hold| !hold.is_zero())),
                ("keep_firing_for", keep_firing.is_some_and(|keep| !keep.is_zero())),
            ];
            for (key, _) in set.iter().filter(|(_, is_set)| *is_set) {
                errors.add(line, format!("invalid field '{key}' in recording rule: remove it"));
            }
            check_record(&record, line, errors);
            (record, RuleKind::Recording)
        }
        (true, false) => {
            check_annotations(&annotations, errors);
            check_templates(&alert, [("label", &own), ("annotation", &annotations)], errors);
            let annotations = plain(&annotations);
            let (hold, keep_firing) = (hold.unwrap_or_default(), keep_firing.unwrap_or_default());
            (alert, RuleKind::Alerting { hold, keep_firing, annotations })
        }
    };
    let inherited = group_labels.iter().filter(|(name, ..)| !own.iter().any(|(of_rule, ..)| of_rule == name));
    let labels = inherited.chain(&own).map(|(name, value, _)| (name.clone(), value.clone())).collect();
    Some(RuleSpec { name, kind, language, expr, window, labels, line })
}

/// How far an expression of Graphite looks back.
fn window(keys: &mut Keys<'_>, language: Language, errors: &mut Errors) -> Duration {
    let line = keys.line;
    let Some(window) = duration(keys, "window", errors) else { return WINDOW };
    if language != Language::Graphite {
        errors.add(line, "window: only rules with `language: graphite` have it; remove it");
    } else if !(Duration::from_secs(1)..=WINDOW_MAX).contains(&window) {
        errors.add(line, "window: it must be from 1s to 31d");
    }
    window
}

fn plain(located: &Located) -> Pairs {
    located.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect()
}

/// The checked text of the expression.
fn text_of(rule: &Node, expr: Option<&Node>, language: Language, errors: &mut Errors) -> String {
    let (line, text) = match expr {
        Some(Node { line, data: sandur_yaml::Data::Scalar(text) }) => (*line, text.as_str()),
        Some(node) => {
            errors.add(node.line, "expr: expected a text");
            return String::new();
        }
        None => (rule.line, ""),
    };
    if text.is_empty() {
        errors.add(line, "field 'expr' must be set in rule");
        return String::new();
    }
    if let Err(why) = expression::check(language, text) {
        errors.add(line, format!("could not parse expression: {why}"));
    }
    text.trim().to_owned()
}

fn check_record(record: &str, line: usize, errors: &mut Errors) {
    if record.contains(['{', '}']) {
        let shown = quote(record);
        errors
            .add(line, format!("braces present in the recording rule name; should it be in expr?: {shown}"));
    }
}

/// Checks names of labels. Any text is a name, except that of the metric's name.
pub(super) fn check_labels(labels: &Located, errors: &mut Errors) {
    for (name, _, line) in labels {
        if name.is_empty() || name == NAME {
            errors.add(*line, format!("invalid label name: {}", quote(name)));
        }
    }
}

fn check_annotations(annotations: &Located, errors: &mut Errors) {
    for (_, _, line) in annotations.iter().filter(|(name, ..)| name.is_empty()) {
        errors.add(*line, "invalid annotation name: \"\"");
    }
}

fn check_templates(alert: &str, of: [(&str, &Located); 2], errors: &mut Errors) {
    for (kind, texts) in of {
        for (name, text, line) in texts {
            if let Err(why) = template::parse(alert, text) {
                errors.add(*line, format!("{kind} {}: {why}", quote(name)));
            }
        }
    }
}
