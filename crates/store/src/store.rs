//! The public handle of a store, with one method per operation.
//!
//! The methods choose the operation, the planner and whether requests are shared. Slots, timeouts,
//! retries and metering are in [`crate::request`] and [`crate::attempts`]. Dropping one of the futures
//! has the same effect as losing the request or its response.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, PutMode, PutPayload};
use sandur_runtime::Env;

use crate::append::AppendFile;
use crate::call::Call;
use crate::create::Created;
use crate::directory::Directory;
use crate::error::Error;
use crate::intent::{Class, Intent};
use crate::meter::StoreCounters;
use crate::operation::Operation;
use crate::options::{Access, StoreOptions};
use crate::ranges::{Planner, assemble, usage};
use crate::request::{LISTED_MAX, Requester, parse_path, parse_prefix};
use crate::single_flight::Flights;
use crate::update::{Updated, Version};
use crate::upload::Upload;
use crate::url::Location;

/// The most requests in progress of one call for several ranges.
const RANGES_IN_FLIGHT_MAX: usize = 8;

/// The place where objects are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A local directory that only this process uses.
    Local {
        /// Its absolute path.
        root: PathBuf,
    },
    /// A bucket that many processes share.
    Bucket,
    /// Memory, for tests and simulations.
    Memory,
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The path of the object below the store's URL.
    pub path: String,
    /// The size of the object in bytes.
    pub size: u64,
    /// The time of the last write, in milliseconds since the epoch, by the store's clock.
    pub modified_ms: i64,
}

impl From<ObjectMeta> for ObjectInfo {
    fn from(meta: ObjectMeta) -> Self {
        let modified_ms = meta.last_modified.timestamp_millis();
        Self { path: meta.location.into(), size: meta.size, modified_ms }
    }
}

/// An object store. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    requester: Arc<Requester>,
    kind: StoreKind,
    access: Access,
    planner: Planner,
    flights: Flights,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.url())
    }
}

impl Store {
    /// The directory that a store URL names, which need not exist; `None` for other kinds of stores.
    pub fn directory_of(url: &str) -> Result<Option<PathBuf>, Error> {
        match Location::parse(url)? {
            Location::Directory(path) => Ok(Some(path)),
            Location::Bucket { .. } | Location::Memory => Ok(None),
        }
    }

    /// A store over an existing object store: memory, or a simulation.
    pub fn from_object_store(inner: Arc<dyn ObjectStore>, env: Env, options: StoreOptions) -> Store {
        let requester = Requester::new(inner, env, "memory://".into(), &options.request_limits);
        Self::over(Arc::new(requester), StoreKind::Memory, options)
    }

    /// A store over the fault-injecting twin. Unlike [`Store::from_object_store`], it numbers and
    /// repeats the parts of large objects, as over a bucket.
    #[cfg(feature = "fault")]
    pub fn from_fault_store(inner: crate::fault::FaultStore, env: Env, options: StoreOptions) -> Store {
        let parts = crate::request::Multipart { store: Arc::new(inner.clone()), prefix: Path::default() };
        let requester = Requester::new(Arc::new(inner), env, "memory://".into(), &options.request_limits);
        Self::over(Arc::new(requester.with_multipart(parts)), StoreKind::Memory, options)
    }

    pub(crate) fn over(requester: Arc<Requester>, kind: StoreKind, options: StoreOptions) -> Store {
        let planner = match kind {
            StoreKind::Local { .. } => Planner::LOCAL,
            StoreKind::Bucket | StoreKind::Memory => Planner::bucket(&options.request_limits),
        };
        let (access, flights) = (options.access, Flights::default());
        Store(Arc::new(Inner { requester, kind, access, planner, flights }))
    }

    /// The kind of the store.
    pub fn kind(&self) -> &StoreKind {
        &self.0.kind
    }

    /// The store's URL, without secrets.
    pub fn url(&self) -> &str {
        &self.0.requester.url
    }

    /// The counters of requests so far, for `/metrics`; updates the gauges first.
    pub fn meter(&self) -> &StoreCounters {
        self.0.requester.observe();
        &self.0.requester.meter
    }

    /// A report of the requests so far and their cost, also projected to a month.
    pub fn cost_report(&self) -> String {
        self.0.requester.cost_report()
    }

    /// Dollars per month of all requests, at the rate of the last hour.
    pub fn dollars_per_month(&self) -> f64 {
        self.0.requester.dollars_per_month()
    }

    /// Dollars per month of a class of requests, at the rate of the last hour.
    pub fn dollars_per_month_of(&self, class: Class) -> f64 {
        self.0.requester.dollars_per_month_of(class)
    }

    /// Why the last request of a class failed, even while it is being retried; `None` if there was no
    /// failure since its operation last succeeded.
    pub fn latest_failure(&self, class: Class) -> Option<String> {
        self.0.requester.last_failures.of(class)
    }

    /// Reads a complete object.
    pub async fn get(&self, path: &str, intent: Intent) -> Result<Bytes, Error> {
        self.get_shared(path, None, intent).await
    }

    /// Reads a complete object; `None` if it does not exist.
    pub async fn find(&self, path: &str, intent: Intent) -> Result<Option<Bytes>, Error> {
        match self.get(path, intent).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a range of an object. A range that extends beyond the object is [`Error::Length`].
    pub async fn get_range(&self, path: &str, range: Range<u64>, intent: Intent) -> Result<Bytes, Error> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        self.get_shared(path, Some(range), intent).await
    }

    /// Reads ranges of an object with few requests; returns one `Bytes` per range, in order. Ranges that
    /// were read together share memory.
    pub async fn get_ranges(
        &self,
        path: &str,
        ranges: &[Range<u64>],
        intent: Intent,
    ) -> Result<Vec<Bytes>, Error> {
        self.get_planned(path, None, ranges, intent).await
    }

    /// Like [`Store::get_ranges`] for an object of known size in bytes: if most of it is requested, it
    /// is read completely.
    pub async fn get_ranges_sized(
        &self,
        path: &str,
        size: u64,
        ranges: &[Range<u64>],
        intent: Intent,
    ) -> Result<Vec<Bytes>, Error> {
        self.get_planned(path, Some(size), ranges, intent).await
    }

    async fn get_planned(
        &self,
        path: &str,
        size: Option<u64>,
        ranges: &[Range<u64>],
        intent: Intent,
    ) -> Result<Vec<Bytes>, Error> {
        let requests = self.0.planner.plan(ranges, size);
        let read = self.get_requests(path, ranges, &requests, &intent).await;
        if !matches!(read, Err(Error::Length { .. })) {
            return read;
        }
        // The object is shorter than `size`: the requested ranges may still be before its end.
        let narrow = self.0.planner.plan(ranges, None);
        if narrow == requests { read } else { self.get_requests(path, ranges, &narrow, &intent).await }
    }

    async fn get_requests(
        &self,
        path: &str,
        ranges: &[Range<u64>],
        requests: &[Range<u64>],
        intent: &Intent,
    ) -> Result<Vec<Bytes>, Error> {
        self.0.requester.meter.planned(usage(ranges, requests));
        let bodies = match &self.0.requester.directory {
            Some(_) => self.get_local(path, requests.to_vec(), intent).await?,
            None => {
                // A list instead of `map`, because a closure that borrows makes the futures of callers
                // not `Send`.
                let mut gets = Vec::with_capacity(requests.len());
                for range in requests {
                    gets.push(self.get_range(path, range.clone(), intent.clone()));
                }
                let running = futures_util::stream::iter(gets).buffered(RANGES_IN_FLIGHT_MAX);
                running.try_collect::<Vec<_>>().await?
            }
        };
        Ok(ranges.iter().map(|range| assemble(range, requests, &bodies)).collect())
    }

    /// Reads all ranges of a local file in one job.
    async fn get_local(
        &self,
        path: &str,
        ranges: Vec<Range<u64>>,
        intent: &Intent,
    ) -> Result<Vec<Bytes>, Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let directory = requester.directory.as_ref().expect("the caller has checked that the store is local");
        let file = directory.file_of(path.as_ref());
        let call = call(Operation::Get, &path, intent, 0);
        let attempt = || requester.read_file(intent.class, file.clone(), Some(ranges.clone()));
        requester.persist(call, attempt).await
    }

    async fn get_shared(
        &self,
        path: &str,
        range: Option<Range<u64>>,
        intent: Intent,
    ) -> Result<Bytes, Error> {
        let path = parse_path(path)?;
        let requester = Arc::clone(&self.0.requester);
        let at = requester.place(&call(Operation::Get, &path, &intent, 0));
        let (wanted, class) = (range.clone(), intent.class);
        let request = async move {
            let size = range.as_ref().map_or(0, |r| r.end - r.start);
            let call = call(Operation::Get, &path, &intent, size);
            let read = || requester.fetch(&intent, &path, range.clone());
            let body = match class {
                Class::Block => requester.persist(call, || requester.hedged(&call, read)).await,
                _ => requester.persist(call, read).await,
            };
            body.map(|(bytes, _)| bytes)
        };
        match class {
            Class::Block => self.0.flights.join(&self.0.requester.env, at, wanted, request).await,
            _ => request.await,
        }
    }

    /// Reads a complete object and its version, for [`Store::update`]. Never shared.
    pub async fn get_versioned(&self, path: &str, intent: Intent) -> Result<(Bytes, Version), Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let attempt = || requester.fetch_version(&path, &intent);
        requester.persist(call(Operation::Get, &path, &intent, 0), attempt).await
    }

    /// Creates an object unless it exists. The bytes must contain something unique to the caller,
    /// because an existing object with equal bytes counts as written by this caller. After an error the
    /// outcome is unknown, and may still change.
    pub async fn create(&self, path: &str, bytes: Bytes, intent: Intent) -> Result<Created, Error> {
        let path = self.writable(path, Operation::Create, &intent)?;
        self.0.requester.create(&path, bytes, &intent).await
    }

    /// Replaces an object if it still has the version `expected`. After an error the outcome is unknown,
    /// but it can no longer undo a later update.
    pub async fn update(
        &self,
        path: &str,
        bytes: Bytes,
        expected: &Version,
        intent: Intent,
    ) -> Result<Updated, Error> {
        let path = self.writable(path, Operation::Update, &intent)?;
        self.0.requester.update(&path, bytes, expected, &intent).await
    }

    /// Writes an object, replacing an existing one. For unique names, and for names whose writes do not
    /// race: after an error the write may still be applied later.
    pub async fn put(&self, path: &str, bytes: Bytes, intent: Intent) -> Result<(), Error> {
        let path = self.writable(path, Operation::Put, &intent)?;
        let requester = &self.0.requester;
        let call = call(Operation::Put, &path, &intent, bytes.len() as u64);
        let attempt = || {
            let payload = PutPayload::from_bytes(bytes.clone());
            requester.store(&call, &path, payload, PutMode::Overwrite)
        };
        requester.persist(call, attempt).await.map(|_| ())
    }

    /// Begins an object that is written in pieces, under a unique name.
    pub async fn upload(&self, path: &str, intent: Intent) -> Result<Upload, Error> {
        let path = self.writable(path, Operation::Upload, &intent)?;
        Ok(Upload::begin(&self.0.requester, path, intent))
    }

    /// All objects below a prefix, sorted by path; at most a million.
    pub async fn list(&self, prefix: &str, intent: Intent) -> Result<Vec<ObjectInfo>, Error> {
        let below = parse_prefix(prefix)?;
        let requester = &self.0.requester;
        let call = Call { intent: &intent, operation: Operation::List, path: prefix, bytes: 0 };
        let attempt = || requester.enumerate(intent.class, below.as_ref());
        let found = requester.persist(call, attempt).await?;
        if found.len() > LISTED_MAX {
            return Err(Error::TooMany { at: requester.place(&call), limit: LISTED_MAX });
        }
        let mut objects: Vec<ObjectInfo> = found.into_iter().map(ObjectInfo::from).collect();
        objects.retain(|o| requester.directory.is_none() || Directory::is_object(&o.path));
        objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        objects.dedup_by(|a, b| a.path == b.path);
        Ok(objects)
    }

    /// The names directly below a prefix that have objects below them, sorted: `wal` returns the
    /// incarnations.
    pub async fn list_prefixes(&self, prefix: &str, intent: Intent) -> Result<Vec<String>, Error> {
        let below = parse_prefix(prefix)?;
        let requester = &self.0.requester;
        let call = Call { intent: &intent, operation: Operation::List, path: prefix, bytes: 0 };
        if requester.directory.is_some() {
            let attempt = || requester.names(below.as_ref());
            return requester.persist(call, attempt).await;
        }
        let limit = requester.policy(intent.class).attempt_timeout(0);
        let attempt = || requester.limited(limit, requester.objects.list_with_delimiter(below.as_ref()));
        let found = requester.persist(call, attempt).await?.common_prefixes;
        let mut names: Vec<String> = found.iter().filter_map(|p| p.filename().map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Size and time of an object; `None` when it does not exist.
    pub async fn head(&self, path: &str, intent: Intent) -> Result<Option<ObjectInfo>, Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let attempt = || requester.inspect(intent.class, &path);
        let meta = requester.persist(call(Operation::Head, &path, &intent, 0), attempt).await?;
        Ok(meta.map(ObjectInfo::from))
    }

    /// Deletes an object; succeeds if it does not exist.
    pub async fn delete(&self, path: &str, intent: Intent) -> Result<(), Error> {
        let path = self.writable(path, Operation::Delete, &intent)?;
        let requester = &self.0.requester;
        let attempt = || requester.remove(intent.class, &path);
        requester.persist(call(Operation::Delete, &path, &intent, 0), attempt).await
    }

    /// Creates a file for appends, each of which is durable. Local stores only.
    pub async fn append_file(&self, path: &str) -> Result<AppendFile, Error> {
        let path = self.writable(path, Operation::Append, &Intent::wal())?;
        let requester = &self.0.requester;
        let Some(directory) = &requester.directory else {
            let reason = format!("{} has no files to append to: only local directories do", self.url());
            return Err(Error::invalid(reason));
        };
        let file = directory.file_of(path.as_ref());
        let intent = Intent::wal();
        let call = call(Operation::Append, &path, &intent, 0);
        let begin = || async {
            requester
                .prepare(&call, &path)
                .await
                .map_err(|failure| failure.into_error(requester.place(&call), 1))?;
            AppendFile::begin(Arc::clone(requester), path.as_ref(), file.clone()).await
        };
        match begin().await {
            // The directory above was removed: create it again.
            Err(Error::NotFound { .. }) => {
                directory.forget();
                begin().await
            }
            begun => begun,
        }
    }

    fn writable(&self, path: &str, operation: Operation, intent: &Intent) -> Result<Path, Error> {
        let path = parse_path(path)?;
        match self.0.access {
            Access::ReadWrite => Ok(path),
            Access::ReadOnly => {
                let at = self.0.requester.place(&call(operation, &path, intent, 0));
                Err(Error::ReadOnly { at })
            }
        }
    }
}

fn call<'a>(operation: Operation, path: &'a Path, intent: &'a Intent, bytes: u64) -> Call<'a> {
    Call { intent, operation, path: path.as_ref(), bytes }
}
