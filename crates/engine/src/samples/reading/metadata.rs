//! Reads the metadata of metric families from heads and blocks.
//!
//! The latest metadata counts: of a family all that heads have, otherwise all that the blocks of its
//! latest window have. Blocks whose window ended more than a day before the latest one are not read, so
//! that the call's cost does not depend on the retention.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{Footer, MetadataPage};
use sandur_memory::Reservation;
use sandur_model::{DAY_NS, MetricMetadata, TimeRange};
use sandur_query::{Error, Metadata, MetadataSelection, QueryContext};

use super::annotations::each_item;
use crate::blocks::reader::BlockReader;
use crate::error::or_warn;
use crate::reading::series_reader::{OPEN_AT_ONCE, SeriesReader};
use crate::view::View;

/// Bytes of a family in addition to its texts: its second copy of the name, and its entries in the maps.
const FAMILY_BYTES: u64 = 128;

/// The metadata of each family, with the end of its window. Metadata of heads counts as the latest.
struct Families<'s> {
    selection: &'s MetadataSelection,
    families: BTreeMap<Box<str>, (i64, BTreeSet<MetricMetadata>)>,
    memory: Reservation,
}

impl Families<'_> {
    /// Adds metadata. Must be called with the latest windows first.
    fn add(&mut self, end: i64, one: &MetricMetadata) -> Result<(), Error> {
        let is_wanted = self.selection.family.as_deref().is_none_or(|family| *family == *one.family);
        match self.families.get_mut(&one.family) {
            _ if !is_wanted => {}
            Some((known_end, all)) if *known_end == end => {
                if !all.contains(one) {
                    self.memory.grow(one.memory_bytes() + FAMILY_BYTES)?;
                    all.insert(one.clone());
                }
            }
            Some(_) => {}
            None => {
                self.memory.grow(one.memory_bytes() + one.family.len() as u64 + FAMILY_BYTES)?;
                self.families.insert(one.family.clone(), (end, BTreeSet::from([one.clone()])));
            }
        }
        Ok(())
    }
}

/// Reads the selected metadata.
pub(super) async fn read_metadata(
    reader: &BlockReader,
    view: &View,
    context: &QueryContext,
    selection: &MetadataSelection,
) -> Result<Metadata, Error> {
    let mut found = Families { selection, families: BTreeMap::new(), memory: context.budget().reserve(0)? };
    for head in &view.heads {
        context.check()?;
        head.samples().each_metadata(context.tenant(), |one| found.add(i64::MAX, one))?;
    }
    for some in latest_blocks(view, context).chunks(OPEN_AT_ONCE) {
        context.check()?;
        for block in reader.open_all::<Footer>(some, context.stats()).await {
            let Some(block) = or_warn(context, block)? else { continue };
            let may_describe = |page: &&MetadataPage| {
                selection.family.as_deref().is_none_or(|family| page.may_describe(family))
            };
            let pages: Vec<MetadataPage> =
                block.footer.metadata().iter().filter(may_describe).cloned().collect();
            let end = block.meta.window.end;
            each_item(reader, context, &block, pages, |one| found.add(end, &one)).await?;
        }
    }
    let Families { families, memory, .. } = found;
    let all = families.values().flat_map(|(_, all)| all);
    let metrics = selection.of_sorted(all).into_iter().cloned().collect();
    Ok(Metadata { metrics, held: Some(memory) })
}

/// The blocks whose window ended within a day of the latest one, the latest window first.
fn latest_blocks(view: &View, context: &QueryContext) -> Vec<Arc<BlockMeta>> {
    let mut blocks = SeriesReader::<Footer>::blocks(view, context, TimeRange::ALL);
    let latest = blocks.iter().map(|block| block.window.end).max().unwrap_or(i64::MIN);
    blocks.retain(|block| block.window.end > latest.saturating_sub(DAY_NS));
    blocks.sort_by_key(|block| (Reverse(block.window.end), block.id));
    blocks
}
