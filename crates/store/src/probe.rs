//! Checks at start that the store can do what the protocol requires.
//!
//! The probe creates one random name twice; the second create must fail. A store that ignores
//! `If-None-Match: *` would let two writers believe that each created the same catalog entry, so it is
//! rejected before anything is written. The probe also detects a read-only store, missing permissions
//! and a missing bucket. It deletes what it wrote.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;

use crate::advice::Fault;
use crate::call::Call;
use crate::create::Created;
use crate::error::Error;
use crate::intent::Intent;
use crate::operation::Operation;
use crate::request::Requester;

/// The prefix of the objects of the probe. A process that was killed during its start leaves one behind,
/// which means nothing.
pub const PROBES: &str = "probe";

/// Checks that conditional creates work, and that objects can be read, written and deleted.
pub(crate) async fn probe(requester: &Arc<Requester>) -> Result<(), Error> {
    let intent = &Intent::probe();
    let path = Path::from(format!("{PROBES}/{}", requester.env.new_id()));
    let first = Bytes::from(format!("sandur probe {}", requester.env.new_id()));
    let second = Bytes::from(format!("sandur probe {}", requester.env.new_id()));
    let created = requester.create(&path, first.clone(), intent).await;
    created.map_err(|error| explain(requester, error))?;
    let again = requester.create(&path, second, intent).await;
    let call = Call { intent, operation: Operation::Delete, path: path.as_ref(), bytes: 0 };
    match again? {
        Created::Exists(found) if found == first => {
            requester.persist(call, || requester.remove(intent.class, &path)).await
        }
        _ => {
            // Best effort, because the error below matters more.
            let _ = requester.remove(intent.class, &path).await;
            Err(Error::Unsuitable {
                store: Arc::clone(&requester.url),
                missing: "it let a second 'create only if absent' (If-None-Match: *) overwrite the first"
                    .to_owned(),
                remedy: "two writers would lose each other's data; use a store with conditional writes \
                     (AWS S3, MinIO, Google Cloud Storage, Azure, Cloudflare R2, versitygw \
                     with extended attributes)",
            })
        }
    }
}

/// Replaces errors of the first request by errors about the store, because they usually concern its
/// set-up.
fn explain(requester: &Requester, error: Error) -> Error {
    let store = Arc::clone(&requester.url);
    match &error {
        Error::Invalid { reason } if names_the_condition(reason) => Error::Unsuitable {
            store,
            missing: format!("it refuses 'create only if absent': {reason}"),
            remedy: "use a store with conditional writes (If-None-Match: *)",
        },
        Error::Invalid { reason } => Error::Unsuitable {
            store,
            missing: format!("it refuses to create an object: {reason}"),
            remedy: "correct what it names in --store or in its settings",
        },
        // link(2) fails with EPERM if the file system has no hard links.
        Error::Denied { reason, .. } if reason.contains("os error 1)") => Error::Unsuitable {
            store,
            missing: format!("its file system has no hard links, which atomic creates need: {reason}"),
            remedy: "put the directory on a file system such as ext4, xfs, btrfs or zfs",
        },
        Error::Unavailable { reason, .. } if Fault::named_in(reason) == Some(Fault::NoBucket) => {
            let remedy = Fault::NoBucket.remedy(&store);
            Error::Unsuitable { store, missing: "the bucket does not exist".to_owned(), remedy }
        }
        _ => error,
    }
}

/// Whether the store refused the condition of the create, rather than another part of the request.
fn names_the_condition(reason: &str) -> bool {
    let words = ["If-None-Match", "NotImplemented", "status code: 501", "not implemented", "not supported"];
    words.iter().any(|word| reason.contains(word))
}
