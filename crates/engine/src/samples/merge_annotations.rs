//! Merges exemplars by series, then metadata by family.
//!
//! One page of each input is in memory. A merged series has the exemplars of all inputs, each once, and
//! only the newest if there are too many; exemplars that deletes hide are left out. A merged family has
//! the latest metadata: all that the inputs with the latest window contain.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::block::compare_series;
use sandur_format::codec::Piece;
use sandur_format::sample_block::{BlockWriter, ExemplarPage, MetadataPage, SeriesExemplars};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::MetricMetadata;
use sandur_query::QueryStats;

use super::OpenSamples;
use super::annotations::AnnotationPage;
use super::hidden::HiddenSamples;
use crate::blocks::reader::BlockReader;
use crate::error::{Error, ReadError};

/// The most distinct metadata of one family that a merge keeps. Real senders do not send more.
const METADATA_OF_FAMILY_MAX: usize = 16;

/// A page of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnotationRef {
    input: usize,
    piece: Piece,
}

/// The result of a step.
pub(super) enum AnnotationStep {
    /// It needs a page.
    Need(AnnotationRef),
    /// It wrote or skipped an item.
    Wrote,
    /// All items are written.
    Done,
}

/// The pages of one input, one of which is decoded.
struct Pages<P: AnnotationPage> {
    left: VecDeque<P>,
    /// The requested page.
    asked: Option<P>,
    items: std::iter::Peekable<std::vec::IntoIter<P::Item>>,
    memory: Option<Reservation>,
}

impl<P: AnnotationPage> Pages<P> {
    fn new(pages: &[P]) -> Self {
        let items = Vec::new().into_iter().peekable();
        Self { left: pages.iter().cloned().collect(), asked: None, items, memory: None }
    }

    /// Returns the page that must be read before the next item is known.
    fn due(&mut self) -> Option<Piece> {
        if self.items.peek().is_some() {
            return None;
        }
        self.memory = None;
        if self.asked.is_none() {
            self.asked = self.left.pop_front();
        }
        self.asked.as_ref().map(P::piece)
    }

    fn supply(&mut self, bytes: &Bytes, budget: &MemoryBudget) -> Result<Result<(), FormatError>, Error> {
        let Some(page) = self.asked.take() else { return Ok(Ok(())) };
        self.memory = Some(budget.reserve(page.memory_bytes())?);
        Ok(page.decode(bytes).map(|items| self.items = items.into_iter().peekable()))
    }
}

/// The metadata of the family that is being merged.
#[derive(Default)]
struct Family {
    /// The end of the window of this metadata.
    end: i64,
    metadata: Vec<MetricMetadata>,
}

/// Merges exemplars and metadata of blocks.
pub(super) struct AnnotationMerger {
    blocks: Vec<Arc<OpenSamples>>,
    exemplars: Vec<Pages<ExemplarPage>>,
    metadata: Vec<Pages<MetadataPage>>,
    family: Family,
}

impl AnnotationMerger {
    pub(super) fn new(blocks: &[Arc<OpenSamples>]) -> Self {
        Self {
            blocks: blocks.to_vec(),
            exemplars: blocks.iter().map(|block| Pages::new(block.footer.exemplars())).collect(),
            metadata: blocks.iter().map(|block| Pages::new(block.footer.metadata())).collect(),
            family: Family::default(),
        }
    }

    /// Supplies the requested page.
    pub(super) fn supply(
        &mut self,
        AnnotationRef { input, .. }: AnnotationRef,
        bytes: &Bytes,
        budget: &MemoryBudget,
    ) -> Result<(), Error> {
        let decoded = match self.exemplars[input].asked.is_some() {
            true => self.exemplars[input].supply(bytes, budget)?,
            false => self.metadata[input].supply(bytes, budget)?,
        };
        decoded.map_err(|reason| ReadError::damaged(&self.blocks[input].meta, reason).into())
    }

    /// Writes the next series or metadata. `hidden` returns what deletes remove from each input.
    pub(super) fn step<'h>(
        &mut self,
        writer: &mut BlockWriter,
        hidden: impl Fn(usize) -> &'h HiddenSamples,
    ) -> Result<AnnotationStep, Error> {
        if let Some(page) = due(&mut self.exemplars) {
            return Ok(AnnotationStep::Need(page));
        }
        let internal = |error: FormatError| Error::Internal(error.to_string());
        if let Some(series) = self.next_series(hidden) {
            writer.push_exemplars(series).map_err(internal)?;
            return Ok(AnnotationStep::Wrote);
        }
        if let Some(page) = due(&mut self.metadata) {
            return Ok(AnnotationStep::Need(page));
        }
        let Some((end, one)) = self.next_metadata() else {
            self.end_family(writer).map_err(internal)?;
            return Ok(AnnotationStep::Done);
        };
        if self.family.metadata.first().is_none_or(|known| known.family != one.family) {
            self.end_family(writer).map_err(internal)?;
            self.family.end = end;
        }
        if end > self.family.end {
            self.family = Family { end, metadata: Vec::new() };
        }
        let known = &mut self.family.metadata;
        if end == self.family.end && known.len() < METADATA_OF_FAMILY_MAX && known.last() != Some(&one) {
            known.push(one);
        }
        Ok(AnnotationStep::Wrote)
    }

    /// The exemplars of the first series that any input has.
    fn next_series<'h>(&mut self, hidden: impl Fn(usize) -> &'h HiddenSamples) -> Option<SeriesExemplars> {
        let firsts = self.exemplars.iter_mut().filter_map(|pages| pages.items.peek());
        let labels = firsts.map(|of| &of.labels).min_by(|a, b| compare_series(a.iter(), b.iter()))?.clone();
        let mut all = SeriesExemplars { labels, exemplars: Vec::new() };
        for (input, pages) in self.exemplars.iter_mut().enumerate() {
            if let Some(mut of) = pages.items.next_if(|of| of.labels == all.labels) {
                hidden(input).drop_exemplars(&mut of);
                all.exemplars.append(&mut of.exemplars);
            }
        }
        Some(all)
    }

    /// The first metadata that any input has, and the end of that input's window.
    fn next_metadata(&mut self) -> Option<(i64, MetricMetadata)> {
        let firsts = self.metadata.iter_mut().enumerate();
        let firsts = firsts.filter_map(|(input, pages)| Some((pages.items.peek()?.clone(), input)));
        let (_, input) = firsts.min()?;
        Some((self.blocks[input].meta.window.end, self.metadata[input].items.next()?))
    }

    fn end_family(&mut self, writer: &mut BlockWriter) -> Result<(), FormatError> {
        std::mem::take(&mut self.family.metadata).iter().try_for_each(|one| writer.push_metadata(one))
    }
}

fn due<P: AnnotationPage>(inputs: &mut [Pages<P>]) -> Option<AnnotationRef> {
    inputs
        .iter_mut()
        .enumerate()
        .find_map(|(input, pages)| Some(AnnotationRef { input, piece: pages.due()? }))
}

/// Reads a page for a merge.
pub(super) async fn fetch(
    reader: &BlockReader,
    inputs: &[Arc<OpenSamples>],
    AnnotationRef { input, piece }: AnnotationRef,
) -> Result<Bytes, Error> {
    // A merge reads its inputs once, and they are removed afterwards.
    let (hint, stats) = (Hint::Scan { bytes: u64::MAX }, QueryStats::default());
    let stored = reader.pieces(&inputs[input].meta, &[piece], hint, &stats).await?;
    let stored = stored.into_iter().next();
    Ok(stored.ok_or_else(|| Error::Internal("a piece has no result".to_owned()))?.bytes)
}
