//! The open delete requests of a tenant, compiled.
//!
//! Compiling is done once per request and change of the tenant's requests; a tenant without requests costs
//! one look into a map.

use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::{DeleteRecord, Snapshot};
use sandur_model::{
    Dataset, DeletionMode, Labels, Matcher, Signal, TenantId, TimeRange, is_graphite_label, matches_all,
};
use sandur_query::{Error as QueryError, QueryContext, RowSelector, SelectorCompiler};

use crate::needles::NeedleKeys;

/// What becomes of the lines that a tenant's delete requests name.
pub type DeletionModeOf = Arc<dyn Fn(&TenantId) -> DeletionMode + Send + Sync>;

/// How deletes work.
#[derive(Clone)]
pub struct DeleteOptions {
    /// How long a request can be cancelled; after that its lines are removed. Default: 24 h.
    pub cancel_period: Duration,
    /// The mode of a tenant. Default: lines are hidden and removed.
    pub mode_of: DeletionModeOf,
    /// Reads the queries of requests for lines. Default: none can be read, which suits engines without
    /// requests.
    pub compile: SelectorCompiler,
    /// The same of requests for samples. Default: as those for lines.
    pub compile_samples: Option<SelectorCompiler>,
}

impl Default for DeleteOptions {
    fn default() -> Self {
        let unknown = |_: &str| Err(QueryError::Internal("no query language is wired".to_owned()));
        Self {
            cancel_period: Duration::from_secs(24 * 3_600),
            mode_of: Arc::new(|_| DeletionMode::default()),
            compile: Arc::new(unknown),
            compile_samples: None,
        }
    }
}

impl fmt::Debug for DeleteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeleteOptions").field("cancel_period", &self.cancel_period).finish_non_exhaustive()
    }
}

/// One open request.
pub(crate) struct Rule {
    pub id: Id,
    /// The timestamps that it names.
    pub range: TimeRange,
    /// The entry that started its processing.
    pub started: Option<u64>,
    /// The rows that it names.
    pub selector: Arc<dyn RowSelector>,
    /// What each of their lines holds.
    pub needles: Arc<NeedleKeys>,
}

impl Rule {
    /// Whether a series is of those that it names.
    pub fn names_series(&self, labels: &Labels) -> bool {
        let matchers = self.selector.matchers();
        let is_other = |name: &str| self.names_without(name).is_some();
        matches_all(matchers, labels) && !labels.iter().any(|(name, _)| is_other(name))
    }

    /// What series with a label have to fulfil beside the matchers, when the request leaves other labels out:
    /// not to have it.
    pub fn names_without(&self, label: &str) -> Option<Matcher> {
        let is_named = || self.selector.matchers().iter().any(|matcher| matcher.name() == label);
        let is_other = self.selector.is_exact() && !is_graphite_label(label) && !is_named();
        is_other.then(|| Matcher::equal(label, ""))
    }
}

/// The open requests of a tenant.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    rules: Arc<[Arc<Rule>]>,
    /// Of requests that this program cannot read, for a warning in every answer.
    unreadable: Arc<[String]>,
}

/// The rules of started requests, for compaction.
pub(crate) struct DueRules {
    /// The rules; not all of them when `through` is `None`.
    pub rules: Vec<Arc<Rule>>,
    /// What a block made under them is clean of; `None` when some request could not be applied.
    pub through: Option<u64>,
}

impl Rules {
    /// The rules that concern rows from `first` to `last`, both included.
    pub fn between(&self, first: i64, last: i64) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().filter(move |rule| rule.range.touches(first, last))
    }

    /// Says in the answer which requests could not be applied.
    pub fn warn(&self, context: &QueryContext) {
        self.unreadable.iter().for_each(|text| context.warn(text.as_str()));
    }
}

/// Makes and keeps rules.
pub(crate) struct Rulebook {
    options: DeleteOptions,
    known: Mutex<HashMap<Dataset, Known>>,
}

struct Known {
    generation: u64,
    rules: Rules,
}

impl Rulebook {
    pub fn new(options: DeleteOptions) -> Self {
        Self { options, known: Mutex::default() }
    }

    pub fn mode_of(&self, tenant: &TenantId) -> DeletionMode {
        (self.options.mode_of)(tenant)
    }

    pub fn cancel_period(&self) -> Duration {
        self.options.cancel_period
    }

    /// What is hidden from queries of the dataset in this snapshot.
    pub fn hiding(&self, snapshot: &Snapshot, dataset: &Dataset) -> Rules {
        if !snapshot.deletes(dataset).any(DeleteRecord::is_open) {
            self.forget(snapshot, dataset);
            return Rules::default();
        }
        match self.mode_of(&dataset.tenant) {
            DeletionMode::Disabled => Rules::default(),
            _ => self.open(snapshot, dataset),
        }
    }

    /// What is removed from blocks of the dataset that are made from this snapshot.
    pub fn due(&self, snapshot: &Snapshot, dataset: &Dataset) -> DueRules {
        let started = |record: &DeleteRecord| record.started_at();
        let newest = snapshot.deletes(dataset).filter_map(started).max();
        let Some(newest) = newest else { return DueRules { rules: Vec::new(), through: Some(0) } };
        if self.mode_of(&dataset.tenant) != DeletionMode::FilterAndDelete {
            return DueRules { rules: Vec::new(), through: None };
        }
        let open = self.open(snapshot, dataset);
        let rules: Vec<_> = open.rules.iter().filter(|rule| rule.started.is_some()).cloned().collect();
        let all = rules.len() == snapshot.deletes(dataset).filter_map(started).count();
        DueRules { rules, through: all.then_some(newest) }
    }

    fn open(&self, snapshot: &Snapshot, dataset: &Dataset) -> Rules {
        let generation = snapshot.delete_generation(dataset);
        let before = match self.known().get(dataset) {
            Some(current) if current.generation == generation => return current.rules.clone(),
            Some(other) => other.rules.clone(),
            None => Rules::default(),
        };
        // Without the lock: others need not wait while a query is compiled.
        let (mut rules, mut unreadable) = (Vec::new(), Vec::new());
        for record in snapshot.deletes(dataset).filter(|record| record.is_open()) {
            match self.rule(&before, record) {
                Ok(rule) => rules.push(Arc::new(rule)),
                Err(reason) => unreadable.push(reason),
            }
        }
        let rules = Rules { rules: rules.into(), unreadable: unreadable.into() };
        let mut known = self.known();
        if known.get(dataset).is_none_or(|known| known.generation < generation) {
            known.insert(dataset.clone(), Known { generation, rules: rules.clone() });
        }
        rules
    }

    /// Drops the rules of a dataset that has no open request any more.
    fn forget(&self, snapshot: &Snapshot, dataset: &Dataset) {
        let generation = snapshot.delete_generation(dataset);
        if generation > 0
            && let Entry::Occupied(known) = self.known().entry(dataset.clone())
            && known.get().generation < generation
        {
            known.remove();
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Dataset, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Datasets whose rules are kept.
    #[cfg(test)]
    pub fn datasets(&self) -> Vec<Dataset> {
        self.known().keys().cloned().collect()
    }

    fn rule(&self, before: &Rules, record: &DeleteRecord) -> Result<Rule, String> {
        let request = &record.request;
        let (id, range, started) = (request.id, request.range(), record.started_at());
        if let Some(known) = before.rules.iter().find(|rule| rule.id == id) {
            let (selector, needles) = (Arc::clone(&known.selector), Arc::clone(&known.needles));
            return Ok(Rule { id, range, started, selector, needles });
        }
        let compile = match request.dataset.signal {
            Signal::Metrics => self.options.compile_samples.as_ref().unwrap_or(&self.options.compile),
            Signal::Logs => &self.options.compile,
        };
        let selector = compile(&request.query).map_err(|error| {
            format!(
                "delete request {id} cannot be read and hides nothing here: {error}; upgrade this program"
            )
        })?;
        if request.dataset.signal == Signal::Metrics && selector.looks_at_rows() {
            return Err(format!(
                "delete request {id} looks at lines, which samples have none of, and hides nothing: cancel it"
            ));
        }
        let needles = Arc::new(NeedleKeys::new(selector.needles()));
        Ok(Rule { id, range, started, selector, needles })
    }
}
