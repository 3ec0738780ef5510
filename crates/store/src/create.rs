//! Verified create: the only way to write an object whose name other writers may use too.
//!
//! "Already exists" from a store means that the outcome is unknown: if a layer below repeats a request
//! whose acknowledgement was lost, the response is the same as after a lost race. So every response
//! except a plain success is settled by reading the object. Equal bytes mean that this writer created
//! it, since callers embed unique ids; different bytes belong to another writer; if there is no object,
//! the create is retried. A local file that is found is fsynced before the result is reported, because
//! the attempt that wrote it may not have made it durable.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutPayload};

use crate::attempts::Attempts;
use crate::call::Call;
use crate::cause::Cause;
use crate::classify::Failure;
use crate::error::Error;
use crate::intent::Intent;
use crate::operation::Operation;
use crate::request::Requester;

/// The result of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object contains our bytes: this call, possibly an earlier attempt of it, created it.
    New,
    /// The object contains these other bytes: another process created it.
    Exists(Bytes),
}

/// What was read back.
enum Found {
    Ours,
    Theirs(Bytes),
    Nothing,
}

impl Requester {
    /// Creates `path` with `bytes` unless it exists. After an error the outcome is unknown.
    pub(crate) async fn create(
        self: &Arc<Self>,
        path: &Path,
        bytes: Bytes,
        intent: &Intent,
    ) -> Result<Created, Error> {
        let name = path.as_ref();
        let size = bytes.len() as u64;
        let call = Call { intent, operation: Operation::Create, path: name, bytes: size };
        let mut attempts = self.attempts(&call, size);
        loop {
            let payload = PutPayload::from_bytes(bytes.clone());
            let attempt = self.store(&call, path, payload, PutMode::Create);
            let mut failure = match self.once(&call, &attempts, attempt).await {
                Ok(_) => return Ok(Created::New),
                Err(failure) => failure,
            };
            if !is_ambiguous(&failure) {
                return Err(failure.into_error(self.place(&call), attempts.made));
            }
            // Until the state of the name is known, another write would be pointless.
            loop {
                match self.read_back(path, &bytes, intent, &attempts).await {
                    Ok(Found::Ours) => return Ok(Created::New),
                    Ok(Found::Theirs(other)) => return Ok(Created::Exists(other)),
                    Ok(Found::Nothing) => break,
                    Err(unread) if unread.is_transient() => failure = unread,
                    Err(unread) => return Err(unread.into_error(self.place(&call), attempts.made)),
                }
                self.next_attempt(&call, &mut attempts, failure.clone()).await?;
            }
            self.next_attempt(&call, &mut attempts, failure).await?;
        }
    }

    async fn read_back(
        self: &Arc<Self>,
        path: &Path,
        ours: &Bytes,
        intent: &Intent,
        attempts: &Attempts<'_>,
    ) -> Result<Found, Failure> {
        let call = Call { intent, operation: Operation::Get, path: path.as_ref(), bytes: 0 };
        let attempt = self.fetch(intent, path, None);
        match self.once(&call, attempts, attempt).await {
            Ok((found, _)) => {
                // The caller may build on the object, so the object must survive a crash.
                self.make_durable(path).await?;
                Ok(if found == *ours { Found::Ours } else { Found::Theirs(found) })
            }
            Err(failure) if failure.cause == Cause::NotFound => Ok(Found::Nothing),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether the object may exist after this failure, written by us or by another process.
fn is_ambiguous(failure: &Failure) -> bool {
    failure.cause == Cause::Conflict || failure.is_transient()
}
