//! Series of a batch whose pages are read but not decoded.

use std::ops::Range;
use std::sync::Arc;

use sandur_query::{Error, QueryContext, SampleSelection, SeriesBatch, SeriesPart};

use super::decode::{Decoded, decode};
use super::fetch::Fetched;
use super::holder::Holder;
use super::walk::FoundBatch;
use crate::rules::Rules;

/// A batch that was read. Its memory is that of the stored bytes, and it can be decoded repeatedly.
#[derive(Clone)]
pub(super) struct StoredSeries {
    pub(super) context: QueryContext,
    pub(super) holders: Arc<Vec<Holder>>,
    pub(super) selection: Arc<SampleSelection>,
    pub(super) rules: Rules,
    pub(super) found: FoundBatch,
    pub(super) fetched: Arc<Fetched>,
}

impl SeriesPart for StoredSeries {
    fn series(&self) -> usize {
        self.found.len()
    }

    fn memory_bytes(&self, some: &Range<usize>) -> u64 {
        self.fetched.decoded_bytes(&self.found[some.clone()])
    }

    fn decode(&self, some: Range<usize>) -> Result<SeriesBatch, Error> {
        let found = &self.found[some];
        let Decoded { batch, damaged } =
            decode(&self.holders, found, &self.fetched.blocks, &self.selection, &self.rules)?;
        damaged.iter().for_each(|damage| self.context.warn(damage.as_str()));
        Ok(batch)
    }
}
