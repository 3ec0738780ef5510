//! `sandur import prometheus`: sends the samples of blocks of Prometheus, Thanos and Mimir.
//!
//! [`folder`] and [`listing`] find blocks in a folder and in a bucket, [`place`] reads their files,
//! [`pieces`] reads objects ahead, and [`block`] passes the samples on. Blocks are read in the order of their
//! times. Blocks that are marked for deletion are skipped, as Thanos and Mimir do: others replace them.

mod block;
mod coverage;
mod folder;
mod listing;
mod pieces;
mod place;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_runtime::Env;
use sandur_store::Store;
use sandur_terminal::Failed;
use sandur_tsdb::BlockMeta;

use self::block::Block;
use self::coverage::Coverage;
use self::listing::Listing;
use self::place::{Found, META, Reading, SMALL_BYTES_MAX};
use super::series::{self, Sink, Source, Wanted};

/// Default memory for the symbols of an index.
const MEMORY_DEFAULT: u64 = 2 << 30;
/// Most descriptions of blocks that are requested at a time.
const META_REQUESTS_MAX: usize = 32;

/// The command.
pub fn command() -> Command {
    let place = Arg::new("place").value_name("DIR|URL").required(true).value_parser(value_parser!(PathBuf));
    let place = place.help(
        "A block, or a folder with blocks: the data directory of Prometheus, or s3://, gs:// or az:// as for \
         serve --store",
    );
    let memory = Arg::new("memory").long("memory").value_name("BYTES").value_parser(value_parser!(ByteSize));
    let memory =
        memory.help(format!("Memory for the label texts of a block [default: {}]", ByteSize(MEMORY_DEFAULT)));
    let external =
        series::flag("no-external-labels", "Do not add the external labels that Thanos recorded for a block");
    let marked = series::flag("marked-blocks", "Also import blocks that are marked for deletion");
    let command =
        Command::new("prometheus").about("Import blocks of Prometheus, Thanos and Mimir").after_help(
            "Examples:\n  sandur import prometheus --resume prometheus.state /var/lib/prometheus\n  \
             sandur import prometheus --resume thanos.state 's3://thanos?region=eu-west-1'\n\n\
             Floats and native histograms are imported, deleted samples are not. Blocks may overlap: equal \
             samples are stored once. The newest two or three hours of Prometheus are in its WAL and not in \
             blocks: let it send them with remote_write, or import again when they are in a block. \
             Credentials of a bucket come from the environment or the machine's role.\n\
             Exit codes: 0 everything is stored, or equal; 1 some is not; 2 wrong usage.",
        );
    series::arguments(command.args([place, memory, external, marked]))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let place = matches.get_one::<PathBuf>("place").cloned().unwrap_or_default();
    let wanted = series::wanted(&env, matches)?;
    let place = place_of(&env, place).await?;
    let memory = matches.get_one::<ByteSize>("memory").map_or(MEMORY_DEFAULT, |size| size.0);
    let with_external = !matches.get_flag("no-external-labels");
    let with_marked = matches.get_flag("marked-blocks");
    let blocks = Blocks { place, wanted, memory, with_external, with_marked };
    series::run(env, matches, "prometheus", blocks).await
}

/// The place that the argument names.
async fn place_of(env: &Env, path: PathBuf) -> Result<Place, Failed> {
    let url = path.to_str().filter(|text| text.contains("://"));
    let Some(url) = url else { return folder_at(path) };
    match Store::directory_of(url).map_err(|error| Failed::usage(error.to_string()))? {
        Some(path) => folder_at(path),
        None => Ok(Place::Bucket(listing::list(env.clone(), url).await?)),
    }
}

fn folder_at(path: PathBuf) -> Result<Place, Failed> {
    match path.is_dir() {
        true => Ok(Place::Folder(path)),
        false => Err(Failed::new(format!("'{}' is not a folder", path.display()))),
    }
}

enum Place {
    Folder(PathBuf),
    Bucket(Listing),
}

struct Blocks {
    place: Place,
    wanted: Wanted,
    memory: u64,
    with_external: bool,
    with_marked: bool,
}

impl Source for Blocks {
    fn read(self, sink: &mut dyn Sink) {
        let Self { place, wanted, memory, with_external, with_marked } = self;
        let live = match &place {
            Place::Folder(folder) => folder::live(folder),
            Place::Bucket(_) => None,
        };
        let found = match place {
            Place::Folder(folder) => folder::find(&folder, sink),
            Place::Bucket(Listing { blocks, partial, .. }) => {
                for name in partial {
                    sink.failure(&name, "has no meta.json: it is being uploaded or deleted, or incomplete");
                }
                blocks
            }
        };
        let is_marked = |one: &Found| one.is_marked && !with_marked;
        for one in found.iter().filter(|one| is_marked(one)) {
            sink.skipped(&one.name, "is marked for deletion (see --marked-blocks)");
        }
        let found = found.into_iter().filter(|one| !is_marked(one)).collect();
        let mut blocks = metas(found, sink);
        let coverage = Coverage::of(blocks.iter().map(|(meta, _)| meta));
        if let Some(name) = live {
            sink.notice(&left_out(&name, blocks.iter().map(|(meta, _)| meta.max_ms).max()));
        }
        blocks.retain(|(meta, _)| meta.max_ms >= wanted.from_ms && meta.min_ms < wanted.to_ms);
        // Oldest first, so that the server gets samples roughly in the order of their times.
        blocks.sort_by(|(a, _), (b, _)| (a.min_ms, &a.ulid).cmp(&(b.min_ms, &b.ulid)));
        for (meta, Found { name, files, .. }) in blocks {
            if sink.is_closed() || files.is_lost() {
                return;
            }
            if meta.is_downsampled() {
                match coverage.has_all_samples_of(&meta) {
                    true => sink.skipped(&name, "is downsampled; other blocks have all its samples"),
                    false => sink.failure(&name, "is downsampled, and no block has all samples of its time"),
                }
                continue;
            }
            let wanted = if with_external { with_labels_of(&meta, &wanted) } else { wanted.clone() };
            let read = Block::open(&files, memory).and_then(|mut block| block.read(&meta, &wanted, sink));
            if let Err(text) = read {
                sink.failure(&name, &text);
            }
        }
    }
}

/// The notice that a data directory has samples which are in no block; `end_ms` is the end of the last one.
fn left_out(name: &str, end_ms: Option<i64>) -> String {
    let what = match end_ms {
        Some(end_ms) => {
            format!("samples after {} are not in blocks", moment::show(end_ms.saturating_mul(1_000_000)))
        }
        None => "no samples are in blocks yet".to_owned(),
    };
    format!("the WAL and head of '{name}' are not imported: {what}")
}

/// Reads the descriptions of blocks, several at a time.
fn metas(found: Vec<Found>, sink: &mut dyn Sink) -> Vec<(BlockMeta, Found)> {
    let (mut requested, mut bytes) = (VecDeque::<(Reading, Found)>::new(), 0);
    let (mut metas, mut found) = (Vec::with_capacity(found.len()), found.into_iter().peekable());
    loop {
        while let Some(next) = found.peek() {
            let size = next.files.size_at_most(META);
            let is_full = requested.len() >= META_REQUESTS_MAX || bytes + size > SMALL_BYTES_MAX;
            if is_full && !requested.is_empty() {
                break;
            }
            bytes += size;
            requested.extend(found.next().map(|next| (next.files.begin(META), next)));
        }
        let Some((reading, one)) = requested.pop_front() else { return metas };
        if sink.is_closed() || one.files.is_lost() {
            return metas;
        }
        bytes -= one.files.size_at_most(META);
        let meta = reading.wait().and_then(|json| BlockMeta::decode(&json).map_err(|e| e.to_string()));
        match meta {
            Ok(meta) => metas.push((meta, one)),
            Err(text) => sink.failure(&one.name, &format!("meta.json: {text}")),
        }
    }
}

/// What is imported of a block, with its external labels.
fn with_labels_of(meta: &BlockMeta, wanted: &Wanted) -> Wanted {
    let mut wanted = wanted.clone();
    for (name, value) in meta.external_labels() {
        if !wanted.labels.iter().any(|(own, _)| own == name) {
            wanted.labels.push((name.to_owned(), value.to_owned()));
        }
    }
    wanted
}

#[cfg(test)]
mod tests;
