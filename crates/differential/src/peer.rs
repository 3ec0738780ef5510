//! A client of one of the two servers.

use std::io;
use std::time::Duration;

use sandur_bench::http::{Answer, Connection, escaped};

use crate::ask::Ask;

/// The longest time to wait for an answer: the corpus is small, and Loki never answers some queries.
const PATIENCE: Duration = Duration::from_secs(8);

/// A server and the connection to it.
pub struct Peer {
    address: String,
    connection: Connection,
}

impl Peer {
    /// A client of the server at `host:port`.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), connection: Connection::new(address).with_timeout(PATIENCE) }
    }

    /// Sets the longest time to wait for an answer.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { connection: self.connection.with_timeout(patience), ..self }
    }

    /// Returns `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request. A connection error becomes an answer with status 0, so that the run continues
    /// and reports it.
    pub fn ask(&mut self, ask: &Ask) -> Answer {
        self.try_ask(ask).unwrap_or_else(|e| Answer::new(0, e.to_string()))
    }

    fn try_ask(&mut self, ask: &Ask) -> io::Result<Answer> {
        let pairs: Vec<String> = ask
            .parameters
            .iter()
            .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
            .collect();
        let text = pairs.join("&");
        if ask.by_post {
            let headers = ["Content-Type: application/x-www-form-urlencoded"];
            let headers: Vec<&str> = headers.into_iter().chain(ask.headers.iter().copied()).collect();
            return self.connection.post(&ask.path, &headers, text.as_bytes());
        }
        self.connection.get_with(&format!("{}?{text}", ask.path), &ask.headers)
    }

    /// Pushes a JSON body.
    pub fn push(&mut self, body: &str) -> io::Result<Answer> {
        self.connection.post("/loki/api/v1/push", &["Content-Type: application/json"], body.as_bytes())
    }

    /// Flushes memory to the store.
    pub fn flush(&mut self) -> io::Result<Answer> {
        self.connection.post("/flush", &[], &[])
    }
}
