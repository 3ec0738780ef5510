//! The common part of the footers of all signals: the properties of the block, and the ranges of its
//! pieces.

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use sandur_model::Signal;

use super::container::{Sections, Trailer};
use super::origin::OriginParts;
use super::{BlockInfo, BlockOrigin, Layout, SectionInfo};
use crate::codec::Piece;
use crate::error::Error;

/// Id of the section that footers of every signal have.
const META: u8 = 1;

/// The decoded footer of a block of any signal.
pub trait BlockIndex: Debug + Send + Sync + 'static {
    /// Returns the range of the footer with its trailer in an object of `size` bytes, from the object's
    /// last bytes: at least [`TRAILER_LEN`](super::TRAILER_LEN) of them. For tools without a catalog
    /// entry of the block.
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error>
    where
        Self: Sized;

    /// Decodes a footer from its bytes, including the trailer: the object from its footer offset to its
    /// end.
    fn open(bytes: Bytes) -> Result<Self, Error>
    where
        Self: Sized;

    /// Checks the first bytes of a block of this signal.
    fn check_header(&self, bytes: &[u8]) -> Result<(), Error>;

    /// Returns the kind of data that the block holds.
    fn signal(&self) -> Signal;

    /// Returns the part that footers of every signal have.
    fn base(&self) -> &IndexBase;

    /// Returns the number of series (of streams, in a block of logs).
    fn series_count(&self) -> usize;

    /// Returns the number of pages.
    fn page_count(&self) -> usize;

    /// Returns every piece of the object before the footer with its name; a checking tool reads all of
    /// them.
    fn pieces(&self) -> Vec<(&'static str, Piece)>;

    /// Returns the bytes held in memory, including label sets.
    fn memory_bytes(&self) -> u64;

    /// Returns the properties of the block.
    fn info(&self) -> &BlockInfo {
        &self.base().info
    }

    /// Returns the footer's offset in its object.
    fn offset(&self) -> u64 {
        self.base().offset
    }

    /// Returns the number of bytes of the object.
    fn object_bytes(&self) -> u64 {
        self.base().offset + u64::from(self.base().stored_bytes)
    }

    /// Returns the origin of the block; `None` in blocks of logs from before version 4.
    fn origin(&self) -> Option<&BlockOrigin> {
        self.base().origin.as_ref()
    }

    /// Returns the sizes of the sections.
    fn sections(&self) -> &[SectionInfo] {
        &self.base().sections
    }
}

/// The part of a decoded footer that is the same for every signal.
#[derive(Debug)]
pub struct IndexBase {
    info: BlockInfo,
    offset: u64,
    stored_bytes: u32,
    origin: Option<BlockOrigin>,
    sections: Vec<SectionInfo>,
}

impl IndexBase {
    /// Opens a footer; the caller reads the sections that are specific to a signal.
    pub(crate) fn open<'a>(
        layout: &Layout,
        bytes: &Bytes,
        body: &'a mut Bytes,
    ) -> Result<(Self, Trailer, Sections<'a>), Error> {
        let (trailer, mut sections) = layout.open(bytes, body)?;
        let info = BlockInfo::get(&sections.take(META)?.0, trailer.version)?;
        let (offset, stored_bytes) = (trailer.footer.offset, bytes.len() as u32);
        let base = Self { info, offset, stored_bytes, origin: None, sections: sections.infos.clone() };
        Ok((base, trailer, sections))
    }

    pub(crate) fn info(&self) -> &BlockInfo {
        &self.info
    }

    /// Reads the origin of the block from a section.
    pub(crate) fn read_origin(
        &mut self,
        sections: &mut Sections<'_>,
        section: u8,
        parts: OriginParts,
    ) -> Result<(), Error> {
        let (plain, offset) = sections.take(section)?;
        self.origin = Some(BlockOrigin::get(&plain, offset, parts)?);
        Ok(())
    }

    /// Returns the bytes held in memory. A section that is stored uncompressed keeps the complete footer
    /// alive.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.stored_bytes)
    }
}
