//! A file of either form.

use crate::archive::Archive;
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
}

/// An open file.
#[derive(Debug)]
pub struct Whisper<S> {
    source: S,
    header: Header,
    /// What the compressed form has beside.
    compressed: Option<Compressed>,
    checks: Checks,
}

impl<S: ReadAt> Whisper<S> {
    /// Reads the header.
    pub fn open(source: S, checks: Checks) -> Result<Self, Error> {
        let size = source.size()?;
        let (header, compressed) = match compressed::is_so(&source, size)? {
            true => {
                let (header, compressed) = compressed::header(&source, size, checks)?;
                (header, Some(compressed))
            }
            false => (classic::header(&source, size)?, None),
        };
        Ok(Self { source, header, compressed, checks })
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
            None => self.header.archives.iter().map(|archive| u64::from(archive.points)).sum(),
        };
        // A vector that grows is twice as large as what it holds, and a copy is made while it moves.
        points * 3 * size_of::<Point>() as u64 + compressed::HEADER_BYTES_MAX
    }

    /// The points of an archive up to a time, in order; those beyond the retention before the newest are not
    /// among them.
    ///
    /// # Errors
    /// When the file cannot be read, or its blocks are damaged.
    pub fn points(&self, archive: usize, until: u32) -> Result<Vec<Point>, Error> {
        let Some(described) = self.header.archives.get(archive) else { return Ok(Vec::new()) };
        match &self.compressed {
            Some(compressed) => compressed.points(&self.source, (archive, described), until, self.checks),
            None => classic::points(&self.source, described, until),
        }
    }

    /// All archives, put together so that no time is told twice.
    pub fn history(&self, until: u32) -> Result<History, Error> {
        History::read(self, until)
    }
}
