//! A whisper file in either form.

use crate::archive::{self, Archive};
use crate::classic;
use crate::compressed::{self, Compressed};
use crate::error::Error;
use crate::form::Form;
use crate::header::Header;
use crate::method::Method;
use crate::point::Point;
use crate::reading::{Checks, Damage, Reading};
use crate::source::ReadAt;

/// An open file.
#[derive(Debug)]
pub struct Whisper<S> {
    source: S,
    header: Header,
    /// The additional header of a compressed file.
    compressed: Option<Compressed>,
    checks: Checks,
    damage: Damage,
    /// Archives that are skipped because of their description in the header, and why.
    faults: Vec<(usize, Error)>,
}

impl<S: ReadAt> Whisper<S> {
    /// Opens a file and reads its header.
    pub fn open(source: S, checks: Checks) -> Result<Self, Error> {
        Self::open_with(source, checks, Damage::Refused)
    }

    /// Opens a file and reads its header; `damage` says what happens if archives cannot be read.
    pub fn open_with(source: S, checks: Checks, damage: Damage) -> Result<Self, Error> {
        let size = source.size()?;
        let (header, compressed) = match compressed::is_so(&source, size)? {
            true => {
                let (header, compressed) = compressed::header(&source, size, checks)?;
                (header, Some(compressed))
            }
            false => (classic::header(&source, size)?, None),
        };
        if header.archives.is_empty() {
            return Err(Error::Header("it has no archives".to_owned()));
        }
        // If a compressed archive is truncated, the blocks before the cut can be read.
        let is_by_block = compressed.is_some() && damage == Damage::LeftOut;
        let size = if is_by_block { u64::MAX } else { size };
        let mut faults = archive::faults(&header.archives, header.form, header.header_bytes, size);
        let is_sound = |n: usize| faults.iter().all(|(archive, _)| *archive != n);
        let has_sound = damage == Damage::LeftOut && (0..header.archives.len()).any(is_sound);
        if !faults.is_empty() && !has_sound {
            return Err(faults.swap_remove(0).1);
        }
        Ok(Self { source, header, compressed, checks, damage, faults })
    }

    /// Returns why a complete archive is skipped.
    pub(crate) fn fault(&self, archive: usize) -> Option<&Error> {
        self.faults.iter().find(|(own, _)| *own == archive).map(|(_, error)| error)
    }

    /// Returns how it stores points.
    pub fn form(&self) -> Form {
        self.header.form
    }

    /// Returns how its coarser archives are computed.
    pub fn method(&self) -> Method {
        self.header.method
    }

    /// Returns the share of known values below which a coarser archive gets no value.
    pub fn x_files_factor(&self) -> f32 {
        self.header.x_files_factor
    }

    /// Returns its archives, the finest first.
    pub fn archives(&self) -> &[Archive] {
        &self.header.archives
    }

    /// Returns an upper bound of the memory of [`Whisper::history`] in bytes, including what this value
    /// already uses.
    pub fn memory_bytes(&self) -> u64 {
        let points: u64 = match &self.compressed {
            Some(compressed) => compressed.points_max(),
            None => {
                let archives = self.header.archives.iter().enumerate();
                let read = archives.filter(|(n, _)| self.fault(*n).is_none());
                read.map(|(_, archive)| u64::from(archive.points)).sum()
            }
        };
        // A growing vector has up to twice the needed capacity, and is copied when it grows. The times
        // of damaged blocks use less memory than the index of the blocks.
        let headers = if self.damage == Damage::LeftOut { 2 } else { 1 };
        points * 3 * size_of::<Point>() as u64 + headers * compressed::HEADER_BYTES_MAX
    }

    /// Returns the points of an archive up to a time, in order, within the retention before the newest.
    ///
    /// # Errors
    /// If the file cannot be read, or its blocks are damaged.
    pub fn points(&self, archive: usize, until: u32) -> Result<Vec<Point>, Error> {
        self.read(archive, &mut Reading::new(until, self.checks, Damage::Refused))
    }

    pub(crate) fn read(&self, archive: usize, reading: &mut Reading) -> Result<Vec<Point>, Error> {
        let described = self.header.archives.get(archive).filter(|_| self.fault(archive).is_none());
        let Some(described) = described else { return Ok(Vec::new()) };
        match &self.compressed {
            Some(compressed) => compressed.points(&self.source, (archive, described), reading),
            None => classic::points(&self.source, described, reading.until),
        }
    }

    /// Returns the options of reading one archive for [`Whisper::history`].
    pub(crate) fn reading(&self, until: u32) -> Reading {
        Reading::new(until, self.checks, self.damage)
    }
}
