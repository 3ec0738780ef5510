//! Groups of files that are sent together, and the requests for their points.

use std::path::Path;

use sandur_ingest::RemoteWriteEncoder;
use sandur_model::SECOND_NS;

use super::file::{Contents, Reader};
use super::tree::Found;
use crate::import::sending::{Request, Written};

/// Points per request.
const REQUEST_POINTS: u64 = 50_000;
/// Maximum total size of the files of a load, unless it is one file.
const LOAD_BYTES: u64 = 8 << 20;
/// Maximum number of files of a load.
const LOAD_FILES: usize = 500;
/// Milliseconds per second; timestamps in files are seconds.
const SECOND_MS: i64 = SECOND_NS / 1_000_000;

/// Files that are sent together.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The files, with their names relative to the folder.
    pub files: Vec<(String, Found)>,
    bytes: u64,
}

/// The result of reading the files of a load.
#[derive(Default)]
pub struct Read {
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// Points of coarser archives that finer archives cover.
    pub covered_by_finer: u64,
    /// Points that are NaN.
    pub not_a_number: u64,
    /// Archives with the same step as another one.
    pub archives_of_same_step: u64,
    /// Indices of files that cannot be read, with the reasons.
    pub failures: Vec<(usize, String)>,
    /// Indices of files with damaged parts that were left out, with the reasons.
    pub damaged: Vec<(usize, String)>,
}

impl Load {
    /// Whether another file of this size fits into the load.
    pub fn has_room(&self, size: u64) -> bool {
        self.files.is_empty()
            || (self.files.len() < LOAD_FILES && self.bytes.saturating_add(size) <= LOAD_BYTES)
    }

    /// Adds a file.
    pub fn add(&mut self, name: String, found: Found) {
        self.bytes = self.bytes.saturating_add(found.size);
        self.files.push((name, found));
    }

    /// Divides the load into loads of one file each.
    pub fn apart(self) -> impl Iterator<Item = Self> {
        self.files.into_iter().map(|(name, found)| {
            let mut load = Self::default();
            load.add(name, found);
            load
        })
    }

    /// Reads the files and encodes all their points in requests.
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
            // The last request may contain points of any file.
            read.failures.extend((0..self.files.len()).map(|n| (n, text.clone())));
        }
        read
    }
}

fn encode(encoder: &mut RemoteWriteEncoder, contents: &Contents, read: &mut Read) -> Result<(), String> {
    read.covered_by_finer += contents.left.covered_by_finer;
    read.not_a_number += contents.left.not_a_number;
    read.archives_of_same_step += contents.left.archives_of_same_step;
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
        read.requests.push(Request { body, points, form: Written::Two });
    }
    Ok(())
}
