//! Lines that are written behind the answers of their queries.
//!
//! Making and writing a line takes as long as a small query, so an answer is handed to the connection first:
//! the task that writes runs on the same thread after it.
//!
//! **Invariants.** At most [`WAITING_MAX`] lines wait, in the order in which queries ended; who ends a query
//! beyond that writes its line itself, so that memory is bounded and none is left out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::{Env, Task};

use super::asked::Asked;
use super::line::{self, Seen};
use super::{FRONTEND_TARGET, Outcome, QUERIER_TARGET};
use crate::caller::Caller;
use crate::cost::Cost;

/// Most lines that wait; each holds some kilobytes at most.
const WAITING_MAX: usize = 256;
/// Lines that are written before others get a turn on the thread.
const AT_ONCE: usize = 16;

/// A query that ended, and all that its line tells.
pub(super) struct Ended {
    pub(super) asked: Asked,
    pub(super) caller: Caller,
    pub(super) cost: Cost,
    pub(super) outcome: Outcome,
    pub(super) seen: Seen,
}

impl Ended {
    /// Writes the line, if anybody reads it.
    pub(super) fn write(&self) {
        let line = || line::write(&self.asked, &self.caller, &self.cost, &self.outcome, self.seen);
        match self.asked.is_query() {
            true if tracing::enabled!(target: QUERIER_TARGET, tracing::Level::INFO) => {
                tracing::info!(target: QUERIER_TARGET, "{}", line());
            }
            false if tracing::enabled!(target: FRONTEND_TARGET, tracing::Level::INFO) => {
                tracing::info!(target: FRONTEND_TARGET, "{}", line());
            }
            _ => {}
        }
    }
}

/// The lines that are to be written, and the task that writes them. Cheap to clone.
#[derive(Clone, Default)]
pub struct LinesBehind(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Ended>,
    /// The task that writes, or wrote, them.
    writer: Option<Task<()>>,
    is_writing: bool,
}

impl LinesBehind {
    /// Has a line written after what the current task does next.
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

    /// Writes lines; whether there may be more.
    fn write_some(&self) -> bool {
        (0..AT_ONCE).all(|_| self.next().inspect(Ended::write).is_some())
    }

    /// The next line; when there is none, the writer is done.
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

    /// The names of the labels that lines ask for.
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
        let seen = line::Seen { now_ns: 2, slow: false };
        Ended { asked, caller, cost: Cost::default(), outcome: Outcome::answered(0), seen }
    }

    #[tokio::test]
    async fn lines_wait_for_the_task_that_ends_a_query_and_keep_their_order() {
        let (seen, env, lines) = (Seen::default(), Env::system(1), LinesBehind::default());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
        let names = |numbers: std::ops::Range<usize>| numbers.map(|n| n.to_string()).collect::<Vec<_>>();
        (0..WAITING_MAX + 2).for_each(|n| lines.push(&env, ended(n)));
        let beyond = names(WAITING_MAX..WAITING_MAX + 2);
        assert_eq!(*seen.0.lock().unwrap(), beyond, "no more wait than may");
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
