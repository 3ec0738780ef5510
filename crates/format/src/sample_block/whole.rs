//! Decodes all pages of a block that is completely in memory, for tools and tests.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::MetricMetadata;

use super::{Footer, OpenGroup, SamplePage, SeriesExemplars, TimeTable, Values};
use crate::block::BlockIndex;
use crate::error::Error;

/// Decodes every page of samples of an object, in order.
pub fn pages_of_object(object: &Bytes) -> Result<(Footer, Vec<SamplePage>), Error> {
    pages_between(object, (i64::MIN, i64::MAX), Values::All)
}

/// Like [`pages_of_object`], but only the rows from the first to the last of these milliseconds, both
/// inclusive.
pub(super) fn pages_between(
    object: &Bytes,
    times_ms: (i64, i64),
    values: Values,
) -> Result<(Footer, Vec<SamplePage>), Error> {
    let footer = Footer::locate(object, object.len() as u64)?;
    let footer = Footer::open(object.slice(footer.start as usize..footer.end as usize))?;
    let cut = |range: std::ops::Range<u64>| object.slice(range.start as usize..range.end as usize);
    let mut times = TimeTable::default();
    for page in footer.time_pages() {
        times.push(page.first_list, Arc::new(page.decode(&cut(page.piece.range()))?));
    }
    let mut pages = Vec::new();
    for entry in footer.groups() {
        let group = OpenGroup::open(entry, cut(entry.piece.range()))?;
        let mut decoder = group.head().decoder();
        for page in group.head().pages() {
            pages.push(decoder.decode_between(page, &group.page_bytes(page), &times, times_ms, values)?);
        }
    }
    Ok((footer, pages))
}

/// Decodes every exemplar and all metadata of an object, in order.
pub fn annotations_of_object(
    object: &Bytes,
    footer: &Footer,
) -> Result<(Vec<SeriesExemplars>, Vec<MetricMetadata>), Error> {
    let cut = |range: std::ops::Range<u64>| object.slice(range.start as usize..range.end as usize);
    let (mut exemplars, mut metadata) = (Vec::new(), Vec::new());
    for page in footer.exemplars() {
        exemplars.append(&mut page.decode(&cut(page.piece().range()))?);
    }
    for page in footer.metadata() {
        metadata.append(&mut page.decode(&cut(page.piece().range()))?);
    }
    Ok((exemplars, metadata))
}
