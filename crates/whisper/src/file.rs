//! A file of either form.

use crate::archive::{self, Archive};
use crate::classic;
use crate::compressed::{self, Compressed};
use crate::error::Error;
use crate::history::History;
use crate::method::Method;
use crate::point::Point;
use crate::source::ReadAt;

/// How a file holds points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// whisper's own: rings of points.
    Classic,
    /// go-carbon's: blocks of coded points.
    Compressed,
}

/// Whether checksums must fit, where a file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// They must.
    All,
    /// They are not looked at, as by go-carbon.
    None,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) form: Form,
    pub(crate) method: Method,
    pub(crate) x_files_factor: f32,
    pub(crate) archives: Vec<Archive>,
    /// Bytes before the first archive.
    pub(crate) header_bytes: u64,
}

/// What becomes of damage beyond the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The whole file is refused.
    Refused,
    /// What is damaged is left out and named: an archive of whisper, a block of a compressed one.
    LeftOut,
}

/// How points are read, and what was left out of them.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) until: u32,
    pub(crate) checks: Checks,
    pub(crate) damage: Damage,
    /// Seconds from and to which points were in damaged blocks.
    pub(crate) lost: Vec<(u32, u32)>,
    /// Why the first of them was damaged.
    pub(crate) reason: Option<Error>,
}

impl Reading {
    pub(crate) fn new(until: u32, checks: Checks, damage: Damage) -> Self {
        Self { until, checks, damage, lost: Vec::new(), reason: None }
    }

    /// Goes on without some points, where that is allowed.
    pub(crate) fn leave_out(&mut self, from: u32, to: u32, error: Error) -> Result<(), Error> {
        if self.damage == Damage::Refused {
            return Err(error);
        }
        self.lost.push((from, to));
        self.reason.get_or_insert(error);
        Ok(())
    }
}

/// An open file.
#[derive(Debug)]
pub struct Whisper<S> {
    source: S,
    header: Header,
    /// What the compressed form has beside.
    compressed: Option<Compressed>,
    checks: Checks,
    damage: Damage,
    /// Archives that are left out because of what the header says of them, and why.
    faults: Vec<(usize, Error)>,
}

impl<S: ReadAt> Whisper<S> {
    /// Reads the header.
    pub fn open(source: S, checks: Checks) -> Result<Self, Error> {
        Self::open_with(source, checks, Damage::Refused)
    }

    /// Reads the header; `damage` says what becomes of archives that cannot be read.
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
        // Of a compressed archive that is cut the blocks before the cut can be read.
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

    /// Why an archive is left out as a whole.
    pub(crate) fn fault(&self, archive: usize) -> Option<&Error> {
        self.faults.iter().find(|(own, _)| *own == archive).map(|(_, error)| error)
    }

    /// How it holds points.
    pub fn form(&self) -> Form {
        self.header.form
    }

    /// How its coarser archives are made.
    pub fn method(&self) -> Method {
        self.header.method
    }

    /// The share of known values below which a coarser archive gets none.
    pub fn x_files_factor(&self) -> f32 {
        self.header.x_files_factor
    }

    /// Its archives, the finest first.
    pub fn archives(&self) -> &[Archive] {
        &self.header.archives
    }

    /// The most memory that [`Whisper::history`] takes, what this file holds already included.
    pub fn memory_bytes(&self) -> u64 {
        let points: u64 = match &self.compressed {
            Some(compressed) => compressed.points_max(),
            None => {
                let archives = self.header.archives.iter().enumerate();
                let read = archives.filter(|(n, _)| self.fault(*n).is_none());
                read.map(|(_, archive)| u64::from(archive.points)).sum()
            }
        };
        // A vector that grows is twice as large as what it holds, and a copy is made while it moves. Times of
        // damaged blocks take less than the index that names the blocks.
        let headers = if self.damage == Damage::LeftOut { 2 } else { 1 };
        points * 3 * size_of::<Point>() as u64 + headers * compressed::HEADER_BYTES_MAX
    }

    /// The points of an archive up to a time, in order; those beyond the retention before the newest are not
    /// among them.
    ///
    /// # Errors
    /// When the file cannot be read, or its blocks are damaged.
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

    /// A reading of one archive for [`Whisper::history`].
    pub(crate) fn reading(&self, until: u32) -> Reading {
        Reading::new(until, self.checks, self.damage)
    }

    /// All archives, put together so that no time is told twice.
    pub fn history(&self, until: u32) -> Result<History, Error> {
        History::read(self, until)
    }
}
