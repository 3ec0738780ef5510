//! Compiled queries of delete requests, within a memory budget.
//!
//! A query of 45 bytes may take megabytes when it is compiled, and a tenant may have a thousand open
//! requests. Compiled queries are therefore reserved from one budget. When another one needs the memory,
//! those that are not in use are dropped, the least recently used first, and compiled again when they are
//! used.
//!
//! **Invariants.** A compiled query is reserved for as long as it exists. One query is compiled at a time.
//! What a use of it remembers (states of automata) ends with the use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::account::Account;
use sandur_base::job::{self, Bounded, Stopped, reserve_exactly};
use sandur_base::{Env, Id, Lane, LruMap, MemoryBudget, OverBudget, Reservation};
use sandur_model::{Labels, MatchOp, Matcher, Signal, is_graphite_label, matches_all};
use sandur_query::{Error as QueryError, RowLook, RowSelector, SelectorCompiler};

use crate::error::FilterError;

/// Part of the budget that the query of a new request may take: it must fit beside that of another one.
const NEW_SHARE: u64 = 2;
/// The same in bytes: more takes too long to compile, which happens again and again when memory is short.
const NEW_BYTES_MAX: u64 = 16 << 20;
/// Name of the budget that counts one query while it is compiled.
const ONE: &str = "filter of a delete request";

/// The query of a delete request as it was written.
#[derive(Clone, Debug)]
pub(crate) struct FilterText {
    /// The request.
    pub id: Id,
    /// Which language it is in.
    pub signal: Signal,
    /// The query.
    pub text: Arc<str>,
}

/// A compiled query.
pub(crate) struct Compiled {
    selector: Arc<dyn RowSelector>,
    bytes: u64,
    /// Of what the selector holds no reservation for itself.
    _memory: Reservation,
}

impl Compiled {
    /// What it selects.
    pub fn selector(&self) -> &dyn RowSelector {
        &*self.selector
    }

    /// Bytes that are reserved for it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins to look at rows. The job pays for what that remembers; a job that cannot is ended, and then the
    /// look selects whatever it likes.
    pub fn look(&self) -> (Box<dyn RowLook + '_>, Option<Reservation>) {
        let memory = reserve_exactly(self.bytes).ok().flatten();
        (self.selector.look(), memory)
    }
}

/// Compiles queries of delete requests, and keeps what the budget allows.
pub(crate) struct Filters {
    env: Env,
    budget: MemoryBudget,
    of_lines: SelectorCompiler,
    of_samples: SelectorCompiler,
    kept: Mutex<LruMap<Id, Arc<Compiled>>>,
    /// Held while a query is compiled.
    turn: Mutex<()>,
    /// Held by those whose query takes a thread of the CPU pool: others wait without one.
    queue: tokio::sync::Mutex<()>,
}

impl Filters {
    /// Filters that these functions compile within the budget.
    pub fn new(
        env: Env,
        budget: MemoryBudget,
        of_lines: SelectorCompiler,
        of_samples: SelectorCompiler,
    ) -> Self {
        let (kept, turn, queue) = Default::default();
        Self { env, budget, of_lines, of_samples, kept, turn, queue }
    }

    /// Bytes that the compiled queries of one merge may take together.
    pub fn share_bytes(&self) -> u64 {
        self.budget.limit() / 2
    }

    /// Compiles the query of a request that is to be made, on the CPU pool: fails when it takes more memory
    /// than a new one may.
    pub async fn check(
        self: &Arc<Self>,
        query: FilterText,
        lane: Lane,
    ) -> Result<Arc<Compiled>, FilterError> {
        let filters = Arc::clone(self);
        let most = (self.budget.limit() / NEW_SHARE).min(NEW_BYTES_MAX);
        let _turn = self.queue.lock().await;
        self.env.run_cpu(lane, move || filters.make(&query, most)).await
    }

    /// The compiled query; compiles it on the CPU pool when it is not kept.
    pub async fn get(self: &Arc<Self>, query: &FilterText, lane: Lane) -> Result<Arc<Compiled>, FilterError> {
        if let Some(kept) = self.find(query.id) {
            return Ok(kept);
        }
        let (filters, query) = (Arc::clone(self), query.clone());
        let _turn = self.queue.lock().await;
        self.env.run_cpu(lane, move || filters.get_here(&query)).await
    }

    /// The compiled query; compiles it where it is called, which must be a job of the CPU pool, when it is
    /// not kept.
    pub fn get_here(&self, query: &FilterText) -> Result<Arc<Compiled>, FilterError> {
        if let Some(kept) = self.find(query.id) {
            return Ok(kept);
        }
        let made = self.make(query, self.budget.limit())?;
        self.kept().insert(query.id, Arc::clone(&made));
        Ok(made)
    }

    /// Drops the compiled query of a request that is not open any more.
    pub fn forget(&self, id: Id) {
        let forgotten = self.kept().remove(&id);
        drop(forgotten);
    }

    fn find(&self, id: Id) -> Option<Arc<Compiled>> {
        self.kept().get(&id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, LruMap<Id, Arc<Compiled>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a query, in place of kept ones when memory is short.
    fn make(&self, query: &FilterText, most: u64) -> Result<Arc<Compiled>, FilterError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.find(query.id) {
            return Ok(kept);
        }
        loop {
            match self.compile(query, most) {
                Err(FilterError::Full(_)) if self.drop_idle() => {}
                outcome => return outcome.map(Arc::new),
            }
        }
    }

    /// Drops the half of the kept queries that was not used for longest, without those in use; whether any
    /// was dropped.
    fn drop_idle(&self) -> bool {
        let mut kept = self.kept();
        let is_idle = |(_, compiled): &(&Id, &Arc<Compiled>)| Arc::strong_count(compiled) == 1;
        let idle: Vec<Id> = kept.from_least_recent().filter(is_idle).map(|(id, _)| *id).collect();
        let dropped: Vec<_> =
            idle.iter().take(idle.len().div_ceil(2)).filter_map(|id| kept.remove(id)).collect();
        drop(kept);
        !dropped.is_empty()
    }

    fn compile(&self, query: &FilterText, most: u64) -> Result<Compiled, FilterError> {
        let compile = match query.signal {
            Signal::Logs => &self.of_lines,
            Signal::Metrics => &self.of_samples,
        };
        let one = self.budget.child(ONE, most);
        let owner = Bounded::new(one.clone());
        // What is kept belongs to no query: the next one uses it.
        let job = || job::run(owner.clone(), || compile(&query.text));
        let selector = match Account::run_on(None, job) {
            Ok(Ok(selector)) => selector,
            Ok(Err(error)) => return Err(FilterError::unreadable(&error)),
            Err(Stopped) => {
                let refusal = owner.refusal();
                return Err(refusal.map_or(FilterError::TooLarge { limit: most }, |of| too_large(of, most)));
            }
        };
        let memory = one.reserve(selector.memory_bytes()).map_err(|refusal| too_large(refusal, most))?;
        Ok(Compiled { bytes: one.used(), selector, _memory: memory })
    }
}

/// Whether a query is too large by itself, or others hold the memory.
fn too_large(refusal: OverBudget, most: u64) -> FilterError {
    match refusal.budget == ONE {
        true => FilterError::TooLarge { limit: most },
        false => FilterError::Full(refusal),
    }
}

/// Which series a request names.
#[derive(Clone)]
pub(crate) struct Naming {
    matchers: Arc<[Matcher]>,
    is_exact: bool,
}

impl Naming {
    /// That of a compiled query. The matchers are copies: what they remember goes with them.
    pub fn of(selector: &dyn RowSelector) -> Self {
        Self { matchers: selector.matchers().into(), is_exact: selector.is_exact() }
    }

    /// The same, when nothing of it was compiled: it takes no more than its text, and can be kept apart from
    /// the query.
    pub fn of_texts(selector: &dyn RowSelector) -> Option<Self> {
        let is_text = |matcher: &Matcher| matches!(matcher.op(), MatchOp::Equal | MatchOp::NotEqual);
        selector.matchers().iter().all(is_text).then(|| Self::of(selector))
    }

    /// Conditions on the series.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// Whether series that have other labels than those of the matchers are left out.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether a series is of those that it names.
    pub fn names_series(&self, labels: &Labels) -> bool {
        let is_other = |name: &str| self.names_without(name).is_some();
        matches_all(&self.matchers, labels) && !labels.iter().any(|(name, _)| is_other(name))
    }

    /// What series with a label have to fulfil beside the matchers, when the request leaves other labels out:
    /// not to have it.
    pub fn names_without(&self, label: &str) -> Option<Matcher> {
        let is_named = || self.matchers.iter().any(|matcher| matcher.name() == label);
        let is_other = self.is_exact && !is_graphite_label(label) && !is_named();
        is_other.then(|| Matcher::equal(label, ""))
    }
}

impl FilterError {
    fn unreadable(error: &QueryError) -> Self {
        Self::Unreadable { reason: error.to_string() }
    }
}
