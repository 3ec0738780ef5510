//! The bystander: another tenant at another address that pushes and queries during an attack.
//!
//! Every request uses a new connection, so that a server without room for new connections is detected.
//! At the end of the course, all acknowledged lines are counted.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;
use serde_json::{Value, json};

use crate::pause::Pause;
use crate::raw;

/// The local address of the bystander.
const BYSTANDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
/// Pause between two rounds.
const ROUND_EVERY: Duration = Duration::from_millis(100);

/// Sends one request and checks its answer.
type Round = fn(&mut Bystander, &Env, SocketAddr) -> Result<()>;

/// What the bystander observed during an attack.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Number of pushes and queries with correct answers.
    pub answered: u64,
    /// The longest time until an answer.
    pub slowest: Duration,
    /// The request that took this time.
    pub waited_for: &'static str,
    /// The first failure.
    pub failure: Option<String>,
}

/// The bystander's count of acknowledged lines.
#[derive(Debug, Default)]
pub struct Bystander {
    next: u64,
    acknowledged: u64,
    first_ns: i64,
}

impl Bystander {
    /// Pushes and queries until the pause is ended.
    pub fn watch(&mut self, env: &Env, address: SocketAddr, pause: &Pause) -> Watched {
        let mut watched = Watched::default();
        if self.first_ns == 0 {
            self.first_ns = env.now_ns();
        }
        while pause.wait(ROUND_EVERY) {
            let rounds: [(&str, Round); 2] = [("a push", Self::push), ("a query", Self::query)];
            for (name, round) in rounds {
                let began = env.monotonic();
                let outcome = round(self, env, address);
                let took = env.monotonic() - began;
                if took > watched.slowest {
                    (watched.slowest, watched.waited_for) = (took, name);
                }
                match outcome {
                    Ok(()) => watched.answered += 1,
                    Err(error) if watched.failure.is_none() => watched.failure = Some(format!("{error:#}")),
                    Err(_) => {}
                }
            }
        }
        watched
    }

    fn push(&mut self, env: &Env, address: SocketAddr) -> Result<()> {
        let line = format!("bystander line {}", self.next);
        self.next += 1;
        let body = json!({"streams": [{
            "stream": {"job": "bystander"},
            "values": [[env.now_ns().to_string(), line]],
        }]});
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", "bystander")];
        let path = "/loki/api/v1/push";
        let answer = raw::request((BYSTANDER, address), "POST", path, &headers, body.to_string().as_bytes());
        let (status, text) = answer.context("a push of another tenant")?;
        if status != 204 {
            bail!("a push of another tenant: {status} {}", String::from_utf8_lossy(&text));
        }
        self.acknowledged += 1;
        Ok(())
    }

    fn query(&mut self, env: &Env, address: SocketAddr) -> Result<()> {
        let counted = self.count(env, address).context("a query of another tenant")?;
        if counted < self.acknowledged {
            bail!("the answer has {counted} lines of {} acknowledged ones", self.acknowledged);
        }
        Ok(())
    }

    /// Returns the number of lines that the server has.
    fn count(&self, env: &Env, address: SocketAddr) -> Result<u64> {
        let now = env.now_ns();
        let seconds = (now - self.first_ns) / 1_000_000_000 + 60;
        let query = format!("sum(count_over_time({{job=\"bystander\"}}[{seconds}s]))");
        let path = format!(
            "/loki/api/v1/query?query={}&time={}",
            sandur_bench::http::escaped(&query),
            now + 1_000_000_000
        );
        let headers = [("X-Scope-OrgID", "bystander")];
        let (status, body) = raw::request((BYSTANDER, address), "GET", &path, &headers, b"")?;
        let text = String::from_utf8_lossy(&body);
        if status != 200 {
            bail!("{status} {text}");
        }
        let answer: Value = serde_json::from_slice(&body).with_context(|| text.into_owned())?;
        let value = &answer["data"]["result"][0]["value"][1];
        Ok(value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Fails unless every acknowledged line exists once. A line whose push failed may exist or not.
    pub fn check_all(&self, env: &Env, address: SocketAddr) -> Result<u64> {
        let counted = self.count(env, address)?;
        if counted < self.acknowledged || counted > self.next {
            bail!("found {counted} lines; {} were acknowledged of {} sent", self.acknowledged, self.next);
        }
        Ok(counted)
    }
}
