//! Sends the parts of a source: several at a time; within a part each request is acknowledged before the
//! next.
//!
//! A part is recorded in the state file when all of its requests are acknowledged.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_runtime::{Env, Task};
use sandur_terminal::Failed;
use sandur_tsdb::Samples;
use tokio::sync::mpsc;

use super::encode::Encoder;
use super::score::Score;
use super::sink::Sink;
use super::source::Source;
use crate::import::sending::{Outcome, Request, Sending};
use crate::import::state::State;

/// What the reading thread passes on.
enum Item {
    Part { line: String, requests: Vec<Request> },
    Known,
    Failure { name: String, text: String },
    Skipped { name: String, text: String },
    Notice(String),
}

/// Encodes parts on the reading thread.
struct Encoding {
    state: Arc<Mutex<State>>,
    items: mpsc::Sender<Item>,
    line: String,
    encoder: Encoder,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Encoding {
    fn pass(&self, item: Item) {
        // If the receiver is gone, the import has failed, and `is_closed` ends the reading.
        let _ = self.items.blocking_send(item);
    }
}

impl Sink for Encoding {
    fn begin(&mut self, line: &str) -> bool {
        line.clone_into(&mut self.line);
        let is_known = lock(&self.state).has(line);
        if is_known {
            self.pass(Item::Known);
        }
        !is_known
    }

    fn series(&mut self, labels: &[(String, String)], samples: &Samples) {
        self.encoder.add(labels, samples);
    }

    fn end(&mut self) {
        let (line, requests) = (std::mem::take(&mut self.line), self.encoder.finish());
        self.pass(Item::Part { line, requests });
    }

    fn failure(&mut self, name: &str, text: &str) {
        self.encoder.finish();
        self.pass(Item::Failure { name: name.to_owned(), text: text.to_owned() });
    }

    fn skipped(&mut self, name: &str, text: &str) {
        self.pass(Item::Skipped { name: name.to_owned(), text: text.to_owned() });
    }

    fn notice(&mut self, text: &str) {
        self.pass(Item::Notice(text.to_owned()));
    }

    fn is_closed(&self) -> bool {
        self.items.is_closed()
    }
}

/// A part whose requests were sent.
struct Settled {
    line: String,
    samples: u64,
    outcome: Outcome,
}

/// Imports a source. The exit code says whether everything is stored.
pub async fn ship(
    env: Env,
    sending: Sending,
    state: State,
    source: impl Source,
    parallel: usize,
) -> Result<ExitCode, Failed> {
    let state = Arc::new(Mutex::new(state));
    let (items, mut parts) = mpsc::channel(parallel);
    let mut encoding =
        Encoding { state: Arc::clone(&state), items, line: String::new(), encoder: Encoder::default() };
    let reader = env.clone();
    let reading = async move { reader.run_blocking(move || source.read(&mut encoding)).await };
    let reading = env.spawn("import-read", reading);
    let score = Score::new(&env);
    let mut shipper = Shipper { env, sending, state, score, pending: VecDeque::new() };
    while let Some(item) = parts.recv().await {
        match item {
            Item::Known => shipper.score.known += 1,
            Item::Failure { name, text } => shipper.score.failure(&name, &text),
            Item::Skipped { name, text } => shipper.score.skipped(&name, &text),
            Item::Notice(text) => shipper.score.notice(&text),
            Item::Part { line, requests } => {
                while shipper.pending.len() >= parallel {
                    shipper.settle().await?;
                }
                shipper.begin(line, requests);
            }
        }
    }
    while !shipper.pending.is_empty() {
        shipper.settle().await?;
    }
    reading.join().await.map_err(|error| Failed::new(format!("the files could not be read: {error}")))?;
    Ok(shipper.score.finish(shipper.env.monotonic(), shipper.sending.client.is_none()))
}

struct Shipper {
    env: Env,
    sending: Sending,
    state: Arc<Mutex<State>>,
    score: Score,
    pending: VecDeque<Task<Settled>>,
}

impl Shipper {
    fn begin(&mut self, line: String, requests: Vec<Request>) {
        let sending = self.sending.clone();
        self.pending.push_back(self.env.spawn("import-send", async move {
            let (samples, outcome) = sending.send_all(requests).await;
            Settled { line, samples, outcome }
        }));
    }

    /// Waits for the oldest part and handles its outcome.
    async fn settle(&mut self) -> Result<(), Failed> {
        let Some(task) = self.pending.pop_front() else { return Ok(()) };
        let settled = task.join().await;
        let settled = settled.map_err(|error| Failed::new(format!("a part could not be sent: {error}")))?;
        let Settled { line, samples, outcome } = settled;
        self.score.samples += samples;
        match outcome {
            Outcome::Stored => {
                self.score.parts += 1;
                self.score.progress(self.env.monotonic(), &line);
                lock(&self.state).note(std::iter::once(line))
            }
            Outcome::Refused(text) => {
                self.score.failure(&line, &format!("the server refused some of its samples: {text}"));
                Ok(())
            }
            Outcome::Failed(refusal) => {
                let failed = Failed::from(refusal);
                Err(Failed::new(format!(
                    "not stored from part '{line}' on: {}; {} parts were stored before: run it again, with \
                     --resume to skip them",
                    failed.message(),
                    self.score.parts
                )))
            }
        }
    }
}
