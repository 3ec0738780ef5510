//! Implements the object store's interface with the drawn faults.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::FaultStore;
use super::plan::{Fault, Op};
use super::upload::FaultUpload;
use super::world::{Fate, NEVER};

impl FaultStore {
    /// Draws the fate of a request and waits until it arrives at the store; fails if the fault prevents
    /// that.
    pub(super) async fn travel(&self, op: Op, path: &str) -> Result<Fate> {
        let fate = self.world.decide(&self.client.name, op, path, false);
        self.arrive(fate).await
    }

    /// Like [`FaultStore::travel`], but only with scripted faults.
    pub(super) async fn travel_spared(&self, op: Op, path: &str) -> Result<Fate> {
        let fate = self.world.decide(&self.client.name, op, path, true);
        self.arrive(fate).await
    }

    async fn arrive(&self, fate: Fate) -> Result<Fate> {
        if self.client.is_cut.load(Ordering::Relaxed) {
            self.world.env.sleep(fate.before).await;
            return Err(unsent("cut off"));
        }
        self.world.env.sleep(fate.before).await;
        match fate.fault {
            Some(Fault::Refused) => Err(unsent("connection refused")),
            Some(Fault::Throttled) => Err(answered("503 Service Unavailable: <Code>SlowDown</Code>")),
            Some(Fault::RetryAfter(after)) => {
                crate::answer::hear(after);
                Err(answered("503 Service Unavailable: <Code>SlowDown</Code>"))
            }
            Some(Fault::Failed) => Err(answered("500 Internal Server Error: <Code>InternalError</Code>")),
            Some(Fault::Denied) => {
                Err(answered("403 Forbidden: <Code>AccessDenied</Code><Message>Access Denied.</Message>"))
            }
            Some(Fault::Hang) => {
                self.world.env.sleep(NEVER).await;
                Err(interrupted())
            }
            _ => Ok(fate),
        }
    }

    /// Waits until the response arrives; fails if the fault loses it.
    pub(super) async fn answer<T>(&self, fate: Fate, outcome: Result<T>) -> Result<T> {
        self.world.env.sleep(fate.after).await;
        match fate.fault {
            Some(Fault::LostAck) => Err(interrupted()),
            _ => outcome,
        }
    }

    fn apply_late(&self, delay: Duration, path: &Path, payload: PutPayload, mode: PutMode) {
        let (world, path, client) = (Arc::clone(&self.world), path.clone(), self.client.name.clone());
        let task = self.world.env.spawn("fault-late-put", async move {
            world.env.sleep(delay).await;
            let outcome = world.apply_put(&path, payload, mode).await;
            let verdict = if outcome.is_ok() { "took effect" } else { "had no effect" };
            world.note(format_args!("{client}late write of {path} {verdict}"));
        });
        self.world.keep(task);
    }

    fn delete_late(&self, delay: Duration, path: &Path, tag: Option<String>) {
        let (world, path, client) = (Arc::clone(&self.world), path.clone(), self.client.name.clone());
        let task = self.world.env.spawn("fault-late-delete", async move {
            world.env.sleep(delay).await;
            let _ = world.apply_delete(&path, tag.as_deref()).await;
            world.note(format_args!("{client}late delete of {path}"));
        });
        self.world.keep(task);
    }

    async fn delete_one(&self, path: Path) -> Result<Path> {
        use object_store::ObjectStoreExt;
        let fate = self.travel(Op::Delete, path.as_ref()).await?;
        let tag = self.world.objects().head(&path).await.ok().and_then(|meta| meta.e_tag);
        match fate.fault {
            Some(Fault::LateApply(delay)) => {
                self.delete_late(delay, &path, tag);
                return Err(interrupted());
            }
            Some(Fault::DelayedDelete(delay)) => self.delete_late(delay, &path, tag),
            _ => self.world.apply_delete(&path, None).await?,
        }
        self.answer(fate, Ok(path)).await
    }

    async fn listed(&self, prefix: Option<Path>) -> Result<Vec<Result<ObjectMeta>>> {
        let below = prefix.clone().unwrap_or_default();
        let fate = self.travel(Op::List, below.as_ref()).await?;
        let found: Vec<ObjectMeta> = self.world.objects().list(prefix.as_ref()).try_collect().await?;
        let found = found.into_iter().map(|meta| self.world.dated(meta)).collect();
        let is_stale = fate.fault == Some(Fault::StaleList);
        let shown = self.world.as_listed(found, &below, is_stale);
        let mut shown: Vec<Result<ObjectMeta>> = shown.into_iter().map(Ok).collect();
        if fate.fault == Some(Fault::PartialList) {
            let kept = self.world.below(shown.len() as u64 + 1) as usize;
            shown.truncate(kept);
            shown.push(Err(interrupted()));
        }
        self.answer(fate, Ok(shown)).await
    }

    /// The body of a response, with the drawn fault.
    fn body(&self, fault: Option<Fault>, whole: Bytes) -> GetResultPayload {
        let kept = self.world.below(whole.len() as u64) as usize;
        let pieces = match fault {
            Some(Fault::Truncated) => vec![Ok(whole.slice(..kept))],
            Some(Fault::BrokenBody) => vec![Ok(whole.slice(..kept)), Err(interrupted())],
            _ => vec![Ok(whole)],
        };
        GetResultPayload::Stream(futures_util::stream::iter(pieces).boxed())
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let op = match opts.mode {
            PutMode::Overwrite => Op::Put,
            PutMode::Create => Op::Create,
            PutMode::Update(_) => Op::Update,
        };
        let fate = self.travel(op, location.as_ref()).await?;
        match fate.fault {
            Some(Fault::FalseConflict) => {
                let path = location.to_string();
                let outcome = Err(Error::AlreadyExists { path, source: "409 Conflict".into() });
                return self.answer(fate, outcome).await;
            }
            Some(Fault::LateApply(delay)) => {
                self.apply_late(delay, location, payload, opts.mode);
                return Err(interrupted());
            }
            Some(Fault::AppliedTwice) => {
                let first = self.world.apply_put(location, payload.clone(), opts.mode.clone()).await;
                let second = match first {
                    Ok(_) => self.world.apply_put(location, payload, opts.mode).await,
                    refused => refused,
                };
                return self.answer(fate, second).await;
            }
            _ => {}
        }
        let outcome = self.world.apply_put(location, payload, opts.mode).await;
        self.answer(fate, outcome).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fate = self.travel(Op::Upload, location.as_ref()).await?;
        let inner = self.world.objects().put_multipart_opts(location, opts).await?;
        let upload = FaultUpload::new(self.clone(), location.clone(), inner);
        let upload: Box<dyn MultipartUpload> = Box::new(upload);
        self.answer(fate, Ok(upload)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fate = self.travel(Op::Get, location.as_ref()).await?;
        let is_head = options.head;
        let found = self.world.objects().get_opts(location, options).await;
        let outcome = match found {
            Err(error) => Err(absent_as_in_directories(error)),
            Ok(mut result) => {
                result.meta = self.world.dated(result.meta);
                let (meta, range, attributes) =
                    (result.meta.clone(), result.range.clone(), result.attributes.clone());
                let whole = result.bytes().await?;
                let fault = fate.fault.filter(|_| !is_head && !whole.is_empty());
                let payload = self.body(fault, whole);
                Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
            }
        };
        self.answer(fate, outcome).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fate = self.travel(Op::Get, location.as_ref()).await?;
        let outcome = self.world.objects().get_ranges(location, ranges).await;
        self.answer(fate, outcome).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let deletes = locations.then(move |location| {
            let store = store.clone();
            async move { store.delete_one(location?).await }
        });
        deletes.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listing = async move { store.listed(prefix).await.unwrap_or_else(|error| vec![Err(error)]) };
        futures_util::stream::once(listing).flat_map(futures_util::stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let below = prefix.cloned().unwrap_or_default();
        let mut result =
            ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        for meta in self.listed(prefix.cloned()).await? {
            let meta = meta?;
            let Some(mut parts) = meta.location.prefix_match(&below) else { continue };
            let Some(first) = parts.next() else { continue };
            let is_object = parts.next().is_none();
            let name = below.clone().join(first);
            drop(parts);
            if is_object {
                result.objects.push(meta);
            } else if !result.common_prefixes.contains(&name) {
                result.common_prefixes.push(name);
            }
        }
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fate = self.travel(Op::Put, to.as_ref()).await?;
        let outcome = self.world.objects().copy_opts(from, to, options).await;
        if outcome.is_ok() {
            self.world.mark_written(to);
        }
        self.answer(fate, outcome).await
    }
}

/// "Not found" as a directory says it. Readers at the end of the catalog and of a WAL meet it all the time,
/// and the text of another source would be searched for the codes of buckets each time.
fn absent_as_in_directories(error: Error) -> Error {
    match error {
        Error::NotFound { path, .. } => {
            Error::NotFound { path, source: Box::new(io::Error::from(io::ErrorKind::NotFound)) }
        }
        other => other,
    }
}

fn transport(kind: HttpErrorKind, text: &str) -> Error {
    let source = HttpError::new(kind, std::io::Error::other(text.to_owned()));
    Error::Generic { store: "FaultStore", source: Box::new(source) }
}

/// An error before anything was sent.
fn unsent(text: &str) -> Error {
    transport(HttpErrorKind::Connect, text)
}

/// A broken connection: it is unknown how far the request got.
pub(super) fn interrupted() -> Error {
    transport(HttpErrorKind::Interrupted, "connection reset")
}

/// An error response, with the text of real stores.
fn answered(status: &str) -> Error {
    let text = format!("Server returned non-2xx status code: {status}");
    Error::Generic { store: "FaultStore", source: text.into() }
}
