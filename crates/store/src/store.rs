//! The handle that everyone uses: one method per thing one can do with objects.
//!
//! Methods only choose the operation, the planner and the sharing; slots, timeouts, retries and
//! metering happen below, in [`crate::request`] and [`crate::attempts`]. Dropping any of the futures
//! leaves the store as if the request had been lost on the way, or as if its answer had been.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, PutMode, PutPayload};
use sandur_base::Env;

use crate::append::AppendFile;
use crate::call::Call;
use crate::create::Created;
use crate::directory::Directory;
use crate::error::Error;
use crate::intent::{Class, Intent};
use crate::meter::Meter;
use crate::operation::Operation;
use crate::options::{Access, StoreOptions};
use crate::ranges::{Planner, assemble, usage};
use crate::request::{LISTED_MAX, Requester, parse_path, parse_prefix};
use crate::single_flight::Flights;
use crate::update::{Updated, Version};
use crate::upload::Upload;
use crate::url::Location;

/// Requests that one call for many ranges has under way at once.
const RANGES_IN_FLIGHT_MAX: usize = 8;

/// Where objects are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A directory of this machine, held by this process alone.
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
    /// Its path below the store's URL.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written, in milliseconds since the epoch, by the store's clock.
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
    /// Opens the store at `url` (see the crate's documentation for the forms), takes a local
    /// directory's lock, and checks that the store can do what is needed.
    pub async fn open(url: &str, env: Env, options: StoreOptions) -> Result<Store, Error> {
        crate::open::open(url, env, options).await
    }

    /// The directory that a store's URL names, whether it is there or not; `None` for stores of other kinds.
    pub fn directory_of(url: &str) -> Result<Option<PathBuf>, Error> {
        match Location::parse(url)? {
            Location::Directory(path) => Ok(Some(path)),
            Location::Bucket { .. } | Location::Memory => Ok(None),
        }
    }

    /// A store over an object store that exists already: memory, or a simulation.
    pub fn from_object_store(inner: Arc<dyn ObjectStore>, env: Env, options: StoreOptions) -> Store {
        let requester = Requester::new(inner, env, "memory://".into(), &options.request_limits);
        Self::over(Arc::new(requester), StoreKind::Memory, options)
    }

    /// A store over the fault-injecting twin. Unlike [`Store::from_object_store`] it sends large
    /// objects in parts that it repeats, as it does over a bucket.
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

    /// Where the objects are.
    pub fn kind(&self) -> &StoreKind {
        &self.0.kind
    }

    /// The store's URL, without secrets.
    pub fn url(&self) -> &str {
        &self.0.requester.url
    }

    /// What was requested so far, and the counters for `/metrics`. Its gauges show this moment.
    pub fn meter(&self) -> &Meter {
        self.0.requester.observe();
        &self.0.requester.meter
    }

    /// What was requested so far and what it costs, also per month, in words and a table.
    pub fn cost_report(&self) -> String {
        self.0.requester.cost_report()
    }

    /// What a class of requests would cost in a month at the rate of the last hour.
    pub fn dollars_per_month_of(&self, class: Class) -> f64 {
        self.0.requester.dollars_per_month_of(class)
    }

    /// Why the latest request of a class failed, also while it is tried again; nothing when none has failed
    /// since its operation succeeded.
    pub fn latest_failure(&self, class: Class) -> Option<String> {
        self.0.requester.troubles.of(class)
    }

    /// Reads a whole object.
    pub async fn get(&self, path: &str, intent: Intent) -> Result<Bytes, Error> {
        self.get_shared(path, None, intent).await
    }

    /// Reads a range of an object. A range that ends behind the object is [`Error::Length`].
    pub async fn get_range(&self, path: &str, range: Range<u64>, intent: Intent) -> Result<Bytes, Error> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        self.get_shared(path, Some(range), intent).await
    }

    /// Reads ranges of an object with as few requests as is sensible; one `Bytes` per range, in
    /// order. Ranges that were read together share memory.
    pub async fn get_ranges(
        &self,
        path: &str,
        ranges: &[Range<u64>],
        intent: Intent,
    ) -> Result<Vec<Bytes>, Error> {
        self.get_planned(path, None, ranges, intent).await
    }

    /// Like [`Store::get_ranges`] for an object of known size in bytes: when most of it is wanted,
    /// all of it is read.
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
        // The object is shorter than its size says: what is wanted may still lie before its end.
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
                // A list instead of a mapping: a closure that borrows makes callers' futures not `Send`.
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

    /// All ranges of a local file in one visit.
    async fn get_local(
        &self,
        path: &str,
        ranges: Vec<Range<u64>>,
        intent: &Intent,
    ) -> Result<Vec<Bytes>, Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let directory = requester.directory.as_ref().expect("only local stores come here");
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

    /// Reads a whole object together with its version, for [`Store::update`]. Never shared.
    pub async fn get_versioned(&self, path: &str, intent: Intent) -> Result<(Bytes, Version), Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let attempt = || requester.fetch_version(&path, &intent);
        requester.persist(call(Operation::Get, &path, &intent, 0), attempt).await
    }

    /// Creates an object unless it exists. The bytes must contain something unique to the caller:
    /// finding equal bytes means that it was this caller who wrote them. After an error the
    /// outcome is unknown, and may still change.
    pub async fn create(&self, path: &str, bytes: Bytes, intent: Intent) -> Result<Created, Error> {
        let path = self.writable(path, Operation::Create, &intent)?;
        self.0.requester.create(&path, bytes, &intent).await
    }

    /// Replaces an object if it is still what `expected` was read with. After an error the outcome
    /// is unknown, but it can no longer undo a later update.
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

    /// Writes an object, whatever was there. For unique names and for names whose writes do not
    /// race: after an error the write may still happen later.
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

    /// Begins an object that is written piece by piece, under a unique name.
    pub async fn upload(&self, path: &str, intent: Intent) -> Result<Upload, Error> {
        let path = self.writable(path, Operation::Upload, &intent)?;
        Ok(Upload::begin(&self.0.requester, path, intent))
    }

    /// Everything below a prefix, sorted by path. At most a million objects.
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

    /// The names directly below a prefix that have objects below them, sorted: `wal` gives the
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

    /// An object's size and time; `None` when it does not exist.
    pub async fn head(&self, path: &str, intent: Intent) -> Result<Option<ObjectInfo>, Error> {
        let path = parse_path(path)?;
        let requester = &self.0.requester;
        let attempt = || requester.inspect(intent.class, &path);
        let meta = requester.persist(call(Operation::Head, &path, &intent, 0), attempt).await?;
        Ok(meta.map(ObjectInfo::from))
    }

    /// Removes an object; an absent one is fine.
    pub async fn delete(&self, path: &str, intent: Intent) -> Result<(), Error> {
        let path = self.writable(path, Operation::Delete, &intent)?;
        let requester = &self.0.requester;
        let attempt = || requester.remove(intent.class, &path);
        requester.persist(call(Operation::Delete, &path, &intent, 0), attempt).await
    }

    /// Makes a file that is appended to, durable with every append. Local stores only.
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
            // The directory above it was removed: it is made anew.
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
