//! The WAL in a local directory: the committer appends to files, with one fsync per natural batch.
//!
//! While one frame is being synced the next pushes gather. Batches therefore grow with the load, and an
//! idle server acknowledges after one fsync.
//!
//! **When an append fails,** the file is left as it is; its last frame may be torn or complete. Nothing
//! of that frame is acknowledged or applied, its sequence number is not used again, and the next frame
//! begins a new file. Recovery reads every complete frame. If the failed frame is complete after all, it
//! holds rows that a client sends again, and equal rows are stored once. If the device is full or
//! read-only, or the process is short of file descriptors or memory, the committer tries again once per
//! pause, even when no push comes: a load balancer stops sending pushes to a server that refuses them.
//! Most other failures poison the WAL permanently, because after a failed fsync the kernel may report
//! success for pages that it has dropped.
//!
//! **When a file loses its name** (it was removed or replaced), no reader can find its bytes. The push
//! that detects this is refused, the committer begins a new file, and the rows that were acknowledged
//! before are flushed at once, because they are in memory alone. Upkeep also checks the files from time
//! to time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_runtime::Lane;
use sandur_store::{AppendFile, Error as StoreError, Intent, Store};
use tokio::sync::mpsc;

use super::committing::{self, Context, End, Push, SMALL_BYTES};
use super::frame;
use super::group::Group;
use crate::error::Error;

/// How long pushes are refused between two trials when the device is full, or descriptors or memory are
/// short.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// How long a small append may take. A busy disk takes seconds; one that hangs must be detected within
/// 15 s.
const APPEND_PATIENCE: Duration = Duration::from_secs(14);

/// The operations that the WAL needs on a file.
pub(super) trait WalFile: Send + Sync {
    /// Writes the pieces and makes them durable. After a failure the file accepts no more.
    fn append(&self, pieces: Vec<Bytes>) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The number of durable bytes.
    fn len(&self) -> u64;
    /// The file's path in the store.
    fn path(&self) -> &str;
}

impl WalFile for AppendFile {
    fn append(&self, pieces: Vec<Bytes>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(AppendFile::append(self, pieces))
    }

    fn len(&self) -> u64 {
        AppendFile::len(self)
    }

    fn path(&self) -> &str {
        AppendFile::path(self)
    }
}

/// The operations that the WAL needs on a directory. Tests pass one that fails.
pub(super) trait WalDirectory: Send + Sync {
    /// Creates a file.
    fn begin<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Arc<dyn WalFile>, StoreError>>;
    /// Whether this file exists.
    fn has<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;
    /// Removes a file.
    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

impl WalDirectory for Store {
    fn begin<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Arc<dyn WalFile>, StoreError>> {
        Box::pin(async move { Ok(Arc::new(self.append_file(path).await?) as Arc<dyn WalFile>) })
    }

    fn has<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.head(path, Intent::wal()).await?.is_some()) })
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::delete(self, path, Intent::gc()))
    }
}

/// The WAL files of this process that still exist.
#[derive(Default)]
pub(crate) struct LocalFiles(Mutex<Files>);

#[derive(Default)]
struct Files {
    open: Option<(Arc<dyn WalFile>, u64)>,
    closed: Vec<ClosedFile>,
}

struct ClosedFile {
    path: String,
    /// The sequence number after its last frame.
    end: u64,
}

impl LocalFiles {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file that frame `sequence` is appended to, unless a new one has to be begun.
    fn file_for(&self, sequence: u64, bytes_max: u64) -> Option<Arc<dyn WalFile>> {
        let mut files = self.files();
        if files.open.as_ref().is_some_and(|(file, _)| file.len() >= bytes_max) {
            files.close_open();
        }
        let (file, end) = files.open.as_mut()?;
        // Noted before the append, so that a deletion by this number does not delete the file too early.
        *end = sequence + 1;
        Some(Arc::clone(file))
    }

    fn begin(&self, file: Arc<dyn WalFile>, sequence: u64) -> Arc<dyn WalFile> {
        let mut files = self.files();
        files.close_open();
        files.open = Some((Arc::clone(&file), sequence + 1));
        file
    }

    /// Closes the open file. The next frame begins a new one.
    pub(crate) fn retire(&self) {
        self.files().close_open();
    }

    /// Whether a file with frames that are not in blocks has lost its name. Each such file is reported
    /// once; an open one is closed.
    pub(super) async fn has_lost_any(&self, directory: &dyn WalDirectory) -> bool {
        let paths: Vec<String> = {
            let files = self.files();
            let open = files.open.iter().filter(|(file, _)| file.len() > 0).map(|(file, _)| file.path());
            open.chain(files.closed.iter().map(|file| &*file.path)).map(str::to_owned).collect()
        };
        let mut lost = false;
        for path in paths {
            if !matches!(directory.has(&path).await, Ok(false)) {
                continue;
            }
            let mut files = self.files();
            if files.open.as_ref().is_some_and(|(file, _)| file.path() == path) {
                files.close_open();
            }
            let known = files.closed.len();
            files.closed.retain(|file| file.path != path);
            // If it is not listed any more, it was deleted just now because its rows are in blocks.
            if files.closed.len() < known {
                tracing::error!(path, "a WAL file was removed while it was needed; its rows are flushed now");
                lost = true;
            }
        }
        lost
    }

    /// Deletes the files whose frames are all below the floor.
    pub(super) async fn delete_below(&self, directory: &dyn WalDirectory, floor: u64) {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.files().closed).into_iter().partition(|file| file.end <= floor);
        self.files().closed.extend(kept);
        for file in gone {
            if let Err(error) = directory.delete(&file.path).await {
                tracing::warn!(path = file.path, %error, "a flushed WAL file could not be deleted");
                self.files().closed.push(file);
            }
        }
    }
}

impl Files {
    fn close_open(&mut self) {
        if let Some((file, end)) = self.open.take() {
            self.closed.push(ClosedFile { path: file.path().to_owned(), end });
        }
    }
}

/// Writes the frames of one incarnation.
pub(super) struct Committer {
    context: Arc<Context>,
    directory: Arc<dyn WalDirectory>,
    files: Arc<LocalFiles>,
    next: u64,
}

impl Committer {
    pub(super) fn new(
        context: Arc<Context>,
        directory: Arc<dyn WalDirectory>,
        files: Arc<LocalFiles>,
    ) -> Self {
        Self { context, directory, files, next: 0 }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Push>) -> End {
        loop {
            let first = tokio::select! {
                biased;
                push = queue.recv() => push,
                () = self.trial_due() => {
                    self.try_device().await;
                    continue;
                }
            };
            let Some(first) = first else { return End::Closed { next: self.next } };
            let mut group = Group::default();
            group.add(first);
            while group.bytes() < self.context.options.wal_frame_bytes {
                let Ok(push) = queue.try_recv() else { break };
                group.add(push);
            }
            self.commit(group).await;
        }
    }

    /// Waits until the device must be tried without a push: after a time in which no push came that
    /// could have been the trial.
    async fn trial_due(&self) {
        let env = &self.context.env;
        match self.context.status.trial_due() {
            Some(due) => env.sleep((due + FULL_PAUSE).saturating_sub(env.monotonic())).await,
            None => std::future::pending().await,
        }
    }

    /// Creates a file and deletes it, to find out whether the device accepts writes again. Its sequence
    /// number is not used again, because a file whose creation failed may exist nonetheless.
    async fn try_device(&mut self) {
        let context = Arc::clone(&self.context);
        let path = committing::path(context.incarnation, self.next);
        self.next += 1;
        context.views.advance(context.incarnation, self.next);
        match self.directory.begin(&path).await {
            Ok(file) => {
                self.drop_if_useless(&*file).await;
                context.status.resume();
            }
            Err(_) => context.status.put_off_trial(context.env.monotonic() + FULL_PAUSE),
        }
    }

    async fn commit(&mut self, group: Group) {
        let context = Arc::clone(&self.context);
        if let Err(error) = context.status.check(context.env.monotonic()) {
            return group.replies.fail(&error);
        }
        let sequence = self.next;
        self.next += 1;
        let started = context.env.monotonic();
        let (pieces, group) = self.encode(sequence, group).await;
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        context.status.begun((sequence, bytes), context.env.monotonic(), APPEND_PATIENCE);
        if let Err(error) = self.append(sequence, pieces).await {
            context.status.given_up(sequence);
            context.metrics.wal_failures.inc();
            context.views.advance(context.incarnation, self.next);
            return group.replies.fail(&self.settle(error));
        }
        context.status.durable(sequence, context.env.monotonic());
        context.metrics.wal_frames.inc();
        context.metrics.wal_bytes.inc_by(bytes);
        let waited = context.env.monotonic().saturating_sub(started);
        context.metrics.wal_seconds.observe(waited.as_secs_f64());
        let conflicts = context.apply_where_due((sequence, 0), bytes, group.batches).await;
        group.replies.acknowledge(conflicts, &context.metrics);
    }

    async fn encode(&self, sequence: u64, mut group: Group) -> (Vec<Bytes>, Group) {
        let incarnation = self.context.incarnation;
        let small = group.bytes() < SMALL_BYTES;
        let encode = move || {
            let records = std::mem::take(&mut group.records);
            (frame::encode(incarnation, (sequence, 0), &records), group)
        };
        // A client waits for this, so it runs before background work.
        if small { encode() } else { self.context.env.run_cpu(Lane::Query, encode).await }
    }

    async fn append(&self, sequence: u64, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let context = &self.context;
        let file = match self.files.file_for(sequence, context.options.wal_file_bytes) {
            Some(file) => file,
            None => {
                let path = committing::path(context.incarnation, sequence);
                self.files.begin(self.directory.begin(&path).await?, sequence)
            }
        };
        let appended = file.append(pieces).await;
        if appended.is_err() {
            self.files.retire();
            self.drop_if_useless(&*file).await;
        }
        appended
    }

    /// Deletes a file without a complete frame, so that such files do not fill a full disk.
    async fn drop_if_useless(&self, file: &dyn WalFile) {
        if file.len() > 0 {
            return;
        }
        match self.directory.delete(file.path()).await {
            Ok(()) => self.files.files().closed.retain(|closed| closed.path != file.path()),
            Err(error) => {
                tracing::warn!(path = file.path(), %error, "an empty WAL file could not be deleted")
            }
        }
    }

    /// Decides what a failed append means for later pushes.
    fn settle(&self, error: StoreError) -> Error {
        let status = &self.context.status;
        let reason = error.to_string();
        let refusal = match error {
            StoreError::Full { .. } => Error::NoSpace { reason },
            StoreError::ReadOnly { .. } => Error::ReadOnly { reason },
            StoreError::Short { .. } => Error::Short { reason },
            StoreError::Vanished { .. } => {
                let refusal = Error::WalLost { reason };
                tracing::error!(%refusal, "the rows in memory are flushed now");
                self.context.flush_signal.press();
                return refusal;
            }
            _ => {
                let refusal = Error::Poisoned { reason };
                tracing::error!(%refusal, "nothing is acknowledged any more");
                status.end(refusal.clone());
                return refusal;
            }
        };
        tracing::warn!(%refusal, "pushes are refused until the WAL can be written again");
        status.pause(refusal.clone(), self.context.env.monotonic() + FULL_PAUSE);
        refusal
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
