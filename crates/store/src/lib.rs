//! The object-storage client: one interface for a local directory, S3, GCS and Azure.
//!
//! **What it is.** [`Store`] reads, creates, writes, lists and deletes objects by path. Every call has
//! an [`Intent`], which determines its slots, timeouts and retries, and the class under which its cost
//! is counted. Creates are verified ([`Created`]): the caller learns which bytes the object holds, not
//! only that it "already exists". A URL names a store:
//!
//! | URL | store |
//! |---|---|
//! | `file:///abs/path`, `file://./rel/path`, a bare path | a directory, locked by this process |
//! | `s3://bucket/prefix?region=..&endpoint=..` | S3 and compatible stores |
//! | `gs://bucket/prefix` | Google Cloud Storage |
//! | `az://container/prefix?account=..` | Azure Blob Storage |
//! | `memory://` | this process's memory, for tests |
//!
//! Credentials come from the environment or the machine's role, never from the URL.
//!
//! **What it is not.** It has no knowledge of formats or the catalog. It knows a tenant only by the name
//! in an [`Intent`]. It caches nothing.
//!
//! **Life of a call.** `store.get_ranges(path, ranges, Intent::block().for_tenant("a"))`:
//!
//! 1. The planner (`ranges`) combines ranges into few requests.
//! 2. Concurrent requests for the same block range share one request (`single_flight`).
//! 3. Each attempt waits for tokens of the tenant (`tenants`) and for a slot of its lane (`gate`), has a
//!    timeout that grows with its size, and is metered (`meter`).
//! 4. If a block read is slower than usual, a second request is sent (`hedge`).
//! 5. A transient failure is retried after a pause with jitter, if the lane's retry budget permits it
//!    (`attempts`), until the deadline of the class.
//! 6. What fails finally is an [`Error`] that names the object, the store and the remedy.
//!
//! **When the store throttles** (503), the lanes of reads, writes and garbage collection first shrink
//! (`window`) and then slow down (`pace`) until the store accepts requests again, so that requests wait
//! in this process instead of failing at the store. The lanes of the WAL and the catalog keep their
//! reserved slots. [`RequestLimits`] configures all of this.
//!
//! **Example.**
//!
//! ```
//! use bytes::Bytes;
//! use sandur_runtime::Env;
//! use sandur_store::{Created, Intent, Store, StoreOptions};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = Store::open("memory://", Env::system(1), StoreOptions::default()).await?;
//! let (first, second) = (Bytes::from("first"), Bytes::from("second"));
//! assert_eq!(store.create("catalog/1", first.clone(), Intent::catalog()).await?, Created::New);
//! // The second creator gets the contents of the object.
//! assert_eq!(store.create("catalog/1", second, Intent::catalog()).await?, Created::Exists(first));
//! assert_eq!(store.get_range("catalog/1", 1..3, Intent::block()).await?, "ir");
//! # Ok::<_, sandur_store::Error>(())
//! # }).unwrap();
//! ```
//!
//! **Invariants.** A write that has returned is durable. Directories are fsynced, and an object that is
//! found to be the caller's own after a lost response is fsynced before that is reported. After an error
//! the outcome of a write is unknown. Every request is bounded in time, and no lane can use up the slots
//! or retries of another. Requests for catalog and WAL objects are never shared between callers, so they
//! see everything that happened before they began. Dropping a future has the same effect as losing a
//! message.

mod advice;
mod answer;
mod append;
mod attempts;
mod aws_chain;
mod call;
mod cause;
mod classify;
mod connector;
mod cost;
mod create;
mod directory;
mod error;
#[cfg(feature = "fault")]
pub mod fault;
mod gate;
mod gauges;
mod hedge;
mod hedged_read;
mod hold;
mod in_memory;
mod intent;
mod lane;
mod last_failures;
mod latency;
mod meter;
mod open;
mod operation;
mod options;
mod pace;
mod persist;
mod prices;
mod probe;
mod ranges;
mod request;
mod request_limits;
mod reserve;
mod retry_budgets;
mod single_flight;
mod store;
mod tenants;
mod trend;
mod update;
mod upload;
mod url;
mod window;

pub use append::AppendFile;
pub use create::Created;
pub use error::{Error, Place};
pub use intent::{Class, Intent};
pub use lane::Lane;
pub use meter::{RangeUsage, StoreCounters, Usage};
pub use operation::Operation;
pub use options::{Access, StoreOptions};
pub use prices::Prices;
pub use probe::PROBES;
pub use request_limits::{RatesOf, RequestLimits, TenantRates};
pub use store::{ObjectInfo, Store, StoreKind};
pub use update::{Updated, Version};
pub use upload::Upload;
