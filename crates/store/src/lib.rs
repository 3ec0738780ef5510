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
//! **What it is not.** It knows no formats, no catalog and no tenants; it caches nothing.
//!
//! **Life of a call.** `store.get_ranges(path, ranges, Intent::block())`: the planner joins ranges
//! into few requests; equal block requests of several callers become one; each attempt waits for
//! a slot of its class, has a timeout that grows with its size, and is metered; a transient failure
//! is repeated after a jittered pause if the class's retry budget allows it, until the class's
//! deadline; what remains is an [`Error`] that names the object, the store and the remedy.
//!
//! **Invariants.** A write that returned is durable: directories are fsynced, and a create that
//! was found to be ours after a lost answer is fsynced before it is reported. After an error the
//! outcome of a write is unknown. No request is unbounded in time, and no class can use up another
//! class's slots or retries. Requests for catalog and WAL objects are never shared between callers:
//! they see everything that happened before they began. Dropping a future is like losing a
//! message, never worse.

mod append;
mod classify;
mod create;
mod directory;
mod error;
#[cfg(feature = "fault")]
pub mod fault;
mod gate;
mod intent;
mod meter;
mod open;
mod probe;
mod ranges;
mod request;
mod retry;
mod single_flight;
mod store;
mod update;
mod upload;
mod url;

pub use append::AppendFile;
pub use create::Created;
pub use error::{Error, Place};
pub use intent::{Class, Intent};
pub use meter::{Meter, Operation, Usage};
pub use store::{Access, ObjectInfo, Store, StoreKind, StoreOptions};
pub use update::{Updated, Version};
pub use upload::Upload;
