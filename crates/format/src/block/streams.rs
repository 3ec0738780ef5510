//! The streams of a block of logs: their table and the sets of streams by label, decoded completely.

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Matcher, StreamId};

use super::SeriesTable;
use super::container::{PART_FOOTER, Sections};
use super::postings::{Postings, select};
use crate::codec::Reader;
use crate::error::Error;

const SERIES: u8 = 2;
const POSTINGS: u8 = 3;

/// The streams of a block.
#[derive(Debug)]
pub(crate) struct StreamIndex {
    table: SeriesTable,
    postings: Postings,
}

impl StreamIndex {
    /// Reads the two sections.
    pub(crate) fn get(sections: &mut Sections<'_>, first_ts: i64) -> Result<Self, Error> {
        let (plain, offset): (Bytes, u64) = sections.take(SERIES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let table = SeriesTable::get(&mut reader, first_ts)?;
        reader.finish()?;
        let postings = Postings::get(sections.take(POSTINGS)?.0, &table)?;
        Ok(Self { table, postings })
    }

    /// Returns the streams by ordinal.
    pub(crate) fn table(&self) -> &SeriesTable {
        &self.table
    }

    /// Returns the bytes of the distinct values of a label.
    pub(crate) fn value_bytes(&self, name: &str) -> usize {
        let column = self.table.column(name);
        column.map_or(0, |column| column.values.iter().map(|value| value.len()).sum())
    }

    /// Returns the ordinals of the streams whose labels pass all matchers.
    pub(crate) fn select(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, Error> {
        select(&self.table, &self.postings, matchers)
    }

    /// Returns the bytes held in memory, including the stream ids that readers keep with them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let identities = self.table.len() * size_of::<StreamId>();
        self.table.memory_bytes() + self.postings.memory_bytes() + identities as u64
    }
}
