//! The generated shop of the demo: its lines as bodies of pushes.

use bytes::Bytes;
use sandur_bench::push_body;
use sandur_bench::services::{Incident, Services, Stream};
use sandur_model::SECOND_NS;
use sandur_runtime::Env;

use super::metrics::{Counted, slot_of};

/// Requests of customers per second; each causes about two lines.
const REQUESTS_PER_SECOND: f64 = 20.0;
/// Instances of each service.
const INSTANCES: usize = 2;
/// Number of generated shops that are searched for one with an incident.
const SEEDS: u64 = 50;

/// What the shop wrote in a range of seconds.
pub struct Written {
    /// The body of a push.
    pub body: Bytes,
    /// Number of its lines.
    pub lines: u64,
    /// Bytes of their text.
    pub bytes: u64,
    /// Counts of its services.
    pub counted: Counted,
}

/// The shop.
#[derive(Clone)]
pub struct Shop(Services);

impl Shop {
    /// A shop whose payments fail for a while in the seconds from `from` to `to` (exclusive). The first
    /// such seed is used, so that a demo that is restarted soon mostly generates lines that are stored
    /// already, which the server drops as duplicates.
    pub fn with_trouble(from: i64, to: i64) -> Self {
        let troubled = |shop: &Services| (from..to).any(|s| shop.incident(s) == Some(Incident::BankTimeouts));
        let mut shops = (1..=SEEDS).map(|seed| Services::new(seed, INSTANCES));
        Self(shops.find(troubled).unwrap_or_else(|| Services::new(1, INSTANCES)))
    }

    /// Generates the lines of the seconds from `from` to `to` (exclusive), off the I/O threads.
    pub async fn write(&self, env: &Env, from: i64, to: i64) -> Written {
        let services = self.0.clone();
        env.run_blocking(move || {
            let streams = services.between(from, to, REQUESTS_PER_SECOND);
            let lines = streams.iter().map(|stream| stream.lines.len() as u64).sum();
            let bytes = streams.iter().map(|stream| stream.text_bytes()).sum();
            let counted = counted(&services, &streams, (from, to));
            Written { body: push_body::snappy(&streams).into(), lines, bytes, counted }
        })
        .await
    }
}

/// Lines and bytes of each instance, and incidents, by slot.
fn counted(services: &Services, streams: &[Stream], (from, to): (i64, i64)) -> Counted {
    let mut counted = Counted::default();
    for second in from..to {
        let incident = counted.incidents.entry(slot_of(second)).or_default();
        *incident = incident.or(services.incident(second));
    }
    for stream in streams {
        let label = |name| stream.labels.get(name).unwrap_or_default().to_owned();
        let instance = (label("app"), label("pod"));
        for line in &stream.lines {
            let slot = slot_of(line.timestamp.div_euclid(SECOND_NS));
            let counts = counted.lines.entry(slot).or_default().entry(instance.clone()).or_default();
            *counts = (counts.0 + 1, counts.1 + line.text.len() as u64);
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_an_incident() {
        for hour in 0..100 {
            let from = 1_795_176_000 + hour * 3_600;
            let Shop(services) = Shop::with_trouble(from, from + 3_600);
            let trouble = (from..from + 3_600).filter_map(|s| services.incident(s));
            assert!(trouble.into_iter().any(|i| i == Incident::BankTimeouts), "{from}");
        }
    }
}
