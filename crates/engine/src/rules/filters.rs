//! Compiled queries of delete requests, within a memory budget.
//!
//! A query of 45 bytes may take megabytes when it is compiled, and a tenant may have a thousand open
//! requests. Compiled queries are therefore reserved from one budget. When another query needs the
//! memory, idle queries are evicted, the least recently used first, and compiled again on the next use.
//!
//! **Invariants.** A compiled query is reserved for as long as it exists. One query is compiled at a
//! time. The state that a use accumulates (states of automata) is freed with the use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::{Id, LruMap};
use sandur_memory::account::Account;
use sandur_memory::job::{self, Bounded, Stopped, reserve_exactly};
use sandur_memory::{MemoryBudget, OverBudget, Reservation};
use sandur_model::{Labels, MatchOp, Matcher, Signal, matches_all};
use sandur_query::{Error as QueryError, RowLook, RowSelector, SelectorCompiler};
use sandur_runtime::{Env, Lane};

use crate::error::FilterError;
use crate::path_labels::is_path_label;

/// A new request's query may take this fraction of the budget (half), so that another query fits as well.
const NEW_SHARE: u64 = 2;
/// The same bound in bytes. A larger query takes too long to compile, which is repeated when memory is
/// short.
const NEW_BYTES_MAX: u64 = 16 << 20;
/// Name of the budget that counts one query while it is compiled.
const ONE: &str = "filter of a delete request";

/// The query of a delete request as text.
#[derive(Clone, Debug)]
pub(crate) struct FilterText {
    /// The id of the request.
    pub id: Id,
    /// The signal, which decides the query language.
    pub signal: Signal,
    /// The text of the query.
    pub text: Arc<str>,
}

/// A compiled query.
pub(crate) struct Compiled {
    selector: Arc<dyn RowSelector>,
    bytes: u64,
    /// For the part of the selector that has no reservation of its own.
    _memory: Reservation,
}

impl Compiled {
    /// Selects the rows.
    pub fn selector(&self) -> &dyn RowSelector {
        &*self.selector
    }

    /// Bytes that are reserved for it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins to look at rows. The current job pays for the state that this accumulates. A job that
    /// cannot pay is stopped; until then the look may select any row.
    pub fn look(&self) -> (Box<dyn RowLook + '_>, Option<Reservation>) {
        let memory = reserve_exactly(self.bytes).ok().flatten();
        (self.selector.look(), memory)
    }
}

/// Compiles queries of delete requests, and caches them within the budget.
pub(crate) struct Filters {
    env: Env,
    budget: MemoryBudget,
    of_lines: SelectorCompiler,
    of_samples: SelectorCompiler,
    kept: Mutex<LruMap<Id, Arc<Compiled>>>,
    /// Held while a query is compiled.
    turn: Mutex<()>,
    /// Held by the caller whose query is compiled on the CPU pool, so that waiting callers occupy no thread.
    queue: tokio::sync::Mutex<()>,
}

impl Filters {
    /// Compiles with these functions, within the budget.
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

    /// Compiles the query of a new request on the CPU pool. Fails if it takes more memory than a new
    /// query may.
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

    /// Returns the compiled query. Compiles it on the CPU pool if it is not cached.
    pub async fn get(self: &Arc<Self>, query: &FilterText, lane: Lane) -> Result<Arc<Compiled>, FilterError> {
        if let Some(kept) = self.find(query.id) {
            return Ok(kept);
        }
        let (filters, query) = (Arc::clone(self), query.clone());
        let _turn = self.queue.lock().await;
        self.env.run_cpu(lane, move || filters.get_here(&query)).await
    }

    /// Returns the compiled query. Compiles it in the calling thread, which must be of the CPU pool, if
    /// it is not cached.
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

    /// Compiles a query. Evicts cached ones when memory is short.
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

    /// Evicts the least recently used half of the cached queries that are not in use. Returns whether
    /// any was evicted.
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
        // The selector is shared by later queries, so no query's account is charged.
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

/// Converts a refused reservation: the query alone is too large, or others use the memory.
fn too_large(refusal: OverBudget, most: u64) -> FilterError {
    match *refusal.budget == *ONE {
        true => FilterError::TooLarge { limit: most },
        false => FilterError::Full(refusal),
    }
}

/// The series that a request names.
#[derive(Clone)]
pub(crate) struct Naming {
    matchers: Arc<[Matcher]>,
    is_exact: bool,
}

impl Naming {
    /// Copies the matchers of a compiled query, so that state that they accumulate is freed with the copy.
    pub fn of(selector: &dyn RowSelector) -> Self {
        Self { matchers: selector.matchers().into(), is_exact: selector.is_exact() }
    }

    /// The same if no part of the matchers was compiled. Then it takes no more memory than its text and
    /// can be kept without the query.
    pub fn of_texts(selector: &dyn RowSelector) -> Option<Self> {
        let is_text = |matcher: &Matcher| matches!(matcher.op(), MatchOp::Equal | MatchOp::NotEqual);
        selector.matchers().iter().all(is_text).then(|| Self::of(selector))
    }

    /// The conditions on the series.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// Whether series with labels other than those of the matchers are excluded.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether it names this series.
    pub fn names_series(&self, labels: &Labels) -> bool {
        let is_other = |name: &str| self.names_without(name).is_some();
        matches_all(&self.matchers, labels) && !labels.iter().any(|(name, _)| is_other(name))
    }

    /// The extra condition on series with this label if the request excludes other labels: that the
    /// label is absent.
    pub fn names_without(&self, label: &str) -> Option<Matcher> {
        let is_named = || self.matchers.iter().any(|matcher| matcher.name() == label);
        let is_other = self.is_exact && !is_path_label(label) && !is_named();
        is_other.then(|| Matcher::equal(label, ""))
    }
}

impl FilterError {
    fn unreadable(error: &QueryError) -> Self {
        Self::Unreadable { reason: error.to_string() }
    }
}
