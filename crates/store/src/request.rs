//! Sends one request: waits for tokens of the tenant and a slot of the lane, applies a timeout,
//! classifies the failure and meters the cost.
//!
//! All communication with the object store goes through [`Requester::once`] (second requests for slow
//! reads through [`Requester::once_in`]), so every request is metered, bounded in time, and within the
//! slots of its lane.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use object_store::{ObjectMeta, UpdateVersion};
use sandur_memory::account::Account;
use sandur_runtime::{Env, Task};

use crate::answer;
use crate::attempts::Attempts;
use crate::call::Call;
use crate::cause::Cause;
use crate::classify::{Failure, cause_of_io, classify};
use crate::directory::Directory;
use crate::error::{Error, Place};
use crate::gate::{Gate, Slot};
use crate::hedge::Hedges;
use crate::in_memory;
use crate::intent::{Class, Intent, Policy};
use crate::lane::Lane;
use crate::last_failures::LastFailures;
use crate::meter::StoreCounters;
use crate::operation::Operation;
use crate::prices::Prices;
use crate::request_limits::{PART_BYTES_MIN, RequestLimits};
use crate::retry_budgets::RetryBudgets;
use crate::tenants::Tenants;

/// The most objects that one listing returns: a million names use about 100 MB.
pub(crate) const LISTED_MAX: usize = 1_000_000;

/// Sends objects in parts that this crate numbers. It does not apply the prefix of the store.
pub(crate) struct Multipart {
    pub store: Arc<dyn MultipartStore>,
    pub prefix: Path,
}

impl Multipart {
    /// The path in the bucket, with the prefix of the store.
    pub fn full_path(&self, path: &Path) -> Path {
        self.prefix.parts().chain(path.parts()).collect()
    }
}

/// Access to the object store, shared by everything that sends requests.
pub(crate) struct Requester {
    pub objects: Arc<dyn ObjectStore>,
    pub multipart: Option<Multipart>,
    pub env: Env,
    pub url: Arc<str>,
    /// The directory of a local store; its lock is held as long as requests are possible.
    pub directory: Option<Directory>,
    pub gate: Gate,
    pub meter: StoreCounters,
    pub budgets: RetryBudgets,
    pub last_failures: LastFailures,
    pub hedges: Hedges,
    /// Rate limits of tenants; `None` for a local directory, which only this process uses.
    pub tenants: Option<Tenants>,
    /// When the store was opened.
    pub opened_at: Duration,
    /// The largest object, in bytes, that is sent in one request.
    pub whole_upload_max: usize,
    /// Serialises updates of objects of a local directory.
    pub updating: Arc<tokio::sync::Mutex<()>>,
    leftovers: Mutex<Vec<Task<()>>>,
}

impl Requester {
    /// For a bucket or a store in memory, with all limits.
    pub fn new(
        objects: Arc<dyn ObjectStore>,
        env: Env,
        url: Arc<str>,
        request_limits: &RequestLimits,
    ) -> Self {
        let tenants = Tenants::new(env.clone(), Arc::clone(&request_limits.rates_of));
        let gate = Gate::bucket(&env, request_limits);
        let requester = Self::with(objects, env, url, gate, request_limits);
        Self { hedges: Hedges::new(request_limits), tenants: Some(tenants), ..requester }
    }

    /// For a directory, which does not throttle, is free, and has no other users.
    pub fn local(
        directory: Directory,
        objects: Arc<dyn ObjectStore>,
        env: Env,
        url: Arc<str>,
        request_limits: &RequestLimits,
    ) -> Self {
        let request_limits = RequestLimits { prices: Prices::FREE, ..request_limits.clone() };
        let gate = Gate::local(&env, &request_limits);
        let requester = Self::with(objects, env, url, gate, &request_limits);
        Self { directory: Some(directory), ..requester }
    }

    fn with(
        objects: Arc<dyn ObjectStore>,
        env: Env,
        url: Arc<str>,
        gate: Gate,
        request_limits: &RequestLimits,
    ) -> Self {
        let opened_at = env.monotonic();
        let meter = StoreCounters::new(request_limits.prices);
        meter.gauges.trend.lock().unwrap_or_else(PoisonError::into_inner).start(opened_at);
        let mut trends = meter.gauges.trends.lock().unwrap_or_else(PoisonError::into_inner);
        trends.iter_mut().for_each(|trend| trend.start(opened_at));
        drop(trends);
        Self {
            objects,
            multipart: None,
            url,
            directory: None,
            gate,
            meter,
            budgets: RetryBudgets::new(opened_at, request_limits.retry_percent),
            last_failures: LastFailures::default(),
            hedges: Hedges::none(),
            tenants: None,
            opened_at,
            whole_upload_max: request_limits.whole_upload_max.max(2 * PART_BYTES_MIN),
            env,
            updating: Arc::default(),
            leftovers: Mutex::default(),
        }
    }

    /// Adds multipart uploads whose parts this crate numbers.
    pub fn with_multipart(self, multipart: Multipart) -> Self {
        Self { multipart: Some(multipart), ..self }
    }

    /// Timeouts and retries of a class.
    pub fn policy(&self, class: Class) -> Policy {
        if self.directory.is_some() { Policy::local(class) } else { Policy::bucket(class) }
    }

    /// The place of a call, for errors.
    pub fn place(&self, call: &Call<'_>) -> Place {
        let store = Arc::clone(&self.url);
        Place { store, operation: call.operation, path: call.path.to_owned() }
    }

    /// Keeps a task that cleans up after a dropped upload. Their number is bounded by the uploads of the
    /// last few minutes, because each task ends by its deadlines.
    pub fn adopt(&self, task: Task<()>) {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.retain(|t| !t.is_finished());
        leftovers.push(task);
    }

    /// Makes one attempt, after waiting for the tenant's tokens and a slot of the lane.
    pub async fn once<T>(
        &self,
        call: &Call<'_>,
        attempts: &Attempts<'_>,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.admit(call, attempts.remaining()).await?;
        let (patience, is_repeated) = (attempts.remaining(), attempts.made > 1);
        let entering = self.gate.enter(attempts.lane, &call.intent.tenant, is_repeated);
        let Some(slot) = self.env.timeout(patience, entering).await else {
            let lane = attempts.lane.name();
            let reason = format!("no free request slot of lane {lane} within {patience:.1?}");
            return Err(Failure::new(Cause::Busy, reason));
        };
        // Boxed: each layer that wraps a future by value stores it twice, and there are several layers.
        self.once_in(slot?, call, Box::pin(attempt)).await
    }

    /// Makes one attempt in `slot`.
    pub async fn once_in<T>(
        &self,
        slot: Slot,
        call: &Call<'_>,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let started = self.env.monotonic();
        let sent = self.meter.sent(call);
        let (outcome, retry_after) = answer::listen(attempt).await;
        let outcome = outcome.map_err(|failure| Failure { retry_after, ..failure });
        let took = self.env.monotonic().saturating_sub(started);
        let failure = outcome.as_ref().err();
        sent.answered(took, failure);
        self.last_failures.note(call, failure);
        slot.finish(failure);
        outcome
    }

    /// Waits for tokens of the call's tenant.
    async fn admit(&self, call: &Call<'_>, patience: Duration) -> Result<(), Failure> {
        let (Some(tenants), Some(tenant)) = (&self.tenants, &call.intent.tenant) else { return Ok(()) };
        let waited = tenants.admit(tenant, call.bytes, patience).await?;
        if !waited.is_zero() {
            self.meter.tenant_delayed.inc();
            self.meter.tenant_wait_seconds.inc_by(waited.as_secs_f64());
        }
        Ok(())
    }

    /// Updates the gauges.
    pub fn observe(&self) {
        for lane in Lane::ALL {
            self.meter.gauges.show_lane(lane, self.gate.view(lane));
        }
        self.meter.gauges.show_month(self.dollars_per_month());
        for class in Class::ALL {
            self.dollars_per_month_of(class);
        }
    }

    /// Awaits `work` for at most `limit`.
    pub async fn limited<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match self.env.timeout(limit, work).await {
            None => Err(Failure::timeout(limit)),
            Some(outcome) => outcome.map_err(classify),
        }
    }

    /// One attempt to read an object or a range of it; also returns its version.
    pub async fn fetch(
        &self,
        intent: &Intent,
        path: &Path,
        range: Option<Range<u64>>,
    ) -> Result<(Bytes, UpdateVersion), Failure> {
        let class = intent.class;
        if let Some(directory) = &self.directory {
            let file = directory.file_of(path.as_ref());
            let ranges = range.map(|r| vec![r]);
            let mut bodies = self.read_file(class, file, ranges).await?;
            let body = bodies.pop().expect("there is one body per range");
            return Ok((body, UpdateVersion { e_tag: None, version: None }));
        }
        let policy = self.policy(class);
        let options = GetOptions { range: range.clone().map(GetRange::Bounded), ..GetOptions::default() };
        let opened = self.limited(policy.first_byte, self.objects.get_opts(path, options)).await;
        let result = opened.map_err(|failure| out_of_bounds(failure, range.as_ref()))?;
        let promised = result.range.end - result.range.start;
        if let Some(asked) = range.as_ref().map(|r| r.end - r.start).filter(|&asked| asked != promised) {
            let reason = "the object ends before the range does";
            return Err(Failure::new(Cause::Length { expected: asked, found: promised }, reason));
        }
        if let (None, Some(tenants), Some(tenant)) = (&range, &self.tenants, &intent.tenant) {
            tenants.charge(tenant, promised);
        }
        let (e_tag, version) = (result.meta.e_tag.clone(), result.meta.version.clone());
        let body = self.limited(policy.attempt_timeout(promised), result.bytes()).await?;
        let found = body.len() as u64;
        if found != promised {
            let reason = format!("the body ended after {found} of {promised} bytes");
            return Err(Failure::new(Cause::Unavailable, reason));
        }
        self.meter.transferred(class, Operation::Get, found);
        Ok((body, UpdateVersion { e_tag, version }))
    }

    /// One attempt to read ranges of a local file, or the complete file: in the calling thread if the
    /// kernel has them in memory, else in one blocking job.
    pub async fn read_file(
        &self,
        class: Class,
        file: PathBuf,
        ranges: Option<Vec<Range<u64>>>,
    ) -> Result<Vec<Bytes>, Failure> {
        // The caller accounts for the memory with its reservation, on both paths.
        let at_once = Account::run_on(None, || in_memory::read(&file, ranges.as_deref()?));
        let job = move || Directory::read(&file, ranges.as_deref());
        let bodies = match at_once {
            Some(bodies) => bodies,
            None => self.env.run_blocking(job).await?,
        };
        let found = bodies.iter().map(|b| b.len() as u64).sum();
        self.meter.transferred(class, Operation::Get, found);
        Ok(bodies)
    }

    /// Fsyncs a local object whose writer may not have made it durable; objects of a bucket are durable.
    pub async fn make_durable(self: &Arc<Self>, path: &Path) -> Result<(), Failure> {
        if self.directory.is_none() {
            return Ok(());
        }
        let (requester, name) = (Arc::clone(self), path.to_string());
        let sync = move || requester.directory.as_ref().map_or(Ok(()), |d| d.sync(&d.file_of(&name)));
        let synced = self.env.run_blocking(sync).await;
        synced.map_err(|error| Failure::new(cause_of_io(&error), error.to_string()))
    }

    /// One attempt to write an object.
    pub async fn store(
        self: &Arc<Self>,
        call: &Call<'_>,
        path: &Path,
        payload: PutPayload,
        mode: PutMode,
    ) -> Result<UpdateVersion, Failure> {
        let bytes = payload.content_length() as u64;
        let limit = self.policy(call.intent.class).attempt_timeout(bytes);
        self.meter.transferred(call.intent.class, call.operation, bytes);
        let put = || async {
            self.prepare(call, path).await?;
            let put = self.objects.put_opts(path, payload.clone(), PutOptions::from(mode.clone()));
            self.limited(limit, put).await.map_err(nowhere).map(UpdateVersion::from)
        };
        match put().await {
            Err(failure) if failure.cause == Cause::Full && self.release_reserve(call).await => put().await,
            outcome => outcome,
        }
    }

    /// Releases the reserve of a full disk for a write of the catalog; returns false if it was released
    /// before or the write is for something else.
    async fn release_reserve(self: &Arc<Self>, call: &Call<'_>) -> bool {
        if self.directory.is_none() || call.intent.class != Class::Catalog {
            return false;
        }
        let requester = Arc::clone(self);
        let release =
            move || requester.directory.as_ref().is_some_and(|d| d.reserve.release().unwrap_or(false));
        self.env.run_blocking(release).await
    }

    /// Durably creates the directories above a local object before it is written. Fails when the store's
    /// directory was replaced, and on a full disk, except for writes of the catalog, for which the
    /// reserve exists.
    pub async fn prepare(self: &Arc<Self>, call: &Call<'_>, path: &Path) -> Result<(), Failure> {
        if self.directory.is_none() {
            return Ok(());
        }
        let (requester, name) = (Arc::clone(self), path.to_string());
        let takes_space = matches!(call.intent.class, Class::Wal | Class::Block);
        let make = move || {
            let Some(directory) = &requester.directory else { return Ok(()) };
            directory.check_place()?;
            if takes_space {
                directory.reserve.hold()?;
            }
            let file = directory.file_of(&name);
            if directory.is_prepared(&file) { Ok(()) } else { directory.prepare(&file) }
        };
        let made = self.env.run_blocking(make).await;
        made.map_err(|error| Failure::new(cause_of_io(&error), error.to_string()))
    }

    /// One attempt to read size and time of an object; `None` when it does not exist.
    pub async fn inspect(&self, class: Class, path: &Path) -> Result<Option<ObjectMeta>, Failure> {
        match self.limited(self.policy(class).first_byte, self.objects.head(path)).await {
            Ok(meta) => Ok(Some(meta)),
            Err(failure) if failure.cause == Cause::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// One attempt to list everything below `prefix`, in any order; at most one object more than
    /// [`LISTED_MAX`].
    pub async fn enumerate(&self, class: Class, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>, Failure> {
        let limit = self.policy(class).first_byte;
        let mut listing = self.objects.list(prefix);
        let mut found = Vec::new();
        loop {
            match self.env.timeout(limit, listing.next()).await {
                None => return Err(Failure::timeout(limit)),
                Some(None) => break,
                Some(Some(Ok(meta))) => found.push(meta),
                Some(Some(Err(error))) => return Err(classify(error)),
            }
            if found.len() > LISTED_MAX {
                break;
            }
        }
        if self.directory.is_none() {
            self.meter.listed(class, found.len() as u64);
        }
        Ok(found)
    }

    /// One attempt to list the directories with files directly below a prefix of a local store.
    pub async fn names(self: &Arc<Self>, prefix: Option<&Path>) -> Result<Vec<String>, Failure> {
        let (requester, prefix) = (Arc::clone(self), prefix.map_or(String::new(), Path::to_string));
        let find = move || requester.directory.as_ref().map_or(Ok(Vec::new()), |d| d.names(&prefix));
        let found = self.env.run_blocking(find).await;
        let mut names = found.map_err(|error| Failure::new(cause_of_io(&error), error.to_string()))?;
        names.sort_unstable();
        Ok(names)
    }

    /// One attempt to delete an object; succeeds if it does not exist.
    pub async fn remove(&self, class: Class, path: &Path) -> Result<(), Failure> {
        match self.limited(self.policy(class).first_byte, self.objects.delete(path)).await {
            Err(failure) if failure.cause != Cause::NotFound => Err(failure),
            _ => Ok(()),
        }
    }
}

/// Converts "not found" of a write: only the bucket or the complete directory can be missing.
pub(crate) fn nowhere(failure: Failure) -> Failure {
    match failure.cause {
        Cause::NotFound => Failure { cause: Cause::NoBucket, ..failure },
        _ => failure,
    }
}

/// Converts the refusal of a range that begins beyond the end of the object; every store words it
/// differently.
fn out_of_bounds(failure: Failure, range: Option<&Range<u64>>) -> Failure {
    let texts = ["status code: 416", "InvalidRange", "but object was only", "range was invalid"];
    match range {
        Some(range) if texts.iter().any(|text| failure.reason.contains(text)) => {
            let expected = range.end - range.start;
            Failure { cause: Cause::Length { expected, found: 0 }, ..failure }
        }
        _ => failure,
    }
}

/// Parses an object path: `a/b/c` without empty parts.
pub(crate) fn parse_path(path: &str) -> Result<Path, Error> {
    let parsed = Path::parse(path).map_err(|error| {
        Error::invalid(format!("'{path}' is not an object path ({error}): write it like 'wal/01ABC/00042'"))
    })?;
    if parsed.as_ref().is_empty() {
        return Err(Error::invalid("an object path must not be empty"));
    }
    Ok(parsed)
}

/// Parses a prefix: like a path, but empty for the complete store.
pub(crate) fn parse_prefix(prefix: &str) -> Result<Option<Path>, Error> {
    let trimmed = prefix.trim_end_matches('/');
    if trimmed.is_empty() { Ok(None) } else { parse_path(trimmed).map(Some) }
}
