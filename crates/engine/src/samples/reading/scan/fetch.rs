//! Reads the parts of blocks that batches of series need: headers of groups, pages, lists of times.
//!
//! Groups of which many series are needed are read completely, together with the lists of times and the
//! headers of other groups; then pages of the latter are read. So a block with a cached footer costs at
//! most two consecutive requests. A group that is completely in memory, as it is after it was written,
//! costs none.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use futures_util::future::join_all;
use roaring::RoaringBitmap;
use sandur_cache::Hint;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{GroupEntry, GroupHead, GroupTables, PageEntry, TimePageEntry, TimeTable};
use sandur_memory::Reservation;
use sandur_model::TimeRange;
use sandur_query::{Error, QueryContext};

use super::holder::Holder;
use super::walk::Found;
use crate::blocks::cache::{Piece, for_the_cache};
use crate::blocks::reader::BlockReader;
use crate::error::{ReadError, or_warn};
use crate::samples::times::KnownTimes;
use crate::samples::{OpenSamples, SAMPLE_BYTES, rising};

/// A group is read completely if at least this fraction of its series is needed (one sixth).
const WHOLE_ONE_IN: u64 = 6;
/// A group of at most this many bytes is read completely.
const WHOLE_BYTES: u32 = 32 << 10;

/// The parts of one block that were read.
pub(super) struct FetchedBlock {
    /// The number of the holder.
    pub(super) holder: usize,
    pub(super) groups: Vec<FetchedGroup>,
    pub(super) times: TimeTable,
}

impl FetchedBlock {
    /// Bytes of the samples of these series, joined with those of other holders, and of the pages that
    /// are decoded at the same time: a page is decoded for its first series and dropped after its last.
    fn decoded_bytes(&self, series: &RangeInclusive<u32>) -> u64 {
        let (mut decoded, mut at_once, mut most, mut joined) = (VecDeque::new(), 0, 0, 0);
        for page in self.groups.iter().flat_map(|group| group.pages_with(series)) {
            while let Some((_, bytes)) = decoded.pop_front_if(|(last, _)| *last < page.first_series) {
                at_once -= bytes;
            }
            decoded.push_back((page.last_series, page.memory_bytes()));
            at_once += page.memory_bytes();
            most = most.max(at_once);
            joined += u64::from(page.rows) * SAMPLE_BYTES * 2;
        }
        most + joined
    }
}

/// Stored pages of one group.
pub(super) struct FetchedGroup {
    pub(super) head: Arc<GroupHead>,
    /// The tables of its pages, shared by all parts of the batch.
    pub(super) tables: Arc<GroupTables>,
    /// Numbers of pages with their bytes, ascending.
    pub(super) pages: Vec<(u32, Bytes)>,
}

impl FetchedGroup {
    /// The pages that have some of these series.
    fn pages_with(&self, series: &RangeInclusive<u32>) -> impl Iterator<Item = &PageEntry> {
        let entries = self.pages.iter().map(|(page, _)| &self.head.pages()[*page as usize]);
        let (first, last) = (*series.start(), *series.end());
        entries.filter(move |page| page.first_series <= last && page.last_series >= first)
    }

    fn new(head: Arc<GroupHead>, pages: Vec<(u32, Bytes)>) -> Self {
        Self { tables: head.tables(), head, pages }
    }
}

/// Reads batches of one scan. Cheap to clone.
#[derive(Clone)]
pub(super) struct Fetcher {
    pub(super) reader: BlockReader,
    pub(super) context: QueryContext,
    pub(super) holders: Arc<Vec<Holder>>,
    pub(super) range: TimeRange,
}

/// Batches that were read, with the reservation of the stored bytes.
pub(super) struct Fetched {
    pub(super) blocks: Vec<FetchedBlock>,
    _memory: Reservation,
}

impl Fetched {
    /// Bytes that decoding a batch takes.
    pub(super) fn decoded_bytes(&self, found: &[Found]) -> u64 {
        let of_block = |block: &FetchedBlock| Some(block.decoded_bytes(&series_in(found, block.holder)?));
        let pages: u64 = self.blocks.iter().filter_map(of_block).sum();
        pages + found.iter().map(Found::decoded_bytes).sum::<u64>()
    }
}

/// The range from the first to the last of the series in a holder. Their order is that of the holder.
pub(super) fn series_in(found: &[Found], holder: usize) -> Option<RangeInclusive<u32>> {
    let first = found.iter().find_map(|found| found.ordinal_in(holder))?;
    let last = found.iter().rev().find_map(|found| found.ordinal_in(holder))?;
    Some(first..=last)
}

/// The first reads of a block, before pages of partial groups are read.
struct FirstReads {
    /// Complete groups as they are stored.
    whole: Vec<Bytes>,
    /// Undamaged headers of other groups.
    heads: Vec<(u32, Arc<GroupHead>)>,
    times: TimeTable,
}

impl Fetcher {
    /// An estimate of the number of samples that take this many bytes in the blocks.
    pub(super) fn rows_of(&self, bytes: u64) -> u64 {
        let blocks = self.holders.iter().filter_map(|holder| match holder {
            Holder::Block { block, .. } => Some(&block.meta),
            Holder::Head { .. } => None,
        });
        let (size, rows) = blocks.fold((0, 0), |(size, rows), meta| (size + meta.size, rows + meta.rows));
        // A sample takes at least a twentieth of a byte, and samples in heads are not read.
        (bytes as f64 / (size as f64 / (rows as f64).max(1.0)).max(0.05)) as u64
    }

    /// Reads from all blocks that have these series, concurrently.
    pub(super) async fn fetch(self, batches: Vec<Arc<Vec<Found>>>) -> Result<Fetched, Error> {
        let found = || batches.iter().flat_map(|batch| batch.iter());
        let mut memory = self.context.budget().reserve(found().map(Found::bytes).sum())?;
        let mut reads = Vec::new();
        for (number, holder) in self.holders.iter().enumerate() {
            let Holder::Block { block, .. } = holder else { continue };
            let series = rising(found().filter_map(|found| found.ordinal_in(number)));
            let groups = block.footer.groups_of(&series, self.range);
            if !groups.is_empty() {
                reads.push(self.block(number, Arc::clone(block), series, groups));
            }
        }
        let mut blocks = Vec::with_capacity(reads.len());
        for read in join_all(reads).await {
            if let Some((block, taken)) = read? {
                memory.absorb(taken);
                blocks.push(block);
            }
        }
        Ok(Fetched { blocks, _memory: memory })
    }

    async fn block(
        &self,
        holder: usize,
        block: Arc<OpenSamples>,
        series: RoaringBitmap,
        numbers: Vec<u32>,
    ) -> Result<Option<(FetchedBlock, Reservation)>, Error> {
        let mut memory = self.context.budget().reserve(0)?;
        let entry = |number: &u32| &block.footer.groups()[*number as usize];
        let (whole, partial): (Vec<u32>, Vec<u32>) =
            numbers.iter().copied().partition(|number| is_wanted_whole(entry(number), &series));
        let bytes = |number: &u32| u64::from(entry(number).piece.len);
        let heads = |numbers: &[u32]| numbers.iter().map(|n| entry(n).head_memory_bytes()).sum::<u64>();
        let times: Vec<TimePageEntry> = block
            .footer
            .time_pages_of(&numbers)
            .iter()
            .map(|number| block.footer.time_pages()[*number as usize])
            .collect();
        memory.grow(whole.iter().map(bytes).sum::<u64>() + heads(&whole) + heads(&partial))?;
        memory.grow(times.iter().map(TimePageEntry::memory_bytes).sum())?;
        let kept = self.kept(&block, &partial).await;
        let first = self.first_reads(&block, (&whole, &partial), &kept, &times).await;
        let Some(FirstReads { whole: stored, heads, times }) = or_warn(&self.context, first)? else {
            return Ok(None);
        };
        let mut groups = Vec::with_capacity(whole.len() + partial.len());
        for (number, bytes) in whole.iter().zip(stored) {
            groups.extend(self.whole_group(&block, *number, &bytes, &series).map(|group| (*number, group)));
        }
        let wanted: Vec<_> = heads
            .into_iter()
            .map(|(number, head)| (number, head.pages_of(&series, self.range), head))
            .collect();
        let page_bytes = |(_, pages, head): &(u32, Vec<u32>, Arc<GroupHead>)| {
            pages.iter().map(|page| u64::from(head.pages()[*page as usize].piece.len)).sum::<u64>()
        };
        memory.grow(wanted.iter().map(page_bytes).sum())?;
        let pages = self.pages_of_groups(&block, wanted, &kept).await;
        let Some(pages) = or_warn(&self.context, pages)? else { return Ok(None) };
        groups.extend(pages);
        groups.sort_by_key(|(number, _)| *number);
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Some((FetchedBlock { holder, groups, times }, memory)))
    }

    /// Reads complete groups, headers of others, and lists of times. Uncached parts are read together.
    async fn first_reads(
        &self,
        block: &OpenSamples,
        (whole, partial): (&[u32], &[u32]),
        kept: &HashMap<u32, Bytes>,
        time_pages: &[TimePageEntry],
    ) -> Result<FirstReads, ReadError> {
        let entry = |number: &u32| block.footer.groups()[*number as usize];
        let key = |number: &u32| Piece::GroupHead(entry(number).piece.offset);
        let cache = self.reader.cache();
        let (mut heads, mut unknown) = (Vec::with_capacity(partial.len()), Vec::new());
        for number in partial {
            match cache.get::<GroupHead>(block.meta.id, key(number)) {
                Some(head) => heads.push((*number, head)),
                None => unknown.push(*number),
            }
        }
        let times = KnownTimes::of(&self.reader, block, time_pages);
        let mut pieces: Vec<StoredPiece> = whole.iter().map(|number| entry(number).piece).collect();
        let is_read = |number: &&u32| !kept.contains_key(number);
        pieces.extend(unknown.iter().filter(is_read).map(|number| entry(number).head));
        pieces.extend(times.unknown());
        let mut read = self.pieces(block, &pieces).await?.into_iter();
        let stored: Vec<Bytes> = read.by_ref().take(whole.len()).collect();
        for number in &unknown {
            let Some(bytes) = kept.get(number).cloned().or_else(|| read.next()) else { break };
            let Some(head) = for_the_cache(|| self.sound(block, decode_head(&entry(number), &bytes))) else {
                continue;
            };
            let head = Arc::new(head);
            cache.insert(block.meta.id, key(number), Arc::clone(&head), head.memory_bytes());
            heads.push((*number, head));
        }
        let (times, damaged) = times.with_read(&self.reader, block, read);
        damaged.iter().for_each(|damage| self.context.warn(damage.to_string()));
        Ok(FirstReads { whole: stored, heads, times })
    }

    /// The needed pages of a group that was read completely; `None` if it is damaged.
    fn whole_group(
        &self,
        block: &OpenSamples,
        number: u32,
        bytes: &Bytes,
        series: &RoaringBitmap,
    ) -> Option<FetchedGroup> {
        let group = &block.footer.groups()[number as usize];
        let known = self.reader.cache().get::<GroupHead>(block.meta.id, Piece::GroupHead(group.piece.offset));
        let head = match known {
            Some(head) => head,
            None => Arc::new(self.sound(block, decode_head(group, bytes))?),
        };
        let of = |page: u32| {
            let piece = head.pages()[page as usize].piece;
            let start = (piece.offset - group.piece.offset) as usize;
            (page, bytes.slice(start..start + piece.len as usize))
        };
        let pages: Vec<(u32, Bytes)> = head.pages_of(series, self.range).into_iter().map(of).collect();
        Some(FetchedGroup::new(head, pages))
    }

    /// Reads the needed pages of groups whose headers are known. Those of all groups are read together,
    /// so that pages near each other are read with one request.
    async fn pages_of_groups(
        &self,
        block: &OpenSamples,
        wanted: Vec<(u32, Vec<u32>, Arc<GroupHead>)>,
        kept: &HashMap<u32, Bytes>,
    ) -> Result<Vec<(u32, FetchedGroup)>, ReadError> {
        let piece = |head: &GroupHead, page: u32| head.pages()[page as usize].piece;
        let is_read = |(number, ..): &&(u32, Vec<u32>, Arc<GroupHead>)| !kept.contains_key(number);
        let of_group = |(_, pages, head): &(u32, Vec<u32>, Arc<GroupHead>)| {
            pages.iter().map(|page| piece(head, *page)).collect::<Vec<StoredPiece>>()
        };
        let pieces: Vec<StoredPiece> = wanted.iter().filter(is_read).flat_map(of_group).collect();
        let mut stored = self.pieces(block, &pieces).await?.into_iter();
        let mut groups = Vec::with_capacity(wanted.len());
        for (number, pages, head) in wanted {
            let mut bytes_of = |page: u32| match kept.get(&number) {
                None => stored.next(),
                Some(group) => {
                    let piece = piece(&head, page);
                    let offset = block.footer.groups()[number as usize].piece.offset;
                    let start = (piece.offset - offset) as usize;
                    // A copy, so that the group need not stay in memory.
                    group.get(start..start + piece.len as usize).map(Bytes::copy_from_slice)
                }
            };
            let pages = pages.into_iter().map_while(|page| Some((page, bytes_of(page)?))).collect();
            groups.push((number, FetchedGroup::new(head, pages)));
        }
        Ok(groups)
    }

    /// The groups that are completely in memory.
    async fn kept(&self, block: &OpenSamples, numbers: &[u32]) -> HashMap<u32, Bytes> {
        let piece = |number: &u32| &block.footer.groups()[*number as usize].piece;
        let kept = numbers.iter().map(|number| self.reader.kept(&block.meta, piece(number)));
        let kept = join_all(kept).await;
        numbers.iter().zip(kept).filter_map(|(number, bytes)| Some((*number, bytes?))).collect()
    }

    async fn pieces(&self, block: &OpenSamples, pieces: &[StoredPiece]) -> Result<Vec<Bytes>, ReadError> {
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        let hint = Hint::Scan { bytes: pieces.iter().map(|piece| u64::from(piece.len)).sum() };
        let stored = self.reader.pieces(&block.meta, pieces, hint, self.context.stats()).await?;
        Ok(stored.into_iter().map(|piece| piece.bytes).collect())
    }

    /// Returns the value; adds a warning if it is damaged.
    fn sound<T>(&self, block: &OpenSamples, read: Result<T, sandur_format::Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(reason) => {
                self.context.warn(ReadError::damaged(&block.meta, reason).to_string());
                None
            }
        }
    }
}

fn is_wanted_whole(group: &GroupEntry, series: &RoaringBitmap) -> bool {
    let all = u64::from(group.last_series - group.first_series) + 1;
    let wanted = series.range_cardinality(group.first_series..=group.last_series);
    group.piece.len <= WHOLE_BYTES || wanted * WHOLE_ONE_IN >= all
}

fn decode_head(group: &GroupEntry, bytes: &Bytes) -> Result<GroupHead, sandur_format::Error> {
    let head = bytes.get(..group.head.len as usize).unwrap_or(bytes);
    GroupHead::decode(group, head)
}
