//! The environment of an attack: addresses, seed, size, and requests whose answers are counted.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};

use sandur_runtime::Env;
use serde_json::json;

use crate::raw;
use crate::victim::{Carbon, Setup};

/// The extent of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Each kind of input once, as in `make test`.
    Short,
    /// Every size of every kind of input.
    Full,
}

/// The local address of attackers.
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// The environment of an attack.
pub struct Ground<'a> {
    /// Clock, tasks and randomness.
    pub env: &'a Env,
    /// The address of the database.
    pub address: SocketAddr,
    /// The address of the memcached server.
    pub cache: SocketAddr,
    /// The addresses of the database's carbon listeners.
    pub carbon: Carbon,
    /// How servers are started, for attacks that need one of their own.
    pub setup: &'a Setup,
    /// The extent of the attack.
    pub size: Size,
    /// Seed of everything random.
    pub seed: u64,
    /// The answers and findings so far.
    pub tally: Tally,
}

/// Counts answers and collects findings.
#[derive(Default)]
pub struct Tally(Mutex<Counts>);

/// The contents of a [`Tally`].
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// Defects, each with the input that revealed it.
    pub findings: Vec<String>,
}

/// The largest number of findings; more would be repetitions.
const FINDINGS_MAX: usize = 10;

impl Tally {
    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an answer. `500` is always a defect of the server, and so is `499` to a client that waits
    /// for its answer.
    pub fn answer(&self, status: u16, what: &str) {
        self.with(|counts| *counts.answers.entry(status).or_default() += 1);
        if matches!(status, 499 | 500) {
            self.finding(format!("{what}: {status}"));
        }
    }

    /// Records a defect.
    pub fn finding(&self, text: String) {
        self.with(|counts| {
            if counts.findings.len() < FINDINGS_MAX {
                counts.findings.push(text);
            }
        });
    }

    /// Returns a copy of the counts.
    pub fn counts(&self) -> Counts {
        self.with(|counts| counts.clone())
    }
}

impl Ground<'_> {
    /// Returns one of two values, depending on the size of the course.
    pub fn pick<T>(&self, short: T, full: T) -> T {
        match self.size {
            Size::Short => short,
            Size::Full => full,
        }
    }

    /// Connects to the database from the attacker's address.
    pub fn connect(&self) -> io::Result<TcpStream> {
        raw::connect_from(ATTACKER, self.address)
    }

    /// Sends a request and returns the body of the answer. A missing answer is a defect.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Vec<u8>> {
        let what = || format!("{method} {} with {} bytes", &path[..path.len().min(120)], body.len());
        match raw::request((ATTACKER, self.address), method, path, headers, body) {
            Ok((status, body)) => {
                self.tally.answer(status, &what());
                Some(body)
            }
            Err(error) => {
                self.tally.finding(format!("{}: no answer: {error}", what()));
                None
            }
        }
    }

    /// Stores lines of the stream `{job="JOB"}` of the attacker's tenant, for queries to read.
    pub fn store_lines(&self, job: &str, lines: &[String]) {
        let now = self.env.now_ns();
        let entry = |(n, line): (usize, &String)| json!([(now + n as i64).to_string(), line]);
        let values: Vec<_> = lines.iter().enumerate().map(entry).collect();
        let body = json!({"streams": [{"stream": {"job": job}, "values": values}]}).to_string();
        self.ask("POST", "/loki/api/v1/push", &[("Content-Type", "application/json")], body.as_bytes());
    }

    /// Sends a form, as Grafana does with long queries.
    pub fn form(&self, path: &str, pairs: &[(&str, &str)]) -> Option<Vec<u8>> {
        let escape = sandur_bench::http::escaped;
        let form: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        self.ask("POST", path, &headers, form.join("&").as_bytes())
    }
}
