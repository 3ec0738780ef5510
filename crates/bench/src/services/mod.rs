//! Generates the logs of a simulated shop, deterministically from a seed.
//!
//! Customers' requests pass through several services. Each service writes in its own format: an access
//! log, logfmt, JSON, the texts of a Java and of a Python program, a database, a kernel. The lines of
//! one request share a trace id, in the text or in structured metadata. Traffic rises and falls over the
//! day, and sometimes there is an [`Incident`].
//!
//! The lines of a second depend only on seed, second and rate. All lines of a request are within the
//! second in which it starts, so a range of seconds is complete in itself.

mod incident;
mod log_templates;
mod random;
mod request;
mod second;
mod service;

use std::sync::Arc;

use sandur_model::Labels;

pub use incident::Incident;
pub(crate) use random::Random;
use second::Second;
pub use service::Line;
use service::Service;

/// The lines of one stream, oldest first.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Labels: `app`, `env`, `region`, `pod`.
    pub labels: Arc<Labels>,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Stream {
    /// Bytes of the lines' text.
    pub fn text_bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.text.len() as u64).sum()
    }
}

/// The shop. The same seed and number of instances give the same lines.
#[derive(Clone, Debug)]
pub struct Services {
    seed: u64,
    instances: usize,
    /// Labels of streams, by service, then by instance.
    labels: Vec<Arc<Labels>>,
}

impl Services {
    /// A shop in which each service has this many instances (at least one).
    pub fn new(seed: u64, instances: usize) -> Self {
        let instances = instances.max(1);
        let regions = ["eu-west", "us-east", "ap-south"];
        let labels = Service::EVERY.iter().flat_map(|service| {
            (0..instances).map(|instance| {
                let mut dice = Random::of(&[seed, 0x90D, *service as u64, instance as u64]);
                let pod = format!("{}-{:05x}-{instance}", service.app(), dice.below(1 << 20));
                let region = regions[instance % regions.len()];
                let pairs = [("app", service.app()), ("env", "demo"), ("region", region), ("pod", &pod)];
                Arc::new(Labels::from_pairs(pairs))
            })
        });
        Self { seed, instances, labels: labels.collect() }
    }

    /// Returns the incident of a second since the epoch, if there is one.
    pub fn incident(&self, second: i64) -> Option<Incident> {
        incident::at(self.seed, second)
    }

    /// Returns the lines of the seconds from `from` to before `to` (since the epoch) for about this many
    /// requests per second; each request has about two lines. Streams without lines are omitted.
    pub fn between(&self, from: i64, to: i64, requests_per_second: f64) -> Vec<Stream> {
        let mut streams: Vec<Stream> =
            self.labels.iter().map(|labels| Stream { labels: labels.clone(), lines: Vec::new() }).collect();
        for second in from..to {
            let mut written = Second::new(self.seed, second, incident::at(self.seed, second));
            written.pass(requests_per_second);
            for (service, instance, line) in written.into_lines() {
                streams[service as usize * self.instances + instance as usize % self.instances]
                    .lines
                    .push(line);
            }
        }
        streams.retain(|stream| !stream.lines.is_empty());
        streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONDAY: i64 = 1_795_176_000;

    fn all_lines(streams: &[Stream]) -> Vec<(String, Line)> {
        let lines =
            streams.iter().flat_map(|s| s.lines.iter().map(|line| (s.labels.to_string(), line.clone())));
        lines.collect()
    }

    #[test]
    fn a_range_equals_its_seconds_and_seeds_differ() {
        let shop = Services::new(1, 3);
        let whole = all_lines(&shop.between(MONDAY, MONDAY + 60, 20.0));
        let mut pieces: Vec<_> =
            (0..60).flat_map(|s| all_lines(&shop.between(MONDAY + s, MONDAY + s + 1, 20.0))).collect();
        let mut sorted = whole.clone();
        let key = |line: &(String, Line)| (line.0.clone(), line.1.timestamp, line.1.text.clone());
        sorted.sort_by_key(key);
        pieces.sort_by_key(key);
        assert_eq!(sorted, pieces);
        assert_ne!(whole, all_lines(&Services::new(2, 3).between(MONDAY, MONDAY + 60, 20.0)));
    }

    #[test]
    fn lines_are_sorted_and_within_their_seconds() {
        let shop = Services::new(1, 2);
        for stream in shop.between(MONDAY, MONDAY + 30, 50.0) {
            let times: Vec<i64> = stream.lines.iter().map(|line| line.timestamp).collect();
            assert!(times.is_sorted(), "{}", stream.labels);
            let seconds = times.iter().map(|t| t / 1_000_000_000);
            assert!(seconds.into_iter().all(|s| (MONDAY..MONDAY + 30).contains(&s)));
        }
    }

    #[test]
    fn every_service_and_level_occurs_and_requests_can_be_traced() {
        let shop = Services::new(1, 1);
        let lines = all_lines(&shop.between(MONDAY, MONDAY + 3_600, 5.0));
        for service in Service::EVERY {
            let app = format!("app=\"{}\"", service.app());
            assert!(lines.iter().any(|(labels, _)| labels.contains(&app)), "{service:?}");
        }
        for word in
            ["ERROR", "WARN", "INFO", "DEBUG", "\"level\":\"error\"", "level=warn", "FATAL", "Traceback"]
        {
            assert!(lines.iter().any(|(_, line)| line.text.contains(word)), "{word}");
        }
        let traced =
            lines.iter().find(|(labels, line)| labels.contains("payments") && !line.metadata.is_empty());
        let trace = &traced.unwrap().1.metadata[0].1;
        let in_text = lines.iter().filter(|(_, line)| line.text.contains(trace.as_str())).count();
        assert!(in_text >= 2, "{in_text}");
    }

    #[test]
    fn incidents_are_visible_in_the_lines() {
        let shop = Services::new(1, 1);
        let second = (MONDAY..).find(|s| shop.incident(*s) == Some(Incident::BankTimeouts)).unwrap();
        let count = |from: i64| {
            let lines = all_lines(&shop.between(from, from + 20, 50.0));
            lines.iter().filter(|(_, line)| line.text.contains("bank did not answer")).count()
        };
        let quiet = (MONDAY..).find(|s| (0..20).all(|n| shop.incident(s + n).is_none())).unwrap();
        assert!(count(second) > 5 + 5 * count(quiet), "{} {}", count(second), count(quiet));
    }
}
