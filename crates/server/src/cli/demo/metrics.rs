//! The metrics of the demo: counters of the generated services. Counts of the past are sampled every
//! [`SLOT_S`] seconds and pushed as text; present counts are exposed by each service
//! ([`super::targets`]).

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::http::Method;
use sandur_bench::services::Incident;
use sandur_cli::client::{Ask, Client};
use sandur_terminal::Failed;

/// Seconds between samples of the past.
pub const SLOT_S: i64 = 15;
/// The path that receives samples as text.
const IMPORT: &str = "/api/v1/import/prometheus";
/// The content type of the text.
const TEXT: (&str, &str) = ("content-type", "text/plain; version=0.0.4");
/// Service and instance that expose incidents.
const WATCH: (&str, &str) = ("watch", "watch-0");

/// A service and its instance.
type Instance = (String, String);

/// Counts since the last sample, by the end of the slot in seconds.
#[derive(Debug, Default)]
pub struct Counted {
    /// Lines and bytes of each instance.
    pub lines: BTreeMap<i64, BTreeMap<Instance, (u64, u64)>>,
    /// Incidents.
    pub incidents: BTreeMap<i64, Option<Incident>>,
}

/// The end of the slot with this second.
pub fn slot_of(second: i64) -> i64 {
    (second.div_euclid(SLOT_S) + 1) * SLOT_S
}

/// Names of incidents as label values.
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
    /// The present incident.
    incident: Option<Incident>,
}

/// Counters of a service, with their help.
const COUNTERS: [(&str, &str); 2] = [
    ("shop_lines_total", "Lines that the instance wrote."),
    ("shop_line_bytes_total", "Bytes of the lines that the instance wrote."),
];

impl Meter {
    /// Formats samples at the ends of slots up to `before`; later slots stay in `counted`.
    pub fn sample(&mut self, counted: &mut Counted, before: i64) -> String {
        let mut text = String::new();
        let later = counted.incidents.split_off(&(before + 1));
        let slots = std::mem::replace(&mut counted.incidents, later);
        for (slot, incident) in slots {
            self.add(counted.lines.remove(&slot).unwrap_or_default(), incident);
            self.write(&mut text, slot * 1_000);
        }
        text
    }

    /// Adds all counts to the counters.
    pub fn count(&mut self, counted: Counted) {
        let mut lines = counted.lines;
        for (slot, incident) in counted.incidents {
            self.add(lines.remove(&slot).unwrap_or_default(), incident);
        }
    }

    fn add(&mut self, lines: BTreeMap<Instance, (u64, u64)>, incident: Option<Incident>) {
        for (instance, (lines, bytes)) in lines {
            let counter = self.counters.entry(instance).or_default();
            *counter = (counter.0 + lines, counter.1 + bytes);
        }
        self.incident = incident;
    }

    fn write(&self, text: &mut String, at_ms: i64) {
        let mut line = |name: &str, (app, instance): (&str, &str), more: &str, value: u64| {
            let labels = format!("job=\"shop\",app=\"{app}\",instance=\"{instance}\"{more}");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}{{{labels}}} {value} {at_ms}");
        };
        for ((app, instance), (lines, bytes)) in &self.counters {
            line(COUNTERS[0].0, (app, instance), "", *lines);
            line(COUNTERS[1].0, (app, instance), "", *bytes);
            line("up", (app, instance), "", 1);
        }
        for (kind, name) in INCIDENTS {
            line(
                "shop_incident",
                WATCH,
                &format!(",kind=\"{name}\""),
                u64::from(self.incident == Some(kind)),
            );
        }
    }

    /// The services and their instances, including the watch.
    pub fn instances(&self) -> Vec<Instance> {
        let watch = (WATCH.0.to_owned(), WATCH.1.to_owned());
        self.counters.keys().cloned().chain([watch]).collect()
    }

    /// The metrics page of an instance; `None` if there is no such instance.
    pub fn page(&self, instance: &str) -> Option<String> {
        let mut page = String::new();
        if instance == WATCH.1 {
            let _ =
                writeln!(page, "# HELP shop_incident Whether it goes wrong now.\n# TYPE shop_incident gauge");
            for (kind, name) in INCIDENTS {
                let value = u8::from(self.incident == Some(kind));
                let _ = writeln!(page, "shop_incident{{kind=\"{name}\"}} {value}");
            }
            return Some(page);
        }
        let (_, (lines, bytes)) = self.counters.iter().find(|((_, known), _)| known == instance)?;
        for ((name, help), value) in COUNTERS.into_iter().zip([lines, bytes]) {
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        Some(page)
    }
}

/// Pushes samples.
pub async fn send(client: &Client, text: String) -> Result<(), Failed> {
    if text.is_empty() {
        return Ok(());
    }
    let ask = Ask { method: Method::POST, path: IMPORT, pairs: &[], headers: &[TEXT], body: text.into() };
    client.ask(ask).await?;
    Ok(())
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
        assert!(text.contains(r#"instance="watch-0",kind="database_lock"} 1 30000"#), "{text}");
        assert_eq!(text.lines().count(), 2 * 7);
        assert!(meter.sample(&mut counted, 60).contains(&format!("{series} 14 45000")));
        assert!(meter.sample(&mut counted, 90).is_empty());
    }

    #[test]
    fn every_instance_shows_what_it_counted() {
        let (mut meter, mut counted) = (Meter::default(), Counted::default());
        let instance = ("api".to_owned(), "api-0".to_owned());
        for slot in [15, 30] {
            counted.lines.entry(slot).or_default().insert(instance.clone(), (2, 20));
            counted.incidents.insert(slot, (slot == 30).then_some(Incident::DatabaseLock));
        }
        meter.count(counted);
        assert_eq!(meter.instances(), [instance, ("watch".to_owned(), "watch-0".to_owned())]);
        let page = meter.page("api-0").unwrap();
        assert!(page.contains("# TYPE shop_lines_total counter\nshop_lines_total 4\n"), "{page}");
        assert!(page.ends_with("\nshop_line_bytes_total 40\n"), "{page}");
        assert!(meter.page("watch-0").unwrap().contains("shop_incident{kind=\"database_lock\"} 1\n"));
        assert_eq!(meter.page("api-1"), None);
    }
}
