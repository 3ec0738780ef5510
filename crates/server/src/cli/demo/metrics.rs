//! The metrics of the demo: what the made-up services count, and what the server says of itself, each sampled
//! every [`SLOT_S`] seconds and sent as text to the same HTTP API that everyone uses.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use sandur_bench::services::Incident;
use sandur_model::SECOND_NS;

use crate::cli::client::{Ask, Client, Refusal};
use crate::failed_command::Failed;
use axum::http::Method;

/// Seconds between samples.
pub const SLOT_S: i64 = 15;
/// Where text goes.
const IMPORT: &str = "/api/v1/import/prometheus";

/// What kind of text.
const TEXT: (&str, &str) = ("content-type", "text/plain; version=0.0.4");

/// A service and its instance.
type Instance = (String, String);

/// What services did since the last sample, by the slot's end in seconds.
#[derive(Debug, Default)]
pub struct Counted {
    /// Lines and bytes of each instance.
    pub lines: BTreeMap<i64, BTreeMap<Instance, (u64, u64)>>,
    /// What went wrong.
    pub incidents: BTreeMap<i64, Option<Incident>>,
}

/// The end of the slot that a second belongs to.
pub fn slot_of(second: i64) -> i64 {
    (second.div_euclid(SLOT_S) + 1) * SLOT_S
}

/// Names of incidents as labels have them.
const INCIDENTS: [(Incident, &str); 4] = [
    (Incident::BankTimeouts, "bank_timeouts"),
    (Incident::DatabaseLock, "database_lock"),
    (Incident::OutOfMemory, "out_of_memory"),
    (Incident::PasswordGuessing, "password_guessing"),
];

/// Counters of all services since the start of the demo.
#[derive(Debug, Default)]
pub struct Meter {
    counters: BTreeMap<Instance, (u64, u64)>,
    /// Samples that were sent.
    pub samples: u64,
}

impl Meter {
    /// The text of the samples at the ends of slots up to `before`; what lies later stays in `counted`.
    pub fn sample(&mut self, counted: &mut Counted, before: i64) -> String {
        let mut text = String::new();
        let later = counted.incidents.split_off(&(before + 1));
        let slots = std::mem::replace(&mut counted.incidents, later);
        for (slot, incident) in slots {
            for (instance, (lines, bytes)) in counted.lines.remove(&slot).unwrap_or_default() {
                let counter = self.counters.entry(instance).or_default();
                *counter = (counter.0 + lines, counter.1 + bytes);
            }
            self.write(&mut text, slot * 1_000, incident);
        }
        text
    }

    fn write(&mut self, text: &mut String, at_ms: i64, incident: Option<Incident>) {
        let mut line = |name: &str, labels: std::fmt::Arguments<'_>, value: u64| {
            self.samples += 1;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}{{job=\"shop\",{labels}}} {value} {at_ms}");
        };
        for ((app, instance), (lines, bytes)) in &self.counters {
            line("shop_lines_total", format_args!("app=\"{app}\",instance=\"{instance}\""), *lines);
            line("shop_line_bytes_total", format_args!("app=\"{app}\",instance=\"{instance}\""), *bytes);
            line("up", format_args!("app=\"{app}\",instance=\"{instance}\""), 1);
        }
        for (kind, name) in INCIDENTS {
            line("shop_incident", format_args!("kind=\"{name}\""), u64::from(incident == Some(kind)));
        }
    }
}

/// Sends samples.
pub async fn send(client: &Client, text: String) -> Result<(), Failed> {
    if text.is_empty() {
        return Ok(());
    }
    import(client, &[], TEXT, text.into()).await?;
    Ok(())
}

/// Asks the server for its own metrics, and sends them to it.
pub async fn send_own(client: &Client, now_ns: i64) -> Result<(), Failed> {
    let own = client.get("/metrics", &[]).await?;
    let name = client.base().split("://").nth(1).unwrap_or("sandur").trim_end_matches('/');
    let pairs = [
        ("extra_label", "job=sandur".to_owned()),
        ("extra_label", format!("instance={name}")),
        ("timestamp", (now_ns / (SECOND_NS / 1_000)).to_string()),
    ];
    import(client, &pairs, TEXT, own.into()).await?;
    Ok(())
}

async fn import(
    client: &Client,
    pairs: &[(&str, String)],
    kind: (&'static str, &'static str),
    body: Bytes,
) -> Result<(), Refusal> {
    let ask = Ask { method: Method::POST, path: IMPORT, pairs, headers: &[kind], body };
    client.ask(ask).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_are_sampled_at_the_ends_of_slots() {
        let (mut meter, mut counted) = (Meter::default(), Counted::default());
        let instance = ("api".to_owned(), "api-0".to_owned());
        for (slot, lines) in [(15, 2), (30, 3), (45, 9)] {
            counted.lines.entry(slot).or_default().insert(instance.clone(), (lines, 10 * lines));
            counted.incidents.insert(slot, (slot == 30).then_some(Incident::DatabaseLock));
        }
        assert_eq!((slot_of(0), slot_of(14), slot_of(15)), (15, 15, 30));
        let text = meter.sample(&mut counted, 30);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("shop_lines_total")).collect();
        let series = r#"shop_lines_total{job="shop",app="api",instance="api-0"}"#;
        assert_eq!(lines, [format!("{series} 2 15000"), format!("{series} 5 30000")]);
        assert!(text.contains(r#"shop_incident{job="shop",kind="database_lock"} 1 30000"#), "{text}");
        assert_eq!(meter.samples, 2 * 7);
        assert!(meter.sample(&mut counted, 60).contains(&format!("{series} 14 45000")));
        assert!(meter.sample(&mut counted, 90).is_empty());
    }
}
