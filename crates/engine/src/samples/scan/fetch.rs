//! Reads what a batch of series needs of blocks: heads of groups, pages, lists of times.
//!
//! Of a group of which many series are wanted, all is read with one request; of others first the head and
//! then the pages. So a block whose footer is known costs at most two requests after each other. A group that
//! is in memory as a whole, as it is after it was written, costs none.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use futures_util::future::{join, join_all};
use roaring::RoaringBitmap;
use sandur_base::Reservation;
use sandur_cache::Hint;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{GroupEntry, GroupHead, GroupTables, TimePageEntry, TimeTable};
use sandur_model::TimeRange;
use sandur_query::{Error, QueryContext};

use super::Holder;
use super::walk::Found;
use crate::block_cache::Piece;
use crate::block_reader::{BlockReader, ReadError, or_warn};
use crate::samples::times::read_times;
use crate::samples::{OpenSamples, SAMPLE_BYTES};

/// A group is read as a whole when at least one of so many of its series is wanted.
const WHOLE_ONE_IN: u64 = 6;
/// A group of fewer bytes is read as a whole.
const WHOLE_BYTES: u32 = 32 << 10;

/// What was read of one block.
pub(super) struct FetchedBlock {
    /// Which holder the block is.
    pub(super) holder: usize,
    pub(super) groups: Vec<FetchedGroup>,
    pub(super) times: TimeTable,
    /// Bytes that decoding its pages takes.
    pub(super) decoded_bytes: u64,
}

/// Pages of one group, as they are stored.
pub(super) struct FetchedGroup {
    pub(super) head: Arc<GroupHead>,
    /// Tables of its pages, which all parts of the batch decode with.
    pub(super) tables: Arc<GroupTables>,
    /// Numbers of pages and their bytes, rising.
    pub(super) pages: Vec<(u32, Bytes)>,
}

impl FetchedGroup {
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

/// A batch that is read, and the memory that it takes as it is stored.
pub(super) struct Fetched {
    pub(super) found: Arc<Vec<Found>>,
    pub(super) blocks: Vec<FetchedBlock>,
    pub(super) memory: Reservation,
}

impl Fetcher {
    /// Reads from all blocks that hold these series, at the same time.
    pub(super) async fn fetch(self, found: Arc<Vec<Found>>) -> Result<Fetched, Error> {
        let mut memory = self.context.budget().reserve(found.iter().map(Found::bytes).sum())?;
        let mut reads = Vec::new();
        for (number, holder) in self.holders.iter().enumerate() {
            let Holder::Block { block, .. } = holder else { continue };
            let series: RoaringBitmap = found.iter().filter_map(|found| found.ordinal_in(number)).collect();
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
        Ok(Fetched { found, blocks, memory })
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
        let time_pages: Vec<TimePageEntry> = block
            .footer
            .time_pages_of(&numbers)
            .iter()
            .map(|number| block.footer.time_pages()[*number as usize])
            .collect();
        memory.grow(whole.iter().map(bytes).sum::<u64>() + heads(&whole) + heads(&partial))?;
        memory.grow(time_pages.iter().map(TimePageEntry::memory_bytes).sum())?;
        let (groups, times) = join(
            self.groups(&block, &series, (&whole, &partial)),
            read_times(&self.reader, &block, &time_pages, self.context.stats()),
        )
        .await;
        let (groups, times) = (or_warn(&self.context, groups)?, or_warn(&self.context, times)?);
        let (Some((mut groups, pages, decoded_bytes)), Some((times, damaged))) = (groups, times) else {
            return Ok(None);
        };
        damaged.iter().for_each(|damage| self.context.warn(damage.to_string()));
        memory.absorb(pages?);
        groups.sort_by_key(|(number, _)| *number);
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Some((FetchedBlock { holder, groups, times, decoded_bytes }, memory)))
    }

    /// The wanted pages of groups that are read as a whole and of others; and the bytes that decoding them
    /// takes.
    async fn groups(
        &self,
        block: &OpenSamples,
        series: &RoaringBitmap,
        (whole, partial): (&[u32], &[u32]),
    ) -> Result<(Vec<(u32, FetchedGroup)>, Result<Reservation, Error>, u64), ReadError> {
        let entry = |number: &u32| block.footer.groups()[*number as usize];
        let pieces: Vec<StoredPiece> = whole.iter().map(|number| entry(number).piece).collect();
        let kept = self.kept(block, partial).await;
        let (stored, heads) = join(self.pieces(block, &pieces), self.heads(block, partial, &kept)).await;
        let mut groups = Vec::with_capacity(whole.len() + partial.len());
        let mut decoded = 0;
        for (number, bytes) in whole.iter().zip(stored?) {
            let group = entry(number);
            let Some(head) = self.sound(block, decode_head(&group, &bytes)) else { continue };
            let of = |page: u32| {
                let piece = head.pages()[page as usize].piece;
                let start = (piece.offset - group.piece.offset) as usize;
                (page, bytes.slice(start..start + piece.len as usize))
            };
            let pages: Vec<(u32, Bytes)> = head.pages_of(series, self.range).into_iter().map(of).collect();
            decoded += memory_of(&head, pages.iter().map(|(page, _)| *page));
            groups.push((*number, FetchedGroup::new(Arc::new(head), pages)));
        }
        let heads = heads?;
        let wanted: Vec<Vec<u32>> = heads.iter().map(|(_, head)| head.pages_of(series, self.range)).collect();
        let mut stored = 0;
        for ((_, head), pages) in heads.iter().zip(&wanted) {
            decoded += memory_of(head, pages.iter().copied());
            stored += pages.iter().map(|page| u64::from(head.pages()[*page as usize].piece.len)).sum::<u64>();
        }
        let memory = match self.context.budget().reserve(stored) {
            Ok(memory) => memory,
            Err(refusal) => return Ok((Vec::new(), Err(refusal.into()), 0)),
        };
        // Those of all groups together: what is near each other is read with one request.
        let of_group = |((_, head), pages): (&(u32, Arc<GroupHead>), &Vec<u32>)| {
            pages.iter().map(|page| head.pages()[*page as usize].piece).collect::<Vec<StoredPiece>>()
        };
        let is_read = |((number, _), _): &(&(u32, Arc<GroupHead>), &Vec<u32>)| !kept.contains_key(number);
        let pieces: Vec<StoredPiece> = heads.iter().zip(&wanted).filter(is_read).flat_map(of_group).collect();
        let mut stored = self.pieces(block, &pieces).await?.into_iter();
        for ((number, head), pages) in heads.into_iter().zip(wanted) {
            let mut bytes_of = |page: u32| match kept.get(&number) {
                None => stored.next(),
                Some(group) => {
                    let piece = head.pages()[page as usize].piece;
                    let start = (piece.offset - entry(&number).piece.offset) as usize;
                    // A copy, so that the group need not stay.
                    group.get(start..start + piece.len as usize).map(Bytes::copy_from_slice)
                }
            };
            let pages = pages.into_iter().map_while(|page| Some((page, bytes_of(page)?))).collect();
            groups.push((number, FetchedGroup::new(head, pages)));
        }
        Ok((groups, Ok(memory), decoded))
    }

    /// Those of the groups that need not be read.
    async fn kept(&self, block: &OpenSamples, numbers: &[u32]) -> HashMap<u32, Bytes> {
        let piece = |number: &u32| &block.footer.groups()[*number as usize].piece;
        let kept = numbers.iter().map(|number| self.reader.kept(&block.meta, piece(number)));
        let kept = join_all(kept).await;
        numbers.iter().zip(kept).filter_map(|(number, bytes)| Some((*number, bytes?))).collect()
    }

    /// Heads of groups, those that are not known read together.
    async fn heads(
        &self,
        block: &OpenSamples,
        numbers: &[u32],
        kept: &HashMap<u32, Bytes>,
    ) -> Result<Vec<(u32, Arc<GroupHead>)>, ReadError> {
        let entry = |number: &u32| block.footer.groups()[*number as usize];
        let key = |number: &u32| Piece::GroupHead(entry(number).piece.offset);
        let mut heads: Vec<(u32, Arc<GroupHead>)> = Vec::with_capacity(numbers.len());
        let mut unknown = Vec::new();
        for number in numbers {
            match self.reader.cache().get::<GroupHead>(block.meta.id, key(number)) {
                Some(head) => heads.push((*number, head)),
                None => unknown.push(*number),
            }
        }
        let is_read = |number: &&u32| !kept.contains_key(number);
        let pieces: Vec<StoredPiece> =
            unknown.iter().filter(is_read).map(|number| entry(number).head).collect();
        let mut read = self.pieces(block, &pieces).await?.into_iter();
        for number in &unknown {
            let Some(bytes) = kept.get(number).cloned().or_else(|| read.next()) else { break };
            let Some(head) = self.sound(block, decode_head(&entry(number), &bytes)) else { continue };
            let head = Arc::new(head);
            self.reader.cache().insert(block.meta.id, key(number), Arc::clone(&head), head.memory_bytes());
            heads.push((*number, head));
        }
        Ok(heads)
    }

    async fn pieces(&self, block: &OpenSamples, pieces: &[StoredPiece]) -> Result<Vec<Bytes>, ReadError> {
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        let hint = Hint::Scan { bytes: pieces.iter().map(|piece| u64::from(piece.len)).sum() };
        let stored = self.reader.pieces(&block.meta, pieces, hint, self.context.stats()).await?;
        Ok(stored.into_iter().map(|piece| piece.bytes).collect())
    }

    /// What is sound; of damage a warning.
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

/// Bytes of pages decoded, and put together with what others hold.
fn memory_of(head: &GroupHead, pages: impl Iterator<Item = u32>) -> u64 {
    let entries = pages.map(|page| &head.pages()[page as usize]);
    entries.map(|page| page.memory_bytes() + u64::from(page.rows) * SAMPLE_BYTES * 2).sum()
}
