//! The samples-specific part of the engine: the head of samples, and how sample blocks are written,
//! merged and read.
//!
//! The shared part (WAL, views, flush, compaction, delete requests) is that of logs. Series whose
//! names are paths are not a separate signal ([`crate::path_labels`]).

mod annotations;
mod assembly;
mod expired;
pub(crate) mod flush_plan;
pub mod head;
mod hidden;
mod hidden_exemplars;
mod index;
mod join;
mod merge;
mod merge_annotations;
mod merge_input;
pub(crate) mod reading;
mod rolling;
mod times;
mod warm;

use roaring::RoaringBitmap;
use sandur_format::catalog_entry::BlockForms;
use sandur_format::sample_block::STAMPED_SINCE;

pub(crate) use merge::SampleMerging;
pub(crate) use rolling::rows_saved;
pub(crate) use warm::warm;

/// Makes a set of ascending ordinals, which is several times faster than inserting them one by one.
fn rising(ordinals: impl Iterator<Item = u32> + Clone) -> RoaringBitmap {
    RoaringBitmap::from_sorted_iter(ordinals.clone()).unwrap_or_else(|_| ordinals.collect())
}

/// Whether all processes read samples with stamps, in frames and in blocks.
pub(crate) fn may_be_stamped(forms: BlockForms) -> bool {
    forms.samples >= STAMPED_SINCE
}

/// A sample block whose footer is in memory.
pub(crate) type OpenSamples = crate::blocks::open::OpenBlock<sandur_format::sample_block::Footer>;

/// Raw bytes of a sample: time and value.
pub(crate) const SAMPLE_BYTES: u64 = 16;

pub(crate) use sandur_model::MILLISECOND_NS;
