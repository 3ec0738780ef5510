//! A notification as JSON, in version 4 of the form of
//! [Alertmanager's webhook](https://prometheus.io/docs/alerting/latest/configuration/#webhook_config).

use bytes::Bytes;
use serde_json::{Value, json};

use super::body::{object, time};
use super::notification::{Notification, Told};

/// The time of Go that means none: `endsAt` of an alert that fires.
pub const NO_TIME: &str = "0001-01-01T00:00:00Z";
/// The name of the receiver.
pub const NAME: &str = "webhook";

/// The body of a request. `url` is that of this server.
pub fn body(notification: &Notification, url: &str) -> Bytes {
    let body = json!({
        "version": "4",
        "receiver": NAME,
        "status": notification.status(),
        "groupKey": &*notification.group,
        "groupLabels": object(notification.labels.iter()),
        "commonLabels": object(notification.common_labels().into_iter()),
        "commonAnnotations": object(notification.common_annotations().into_iter()),
        "externalURL": url,
        "truncatedAlerts": notification.left_out(),
        "alerts": notification.alerts.iter().map(|told| alert(told)).collect::<Vec<_>>(),
    });
    body.to_string().into()
}

fn alert(told: &Told) -> Value {
    json!({
        "status": told.status(),
        "labels": object(told.labels.iter()),
        "annotations": object(told.annotations.iter().map(|(name, value)| (&**name, &**value))),
        "startsAt": time(told.starts_at),
        "endsAt": told.ends_at.map_or_else(|| NO_TIME.to_owned(), time),
        "generatorURL": &*told.link,
        "fingerprint": fingerprint(told),
    })
}

/// The id of an alert for clients: 16 hexadecimal digits, as in Alertmanager.
pub fn fingerprint(told: &Told) -> String {
    format!("{:016x}", told.id.0 as u64)
}
