//! Writes log lines after the answers of their queries.
//!
//! Formatting and writing a line takes as long as a small query, so an answer is handed to the connection
//! first; the task that writes lines runs on the same thread after it.
//!
//! **Invariants.** At most [`WAITING_MAX`] lines are queued, in the order in which queries ended. When
//! the queue is full, the task that ends a query writes its line itself, so that memory is bounded and no
//! line is lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_runtime::{Env, Task};

use super::asked::Asked;
use super::line::{self, Seen};
use super::outcome::Outcome;
use crate::caller::Caller;
use crate::cost::Cost;

/// Event target of lines of queries.
const QUERIER_TARGET: &str = "sandur::query::querier";
/// Event target of lines of requests that are answered from the index.
const FRONTEND_TARGET: &str = "sandur::query::frontend";
/// Event targets of lines that only the server's own log in its store receives.
const STORED_QUERIER_TARGET: &str = "sandur::query_stored::querier";
const STORED_FRONTEND_TARGET: &str = "sandur::query_stored::frontend";
/// Maximum number of queued lines; each has at most some kilobytes.
const WAITING_MAX: usize = 256;
/// Lines that are written before the task yields.
const AT_ONCE: usize = 16;

/// Where a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// To every log of the process.
    All,
    /// Only to the server's own log in its store, which has the lines of all queries.
    Stored,
}

/// Writes an event with this target, unless no log receives it. A check without the event would leave the
/// result of each filter behind for the next event of the thread, which a filter would then drop.
macro_rules! write_event {
    ($target:expr, $line:expr) => {
        if tracing::enabled!(target: $target, tracing::Level::INFO) {
            tracing::info!(target: $target, "{}", $line);
        }
    };
}

/// A query that ended, with everything that its line contains.
pub(super) struct Ended {
    pub(super) asked: Asked,
    pub(super) caller: Caller,
    pub(super) cost: Cost,
    pub(super) outcome: Outcome,
    pub(super) seen: Seen,
    pub(super) log: Log,
}

impl Ended {
    /// Writes the line, unless the filters of all logs drop it.
    pub(super) fn write(&self) {
        let line = || line::write(&self.asked, &self.caller, &self.cost, &self.outcome, self.seen);
        match (self.log, self.asked.is_query()) {
            (Log::All, true) => write_event!(QUERIER_TARGET, line()),
            (Log::All, false) => write_event!(FRONTEND_TARGET, line()),
            (Log::Stored, true) => write_event!(STORED_QUERIER_TARGET, line()),
            (Log::Stored, false) => write_event!(STORED_FRONTEND_TARGET, line()),
        }
    }
}

/// The queue of lines and the task that writes them. Cheap to clone.
#[derive(Clone, Default)]
pub struct QueuedLines(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Ended>,
    /// The task that writes lines; it may have ended.
    writer: Option<Task<()>>,
    is_writing: bool,
}

impl QueuedLines {
    /// Queues a line, which is written after the current task yields.
    pub(super) fn push(&self, env: &Env, ended: Ended) {
        let mut waiting = self.waiting();
        if waiting.lines.len() >= WAITING_MAX {
            drop(waiting);
            return ended.write();
        }
        waiting.lines.push_back(ended);
        if !waiting.is_writing {
            waiting.is_writing = true;
            let own = self.clone();
            waiting.writer = Some(env.spawn("query log", async move {
                while own.write_some() {
                    tokio::task::yield_now().await;
                }
            }));
        }
    }

    /// Writes some lines. Returns whether there may be more.
    fn write_some(&self) -> bool {
        (0..AT_ONCE).all(|_| self.next().inspect(Ended::write).is_some())
    }

    /// Takes the next line from the queue. When the queue is empty, the writing task ends.
    fn next(&self) -> Option<Ended> {
        let mut waiting = self.waiting();
        let next = waiting.lines.pop_front();
        waiting.is_writing = next.is_some();
        next
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use sandur_model::TenantId;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    use super::super::asked::Times;
    use super::*;

    /// Collects the values of `label=` of written lines.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            event.record(&mut self.clone());
        }
    }

    impl Visit for Seen {
        fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
            let text = format!("{value:?}");
            let label = text.split(' ').find_map(|pair| pair.strip_prefix("label="));
            self.0.lock().unwrap().extend(label.map(str::to_owned));
        }
    }

    fn ended(label: usize) -> Ended {
        let times = Times { start_ns: 0, end_ns: 1 };
        let caller = Caller::internal(TenantId::default_tenant(), "test");
        let asked = Asked::labels(&label.to_string(), "", times);
        let seen = line::Seen { now_ns: 2, slow: false, left_out: 0 };
        let (cost, outcome) = (Cost::default(), Outcome::answered(0));
        Ended { asked, caller, cost, outcome, seen, log: Log::All }
    }

    #[tokio::test]
    async fn lines_are_written_after_the_task_yields_and_in_order() {
        let (seen, env, lines) = (Seen::default(), Env::system(1), QueuedLines::default());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
        // While there is only one subscriber, the first thread that reaches an event decides whether it is
        // enabled, and the threads of other tests have none.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        let names = |numbers: std::ops::Range<usize>| numbers.map(|n| n.to_string()).collect::<Vec<_>>();
        (0..WAITING_MAX + 2).for_each(|n| lines.push(&env, ended(n)));
        let beyond = names(WAITING_MAX..WAITING_MAX + 2);
        assert_eq!(*seen.0.lock().unwrap(), beyond, "beyond the bound lines are written at once");
        while lines.waiting().is_writing {
            tokio::task::yield_now().await;
        }
        assert_eq!(seen.0.lock().unwrap()[2..], names(0..WAITING_MAX));
        lines.push(&env, ended(7));
        assert_eq!(seen.0.lock().unwrap().len(), WAITING_MAX + 2);
        tokio::task::yield_now().await;
        assert_eq!(seen.0.lock().unwrap().last().map(String::as_str), Some("7"));
    }
}
