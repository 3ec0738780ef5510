//! The open delete requests of a tenant, ready to be applied.
//!
//! Each query is read once per request; what it is compiled to is kept by [`Filters`], within their memory. A
//! tenant without requests costs one look into a map.

use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::units::MIB;
use sandur_base::{Env, Id, Lane, MemoryBudget};
use sandur_catalog::{DeleteRecord, DeleteRequest, Snapshot};
use sandur_model::{Dataset, DeletionMode, Signal, TenantId, TimeRange};
use sandur_query::{Error as QueryError, Needles, QueryContext, SelectorCompiler};

use crate::error::FilterError;
use crate::filters::{Compiled, FilterText, Filters, Naming};
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
    /// Memory of compiled queries. One of a new request may take half of it, and 16 MiB. Default: 64 MiB.
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

/// What is known of the query of a request without compiling it again.
struct Facts {
    looks_at_rows: bool,
    needles: NeedleKeys,
    /// Which series it names, when that takes no compiled query: then only a look at rows needs one.
    naming: Option<Naming>,
    /// Set when it does not fit into the memory of filters.
    too_large: Option<FilterError>,
}

impl Facts {
    fn of(compiled: &Compiled) -> Self {
        let selector = compiled.selector();
        let (needles, naming) = (NeedleKeys::new(selector.needles()), Naming::of_texts(selector));
        Self { looks_at_rows: selector.looks_at_rows(), needles, naming, too_large: None }
    }

    /// A query that is too large may name any row.
    fn of_too_large(error: FilterError) -> Self {
        let needles = NeedleKeys::new(&Needles::default());
        Self { looks_at_rows: true, needles, naming: None, too_large: Some(error) }
    }
}

/// What came of reading the query of a request; why, when it cannot be read.
type ReadQuery = Result<Arc<Facts>, Arc<str>>;

/// One open request.
#[derive(Clone)]
pub(crate) struct Rule {
    /// The timestamps that it names.
    pub range: TimeRange,
    /// The entry that started its processing.
    pub started: Option<u64>,
    query: FilterText,
    facts: Arc<Facts>,
    filters: Arc<Filters>,
    lane: Lane,
    /// Its compiled query, when it is kept for as long as the rule.
    pinned: Option<Arc<Compiled>>,
}

impl Rule {
    /// Whether rows of a matching series differ.
    pub fn looks_at_rows(&self) -> bool {
        self.facts.looks_at_rows
    }

    /// What each of its lines holds.
    pub fn needles(&self) -> &NeedleKeys {
        &self.facts.needles
    }

    /// Which series it names, for code on the threads that drive I/O.
    pub async fn naming(&self) -> Result<Naming, FilterError> {
        match &self.facts.naming {
            Some(known) => Ok(known.clone()),
            None => Ok(Naming::of(self.compiled(self.lane).await?.selector())),
        }
    }

    /// The same for jobs of the CPU pool.
    pub fn naming_here(&self) -> Result<Naming, FilterError> {
        match &self.facts.naming {
            Some(known) => Ok(known.clone()),
            None => Ok(Naming::of(self.compiled_here()?.selector())),
        }
    }

    /// The compiled query, for jobs of the CPU pool.
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
    /// Of requests that this program cannot read, for a warning in every answer.
    unreadable: Arc<[Arc<str>]>,
}

/// The rules of started requests, for compaction.
pub(crate) struct DueRules {
    /// The rules, whose compiled queries are kept if they are needed; not all of them when `through` is
    /// `None`.
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
        self.unreadable.iter().for_each(|text| context.warn(&**text));
    }
}

/// Makes and keeps rules.
pub(crate) struct Rulebook {
    options: DeleteOptions,
    filters: Arc<Filters>,
    known: Mutex<HashMap<Dataset, Known>>,
}

/// What is kept of a dataset.
#[derive(Default)]
struct Known {
    /// That of `rules`; 0 while there are none.
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

    /// Whether the query of a request that is to be made looks at rows. Fails when it must not be made: its
    /// query cannot be read, or is too large when it is compiled.
    pub async fn check(&self, request: &DeleteRequest) -> Result<bool, FilterError> {
        let compiled = self.filters.check(text_of(request), lane_of(request)).await?;
        check_rows(request, &compiled).map_err(|reason| FilterError::Unreadable { reason })?;
        Ok(compiled.selector().looks_at_rows())
    }

    /// What is hidden from queries of the dataset in this snapshot.
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

    /// What is removed from blocks of the dataset that are made of these blocks of the snapshot. The oldest
    /// requests go first, as many as there is memory for; the others follow when the blocks are clean of
    /// those.
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
        // All that were started by then are applied, or name nothing in these blocks.
        let left_out = rules.get(pinned.len()).and_then(|rule| rule.started);
        let through = match (left_out, pinned.last()) {
            (None, _) => Some(newest),
            (Some(_), Some(last)) => last.started,
            (Some(_), None) => None,
        };
        DueRules { rules: pinned, through: through.filter(|_| all_readable) }
    }

    /// The first of these rules with their compiled queries, as many as may be kept for one merge.
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
        // Requests of one entry go together: their number says of all of them that they are applied.
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

    /// Datasets whose rules are kept.
    #[cfg(test)]
    pub fn datasets(&self) -> Vec<Dataset> {
        self.known().keys().cloned().collect()
    }

    /// Reads the query of a request for the first time. What came of it is noted at once, so that a caller
    /// that gives up has not worked in vain.
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

/// Fails when a request for samples looks at lines.
fn check_rows(request: &DeleteRequest, compiled: &Compiled) -> Result<(), String> {
    match request.dataset.signal == Signal::Metrics && compiled.selector().looks_at_rows() {
        true => Err("it looks at lines, which samples have none of".to_owned()),
        false => Ok(()),
    }
}

fn text_of(request: &DeleteRequest) -> FilterText {
    FilterText { id: request.id, signal: request.dataset.signal, text: request.query.as_str().into() }
}

fn lane_of(request: &DeleteRequest) -> Lane {
    QueryContext::lane_of(&request.dataset.tenant)
}
