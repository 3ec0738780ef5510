//! Verifies the contents of a block of either signal: header, footer, every page, every filter.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_format::block::{BlockIndex, HEADER_LEN};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::Wanted;
use sandur_format::sample_block::index::SeriesSpan;
use sandur_format::sample_block::{OpenGroup, SamplePage, TimeLists, TimeTable};
use sandur_format::{BlockFooter, log_block, sample_block};
use sandur_store::Store;

use crate::check_index::IndexCheck;
use crate::check_object::{Object, Window};

/// Verifies header, footer, every piece and every page of a block. Returns the number of pieces, or the
/// fault.
pub async fn check_block(store: &Store, meta: &BlockMeta) -> Result<u64, String> {
    let object = Object { store, path: meta.path(), size: meta.size };
    let footer = object.read(meta.footer_offset..meta.size).await?;
    let footer = BlockFooter::open(footer).map_err(|e| e.to_string())?;
    let header = object.read(0..HEADER_LEN).await?;
    footer.index().check_header(&header).map_err(|e| e.to_string())?;
    if let Some(difference) = meta.difference(footer.index()) {
        return Err(difference);
    }
    match &footer {
        BlockFooter::Logs(footer) => check_logs(&object, footer).await,
        BlockFooter::Metrics(footer) => check_samples(&object, footer).await,
    }
}

async fn check_logs(object: &Object<'_>, footer: &log_block::Footer) -> Result<u64, String> {
    let (mut wide, mut narrow) = (Window::of(object), Window::of(object));
    let mut count = 0;
    // Lines and narrow columns are stored in two separate sequences: each is read through its own window.
    for page in footer.pages() {
        let bytes = narrow.read(page.narrow).await?;
        let columns = page.decode_narrow(&bytes, Wanted { metadata: true }).map_err(|e| e.to_string())?;
        let bytes = wide.read(page.lines).await?;
        page.decode_lines(&bytes, &columns.timestamps).map_err(|e| e.to_string())?;
        count += 2;
    }
    for segment in footer.filter_segments() {
        for piece in (0..segment.pieces()).map(|number| segment.piece(number)) {
            piece.check("filters", &wide.read(piece).await?).map_err(|e| e.to_string())?;
            count += 1;
        }
    }
    footer.minute_counts().decode(None, |_, _, _| ()).map_err(|e| e.to_string())?;
    Ok(count)
}

/// Reads every page, and compares the samples with what the index says of each series, because queries
/// trust the index.
async fn check_samples(object: &Object<'_>, footer: &sample_block::Footer) -> Result<u64, String> {
    let (mut window, mut times_window) = (Window::of(object), Window::of(object));
    let mut series = vec![SeriesSpan::default(); footer.series_count()];
    let mut known = KnownTimes::default();
    for (number, entry) in (0..).zip(footer.groups()) {
        let times = known.of_group(footer, number, &mut times_window).await?;
        let bytes = window.read(entry.piece).await?;
        entry.piece.check("group of sample pages", &bytes).map_err(|e| e.to_string())?;
        let group = OpenGroup::open(entry, bytes).map_err(|e| e.to_string())?;
        let (mut decoder, mut newest) = (group.head().decoder(), [BTreeMap::new(), BTreeMap::new()]);
        for page in group.head().pages() {
            let decoded = decoder.decode(page, &group.page_bytes(page), &times);
            let decoded = decoded.map_err(|e| e.to_string())?;
            let newest = &mut newest[usize::from(page.is_of_histograms())];
            count_samples(&decoded, &mut series, newest).map_err(|problem| {
                format!("the sample page at offset {} is malformed: {problem}", page.piece.offset)
            })?;
        }
    }
    for page in footer.time_pages() {
        let bytes = times_window.read(page.piece).await?;
        page.decode(&bytes).map_err(|e| e.to_string())?;
    }
    let parts = IndexCheck::new(footer.index(), Window::of(object)).run(&series).await?;
    Ok((footer.page_count() + footer.time_pages().len()) as u64 + parts)
}

/// The lists of times of the last group; the next group needs mostly the same ones.
#[derive(Default)]
struct KnownTimes(Vec<(u32, Arc<TimeLists>)>);

impl KnownTimes {
    async fn of_group(
        &mut self,
        footer: &sample_block::Footer,
        group: u32,
        window: &mut Window<'_>,
    ) -> Result<TimeTable, String> {
        let (mut table, mut needed) = (TimeTable::default(), Vec::new());
        for number in footer.time_pages_of(&[group]) {
            let page = &footer.time_pages()[number as usize];
            let lists = match self.0.iter().find(|(known, _)| *known == number) {
                Some((_, lists)) => Arc::clone(lists),
                None => {
                    let bytes = window.read(page.piece).await?;
                    Arc::new(page.decode(&bytes).map_err(|e| e.to_string())?)
                }
            };
            table.push(page.first_list, Arc::clone(&lists));
            needed.push((number, lists));
        }
        self.0 = needed;
        Ok(table)
    }
}

fn count_samples(
    page: &SamplePage,
    series: &mut [SeriesSpan],
    newest: &mut BTreeMap<u32, i64>,
) -> Result<(), String> {
    for run in &page.runs {
        let span = series.get_mut(run.series as usize).ok_or("it names a series that is not in the block")?;
        let (Some(first), Some(last)) = (run.times.first(), run.times.last()) else { continue };
        let (first, last) = (*first, *last);
        // A series may continue from the page before.
        if newest.insert(run.series, last).is_some_and(|newest| newest >= first) {
            return Err("the times of a series do not ascend from one page to the next".to_owned());
        }
        span.min_ms = span.min_ms.min(first);
        span.max_ms = span.max_ms.max(last);
        span.rows += run.times.len() as u64;
    }
    Ok(())
}
