//! The open delete requests of a tenant, compiled into rules.
//!
//! Each query is parsed once per request. [`Filters`] keeps the compiled queries within a memory budget.
//! A tenant without requests costs one map lookup.

pub(crate) mod filters;

use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Id;
use sandur_base::units::MIB;
use sandur_catalog::{DeleteRecord, DeleteRequest, Snapshot};
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, DeletionMode, Signal, TenantId, TimeRange};
use sandur_query::{Error as QueryError, Needles, QueryContext, SelectorCompiler};
use sandur_runtime::{Env, Lane};

use crate::error::FilterError;
use crate::needles::NeedleKeys;
use crate::rules::filters::{Compiled, FilterText, Filters, Naming};

/// Returns what happens to the lines of a tenant's delete requests.
pub type DeletionModeOf = Arc<dyn Fn(&TenantId) -> DeletionMode + Send + Sync>;

/// The options of delete requests.
#[derive(Clone)]
pub struct DeleteOptions {
    /// How long a request can be cancelled before its lines are removed. Default: 24 h.
    pub cancel_period: Duration,
    /// The mode of a tenant. Default: lines are hidden and removed.
    pub mode_of: DeletionModeOf,
    /// Compiles the queries of requests for lines. Default: refuses every query, which suits engines
    /// without requests.
    pub compile: SelectorCompiler,
    /// Compiles the queries of requests for samples. Default: same as for lines.
    pub compile_samples: Option<SelectorCompiler>,
    /// The memory budget of compiled queries. A new request may use at most half of it and at most 16
    /// MiB. Default: 64 MiB.
    pub filter_budget: MemoryBudget,
}

impl Default for DeleteOptions {
    fn default() -> Self {
        let unknown = |_: &str| Err(QueryError::Internal("no query language is wired".to_owned()));
        Self {
            cancel_period: Duration::from_secs(24 * 3_600),
            mode_of: Arc::new(|_| DeletionMode::default()),
            compile: Arc::new(unknown),
            compile_samples: None,
            filter_budget: MemoryBudget::root("filters of delete requests", 64 * MIB),
        }
    }
}

impl fmt::Debug for DeleteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeleteOptions").field("cancel_period", &self.cancel_period).finish_non_exhaustive()
    }
}

/// The properties of a request's query that are known without compiling it again.
struct Facts {
    looks_at_rows: bool,
    needles: NeedleKeys,
    /// The series that it names, if that needs no compiled query. Then only looking at rows needs one.
    naming: Option<Naming>,
    /// Set if the compiled query does not fit into the memory of filters.
    too_large: Option<FilterError>,
}

impl Facts {
    fn of(compiled: &Compiled) -> Self {
        let selector = compiled.selector();
        let (needles, naming) = (NeedleKeys::new(selector.needles()), Naming::of_texts(selector));
        Self { looks_at_rows: selector.looks_at_rows(), needles, naming, too_large: None }
    }

    /// The rows of a query that is too large are unknown, so it may name any row.
    fn of_too_large(error: FilterError) -> Self {
        let needles = NeedleKeys::new(&Needles::default());
        Self { looks_at_rows: true, needles, naming: None, too_large: Some(error) }
    }
}

/// The result of reading the query of a request, or why it cannot be read.
type ReadQuery = Result<Arc<Facts>, Arc<str>>;

/// One open request.
#[derive(Clone)]
pub(crate) struct Rule {
    /// The time range of the rows that it names.
    pub range: TimeRange,
    /// The number of the catalog entry that started its processing.
    pub started: Option<u64>,
    query: FilterText,
    facts: Arc<Facts>,
    filters: Arc<Filters>,
    lane: Lane,
    /// Its compiled query, if it is kept as long as the rule.
    pinned: Option<Arc<Compiled>>,
}

impl Rule {
    /// Whether the rule can name some rows of a matching series and not others.
    pub fn looks_at_rows(&self) -> bool {
        self.facts.looks_at_rows
    }

    /// Texts that each of its lines contains.
    pub fn needles(&self) -> &NeedleKeys {
        &self.facts.needles
    }

    /// Returns the series that it names. For code on the I/O threads.
    pub async fn naming(&self) -> Result<Naming, FilterError> {
        match &self.facts.naming {
            Some(known) => Ok(known.clone()),
            None => Ok(Naming::of(self.compiled(self.lane).await?.selector())),
        }
    }

    /// Does the same as [`Self::naming`]. For jobs on the CPU pool.
    pub fn naming_here(&self) -> Result<Naming, FilterError> {
        match &self.facts.naming {
            Some(known) => Ok(known.clone()),
            None => Ok(Naming::of(self.compiled_here()?.selector())),
        }
    }

    /// Returns the compiled query. For jobs on the CPU pool.
    pub fn compiled_here(&self) -> Result<Arc<Compiled>, FilterError> {
        match self.pinned()? {
            Some(pinned) => Ok(pinned),
            None => self.filters.get_here(&self.query),
        }
    }

    async fn compiled(&self, lane: Lane) -> Result<Arc<Compiled>, FilterError> {
        match self.pinned()? {
            Some(pinned) => Ok(pinned),
            None => self.filters.get(&self.query, lane).await,
        }
    }

    /// Whether it is applied without its compiled query.
    fn is_applied_by_facts(&self) -> bool {
        self.facts.naming.is_some() && !self.facts.looks_at_rows
    }

    fn pinned(&self) -> Result<Option<Arc<Compiled>>, FilterError> {
        match &self.facts.too_large {
            Some(error) => Err(FilterError::Request { id: self.query.id, reason: error.to_string() }),
            None => Ok(self.pinned.clone()),
        }
    }
}

/// The open requests of a tenant.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    rules: Arc<[Arc<Rule>]>,
    /// Reasons of requests that this program cannot read, for a warning in every answer.
    unreadable: Arc<[Arc<str>]>,
}

/// The rules of started requests, for compaction.
pub(crate) struct DueRules {
    /// The rules. Those that need a compiled query keep it. Incomplete when `through` is `None`.
    pub rules: Vec<Arc<Rule>>,
    /// The number of the entry through which a block made under these rules is clean; `None` if some
    /// request could not be applied.
    pub through: Option<u64>,
}

impl Rules {
    /// The rules with rows from `first` to `last`, both inclusive.
    pub fn between(&self, first: i64, last: i64) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().filter(move |rule| rule.range.touches(first, last))
    }

    /// Adds warnings to the answer about requests that could not be applied.
    pub fn warn(&self, context: &QueryContext) {
        self.unreadable.iter().for_each(|text| context.warn(&**text));
    }
}

/// Compiles and caches rules.
pub(crate) struct Rulebook {
    options: DeleteOptions,
    filters: Arc<Filters>,
    known: Mutex<HashMap<Dataset, Known>>,
}

/// The cached state of a dataset.
#[derive(Default)]
struct Known {
    /// The generation of `rules`; 0 while there are none.
    generation: u64,
    rules: Rules,
    read: HashMap<Id, ReadQuery>,
}

impl Rulebook {
    pub fn new(env: &Env, options: DeleteOptions) -> Self {
        let of_samples = options.compile_samples.as_ref().unwrap_or(&options.compile);
        let (of_lines, of_samples) = (Arc::clone(&options.compile), Arc::clone(of_samples));
        let filters = Filters::new(env.clone(), options.filter_budget.clone(), of_lines, of_samples);
        Self { options, filters: Arc::new(filters), known: Mutex::default() }
    }

    pub fn mode_of(&self, tenant: &TenantId) -> DeletionMode {
        (self.options.mode_of)(tenant)
    }

    pub fn cancel_period(&self) -> Duration {
        self.options.cancel_period
    }

    /// Checks the query of a new request. Returns whether it looks at rows. Fails if the query cannot be
    /// read, or is too large when it is compiled.
    pub async fn check(&self, request: &DeleteRequest) -> Result<bool, FilterError> {
        let compiled = self.filters.check(text_of(request), lane_of(request)).await?;
        check_rows(request, &compiled).map_err(|reason| FilterError::Unreadable { reason })?;
        Ok(compiled.selector().looks_at_rows())
    }

    /// The rules that hide rows from queries of the dataset in this snapshot.
    pub async fn hiding(&self, snapshot: &Snapshot, dataset: &Dataset) -> Result<Rules, FilterError> {
        if !snapshot.deletes(dataset).any(DeleteRecord::is_open) {
            self.forget(snapshot, dataset);
            return Ok(Rules::default());
        }
        match self.mode_of(&dataset.tenant) {
            DeletionMode::Disabled => Ok(Rules::default()),
            _ => self.open(snapshot, dataset).await,
        }
    }

    /// The rules to apply to a block that is made of these blocks of the snapshot. If the memory does
    /// not suffice for all, the oldest requests come first; the others follow once the blocks are clean
    /// of those.
    pub async fn due(&self, snapshot: &Snapshot, dataset: &Dataset, inputs: &[Id]) -> DueRules {
        let newest = snapshot.deletes(dataset).filter_map(DeleteRecord::started_at).max();
        let Some(newest) = newest else { return DueRules { rules: Vec::new(), through: Some(0) } };
        let nothing = DueRules { rules: Vec::new(), through: None };
        if self.mode_of(&dataset.tenant) != DeletionMode::FilterAndDelete {
            return nothing;
        }
        let blocks: Vec<_> = inputs.iter().filter_map(|id| snapshot.block(*id)).collect();
        let clean_of = blocks.iter().map(|block| block.deletes_through).min().unwrap_or(0);
        let touches = |range: TimeRange| blocks.iter().any(|block| range.touches(block.min_ts, block.max_ts));
        let is_due = |started: Option<u64>, range| started.is_some_and(|at| at > clean_of) && touches(range);
        let open = match self.open(snapshot, dataset).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(%dataset, %error, "delete requests are not applied");
                return nothing;
            }
        };
        let mut rules: Vec<_> = open.rules.iter().filter(|rule| is_due(rule.started, rule.range)).collect();
        rules.sort_by_key(|rule| rule.started);
        let concerned = snapshot.deletes(dataset).filter(|r| is_due(r.started_at(), r.request.range()));
        let all_readable = rules.len() == concerned.count();
        let pinned = self.pin(dataset, &rules).await;
        // All requests that were started until then are applied, or name no rows in these blocks.
        let left_out = rules.get(pinned.len()).and_then(|rule| rule.started);
        let through = match (left_out, pinned.last()) {
            (None, _) => Some(newest),
            (Some(_), Some(last)) => last.started,
            (Some(_), None) => None,
        };
        DueRules { rules: pinned, through: through.filter(|_| all_readable) }
    }

    /// The first of these rules with their compiled queries, up to the memory that one merge may keep.
    async fn pin(&self, dataset: &Dataset, rules: &[&Arc<Rule>]) -> Vec<Arc<Rule>> {
        let (mut pinned, mut bytes): (Vec<Arc<Rule>>, u64) = (Vec::new(), 0);
        for rule in rules {
            if rule.is_applied_by_facts() {
                pinned.push(Arc::clone(rule));
                continue;
            }
            let compiled = match rule.compiled(Lane::Background).await {
                Ok(compiled) => compiled,
                Err(error) => {
                    let id = rule.query.id;
                    tracing::warn!(%dataset, %id, %error, "a delete request is not applied to a block yet");
                    break;
                }
            };
            bytes += compiled.bytes();
            if bytes > self.filters.share_bytes() && !pinned.is_empty() {
                break;
            }
            pinned.push(Arc::new(Rule { pinned: Some(compiled), ..Rule::clone(rule) }));
        }
        // Requests of one entry stay together, because the entry's number marks all of them as applied.
        if let Some(next) = rules.get(pinned.len()) {
            while pinned.pop_if(|last| last.started == next.started).is_some() {}
        }
        pinned
    }

    async fn open(&self, snapshot: &Snapshot, dataset: &Dataset) -> Result<Rules, FilterError> {
        let generation = snapshot.delete_generation(dataset);
        let mut read = match self.known().get(dataset) {
            Some(current) if current.generation == generation => return Ok(current.rules.clone()),
            Some(other) => other.read.clone(),
            None => HashMap::new(),
        };
        let (mut rules, mut unreadable, mut of_open) = (Vec::new(), Vec::new(), HashMap::new());
        for record in snapshot.deletes(dataset).filter(|record| record.is_open()) {
            let id = record.request.id;
            let query = match read.remove(&id) {
                Some(query) => query,
                None => self.read(&record.request).await?,
            };
            match &query {
                Ok(facts) => rules.push(Arc::new(self.rule(record, Arc::clone(facts)))),
                Err(reason) => unreadable.push(Arc::clone(reason)),
            }
            of_open.insert(id, query);
        }
        let rules = Rules { rules: rules.into(), unreadable: unreadable.into() };
        let mut known = self.known();
        if known.get(dataset).is_none_or(|known| known.generation < generation) {
            let now = Known { generation, rules: rules.clone(), read: of_open };
            let before = known.insert(dataset.clone(), now).unwrap_or_default();
            let now = &known[dataset].read;
            before.read.into_keys().filter(|id| !now.contains_key(id)).for_each(|id| self.filters.forget(id));
        }
        Ok(rules)
    }

    fn rule(&self, record: &DeleteRecord, facts: Arc<Facts>) -> Rule {
        let request = &record.request;
        Rule {
            range: request.range(),
            started: record.started_at(),
            query: text_of(request),
            facts,
            filters: Arc::clone(&self.filters),
            lane: lane_of(request),
            pinned: None,
        }
    }

    /// Drops the rules of a dataset that has no open request any more.
    fn forget(&self, snapshot: &Snapshot, dataset: &Dataset) {
        let generation = snapshot.delete_generation(dataset);
        if generation > 0
            && let Entry::Occupied(known) = self.known().entry(dataset.clone())
            && known.get().generation < generation
        {
            known.remove().read.into_keys().for_each(|id| self.filters.forget(id));
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Dataset, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The datasets with cached rules.
    #[cfg(test)]
    pub fn datasets(&self) -> Vec<Dataset> {
        self.known().keys().cloned().collect()
    }

    /// Reads the query of a request for the first time. The result is cached at once, so that it is not
    /// lost if the caller gives up.
    async fn read(&self, request: &DeleteRequest) -> Result<ReadQuery, FilterError> {
        let id = request.id;
        let query = match self.filters.get(&text_of(request), lane_of(request)).await {
            Ok(compiled) => match check_rows(request, &compiled) {
                Ok(()) => Ok(Arc::new(Facts::of(&compiled))),
                Err(reason) => Err(format!("delete request {id} hides nothing: {reason}; cancel it")),
            },
            Err(FilterError::Unreadable { reason }) => Err(format!(
                "delete request {id} cannot be read and hides nothing here: {reason}; upgrade this program"
            )),
            Err(error @ FilterError::TooLarge { .. }) => {
                tracing::warn!(dataset = %request.dataset, %id, %error, "a delete request cannot be applied");
                Ok(Arc::new(Facts::of_too_large(error)))
            }
            Err(error) => return Err(error),
        };
        let query: ReadQuery = query.map_err(Arc::from);
        self.known().entry(request.dataset.clone()).or_default().read.insert(id, query.clone());
        Ok(query)
    }
}

/// Fails if a request for samples looks at lines.
fn check_rows(request: &DeleteRequest, compiled: &Compiled) -> Result<(), String> {
    match request.dataset.signal == Signal::Metrics && compiled.selector().looks_at_rows() {
        true => Err("it looks at lines, and samples have no lines".to_owned()),
        false => Ok(()),
    }
}

fn text_of(request: &DeleteRequest) -> FilterText {
    FilterText { id: request.id, signal: request.dataset.signal, text: request.query.as_str().into() }
}

fn lane_of(request: &DeleteRequest) -> Lane {
    QueryContext::lane_of(&request.dataset.tenant)
}
