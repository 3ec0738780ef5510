//! Verified update: replaces an object only if it is still what the caller saw.
//!
//! For the few objects that change, such as the catalog's boundary. A plain put could land late
//! and undo a newer one; an update that lands late fails. As with creates, an unclear answer is
//! settled by reading back. A local directory has one process, whose updates go one by one.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutPayload, UpdateVersion};

use crate::call::Call;
use crate::classify::{Cause, Failure};
use crate::error::Error;
use crate::intent::Intent;
use crate::operation::Operation;
use crate::request::Requester;

/// Which state of an object was read: opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub(crate) Seen);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// What the store calls this state.
    Tag(UpdateVersion),
    /// A local file has no reliable tag: its bytes are the state.
    Bytes(Bytes),
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The object holds our bytes.
    Done,
    /// Another process changed or removed the object; this is what it holds now, if anything. Ours
    /// may have been there in between: when our answer was lost, others may have built on it.
    Changed(Option<(Bytes, Version)>),
}

impl Requester {
    /// One attempt to read an object with its version.
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

    /// Replaces the object with `bytes` if its state is `expected`.
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
        // The turn goes with the job, which runs to its end even when this future is dropped.
        let job = move || {
            let _turn = turn;
            let directory = requester.directory.as_ref().expect("only local objects have bytes as versions");
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
