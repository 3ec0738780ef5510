//! Alerts as Alertmanager's JSON.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::{Labels, StreamId};
use sandur_targets::LabelSet;
use serde_json::{Map, Value, json};

use super::queue::Queued;
use crate::alert::Alert;
use crate::data::Instant;
use crate::external::External;

/// The labels of an alert with the external ones, over which those of the alert take precedence.
pub fn labels_of(alert: &Alert, external: &External) -> LabelSet {
    let of_server = external.labels.iter().map(|(name, value)| (&**name, &**value));
    let all = of_server.chain(alert.labels.iter());
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Labels of an alert as a label set.
pub fn sorted(labels: &LabelSet) -> Labels {
    Labels::from_pairs(labels.iter().map(|(name, value)| (&**name, &**value)))
}

/// An alert with these labels as JSON, and the id of the labels.
pub fn entry(alert: &Alert, labels: &LabelSet, link: &str) -> (StreamId, Arc<str>) {
    let labels = sorted(labels);
    let ends_at = alert.resolved_at.or(alert.valid_until);
    let text = json!({
        "labels": object(labels.iter()),
        "annotations": object(alert.annotations.iter().map(|(name, value)| (&**name, &**value))),
        "startsAt": time(alert.fired_at.unwrap_or(alert.active_at)),
        "endsAt": ends_at.map(time).unwrap_or_default(),
        "generatorURL": link,
    });
    (labels.stream_id(), Arc::from(text.to_string()))
}

/// The body of a request.
pub fn of_batch(alerts: &[Queued]) -> Bytes {
    let mut body =
        String::with_capacity(alerts.iter().map(|queued| queued.text.len() + 1).sum::<usize>() + 2);
    body.push('[');
    for (n, queued) in alerts.iter().enumerate() {
        if n > 0 {
            body.push(',');
        }
        body.push_str(&queued.text);
    }
    body.push(']');
    body.into()
}

/// Pairs as a JSON object.
pub fn object<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let pairs = pairs.map(|(name, value)| (name.to_owned(), Value::from(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// A time as RFC 3339.
pub fn time(at: Instant) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at.ns())).map(|at| at.to_string()).unwrap_or_default()
}
