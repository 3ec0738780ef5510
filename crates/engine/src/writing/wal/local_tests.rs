//! Runs the committer over a directory that fails by script: what is refused is not applied, what is
//! acknowledged is in a complete frame, and numbers are never used twice.

use std::collections::{BTreeMap, VecDeque};

use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogOptions, Registration};
use sandur_format::catalog_entry::WalKind;
use sandur_format::wal_segment::Record;
use sandur_memory::MemoryBudget;
use sandur_runtime::{Env, Task};
use sandur_store::{Operation, Place, StoreOptions};
use tokio::sync::{Notify, oneshot};

use super::*;
use crate::fixtures::BatchBuilder;
use crate::metrics::Metrics;
use crate::options::EngineOptions;
use crate::view::Views;
use crate::writing::wal::committing::Reply;
use crate::writing::wal::{RecentFrames, Status};

/// The scripted outcome of the next append or creation of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    Success,
    /// No space; half of the frame is written.
    FullTorn,
    /// Reports no space, but writes the complete frame.
    FullWhole,
    /// The fsync reports a device error.
    Device,
    /// The file was removed.
    Vanished,
    /// The file system has become read-only.
    ReadOnly,
    /// A file cannot be created because there is no space.
    NoNewFile,
    /// A file cannot be created because too many files are open.
    NoDescriptor,
    /// The kernel has no memory for the write.
    NoMemory,
    /// The fsync takes a minute.
    Hangs,
}

#[derive(Default)]
struct Disk {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    script: Mutex<VecDeque<Meets>>,
}

impl Disk {
    fn next(&self, creating: bool) -> Meets {
        let mut script = self.script.lock().unwrap();
        match script.front() {
            Some(Meets::NoNewFile | Meets::NoDescriptor) if creating => script.pop_front().unwrap(),
            Some(Meets::NoNewFile | Meets::NoDescriptor) | None => Meets::Success,
            Some(_) if creating => Meets::Success,
            Some(_) => script.pop_front().unwrap(),
        }
    }

    fn frames(&self) -> Vec<u64> {
        let files = self.files.lock().unwrap();
        let frames = files.values().flat_map(|bytes| {
            frame::of_file(Id(1), &Bytes::from(bytes.clone()))
                .frames
                .into_iter()
                .map(|f| f.header().id.sequence)
        });
        frames.collect()
    }
}

struct DiskFile {
    disk: Arc<Disk>,
    path: String,
    durable: Mutex<u64>,
}

struct DiskDirectory(Arc<Disk>);

impl WalDirectory for DiskDirectory {
    fn begin<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Arc<dyn WalFile>, StoreError>> {
        let disk = Arc::clone(&self.0);
        match disk.next(true) {
            Meets::NoNewFile => return Box::pin(async { Err(full()) }),
            Meets::NoDescriptor => return Box::pin(async { Err(short("os error 24")) }),
            _ => {}
        }
        let earlier = disk.files.lock().unwrap().insert(path.to_owned(), Vec::new());
        assert!(earlier.is_none(), "{path} was there already");
        let file = DiskFile { disk, path: path.to_owned(), durable: Mutex::new(0) };
        Box::pin(async move { Ok(Arc::new(file) as Arc<dyn WalFile>) })
    }

    fn has<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let has = self.0.files.lock().unwrap().contains_key(path);
        Box::pin(async move { Ok(has) })
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.files.lock().unwrap().remove(path);
        Box::pin(async { Ok(()) })
    }
}

impl WalFile for DiskFile {
    fn append(&self, pieces: Vec<Bytes>) -> BoxFuture<'_, Result<(), StoreError>> {
        let meets = self.disk.next(false);
        let bytes: Vec<u8> = pieces.concat();
        let written = if meets == Meets::FullTorn { &bytes[..bytes.len() / 2] } else { &bytes[..] };
        self.disk.files.lock().unwrap().get_mut(&self.path).unwrap().extend_from_slice(written);
        Box::pin(async move {
            if meets == Meets::Hangs {
                Env::simulated(1, 0).sleep(Duration::from_secs(60)).await;
            }
            match meets {
                Meets::Success | Meets::Hangs => {
                    *self.durable.lock().unwrap() += bytes.len() as u64;
                    Ok(())
                }
                Meets::Vanished => Err(StoreError::Vanished { at: place(), reason: "removed".into() }),
                Meets::ReadOnly => Err(StoreError::ReadOnly { at: place() }),
                Meets::NoMemory => Err(short("os error 12")),
                Meets::Device => Err(StoreError::Device { at: place(), reason: "EIO".into() }),
                _ => Err(full()),
            }
        })
    }

    fn len(&self) -> u64 {
        *self.durable.lock().unwrap()
    }

    fn path(&self) -> &str {
        &self.path
    }
}

fn place() -> Place {
    Place { store: "file:///test".into(), operation: Operation::Append, path: "wal/x".into() }
}

fn short(reason: &str) -> StoreError {
    StoreError::Short { at: place(), reason: reason.into() }
}

fn full() -> StoreError {
    StoreError::Full { at: place(), reason: "os error 28".into() }
}

struct Bench {
    disk: Arc<Disk>,
    context: Arc<Context>,
    files: Arc<LocalFiles>,
    sender: mpsc::Sender<Push>,
    _committer: Task<End>,
}

impl Bench {
    async fn new() -> Self {
        let env = Env::simulated(1, 0);
        let store = Store::open("memory://", env.clone(), StoreOptions::default()).await.unwrap();
        let catalog = Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await.unwrap();
        let (incarnation, wal) = (Id(1), WalKind::Local);
        let registration =
            Registration { incarnation, address: String::new(), host: String::new(), wal, node: None };
        let snapshot = catalog.register(registration).await.unwrap();
        let context = Arc::new(Context {
            views: Arc::new(Views::new(env.clone(), snapshot)),
            env: env.clone(),
            store,
            options: EngineOptions { wal_file_bytes: 1 << 20, ..EngineOptions::default() },
            incarnation,
            followers: Arc::default(),
            metrics: Metrics::default(),
            recent: RecentFrames::new(MemoryBudget::root("recent", 0)),
            status: Arc::new(Status::default()),
            flush_signal: Arc::default(),
            sealed: Notify::new(),
        });
        let (disk, files) = (Arc::new(Disk::default()), Arc::new(LocalFiles::default()));
        let directory = Arc::new(DiskDirectory(Arc::clone(&disk)));
        let committer = Committer::new(Arc::clone(&context), directory, Arc::clone(&files));
        let (sender, queue) = mpsc::channel(100);
        let committer = env.spawn("committer", committer.run(queue));
        Self { disk, context, files, sender, _committer: committer }
    }

    async fn push(&self, line: &str) -> Result<(), Error> {
        let batch = BatchBuilder::new().stream("a").row(1, line).build();
        let memory = MemoryBudget::root("test", 1 << 20).reserve(10_000).unwrap();
        let (reply, outcome) = oneshot::channel();
        let record = Record::of_logs(&batch).unwrap();
        let batch = batch.into();
        let reply = Reply { outcome: reply, _unsettled: Arc::default() };
        assert!(self.sender.send(Push { batch, record, memory, reply }).await.is_ok());
        outcome.await.unwrap().map(drop)
    }

    fn script(&self, meets: &[Meets]) {
        self.disk.script.lock().unwrap().extend(meets);
    }

    fn rows(&self) -> u64 {
        self.context.views.current().head_totals().rows
    }

    async fn wait(&self) {
        self.context.env.sleep(FULL_PAUSE).await;
    }

    fn file_count(&self) -> usize {
        self.disk.files.lock().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_until_there_is_space() {
    let bench = Bench::new().await;
    bench.push("one").await.unwrap();
    bench.script(&[Meets::FullTorn, Meets::NoNewFile, Meets::FullTorn]);
    let error = bench.push("two").await.unwrap_err();
    assert!(
        error.to_string().contains("no space left") && error.to_string().contains("free space"),
        "{error}"
    );
    assert!(error.kind().is_retryable());
    let error = bench.push("refused without a trial").await.unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }));
    assert_eq!(bench.disk.script.lock().unwrap().len(), 2);
    for trial in 0..2 {
        bench.wait().await;
        assert!(bench.push("again").await.is_err(), "trial {trial}");
    }
    assert_eq!((bench.rows(), bench.file_count()), (1, 1), "files without frames do not accumulate");
    bench.wait().await;
    bench.push("there is space").await.unwrap();
    bench.push("more").await.unwrap();
    assert_eq!(bench.rows(), 3);
    let frames = bench.disk.frames();
    assert_eq!(frames.len(), 3, "exactly what was acknowledged is whole: {frames:?}");
    assert!(frames.is_sorted() && frames[0] == 0 && frames[1] > 3, "numbers continue: {frames:?}");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_a_refused_but_complete_frame_is_not_used_again() {
    let bench = Bench::new().await;
    bench.push("one").await.unwrap();
    bench.script(&[Meets::FullWhole]);
    assert!(bench.push("two").await.is_err());
    bench.wait().await;
    bench.push("two").await.unwrap();
    assert_eq!(bench.rows(), 2, "what was refused is not applied");
    assert_eq!(bench.disk.frames(), [0, 1, 2], "recovery finds it, and equal rows are stored once");
    bench.context.views.seal(Id(1));
    bench.files.retire();
    bench.push("three").await.unwrap();
    let directory = DiskDirectory(Arc::clone(&bench.disk));
    bench.files.delete_below(&directory, 3).await;
    assert_eq!(bench.disk.frames(), [3], "files below the floor are deleted, the open one stays");
}

#[tokio::test(start_paused = true)]
async fn a_failed_fsync_ends_acknowledging_permanently() {
    let bench = Bench::new().await;
    bench.push("one").await.unwrap();
    bench.script(&[Meets::Device]);
    let error = bench.push("two").await.unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert!(error.to_string().contains("restarted"), "{error}");
    bench.wait().await;
    assert!(matches!(bench.push("three").await, Err(Error::Poisoned { .. })));
    assert_eq!((bench.rows(), bench.file_count()), (1, 1));
    assert!(bench.context.status.acknowledges(Duration::MAX, None).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_push_that_finds_its_file_removed_fails_and_requests_a_flush() {
    let bench = Bench::new().await;
    bench.push("one").await.unwrap();
    bench.script(&[Meets::Vanished]);
    let error = bench.push("two").await.unwrap_err();
    assert!(matches!(error, Error::WalLost { .. }) && error.kind().is_retryable(), "{error}");
    assert!(bench.context.flush_signal.take_pressure(), "the first row is in memory alone");
    bench.push("two").await.unwrap();
    assert_eq!((bench.rows(), bench.file_count()), (2, 2), "in a new file, at once");
}

#[tokio::test(start_paused = true)]
async fn a_device_that_becomes_read_only_is_tried_again() {
    let bench = Bench::new().await;
    bench.script(&[Meets::ReadOnly]);
    assert!(matches!(bench.push("one").await, Err(Error::ReadOnly { .. })));
    assert!(bench.context.status.acknowledges(bench.context.env.monotonic(), None).is_err());
    bench.wait().await;
    bench.push("one").await.unwrap();
    assert_eq!(bench.rows(), 1);
}

#[tokio::test(start_paused = true)]
async fn removed_files_are_detected_without_a_push() {
    let bench = Bench::new().await;
    let directory = DiskDirectory(Arc::clone(&bench.disk));
    bench.push("one").await.unwrap();
    assert!(!bench.files.has_lost_any(&directory).await);
    bench.files.retire();
    bench.push("two").await.unwrap();
    bench.disk.files.lock().unwrap().clear();
    assert!(bench.files.has_lost_any(&directory).await);
    assert!(!bench.files.has_lost_any(&directory).await, "told once");
    bench.push("three").await.unwrap();
    assert_eq!(bench.file_count(), 1, "a new file");
    assert!(!bench.files.has_lost_any(&directory).await);
}

/// A head that began after numbers that became void could never be flushed: the floor could not reach it.
#[tokio::test(start_paused = true)]
async fn the_first_rows_after_a_full_disk_begin_where_the_floor_is() {
    let bench = Bench::new().await;
    bench.script(&[Meets::FullTorn]);
    assert!(bench.push("one").await.is_err());
    bench.wait().await;
    bench.push("two").await.unwrap();
    let head = bench.context.views.open(Id(1)).unwrap();
    assert_eq!((head.start(), head.end(), bench.context.views.next_of(Id(1))), (0, 2, 2));
}

/// A server that is not ready for pushes gets none, so no push can show that it could accept them.
#[tokio::test(start_paused = true)]
async fn space_on_a_full_disk_is_detected_without_a_push() {
    let bench = Bench::new().await;
    let acknowledges = || bench.context.status.acknowledges(bench.context.env.monotonic(), None).is_ok();
    bench.script(&[Meets::FullTorn, Meets::NoNewFile, Meets::NoNewFile]);
    assert!(bench.push("one").await.is_err());
    while !bench.disk.script.lock().unwrap().is_empty() {
        bench.wait().await;
        assert!(!acknowledges(), "the end of a pause alone is no success");
    }
    for _ in 0..3 {
        bench.wait().await;
    }
    assert!(acknowledges());
    assert_eq!(bench.file_count(), 0, "the trial leaves no file");
    bench.push("one").await.unwrap();
    assert_eq!(bench.rows(), 1);
}

/// A single "too many open files" at a new segment made the server read-only until a restart.
#[tokio::test(start_paused = true)]
async fn a_shortage_of_descriptors_or_memory_refuses_until_it_is_over() {
    let bench = Bench::new().await;
    bench.script(&[Meets::NoDescriptor]);
    let error = bench.push("one").await.unwrap_err();
    assert!(matches!(error, Error::Short { .. }) && error.to_string().contains("LimitNOFILE"), "{error}");
    assert!(error.kind().is_retryable() && !error.may_be_stored());
    assert!(matches!(bench.push("at once").await, Err(Error::Short { .. })), "without a trial");
    bench.wait().await;
    bench.push("one").await.unwrap();
    bench.script(&[Meets::NoMemory]);
    assert!(matches!(bench.push("two").await, Err(Error::Short { .. })));
    bench.wait().await;
    bench.push("two").await.unwrap();
    assert_eq!(bench.rows(), 2);
}

/// An fsync that hangs reports nothing, and neither would a push that waits for it.
#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_refuses_pushes_until_it_recovers() {
    let bench = Bench::new().await;
    bench.script(&[Meets::Hangs]);
    let env = bench.context.env.clone();
    let watch = async {
        env.sleep(Duration::from_secs(13)).await;
        assert!(bench.context.check().is_ok(), "busy disks take seconds");
        env.sleep(Duration::from_secs(2)).await;
        let error = bench.context.check().unwrap_err();
        assert!(matches!(error, Error::Stalled { is_under_way: false, .. }), "{error}");
        assert!(error.to_string().contains("for 15s: the store has not answered"), "{error}");
    };
    let (pushed, ()) = tokio::join!(bench.push("one"), watch);
    pushed.unwrap();
    assert!(bench.context.check().is_ok() && bench.rows() == 1);
}
