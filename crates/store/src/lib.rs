//! The object-storage client: a local directory, S3, GCS or Azure behind one handle.
//!
//! **What it is.** [`Store`] reads, creates, writes, lists and deletes objects by path. Every call
//! carries an [`Intent`], which decides its slots, timeouts, retries and where its cost is counted.
//! Creating is verified ([`Created`]): the caller learns who made the object, never merely that
//! it "already exists". Stores are named by URL:
//!
//! | URL | store |
//! |---|---|
//! | `file:///abs/path`, `file://./rel/path`, a bare path | a directory, locked by this process |
//! | `s3://bucket/prefix?region=..&endpoint=..` | S3 and what speaks its protocol |
//! | `gs://bucket/prefix` | Google Cloud Storage |
//! | `az://container/prefix?account=..` | Azure Blob Storage |
//! | `memory://` | this process's memory, for tests |
//!
//! Credentials come from the environment or the machine's role, never from the URL.
//!
//! **What it is not.** It knows no formats and no catalog, and of a tenant only the name on an
//! [`Intent`]; it caches nothing.
//!
//! **Life of a call.** `store.get_ranges(path, ranges, Intent::block().for_tenant("a"))`: the planner
//! (`ranges`) joins ranges into few requests; equal block requests of several callers become one
//! (`single_flight`); each attempt waits for the tenant's tokens (`tenants`) and for a slot of its lane
//! (`gate`), has a timeout that grows with its size, and is metered (`meter`); a block read that is
//! slower than usual is asked for a second time (`hedge`); a transient failure is repeated after a
//! jittered pause if the lane's retry budget allows it (`attempts`), until the class's deadline; what
//! remains is an [`Error`] that names the object, the store and the remedy.
//!
//! **In a storm of 503s** the lanes of reads, writes and garbage collection become smaller (`window`)
//! and then slower (`pace`) until the store answers again, so that requests wait here instead of
//! failing there; the lanes of the WAL and the catalog keep their reserved slots. All of it is set in
//! [`RequestLimits`].
//!
//! **Example.**
//!
//! ```
//! use bytes::Bytes;
//! use sandur_base::Env;
//! use sandur_store::{Created, Intent, Store, StoreOptions};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = Store::open("memory://", Env::system(1), StoreOptions::default()).await?;
//! let (first, second) = (Bytes::from("first"), Bytes::from("second"));
//! assert_eq!(store.create("catalog/1", first.clone(), Intent::catalog()).await?, Created::New);
//! // Who comes too late learns what the object holds.
//! assert_eq!(store.create("catalog/1", second, Intent::catalog()).await?, Created::Exists(first));
//! assert_eq!(store.get_range("catalog/1", 1..3, Intent::block()).await?, "ir");
//! # Ok::<_, sandur_store::Error>(())
//! # }).unwrap();
//! ```
//!
//! **Invariants.** A write that returned is durable: directories are fsynced, and a create that
//! was found to be ours after a lost answer is fsynced before it is reported. After an error the
//! outcome of a write is unknown. No request is unbounded in time, and no lane can use up another
//! lane's slots or retries. Requests for catalog and WAL objects are never shared between callers:
//! they see everything that happened before they began. Dropping a future is like losing a
//! message, never worse.

mod advice;
mod answer;
mod append;
mod attempts;
mod aws_chain;
mod call;
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
mod troubles;
mod turns;
mod update;
mod upload;
mod url;
mod window;

pub use append::AppendFile;
pub use create::Created;
pub use error::{Error, Place};
pub use intent::{Class, Intent};
pub use lane::Lane;
pub use meter::{Meter, RangeUsage, Usage};
pub use operation::Operation;
pub use options::{Access, StoreOptions};
pub use prices::Prices;
pub use request_limits::{RatesOf, RequestLimits, TenantRates};
pub use store::{ObjectInfo, Store, StoreKind};
pub use update::{Updated, Version};
pub use upload::Upload;
