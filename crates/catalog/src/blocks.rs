//! A persistent set of blocks: cloning it is cheap, and a clone never changes.
//!
//! Blocks are stored per dataset and day of their window, ordered by the window's start and the id; an
//! index finds them by id. All parts are shared by `Arc`s: a change copies the one day and the one index
//! shard that it modifies, and only if a clone still uses them.
//!
//! Invariants: the days and the index hold the same blocks; no day and no dataset is empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, TimeRange};

/// At a million blocks a shard holds a thousand, which are copied in tens of microseconds. Copying the
/// list of shards takes about as long as copying one shard.
const SHARDS: usize = 1024;

type Shard = BTreeMap<Id, Arc<BlockMeta>>;

/// All existing blocks.
#[derive(Clone, Debug)]
pub(crate) struct BlockSet {
    datasets: Arc<BTreeMap<Dataset, Arc<DatasetBlocks>>>,
    index: Arc<Vec<Arc<Shard>>>,
    count: usize,
}

/// The blocks of one dataset by day of their window's start (days since the epoch).
#[derive(Clone, Debug, Default)]
struct DatasetBlocks {
    days: BTreeMap<i64, Arc<Day>>,
}

#[derive(Clone, Debug)]
struct Day {
    blocks: Vec<Arc<BlockMeta>>,
    min_ts: i64,
    max_ts: i64,
}

impl Default for BlockSet {
    fn default() -> Self {
        let empty = Arc::new(Shard::new());
        Self { datasets: Arc::default(), index: Arc::new(vec![empty; SHARDS]), count: 0 }
    }
}

impl BlockSet {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn get(&self, id: Id) -> Option<&Arc<BlockMeta>> {
        self.index[shard_of(id)].get(&id)
    }

    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.datasets.keys()
    }

    /// Returns all blocks, by dataset, window and id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BlockMeta>> {
        let datasets = self.datasets.values();
        datasets.flat_map(|d| d.days.values()).flat_map(|d| d.blocks.iter())
    }

    /// Returns the blocks of a dataset whose times overlap `range`, by window and id.
    pub fn of(
        &self,
        dataset: &Dataset,
        range: TimeRange,
    ) -> impl DoubleEndedIterator<Item = &Arc<BlockMeta>> {
        // There are few days. A block may be longer than a day or lie outside its window, so each day is
        // compared by the times of its blocks.
        let days = self.datasets.get(dataset).into_iter().flat_map(|d| d.days.values());
        days.filter(move |d| range.touches(d.min_ts, d.max_ts))
            .flat_map(|d| d.blocks.iter())
            .filter(move |b| range.touches(b.min_ts, b.max_ts))
    }

    /// Adds a block that is not in the set.
    pub fn insert(&mut self, mut meta: BlockMeta) {
        let datasets = Arc::make_mut(&mut self.datasets);
        if let Some((known, _)) = datasets.get_key_value(&meta.dataset) {
            // Blocks of a dataset share one copy of its name.
            meta.dataset = known.clone();
        }
        let dataset = Arc::make_mut(datasets.entry(meta.dataset.clone()).or_default());
        let block = Arc::new(meta);
        match dataset.days.get_mut(&block.day()) {
            Some(day) => Arc::make_mut(day).insert(&block),
            None => {
                let day =
                    Day { min_ts: block.min_ts, max_ts: block.max_ts, blocks: vec![Arc::clone(&block)] };
                dataset.days.insert(block.day(), Arc::new(day));
            }
        }
        let shards = Arc::make_mut(&mut self.index);
        Arc::make_mut(&mut shards[shard_of(block.id)]).insert(block.id, block);
        self.count += 1;
    }

    /// Records that a block holds no lines of deletes that were started by entries up to `through`. Does
    /// nothing if the block does not exist or this is already recorded.
    pub fn mark_clean(&mut self, id: Id, through: u64) {
        let Some(block) = self.get(id).filter(|block| block.deletes_through < through) else { return };
        let meta = BlockMeta { deletes_through: through, ..BlockMeta::clone(block) };
        self.remove(id);
        self.insert(meta);
    }

    /// Removes a block and returns it; `None` when it is not in the set.
    pub fn remove(&mut self, id: Id) -> Option<Arc<BlockMeta>> {
        self.get(id)?;
        let shards = Arc::make_mut(&mut self.index);
        let block = Arc::make_mut(&mut shards[shard_of(id)]).remove(&id)?;
        self.count -= 1;
        let datasets = Arc::make_mut(&mut self.datasets);
        let dataset = Arc::make_mut(datasets.get_mut(&block.dataset).expect("every block has its dataset"));
        let day = dataset.days.get_mut(&block.day()).expect("every block has its day");
        Arc::make_mut(day).remove(&block);
        if day.blocks.is_empty() {
            dataset.days.remove(&block.day());
        }
        if dataset.days.is_empty() {
            datasets.remove(&block.dataset);
        }
        Some(block)
    }
}

impl Day {
    fn insert(&mut self, block: &Arc<BlockMeta>) {
        self.min_ts = self.min_ts.min(block.min_ts);
        self.max_ts = self.max_ts.max(block.max_ts);
        let at = self.blocks.partition_point(|b| order(b) < order(block));
        self.blocks.insert(at, Arc::clone(block));
    }

    fn remove(&mut self, block: &BlockMeta) {
        self.blocks.retain(|b| b.id != block.id);
        self.min_ts = self.blocks.iter().map(|b| b.min_ts).min().unwrap_or(i64::MAX);
        self.max_ts = self.blocks.iter().map(|b| b.max_ts).max().unwrap_or(i64::MIN);
    }
}

fn order(block: &BlockMeta) -> (i64, Id) {
    (block.window.start, block.id)
}

fn shard_of(id: Id) -> usize {
    // The low bits of an id are random; the high ones are time.
    (id.0 % SHARDS as u128) as usize
}

#[cfg(test)]
mod tests {
    use sandur_model::TenantId;

    use super::*;
    use crate::test_blocks::block;

    fn logs(tenant: &str) -> Dataset {
        Dataset::logs(TenantId::new(tenant).unwrap())
    }

    const HOUR: i64 = 3_600_000_000_000;

    fn ids<'a>(blocks: impl Iterator<Item = &'a Arc<BlockMeta>>) -> Vec<u128> {
        blocks.map(|b| b.id.0).collect()
    }

    #[test]
    fn blocks_are_found_by_time_in_order_of_their_windows() {
        let mut set = BlockSet::default();
        let (a, b) = (logs("a"), logs("b"));
        for (id, hour) in [(1, 30), (2, 5), (3, 5), (4, 49)] {
            set.insert(block(id, "a", hour));
        }
        set.insert(block(9, "b", 5));
        assert_eq!(ids(set.of(&a, TimeRange::ALL)), [2, 3, 1, 4]);
        assert_eq!(ids(set.of(&a, TimeRange::ALL).rev()), [4, 1, 3, 2]);
        assert_eq!(ids(set.of(&a, TimeRange::new(5 * HOUR, 31 * HOUR))), [2, 3, 1]);
        assert_eq!(ids(set.of(&a, TimeRange::new(6 * HOUR, 30 * HOUR))), []);
        assert_eq!(ids(set.of(&b, TimeRange::ALL)), [9]);
        assert_eq!(set.datasets().cloned().collect::<Vec<_>>(), [a.clone(), b.clone()]);
        assert_eq!(set.remove(Id(9)).unwrap().id, Id(9));
        assert!(set.remove(Id(9)).is_none());
        assert_eq!(set.datasets().count(), 1);
        assert_eq!((set.len(), ids(set.iter())), (4, vec![2, 3, 1, 4]));
    }

    #[test]
    fn a_block_that_is_longer_than_its_day_is_found_by_its_times() {
        let mut set = BlockSet::default();
        let dataset = logs("a");
        let long = BlockMeta { max_ts: 80 * HOUR, ..block(1, "a", 2) };
        set.insert(long);
        assert_eq!(ids(set.of(&dataset, TimeRange::new(70 * HOUR, 71 * HOUR))), [1]);
        set.insert(block(2, "a", 3));
        set.remove(Id(1));
        assert_eq!(ids(set.of(&dataset, TimeRange::new(70 * HOUR, 71 * HOUR))), []);
    }

    #[test]
    fn signals_of_a_tenant_are_separate() {
        let mut set = BlockSet::default();
        let metrics = Dataset::metrics(TenantId::new("a").unwrap());
        set.insert(block(1, "a", 5));
        set.insert(BlockMeta { dataset: metrics.clone(), ..block(2, "a", 5) });
        assert_eq!(
            (ids(set.of(&logs("a"), TimeRange::ALL)), ids(set.of(&metrics, TimeRange::ALL))),
            (vec![1], vec![2])
        );
        assert_eq!(ids(set.iter()), [1, 2]);
        set.remove(Id(2));
        assert_eq!(set.datasets().cloned().collect::<Vec<_>>(), [logs("a")]);
    }

    #[test]
    fn a_clone_does_not_see_later_changes() {
        let mut set = BlockSet::default();
        for id in 0..2_000 {
            set.insert(block(id, "a", (id % 100) as i64));
        }
        let before = set.clone();
        set.remove(Id(5));
        set.insert(block(5_000, "c", 1));
        assert!(before.get(Id(5)).is_some() && before.get(Id(5_000)).is_none());
        assert_eq!((before.iter().count(), before.len()), (2_000, 2_000));
        assert_eq!((set.iter().count(), set.len()), (2_000, 2_000));
    }
}
