//! `sandur import prometheus`: sends the samples of blocks of Prometheus, Thanos and Mimir.
//!
//! A part is up to [`PART_CHUNKS`] chunks of consecutive series of a block. The index alone determines the
//! parts, so parts that are stored are skipped without reading their chunks.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use sandur_tsdb::{BlockMeta, Chunks, Error, Index, Samples, Series, Tombstones};

use super::series::{self, Sink, Source, Wanted};

/// Chunks of a part: about 50,000 samples.
const PART_CHUNKS: usize = 400;
/// Depth of folders in which blocks are looked for: tenants of Mimir have a folder each.
const DEPTH_MAX: usize = 4;
/// Most blocks of an import.
const BLOCKS_MAX: usize = 100_000;
/// Default memory for the symbols of an index.
const MEMORY_DEFAULT: u64 = 2 << 30;
/// Largest `meta.json`.
const META_BYTES_MAX: u64 = 64 << 20;

/// The command.
pub fn command() -> Command {
    let folder = Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    let folder = folder.help("A block, or a folder with blocks: the data directory of Prometheus");
    let memory = Arg::new("memory").long("memory").value_name("BYTES").value_parser(value_parser!(ByteSize));
    let memory =
        memory.help(format!("Memory for the label texts of a block [default: {}]", ByteSize(MEMORY_DEFAULT)));
    let external =
        series::flag("no-external-labels", "Do not add the external labels that Thanos recorded for a block");
    let command =
        Command::new("prometheus").about("Import blocks of Prometheus, Thanos and Mimir").after_help(
            "Example: sandur import prometheus --resume prometheus.state /var/lib/prometheus\n\
             Floats and native histograms are imported, deleted samples are not. Blocks may overlap: equal \
             samples are stored once. The newest two or three hours of Prometheus are in its WAL and not in \
             blocks: let it send them with remote_write, or import again when they are in a block.\n\
             Exit codes: 0 everything is stored, or equal; 1 some is not; 2 wrong usage.",
        );
    series::arguments(command.args([folder, memory, external]))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let folder = matches.get_one::<PathBuf>("folder").cloned().unwrap_or_default();
    if !folder.is_dir() {
        return Err(Failed::new(format!("'{}' is not a folder", folder.display())));
    }
    let wanted = series::wanted(&env, matches)?;
    let memory = matches.get_one::<ByteSize>("memory").map_or(MEMORY_DEFAULT, |size| size.0);
    let with_external = !matches.get_flag("no-external-labels");
    series::run(env, matches, "prometheus", Blocks { folder, wanted, memory, with_external }).await
}

struct Blocks {
    folder: PathBuf,
    wanted: Wanted,
    memory: u64,
    with_external: bool,
}

impl Source for Blocks {
    fn read(self, sink: &mut dyn Sink) {
        let mut folders = Vec::new();
        find(&self.folder, 0, &mut folders, sink);
        let mut blocks = Vec::new();
        for folder in folders {
            match read_meta(&folder) {
                Ok(meta) => blocks.push((meta, folder)),
                Err(text) => sink.failure(&folder.display().to_string(), &text),
            }
        }
        // Oldest first, so that the server gets samples roughly in the order of their times.
        blocks.sort_by(|(a, _), (b, _)| (a.min_ms, &a.ulid).cmp(&(b.min_ms, &b.ulid)));
        for (meta, folder) in blocks {
            if sink.is_closed() {
                return;
            }
            if meta.max_ms < self.wanted.from_ms || meta.min_ms >= self.wanted.to_ms {
                continue;
            }
            if let Err(text) = self.block(&meta, &folder, sink) {
                sink.failure(&folder.display().to_string(), &text);
            }
        }
    }
}

/// Finds the folders of blocks. Links to folders are not followed.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>, sink: &mut dyn Sink) {
    if folder.join("meta.json").is_file() {
        found.push(folder.to_owned());
        return;
    }
    let name = folder.display().to_string();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return sink.failure(&name, &format!("cannot read the folder: {error}")),
    };
    let folders = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path())
    });
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort_unstable();
    for below in folders {
        if found.len() >= BLOCKS_MAX {
            return sink
                .failure(&name, &format!("has more than {BLOCKS_MAX} blocks: import its folders apart"));
        }
        if depth < DEPTH_MAX {
            find(&below, depth + 1, found, sink);
        }
    }
}

fn read_meta(folder: &Path) -> Result<BlockMeta, String> {
    let path = folder.join("meta.json");
    let size = fs::metadata(&path).map_err(|error| format!("meta.json: {error}"))?.len();
    if size > META_BYTES_MAX {
        return Err(format!("meta.json has {size} bytes, the limit is {META_BYTES_MAX}"));
    }
    let json = fs::read(path).map_err(|error| format!("meta.json: {error}"))?;
    BlockMeta::decode(&json).map_err(|error| format!("meta.json: {error}"))
}

/// An open block.
struct Block {
    index: Index<File>,
    chunks: Chunks<File>,
    tombstones: Tombstones,
}

impl Block {
    fn open(folder: &Path, memory: u64) -> Result<Self, String> {
        let open = |path: &Path| File::open(path).map_err(|error| format!("{}: {error}", path.display()));
        let index = open(&folder.join("index"))?;
        let named = |error: Error| format!("index: {error}");
        let needed = Index::memory_bytes(&index).map_err(named)?;
        if needed > memory {
            return Err(format!("its label texts need up to {}: use --memory {needed}", ByteSize(needed)));
        }
        let index = Index::open(index).map_err(named)?;
        let mut names: Vec<PathBuf> = Vec::new();
        let entries = fs::read_dir(folder.join("chunks")).map_err(|error| format!("chunks: {error}"))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("chunks: {error}"))?.path();
            let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
            if path.file_name().and_then(|name| name.to_str()).is_some_and(is_number) {
                names.push(path);
            }
        }
        names.sort_unstable();
        let files: Result<Vec<File>, String> = names.iter().map(|path| open(path)).collect();
        let chunks = Chunks::open(files?).map_err(|error| format!("chunks: {error}"))?;
        let tombstones = folder.join("tombstones");
        let tombstones = match tombstones.is_file() {
            true => Tombstones::read(&open(&tombstones)?).map_err(|error| format!("tombstones: {error}"))?,
            false => Tombstones::default(),
        };
        Ok(Self { index, chunks, tombstones })
    }
}

/// A series with some of its chunks.
struct Piece {
    series: Series,
    /// The positions of the chunks among those of the series.
    chunks: Range<usize>,
}

impl Piece {
    fn of(series: &Series, chunks: Range<usize>) -> Self {
        let Series { reference, labels, chunks: all } = series;
        let series =
            Series { reference: *reference, labels: labels.clone(), chunks: all[chunks.clone()].to_vec() };
        Self { series, chunks }
    }
}

impl Blocks {
    fn block(&self, meta: &BlockMeta, folder: &Path, sink: &mut dyn Sink) -> Result<(), String> {
        let mut block = Block::open(folder, self.memory)?;
        let mut wanted = self.wanted.clone();
        if self.with_external {
            for (name, value) in meta.external_labels() {
                if !wanted.labels.iter().any(|(own, _)| own == name) {
                    wanted.labels.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        let options = wanted.name();
        let Block { index, chunks, tombstones } = &mut block;
        let mut reader = index.series();
        let (mut pieces, mut size, mut series) = (Vec::new(), 0, Series::default());
        let mut send = |pieces: &mut Vec<Piece>, sink: &mut dyn Sink| {
            let part = Part { index, tombstones, wanted: &wanted, name: (&meta.ulid, &options) };
            part.send(&std::mem::take(pieces), chunks, sink);
        };
        while reader.next_into(&mut series).map_err(|error| format!("index: {error}"))? {
            if sink.is_closed() {
                return Ok(());
            }
            let is_wanted = |chunk: &sandur_tsdb::ChunkMeta| {
                chunk.max_ms >= wanted.from_ms && chunk.min_ms < wanted.to_ms
            };
            series.chunks.retain(is_wanted);
            let count = series.chunks.len();
            let mut start = 0;
            while start < count {
                let end = count.min(start + PART_CHUNKS - size);
                size += end - start;
                pieces.push(Piece::of(&series, start..end));
                start = end;
                if size >= PART_CHUNKS {
                    send(&mut pieces, sink);
                    size = 0;
                }
            }
        }
        if !pieces.is_empty() {
            send(&mut pieces, sink);
        }
        Ok(())
    }
}

/// What sending a part needs.
struct Part<'a> {
    index: &'a Index<File>,
    tombstones: &'a Tombstones,
    wanted: &'a Wanted,
    /// The block, and what is imported of it.
    name: (&'a str, &'a str),
}

impl Part<'_> {
    fn send(&self, pieces: &[Piece], chunks: &mut Chunks<File>, sink: &mut dyn Sink) {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return };
        let (block, options) = self.name;
        let line = format!(
            "{block} {}.{} {}.{} {options}",
            first.series.reference, first.chunks.start, last.series.reference, last.chunks.end
        );
        if !sink.begin(&line) {
            return;
        }
        let mut samples = Samples::default();
        for piece in pieces {
            samples.clear();
            match self.read(piece, chunks, &mut samples) {
                Ok(_) if samples.is_empty() => {}
                Ok(labels) => sink.series(&labels, &samples),
                Err(error) => {
                    let series = piece.series.reference;
                    return sink
                        .failure(&line, &format!("series {series}: {error}; the part is not imported"));
                }
            }
        }
        sink.end();
    }

    /// Reads the samples of a piece. Returns the labels.
    fn read(
        &self,
        piece: &Piece,
        chunks: &mut Chunks<File>,
        samples: &mut Samples,
    ) -> Result<Vec<(String, String)>, Error> {
        let symbols = self.index.symbols();
        let mut labels = Vec::with_capacity(piece.series.labels.len());
        for (name, value) in &piece.series.labels {
            labels.push((symbols.get(*name)?.to_owned(), symbols.get(*value)?.to_owned()));
        }
        self.wanted.complete(&mut labels);
        let deleted = self.tombstones.of(piece.series.reference);
        let is_wanted = |time: i64| self.wanted.has(time) && !deleted.has(time);
        for chunk in &piece.series.chunks {
            samples.add_chunk(chunks.read(chunk.reference)?, is_wanted)?;
        }
        Ok(labels)
    }
}
