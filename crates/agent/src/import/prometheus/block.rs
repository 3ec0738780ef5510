//! Opens a block and goes through its series.
//!
//! A part is up to [`PART_CHUNKS`] chunks of consecutive series of a block. The index alone determines the
//! parts, so parts that are stored are skipped without reading their chunks.

use std::ops::Range;

use sandur_base::units::ByteSize;
use sandur_tsdb::{BlockMeta, ChunkMeta, Chunks, Error, Index, Samples, Series, Tombstones};

use super::place::{BlockFile, Files};
use crate::import::series::{Sink, Wanted};

/// Chunks of a part: about 50,000 samples.
const PART_CHUNKS: usize = 400;

/// An open block.
pub struct Block<'a> {
    files: &'a Files,
    index: Index<BlockFile>,
    chunks: Chunks<BlockFile>,
    tombstones: Tombstones,
}

impl<'a> Block<'a> {
    /// Opens a block. Its label texts may take this many bytes of memory.
    pub fn open(files: &'a Files, memory: u64) -> Result<Self, String> {
        let index = files.open("index")?;
        let named = |error: Error| format!("index: {error}");
        let needed = Index::memory_bytes(&index).map_err(named)?;
        if needed > memory {
            return Err(format!("its label texts need up to {}: use --memory {needed}", ByteSize(needed)));
        }
        let index = Index::open(index).map_err(named)?;
        let names = files.chunks()?;
        let opened: Result<Vec<BlockFile>, String> = names.iter().map(|name| files.open(name)).collect();
        let chunks = Chunks::open(opened?).map_err(|error| format!("chunks: {error}"))?;
        let tombstones = match files.open_if_any("tombstones")? {
            Some(file) => Tombstones::read(&file).map_err(|error| format!("tombstones: {error}"))?,
            None => Tombstones::default(),
        };
        Ok(Self { files, index, chunks, tombstones })
    }

    /// Passes the wanted samples of the block on, part by part.
    pub fn read(&mut self, meta: &BlockMeta, wanted: &Wanted, sink: &mut dyn Sink) -> Result<(), String> {
        let options = wanted.name();
        let Self { files, index, chunks, tombstones } = self;
        let mut reader = index.series();
        let (mut pieces, mut size, mut series) = (Vec::new(), 0, Series::default());
        let mut send = |pieces: &mut Vec<Piece>, sink: &mut dyn Sink| {
            let part = Part { index, tombstones, wanted, name: (&meta.ulid, &options) };
            part.send(&std::mem::take(pieces), chunks, sink);
        };
        while reader.next_into(&mut series).map_err(|error| format!("index: {error}"))? {
            if sink.is_closed() || files.is_lost() {
                return Ok(());
            }
            let is_wanted = |chunk: &ChunkMeta| chunk.max_ms >= wanted.from_ms && chunk.min_ms < wanted.to_ms;
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

/// What sending a part needs.
struct Part<'a> {
    index: &'a Index<BlockFile>,
    tombstones: &'a Tombstones,
    wanted: &'a Wanted,
    /// The block, and what is imported of it.
    name: (&'a str, &'a str),
}

impl Part<'_> {
    fn send(&self, pieces: &[Piece], chunks: &mut Chunks<BlockFile>, sink: &mut dyn Sink) {
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
        chunks: &mut Chunks<BlockFile>,
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
