//! Verified update: replaces an object only if it has not changed since the caller read it.
//!
//! For the few objects that change, such as the catalog's boundary. A plain put that is applied late
//! could undo a newer one; an update that is applied late fails. As with creates, an unclear outcome is
//! settled by reading the object. A local directory belongs to one process, which serialises its
//! updates.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutPayload, UpdateVersion};

use crate::call::Call;
use crate::cause::Cause;
use crate::classify::Failure;
use crate::error::Error;
use crate::intent::Intent;
use crate::operation::Operation;
use crate::request::Requester;

/// The state of an object when it was read; opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub(crate) Seen);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The store's tag of the state.
    Tag(UpdateVersion),
    /// The contents, because a local file has no reliable tag.
    Bytes(Bytes),
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The object contains our bytes.
    Done,
    /// Another process changed or deleted the object; these are its contents, if it exists. Our bytes
    /// may have been there before: if our response was lost, others may have built on them.
    Changed(Option<(Bytes, Version)>),
}

impl Requester {
    /// One attempt to read an object and its version.
    pub(crate) async fn fetch_version(
        &self,
        path: &Path,
        intent: &Intent,
    ) -> Result<(Bytes, Version), Failure> {
        let (bytes, tag) = self.fetch(intent, path, None).await?;
        let seen = match self.directory {
            Some(_) => Seen::Bytes(bytes.clone()),
            None => Seen::Tag(tag),
        };
        Ok((bytes, Version(seen)))
    }

    /// Replaces the contents of the object by `bytes` if its version is `expected`.
    pub(crate) async fn update(
        self: &Arc<Self>,
        path: &Path,
        bytes: Bytes,
        expected: &Version,
        intent: &Intent,
    ) -> Result<Updated, Error> {
        match &expected.0 {
            Seen::Bytes(before) => self.update_local(path, bytes, before, intent).await,
            Seen::Tag(tag) => self.update_tagged(path, bytes, tag, intent).await,
        }
    }

    async fn update_local(
        self: &Arc<Self>,
        path: &Path,
        bytes: Bytes,
        before: &Bytes,
        intent: &Intent,
    ) -> Result<Updated, Error> {
        let turn = Arc::clone(&self.updating).lock_owned().await;
        let (requester, name, before) = (Arc::clone(self), path.to_string(), before.clone());
        let call = update_call(path, &bytes, intent);
        // The job owns the lock and runs to its end, even when this future is dropped.
        let job = move || {
            let _turn = turn;
            let directory = requester.directory.as_ref().expect("only directories have contents as versions");
            directory.replace(&directory.file_of(&name), &before, &bytes)
        };
        let attempts = self.attempts(&call, call.bytes);
        let outcome = self.once(&call, &attempts, self.env.run_blocking(job)).await;
        match outcome {
            Ok(None) => Ok(Updated::Done),
            Ok(Some(now)) => Ok(Updated::Changed(Some((now.clone(), Version(Seen::Bytes(now)))))),
            Err(failure) if failure.cause == Cause::NotFound => Ok(Updated::Changed(None)),
            Err(failure) => Err(failure.into_error(self.place(&call), 1)),
        }
    }

    async fn update_tagged(
        self: &Arc<Self>,
        path: &Path,
        bytes: Bytes,
        expected: &UpdateVersion,
        intent: &Intent,
    ) -> Result<Updated, Error> {
        let call = update_call(path, &bytes, intent);
        let mut attempts = self.attempts(&call, call.bytes);
        loop {
            let payload = PutPayload::from_bytes(bytes.clone());
            let attempt = self.store(&call, path, payload, PutMode::Update(expected.clone()));
            let mut failure = match self.once(&call, &attempts, attempt).await {
                Ok(_) => return Ok(Updated::Done),
                Err(failure) if failure.cause == Cause::Conflict || failure.is_transient() => failure,
                Err(failure) => return Err(failure.into_error(self.place(&call), attempts.made)),
            };
            loop {
                let read = Call { operation: Operation::Get, ..call };
                let now = self.fetch_version(path, intent);
                match self.once(&read, &attempts, now).await {
                    Ok((now, _)) if now == bytes => return Ok(Updated::Done),
                    Ok((_, Version(Seen::Tag(tag)))) if tag == *expected => break,
                    Ok(other) => return Ok(Updated::Changed(Some(other))),
                    Err(f) if f.cause == Cause::NotFound => return Ok(Updated::Changed(None)),
                    Err(f) if f.is_transient() => failure = f,
                    Err(f) => return Err(f.into_error(self.place(&call), attempts.made)),
                }
                self.next_attempt(&call, &mut attempts, failure.clone()).await?;
            }
            self.next_attempt(&call, &mut attempts, failure).await?;
        }
    }
}

fn update_call<'a>(path: &'a Path, bytes: &Bytes, intent: &'a Intent) -> Call<'a> {
    Call { intent, operation: Operation::Update, path: path.as_ref(), bytes: bytes.len() as u64 }
}
