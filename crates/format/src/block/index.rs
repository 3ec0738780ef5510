//! What the footers of blocks of every signal have in common: what the block is, and where its pieces are.

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use sandur_model::Signal;

use super::container::{Sections, Trailer};
use super::origin::OriginParts;
use super::{BlockInfo, BlockOrigin, Layout, SectionInfo};
use crate::codec::Piece;
use crate::error::Error;

/// The section that footers of every signal have, by its id.
const META: u8 = 1;

/// The decoded footer of a block of any signal.
pub trait BlockIndex: Debug + Send + Sync + 'static {
    /// Where the footer (with its trailer) of an object of `size` bytes is, from the object's last bytes:
    /// at least [`TRAILER_LEN`](super::TRAILER_LEN) of them. For tools that have no catalog entry at hand.
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error>
    where
        Self: Sized;

    /// Decodes a footer from its bytes, trailer included: the object from its footer offset to its end.
    fn open(bytes: Bytes) -> Result<Self, Error>
    where
        Self: Sized;

    /// Compares the first bytes of a block of this signal.
    fn check_header(&self, bytes: &[u8]) -> Result<(), Error>;

    /// The kind of data that the block holds.
    fn signal(&self) -> Signal;

    /// What is the same in footers of every signal.
    fn base(&self) -> &IndexBase;

    /// Number of series (of streams, in a block of logs).
    fn series_count(&self) -> usize;

    /// Number of pages.
    fn page_count(&self) -> usize;

    /// Every piece of the object before the footer with its name: all that a checking tool must read.
    fn pieces(&self) -> Vec<(&'static str, Piece)>;

    /// Bytes held in memory, label sets included.
    fn memory_bytes(&self) -> u64;

    /// What the block is.
    fn info(&self) -> &BlockInfo {
        &self.base().info
    }

    /// Where the footer begins in its object.
    fn offset(&self) -> u64 {
        self.base().offset
    }

    /// Bytes of the object.
    fn object_bytes(&self) -> u64 {
        self.base().offset + u64::from(self.base().stored_bytes)
    }

    /// What the block was made from; `None` in blocks of logs of before version 4.
    fn origin(&self) -> Option<&BlockOrigin> {
        self.base().origin.as_ref()
    }

    /// Sizes of the sections.
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
    /// Opens a footer; its sections stay to be read for what is of one signal alone.
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

    /// Reads what the block was made from out of a section.
    pub(crate) fn read_origin(
        &mut self,
        sections: &mut Sections<'_>,
        section: u8,
        tells: OriginParts,
    ) -> Result<(), Error> {
        let (plain, offset) = sections.take(section)?;
        self.origin = Some(BlockOrigin::get(&plain, offset, tells)?);
        Ok(())
    }

    /// Bytes held in memory. Sections that are stored as they are keep the whole footer alive.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.stored_bytes)
    }
}
