//! The made-up shop of the demo: its generated lines as bodies of pushes.

use bytes::Bytes;
use sandur_base::Env;
use sandur_bench::push_body;
use sandur_bench::services::{Incident, Services};

/// Requests of customers per second; each leaves about two lines.
const REQUESTS_PER_SECOND: f64 = 20.0;
/// Instances of each service.
const INSTANCES: usize = 2;
/// Shops that are looked at for one with a story to tell.
const SEEDS: u64 = 50;

/// What the shop wrote in some seconds.
pub struct Written {
    /// The push.
    pub body: Bytes,
    /// Its lines.
    pub lines: u64,
    /// Bytes of their text.
    pub bytes: u64,
}

/// The shop.
#[derive(Clone)]
pub struct Shop(Services);

impl Shop {
    /// A shop whose payments failed for a while in the seconds from `from` to before `to`. The first
    /// one counts, so that a demo that is started again soon mostly repeats lines that are there, which
    /// the server shows once.
    pub fn with_trouble(from: i64, to: i64) -> Self {
        let troubled = |shop: &Services| (from..to).any(|s| shop.incident(s) == Some(Incident::BankTimeouts));
        let mut shops = (1..=SEEDS).map(|seed| Services::new(seed, INSTANCES));
        Self(shops.find(troubled).unwrap_or_else(|| Services::new(1, INSTANCES)))
    }

    /// What is written in the seconds from `from` to before `to`; made up off the I/O threads.
    pub async fn write(&self, env: &Env, from: i64, to: i64) -> Written {
        let services = self.0.clone();
        env.run_blocking(move || {
            let streams = services.between(from, to, REQUESTS_PER_SECOND);
            let lines = streams.iter().map(|stream| stream.lines.len() as u64).sum();
            let bytes = streams.iter().map(|stream| stream.text_bytes()).sum();
            Written { body: push_body::snappy(&streams).into(), lines, bytes }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_trouble() {
        for hour in 0..100 {
            let from = 1_795_176_000 + hour * 3_600;
            let Shop(services) = Shop::with_trouble(from, from + 3_600);
            let trouble = (from..from + 3_600).filter_map(|s| services.incident(s));
            assert!(trouble.into_iter().any(|i| i == Incident::BankTimeouts), "{from}");
        }
    }
}
