//! Every kind of damage to a block, with every kind of query: the undamaged rows are returned, a warning
//! names the object whenever its rows are missing, and no row is found that was not stored. With and
//! without cached footers.

use std::path::{Path, PathBuf};

use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Labels, SampleBatch, Signal};
use sandur_query::{
    LogSource, SampleSelection, ScanItem, SeriesRequest, StreamsRequest, all_series, all_texts,
};
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::*;

/// What is done to the object of a block.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Missing,
    Empty,
    /// It is cut to this many thousandths of its length.
    CutTo(u64),
    /// Its last byte is removed.
    CutByOne,
    /// A byte at this many thousandths of its length is changed.
    Flipped(u64),
    /// A byte of its footer is changed.
    FooterFlipped,
    /// Its last bytes are zero.
    ZeroEnd,
    /// Bytes are appended to it.
    Longer,
    /// It holds another block's bytes.
    Swapped,
    /// It is replaced by a directory.
    Directory,
    /// It is replaced by a named pipe without a writer.
    Pipe,
    /// It is replaced by a link to itself.
    Loop,
}

const KINDS: [Damage; 16] = [
    Damage::Missing,
    Damage::Empty,
    Damage::CutTo(1),
    Damage::CutTo(300),
    Damage::CutTo(700),
    Damage::CutTo(990),
    Damage::CutByOne,
    Damage::Flipped(200),
    Damage::Flipped(600),
    Damage::FooterFlipped,
    Damage::ZeroEnd,
    Damage::Longer,
    Damage::Swapped,
    Damage::Directory,
    Damage::Pipe,
    Damage::Loop,
];

impl Damage {
    fn apply(self, victim: &Path, other: &Path) {
        let mut bytes = std::fs::read(victim).unwrap();
        let size = bytes.len() as u64;
        let place = |thousandths: u64| (size * thousandths / 1_000) as usize;
        std::fs::remove_file(victim).unwrap();
        match self {
            Self::Missing => return,
            Self::Directory => return std::fs::create_dir(victim).unwrap(),
            Self::Pipe => {
                let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
                return rustix::fs::mknodat(rustix::fs::CWD, victim, kind, mode, 0).unwrap();
            }
            Self::Loop => return std::os::unix::fs::symlink(victim, victim).unwrap(),
            Self::Empty => bytes.clear(),
            Self::CutTo(thousandths) => bytes.truncate(place(thousandths)),
            Self::CutByOne => bytes.truncate(bytes.len() - 1),
            Self::Flipped(thousandths) => bytes[place(thousandths)] ^= 0x20,
            Self::FooterFlipped => bytes[size as usize - 100] ^= 0x20,
            Self::ZeroEnd => bytes[place(999)..].fill(0),
            Self::Longer => bytes.extend_from_slice(b"and more"),
            Self::Swapped => bytes = std::fs::read(other).unwrap(),
        }
        std::fs::write(victim, bytes).unwrap();
    }

    fn is_behind_pages(self) -> bool {
        match self {
            Self::CutTo(thousandths) | Self::Flipped(thousandths) => thousandths >= 500,
            Self::CutByOne | Self::ZeroEnd | Self::FooterFlipped => true,
            _ => false,
        }
    }
}

/// Two blocks of several pages each: `a` is damaged, `b` is not.
struct Stored {
    directory: TempDir,
    a: PathBuf,
    b: PathBuf,
    rows_a: Vec<Row>,
    rows_b: Vec<Row>,
}

impl Stored {
    /// A copy in another directory, to be damaged.
    fn copied(&self) -> Self {
        let directory = TempDir::new().unwrap();
        let moved = |path: &Path| directory.path().join(path.strip_prefix(self.directory.path()).unwrap());
        let mut folders = vec![self.directory.path().to_owned()];
        while let Some(folder) = folders.pop() {
            std::fs::create_dir_all(moved(&folder)).unwrap();
            for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(std::fs::copy(&path, moved(&path)).unwrap()),
                }
            }
        }
        let (a, b) = (moved(&self.a), moved(&self.b));
        Self { directory, a, b, rows_a: self.rows_a.clone(), rows_b: self.rows_b.clone() }
    }
}

/// Text that compresses badly, so that a block has pages all over its object.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    (0..bytes).map(|_| letter()).collect()
}

async fn push_noise(engine: &Engine, app: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in 0..24 {
        let seed = number as u64 + 1_000 * u64::from(app.as_bytes()[0]);
        rows.push(push_row(engine, app, number, &noise(seed, 150_000 + seed as usize % 7)).await.unwrap());
    }
    engine.flush().await.unwrap();
    rows
}

async fn open(directory: &Path) -> Arc<Engine> {
    let env = Env::system(2);
    let store = Store::open(directory.to_str().unwrap(), env.clone(), StoreOptions::default()).await.unwrap();
    Engine::open(store, env, small_options()).await.unwrap()
}

async fn stored() -> Stored {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let path_of_last = || {
        let snapshot = engine.view().snapshot.clone();
        let last = snapshot.all_blocks().max_by_key(|block| block.id).unwrap();
        directory.path().join(last.path())
    };
    let rows_a = push_noise(&engine, "a").await;
    let a = path_of_last();
    let rows_b = push_noise(&engine, "b").await;
    let b = path_of_last();
    assert_ne!(a, b);
    engine.shutdown().await.unwrap();
    Stored { directory, a, b, rows_a, rows_b }
}

/// Whether a warning of the query names the object.
fn is_named(context: &QueryContext, object: &Path) -> bool {
    let name = object.file_name().unwrap().to_str().unwrap();
    context.warnings().iter().any(|warning| warning.contains(name))
}

async fn apps(source: &Arc<dyn LogSource>, context: &QueryContext) -> Vec<String> {
    all_texts(&**source, context, SeriesRequest::everything().values("app")).await.unwrap().0
}

/// The number of lines by counts, where a scan returns them.
async fn counted(source: &Arc<dyn LogSource>, context: &QueryContext) -> u64 {
    let minute = 60_000_000_000;
    let (start, end) = (START_NS - minute + 1, START_NS + minute + 1);
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::new(start, end),
        order: Order::Any,
        needles: Needles::default(),
        columns: Columns { lines: false, metadata: false },
        counts: true,
        counts_by: Vec::new(),
    };
    let mut scan = source.scan(context, selection).await.unwrap();
    let mut lines = 0;
    while let Some(item) = scan.next().await.unwrap() {
        match item {
            ScanItem::Page(mut task) => lines += task.narrow().unwrap().rows() as u64,
            ScanItem::Counts(task) => {
                for stream in task.decode().unwrap() {
                    let minutes = &stream.minutes[stream.from..stream.to];
                    lines += minutes.iter().map(|minute| u64::from(minute.lines)).sum::<u64>();
                }
            }
        }
    }
    lines
}

/// Runs every kind of query. Returns whether rows of the damaged block were missing.
async fn ask_in_every_way(engine: &Arc<Engine>, stored: &Stored, what: &str) -> bool {
    let (source, mut lacking) = (engine.sources().logs, false);
    let mut judge = |context: &QueryContext, endpoint: &str, complete: bool| {
        lacking |= !complete;
        assert!(complete || is_named(context, &stored.a), "{what}: {endpoint} lacks rows without a warning");
        assert!(!is_named(context, &stored.b), "{what}: {endpoint} warns of an undamaged block");
    };
    let context = || super::context(engine.env());

    let asked = context();
    let found = read_all_with(engine, &asked).await;
    assert!(stored.rows_b.iter().all(|row| found.contains(row)), "{what}: a scan lacks undamaged rows");
    assert!(found.iter().all(|row| stored.rows_a.contains(row) || stored.rows_b.contains(row)), "{what}");
    judge(&asked, "a scan", found.len() == stored.rows_a.len() + stored.rows_b.len());

    let asked = context();
    let (lines, all) = (counted(&source, &asked).await, (stored.rows_a.len() + stored.rows_b.len()) as u64);
    assert!(lines >= stored.rows_b.len() as u64, "{what}: counts lack undamaged rows");
    judge(&asked, "a count", lines == all);

    let asked = context();
    let (streams, _) = all_series(&*source, &asked, SeriesRequest::everything()).await.unwrap();
    assert!(streams.iter().any(|labels| labels.get("app") == Some("b")), "{what}: series");
    judge(&asked, "series", streams.len() == 2);

    let asked = context();
    let (names, _) = all_texts(&*source, &asked, SeriesRequest::everything().names()).await.unwrap();
    assert_eq!(names, ["app"], "{what}");

    let asked = context();
    let values = apps(&source, &asked).await;
    assert!(values.contains(&"b".to_owned()), "{what}: values");
    judge(&asked, "label values", values.len() == 2);

    for range in [TimeRange::ALL, TimeRange::new(START_NS, START_NS + 10_000_000)] {
        let asked = context();
        let volumes = source.volumes(&asked, StreamsRequest { matchers: Vec::new(), range }).await.unwrap();
        assert!(volumes.iter().any(|v| v.labels.get("app") == Some("b")), "{what}: volumes");
        judge(&asked, "volumes", volumes.len() == 2);
    }
    lacking
}

#[test]
fn every_kind_of_damage_adds_a_warning_in_every_query() {
    let sound = super::local::process(stored());
    for damage in KINDS {
        for footers_known in [false, true] {
            let what = format!("{damage:?}, footers known before: {footers_known}");
            // In a separate process, so that nothing of it holds the directory when it has ended.
            let stored = sound.copied();
            super::local::process(async {
                let engine = open(stored.directory.path()).await;
                if footers_known {
                    assert_eq!(apps(&engine.sources().logs, &context(engine.env())).await, ["a", "b"]);
                }
                damage.apply(&stored.a, &stored.b);
                let lacking = ask_in_every_way(&engine, &stored, &what).await;
                // The filters of so incompressible text take the second half of the object, and nothing
                // here reads them. A cached footer is not read again either.
                let in_filters = matches!(damage, Damage::Flipped(600));
                let may_be_whole = in_filters || footers_known && damage.is_behind_pages();
                assert!(lacking || may_be_whole || matches!(damage, Damage::Longer), "{what}");
                assert!(!lacking || !matches!(damage, Damage::Longer), "{what}");
                engine.shutdown().await.unwrap();
            });
        }
    }
}

/// Pages before the cut are found once the footer is cached.
#[test]
fn a_truncated_block_returns_the_pages_before_its_end() {
    let directory = TempDir::new().unwrap();
    let (rows, meta) = super::local::process(async {
        let engine = open(directory.path()).await;
        let line = "so many words that are all alike ".repeat(6_000);
        let mut rows = Vec::new();
        // More pages than a group has, because the columns of a group are stored together.
        for number in 0..100 {
            rows.push(push_row(&engine, "a", number, &format!("{number} {line}")).await.unwrap());
        }
        engine.flush().await.unwrap();
        let meta = engine.view().snapshot.all_blocks().next().unwrap().clone();
        engine.shutdown().await.unwrap();
        (rows, meta)
    });
    super::local::process(async {
        let engine = open(directory.path()).await;
        assert_eq!(apps(&engine.sources().logs, &context(engine.env())).await, ["a"]);
        let object = directory.path().join(meta.path());
        let bytes = std::fs::read(&object).unwrap();
        let footer = bytes::Bytes::copy_from_slice(&bytes[meta.footer_offset as usize..]);
        let footer: sandur_format::log_block::Footer =
            sandur_format::block::BlockIndex::open(footer).unwrap();
        let cut = footer.pages().last().unwrap().lines.offset;
        std::fs::write(&object, &bytes[..cut as usize]).unwrap();
        let asked = context(engine.env());
        let found = read_all_with(&engine, &asked).await;
        assert!(!found.is_empty() && found.len() < rows.len(), "{} of {}", found.len(), rows.len());
        assert!(found.iter().all(|row| rows.contains(row)));
        assert!(is_named(&asked, &object));
    });
}

/// Two blocks of one tenant and hour with equal catalog entries were mistaken for each other.
#[test]
fn blocks_with_equal_catalog_entries_are_not_mistaken_for_each_other() {
    let directory = TempDir::new().unwrap();
    let blocks: Vec<BlockMeta> = super::local::process(async {
        let engine = open(directory.path()).await;
        for n in 1..=2 {
            push_row(&engine, "a", 0, &format!("line {n}")).await.unwrap();
            let mut samples = SampleBatch::new(TenantId::default_tenant());
            let labels = Arc::new(Labels::from_pairs([("__name__", format!("m{n}"))]));
            samples.push(labels, [(START_NS / 1_000_000, f64::from(n))]);
            engine.push(samples).await.unwrap();
            engine.flush().await.unwrap();
        }
        let blocks = engine.view().snapshot.all_blocks().map(|block| BlockMeta::clone(block)).collect();
        engine.shutdown().await.unwrap();
        blocks
    });
    for signal in Signal::ALL {
        let of_signal: Vec<_> = blocks.iter().filter(|block| block.dataset.signal == signal).collect();
        let [a, b] = of_signal[..] else { panic!("{blocks:?}") };
        let is_alike = BlockMeta { id: b.id, ..a.clone() } == *b;
        assert!(is_alike || signal == Signal::Metrics, "their catalog entries are equal: {blocks:?}");
        let path = |block: &BlockMeta| directory.path().join(block.path());
        let (of_a, of_b) = (std::fs::read(path(a)).unwrap(), std::fs::read(path(b)).unwrap());
        std::fs::write(path(a), of_b).unwrap();
        std::fs::write(path(b), of_a).unwrap();
    }
    super::local::process(async {
        let engine = open(directory.path()).await;
        let asked = context(engine.env());
        assert_eq!(read_all_with(&engine, &asked).await, []);
        let everything = SampleSelection::all(Vec::new(), i64::MIN, i64::MAX);
        let mut scan = engine.sources().samples.select(&asked, everything).await.unwrap();
        assert!(scan.next().await.unwrap().is_none());
        for block in &blocks {
            let path = block.path();
            assert!(is_named(&asked, Path::new(&path)), "{:?}", asked.warnings());
            let found = sandur_catalog::check_block(engine.store(), block).await.unwrap_err();
            let is_told = found.contains("it holds another block");
            assert!(is_told || block.dataset.signal == Signal::Metrics, "{found}");
        }
    });
}
