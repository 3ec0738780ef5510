//! Files that are sent together, and the requests that they become.

use std::path::Path;

use sandur_ingest::RemoteWriteEncoder;
use sandur_model::SECOND_NS;

use super::file::{Contents, Reader};
use super::tree::Found;

/// Points of a request.
const REQUEST_POINTS: u64 = 50_000;
/// Bytes of the files of a load, if they are several.
const LOAD_BYTES: u64 = 8 << 20;
/// Files of a load.
const LOAD_FILES: usize = 500;
/// Milliseconds of a second, as times of files are seconds.
const SECOND_MS: i64 = SECOND_NS / 1_000_000;

/// Files that are sent together.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Names below the folder, and the files.
    pub files: Vec<(String, Found)>,
    bytes: u64,
}

/// A request.
pub struct Request {
    /// The body.
    pub body: Vec<u8>,
    /// How many points it has.
    pub points: u64,
}

/// What became of the files of a load.
#[derive(Default)]
pub struct Read {
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// Points of coarser archives that finer ones tell, and of those that are no number.
    pub told_finer: u64,
    /// Points that are no number.
    pub not_a_number: u64,
    /// Archives beside others of their step.
    pub archives_beside: u64,
    /// Positions of files that cannot be read, and why.
    pub failures: Vec<(usize, String)>,
    /// Positions of files of which a part is damaged and was left out, and why.
    pub damaged: Vec<(usize, String)>,
}

impl Load {
    /// Whether another file of this size fits.
    pub fn has_room(&self, size: u64) -> bool {
        self.files.is_empty()
            || (self.files.len() < LOAD_FILES && self.bytes.saturating_add(size) <= LOAD_BYTES)
    }

    /// Adds a file.
    pub fn add(&mut self, name: String, found: Found) {
        self.bytes = self.bytes.saturating_add(found.size);
        self.files.push((name, found));
    }

    /// Each file alone.
    pub fn apart(self) -> impl Iterator<Item = Self> {
        self.files.into_iter().map(|(name, found)| {
            let mut load = Self::default();
            load.add(name, found);
            load
        })
    }

    /// Reads the files and writes requests of all their points.
    pub fn read(&self, folder: &Path, reader: &Reader) -> Read {
        let (mut read, mut encoder) = (Read::default(), RemoteWriteEncoder::new());
        for (n, (_, found)) in self.files.iter().enumerate() {
            let outcome = reader.read(folder, &found.path);
            let outcome = outcome.and_then(|mut contents| {
                read.damaged.extend(std::mem::take(&mut contents.damaged).into_iter().map(|what| (n, what)));
                encode(&mut encoder, &contents, &mut read)
            });
            if let Err(text) = outcome {
                read.failures.push((n, text));
            }
        }
        if let Err(text) = finish(&mut encoder, &mut read) {
            // What the last request holds is of every file that it may be of.
            read.failures.extend((0..self.files.len()).map(|n| (n, text.clone())));
        }
        read
    }
}

fn encode(encoder: &mut RemoteWriteEncoder, contents: &Contents, read: &mut Read) -> Result<(), String> {
    read.told_finer += contents.left.told_finer;
    read.not_a_number += contents.left.not_a_number;
    read.archives_beside += contents.left.archives_beside;
    for (labels, kept) in &contents.series {
        let mut points = kept.points.as_slice();
        while !points.is_empty() {
            let room = REQUEST_POINTS.saturating_sub(encoder.samples()).max(1) as usize;
            let (now, later) = points.split_at(points.len().min(room));
            encoder.series(labels, now.iter().map(|point| (i64::from(point.time) * SECOND_MS, point.value)));
            points = later;
            if encoder.samples() >= REQUEST_POINTS {
                finish(encoder, read)?;
            }
        }
    }
    Ok(())
}

fn finish(encoder: &mut RemoteWriteEncoder, read: &mut Read) -> Result<(), String> {
    let points = encoder.samples();
    if points > 0 {
        let body = encoder.finish().map_err(|error| error.to_string())?;
        read.requests.push(Request { body, points });
    }
    Ok(())
}
