//! Both tiers as one: implements [`Cache`](crate::Cache) under the lock of a key's shard.
//!
//! A key is in memory, only on flash, or in no tier. Memory is authoritative: flash may hold a copy of
//! the same version (`Record::on_flash`), and never holds a newer or an older one.
//!
//! **Why no stale value is ever served.** Every write or removal of a key changes both tiers before it
//! releases the shard's lock. A read of flash begins with a look at the index under that lock. Its
//! result enters memory only under the lock again, and only if the key is still in the same record of
//! the same segment and the flush epoch is still that of the first look.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_runtime::Env;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::device::Device;
use crate::error::Error;
use crate::flash::{FlashItem, FlashOptions, FlashRead, ReadFuture};
use crate::flash_tier::{FlashPlace, FlashTier};
use crate::flights::Flights;
use crate::forecast::Forecaster;
use crate::hint::Hint;
use crate::item::{Item, ItemMeta, Tier, Value};
use crate::latency::Histogram;
use crate::options::{CacheOptions, LEAST_MEMORY, LONGEST_KEY};
use crate::policy::Churn;
use crate::predict::{Event, Report};
use crate::promotion::Promotion;
use crate::ram::{Dead, Epochs, Evictor, Locked, Moment, Ram, Record};
use crate::request::{Answer, Applied, Change, Pending, Put, Read, Revision, Stored};
use crate::unix_seconds::unix_seconds;

/// Writes between two updates of the memory that the flash tier's index occupies.
const INDEX_LOOK: u64 = 4096;
/// One lookup in 64 is timed: reading the clock twice costs as much as a hit should.
const TIMED: u64 = 64;
/// Smallest size of the device's write buffers, and of its read buffers: some buffers for each class of
/// records.
const LEAST_BUFFERS: u64 = 4 << 20;

pub(crate) struct Inner {
    pub env: Env,
    pub options: CacheOptions,
    /// Seed of the hash of keys. Flash has its own; this one is used without flash.
    pub seed: u64,
    pub ram: Ram,
    pub flash: Option<Arc<FlashTier>>,
    pub churn: Arc<Churn>,
    pub epochs: Epochs,
    /// The version number of the next write.
    pub next_cas: AtomicU64,
    pub stored: AtomicU64,
    pub flights: Flights,
    /// A [`Promotion`].
    pub promotion: AtomicU8,
    pub ram_latency: Histogram,
    pub forecaster: Option<Forecaster>,
    /// Memory of the flash tier's index that is counted against the limit now.
    pub index_memory: Mutex<Reservation>,
    /// Memory of the flash tier's buffers.
    pub _buffers: Option<Reservation>,
}

/// Bounds the memory of flash options by parts of `memory`: an eighth for writes, an eighth for reads
/// under way, half for the index. The buffers of a cache that is too small for [`LEAST_BUFFERS`] are
/// beyond its memory.
fn within(memory: u64, wanted: FlashOptions) -> FlashOptions {
    let buffers = (memory / 8).max(LEAST_BUFFERS);
    FlashOptions {
        write_buffer_bytes: wanted.write_buffer_bytes.min(buffers),
        read_buffer_bytes: wanted.read_buffer_bytes.min(buffers),
        index_bytes_max: wanted.index_bytes_max.min(memory / 2),
        ..wanted
    }
}

/// Where a key is.
enum Place {
    Ram(Item),
    Flash(FlashPlace),
    Nowhere,
}

/// The answer to a lookup before the device is read.
pub(crate) enum Look {
    Hit(Item),
    Miss,
    OnFlash(Lead),
}

/// What a read of flash compares after it: the key's place and the time of the look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    pub hash: u64,
    pub spot: FlashPlace,
    at: Moment,
}

impl Inner {
    /// Opens both tiers. With `device`, flash is on it instead of on the files that `options` name.
    pub fn open(env: &Env, options: CacheOptions, device: Option<Arc<dyn Device>>) -> Result<Self, Error> {
        if options.memory < LEAST_MEMORY {
            return Err(Error::TooLittleMemory { limit: options.memory, least: LEAST_MEMORY });
        }
        if let Some((tenant, part)) = options.tenant_caps.first_wrong() {
            return Err(Error::TenantCap { tenant, part });
        }
        let of_its_own = || MemoryBudget::root("cache", options.memory);
        let memory = options.budget.clone().unwrap_or_else(of_its_own);
        let churn = Arc::new(Churn::new());
        let (mut flash, mut buffers) = (None, None);
        if let Some(wanted) = &options.flash {
            let wanted = within(options.memory, wanted.clone());
            let bytes = wanted.write_buffer_bytes + wanted.read_buffer_bytes;
            buffers = if bytes <= options.memory / 4 { memory.reserve(bytes).ok() } else { None };
            flash = Some(Arc::new(FlashTier::open(
                env,
                (wanted, device),
                &options,
                (Arc::clone(&churn), memory.clone()),
            )?));
        }
        let capacity = flash.as_ref().map_or(0, |flash| flash.capacity());
        let forecaster = Forecaster::new(&memory, &options, capacity, unix_seconds(env));
        let index_memory = memory.empty();
        let evictor =
            Evictor { listener: options.listener.clone(), churn: Arc::clone(&churn), flash: flash.clone() };
        // Version numbers of an earlier run must not be issued again: flash may hold items with them.
        let first_cas = if flash.is_some() { env.now_ns().max(1) as u64 } else { 1 };
        Ok(Self {
            env: env.clone(),
            ram: Ram::new(memory, options.evict, evictor),
            options,
            seed: env.random_u64(),
            flash,
            churn,
            epochs: Epochs::default(),
            next_cas: AtomicU64::new(first_cas),
            stored: AtomicU64::new(0),
            flights: Flights::default(),
            promotion: AtomicU8::new(Promotion::default() as u8),
            ram_latency: Histogram::default(),
            forecaster,
            index_memory: Mutex::new(index_memory),
            _buffers: buffers,
        })
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        match &self.flash {
            Some(flash) => flash.hash(key),
            None => xxh3_64_with_seed(key, self.seed),
        }
    }

    pub fn moment(&self) -> Moment {
        let now = unix_seconds(&self.env);
        let flush_flash = || self.flash.iter().for_each(|flash| flash.flush_all());
        Moment { now, epoch: self.epochs.at(now, flush_flash) }
    }

    /// Looks a key up without reading the device.
    pub fn look(&self, hash: u64, key: &[u8], read: &Read, at: Moment) -> Look {
        let timed = hash.is_multiple_of(TIMED).then(|| self.env.monotonic());
        let mut shard = self.ram.lock(hash);
        let hit = shard.with(hash, key, (at, !read.quiet), |record, counts| {
            counts.hits += 1;
            let item = record.item(read);
            counts.hit_bytes += self.footprint(key.len(), item.length);
            if !read.quiet {
                record.access(at.now);
            }
            if let Some(expires_at) = read.expires_at {
                self.set_expiry(hash, record, expires_at);
            }
            item
        });
        let look = match hit {
            Ok(item) => Look::Hit(item),
            Err(why) => match self.below((hash, key), why, read, at) {
                Place::Flash(spot) => Look::OnFlash(Lead { hash, spot, at }),
                Place::Ram(item) => {
                    shard.counts().hits += 1;
                    shard.counts().hit_bytes += self.footprint(key.len(), item.length);
                    Look::Hit(item)
                }
                Place::Nowhere => {
                    shard.counts().count_miss(why);
                    if !read.quiet {
                        self.flash.iter().for_each(|flash| flash.count_miss(hash));
                    }
                    Look::Miss
                }
            },
        };
        drop(shard);
        if let Some(forecaster) = self.forecaster.as_ref().filter(|_| !read.quiet) {
            match &look {
                Look::Hit(item) => {
                    let bytes = forecaster.footprint(key.len(), item.length);
                    forecaster.saw(hash, Event::Hit { bytes }, read.hint, at.now);
                }
                Look::Miss => forecaster.saw(hash, Event::Miss, read.hint, at.now),
                // Reported when the device has answered.
                Look::OnFlash(_) => {}
            }
        }
        if let (Some(since), Look::Hit(_)) = (timed, &look) {
            self.ram_latency.note(self.env.monotonic().saturating_sub(since));
        }
        look
    }

    fn locate(&self, shard: &mut Locked, hash: u64, key: &[u8], at: Moment, counted: bool) -> Place {
        match shard.with(hash, key, (at, counted), |record, _| record.item(&Read::default())) {
            Ok(item) => Place::Ram(item),
            Err(why) => self.below((hash, key), why, &Read { quiet: !counted, ..Read::default() }, at),
        }
    }

    /// Finds a key that is not live in memory: queued to be written to flash, or on flash.
    fn below(&self, (hash, key): (u64, &[u8]), why: Option<Dead>, read: &Read, at: Moment) -> Place {
        let Some(flash) = &self.flash else { return Place::Nowhere };
        if why.is_some() {
            // Memory is authoritative: the copy on flash is dead too.
            flash.forget(hash);
            return Place::Nowhere;
        }
        let Some(record) = flash.waiting(hash) else {
            return flash.find(hash, !read.quiet).map_or(Place::Nowhere, Place::Flash);
        };
        if record.key() != key || record.dead(at).is_some() {
            return Place::Nowhere;
        }
        if let Some(expires_at) = read.expires_at {
            flash.touch(hash, expires_at);
        }
        Place::Ram(record.item(read))
    }

    /// Starts the reads of several keys at once.
    pub fn start_reads(&self, leads: &[(&[u8], Lead)], read: &Read) -> Vec<ReadFuture> {
        let Some(flash) = &self.flash else { return Vec::new() };
        let mut reads = Vec::with_capacity(leads.len());
        for (key, lead) in leads {
            let (hash, location, range) = (lead.hash, lead.spot.location, read.range.clone());
            reads.push(FlashRead { key, hash, location, range });
        }
        flash.read(&reads)
    }

    /// Waits for a read and copies its value into memory if it is likely to be read again.
    pub async fn finish_read(
        self: Arc<Self>,
        key: Box<[u8]>,
        lead: Lead,
        read: Read,
        reading: ReadFuture,
    ) -> Option<Item> {
        let since = self.env.monotonic();
        let found = reading.await;
        let flash = self.flash.as_ref()?;
        flash.count_read(found.is_some(), since);
        let length = found.as_ref().map(|found| found.value_bytes);
        self.report_flash_answer((lead.hash, &key), length, &read, lead.at);
        let found = found?;
        let is_whole = read.range.is_none();
        if is_whole && !read.quiet {
            let mut shard = self.ram.lock(lead.hash);
            if self.is_current(&mut shard, &key, lead) && self.is_wanted_again(&mut shard, lead.hash) {
                self.promote(&mut shard, &key, lead, &found);
            }
        }
        Some(item_from(found, lead.at))
    }

    /// Whether an item that was read from flash gets a place in memory.
    fn is_wanted_again(&self, shard: &mut Locked, hash: u64) -> bool {
        let (is_again, has_room) = (shard.was_read_lately(hash), shard.has_room_to_spare());
        if !has_room && self.flash.as_ref().is_some_and(|flash| flash.is_nearly_full()) {
            // Here a copy of a value that is on flash would evict one that flash cannot accept now.
            return false;
        }
        match Promotion::from_number(self.promotion.load(Ordering::Relaxed)) {
            Promotion::Worthy => is_again || has_room,
            Promotion::Again => is_again,
            Promotion::Never => false,
            Promotion::Always => true,
        }
    }

    /// Reports to the predictor a lookup that needed the device, with the length of the value if it was
    /// found.
    pub fn report_flash_answer(
        &self,
        (hash, key): (u64, &[u8]),
        length: Option<u64>,
        read: &Read,
        at: Moment,
    ) {
        if let Some(forecaster) = self.forecaster.as_ref().filter(|_| !read.quiet) {
            let found = length.map(|length| forecaster.footprint(key.len(), length));
            forecaster.flash_answered(hash, found, read.hint, at.now);
        }
    }

    fn footprint(&self, key: usize, value: u64) -> u64 {
        self.forecaster.as_ref().map_or(0, |forecaster| u64::from(forecaster.footprint(key, value)))
    }

    /// Estimates hit ratios at other sizes; `None` when the cache is too small for a predictor.
    pub fn prediction(&self) -> Option<Report> {
        let (counts, _) = self.ram.counts();
        self.forecaster.as_ref().map(|forecaster| forecaster.report(&counts, unix_seconds(&self.env)))
    }

    /// Whether the key has not changed since the look.
    fn is_current(&self, shard: &mut Locked, key: &[u8], lead: Lead) -> bool {
        let Some(flash) = &self.flash else { return false };
        let at = self.moment();
        at.epoch == lead.at.epoch
            && shard.find(lead.hash, key, at, false).is_err()
            && flash.find(lead.hash, false) == Some(lead.spot)
    }

    /// Copies an item into memory. Returns whether there was room.
    fn promote(&self, shard: &mut Locked, key: &[u8], lead: Lead, found: &FlashItem) -> bool {
        let weight = Record::weight_of(key.len(), found.value.len());
        let Some(reserved) = shard.make_room(weight, lead.at) else { return false };
        shard.store(lead.hash, Record::from_flash(key, found, lead.at), reserved, lead.at);
        if let Some(flash) = &self.flash {
            flash.promoted.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Runs `act` on the present item of a key as one atomic step; at once unless the key is only on
    /// flash.
    pub fn with_present<R, A>(self: &Arc<Self>, key: &[u8], act: A) -> Answer<R>
    where
        A: FnOnce(&Self, &mut Locked, Present) -> R + Send + 'static,
        R: Send + 'static,
    {
        let hash = self.hash(key);
        let at = self.moment();
        let mut shard = self.ram.lock(hash);
        let item = match self.locate(&mut shard, hash, key, at, false) {
            Place::Ram(item) => Some(item),
            Place::Nowhere => None,
            Place::Flash(_) => {
                drop(shard);
                return Answer::Pending(Pending::new(Arc::clone(self).with_read(key.into(), act)));
            }
        };
        Answer::Ready(act(self, &mut shard, Present { hash, key, at, item }))
    }

    /// As [`Self::with_present`] for a key that is on flash: reads its value first. Starts again when
    /// another call has changed the key meanwhile, which means that the other call made progress.
    async fn with_read<R, A>(self: Arc<Self>, key: Box<[u8]>, act: A) -> R
    where
        A: FnOnce(&Self, &mut Locked, Present) -> R + Send + 'static,
    {
        let hash = self.hash(&key);
        // A place at which a read found nothing of this key.
        let mut empty: Option<FlashPlace> = None;
        loop {
            let at = self.moment();
            let (lead, reading) = {
                let mut shard = self.ram.lock(hash);
                let item = match self.locate(&mut shard, hash, &key, at, true) {
                    Place::Flash(spot) if empty != Some(spot) => Err(spot),
                    Place::Ram(item) => Ok(Some(item)),
                    Place::Flash(_) | Place::Nowhere => Ok(None),
                };
                let spot = match item {
                    Err(spot) => spot,
                    Ok(item) => return act(&self, &mut shard, Present { hash, key: &key, at, item }),
                };
                let lead = Lead { hash, spot, at };
                (lead, self.start_reads(&[(&key, lead)], &Read::default()).pop())
            };
            let since = self.env.monotonic();
            let found = match reading {
                Some(reading) => reading.await,
                None => None,
            };
            if let Some(flash) = &self.flash {
                flash.count_read(found.is_some(), since);
            }
            let Some(found) = found else {
                empty = Some(lead.spot);
                continue;
            };
            let mut shard = self.ram.lock(hash);
            if self.is_current(&mut shard, &key, lead) {
                self.promote(&mut shard, &key, lead, &found);
                let item = Some(item_from(found, at));
                return act(&self, &mut shard, Present { hash, key: &key, at, item });
            }
        }
    }

    /// Applies the change that a read-modify-write decided on.
    pub fn apply(&self, shard: &mut Locked, present: &Present, change: Change) -> Applied {
        let Present { hash, key, at, .. } = *present;
        match change {
            Change::Keep => Applied::Kept,
            Change::Remove if present.item.is_none() => Applied::Kept,
            Change::Remove => {
                self.discard(shard, hash, key);
                shard.counts().removed += 1;
                Applied::Removed
            }
            Change::Revise(revision) => self.revise(shard, present, &revision),
            Change::Write(value, put) => Applied::Written(self.store(shard, (hash, key), value, &put, at)),
        }
    }

    fn revise(&self, shard: &mut Locked, present: &Present, revision: &Revision) -> Applied {
        let Present { hash, key, at, ref item } = *present;
        if let Ok(record) = shard.find(hash, key, at, revision.accessed) {
            let marks = record.marks();
            record.revise(revision, at.now);
            if let Some(expires_at) = revision.expires_at {
                self.set_expiry(hash, record, expires_at);
            }
            if let Some(flash) = &self.flash
                && record.on_flash
                && (revision.cas.is_some() || record.marks() != marks)
            {
                // The copy on flash is now of another version.
                flash.forget(hash);
                record.on_flash = false;
            }
            return Applied::Revised;
        }
        // The value was read from flash, and memory has no room for it: write it again with the new
        // metadata.
        let Some(item) = item else { return Applied::Kept };
        let put = Put {
            flags: item.flags,
            expires_at: revision.expires_at.unwrap_or(item.expires_at),
            cas: Some(revision.cas.unwrap_or(item.cas)),
            stale: revision.stale.unwrap_or(item.meta.stale),
            won: revision.won.unwrap_or(item.meta.won),
            ..Put::default()
        };
        match self.store(shard, (hash, key), item.value.clone().into_bytes(), &put, at) {
            Stored::Done { .. } => Applied::Revised,
            _ => Applied::Removed,
        }
    }

    fn set_expiry(&self, hash: u64, record: &mut Record, expires_at: u32) {
        record.expires_at = expires_at;
        if let Some(flash) = &self.flash
            && record.on_flash
        {
            record.on_flash = flash.touch(hash, expires_at);
        }
    }

    /// Stores a value. On failure removes the item that it was to replace.
    pub fn store(
        &self,
        shard: &mut Locked,
        (hash, key): (u64, &[u8]),
        value: Bytes,
        put: &Put,
        at: Moment,
    ) -> Stored {
        let limit = self.options.max_value;
        if value.len() as u64 > limit || key.len() > LONGEST_KEY {
            self.discard(shard, hash, key);
            return Stored::TooLarge { limit };
        }
        let reserved = shard.make_room(Record::weight_of(key.len(), value.len()), at);
        let cas = put.cas.unwrap_or_else(|| self.next_cas.fetch_add(1, Ordering::Relaxed));
        let length = value.len() as u64;
        let mut record = Record::new(key, value, put, cas, at);
        match reserved {
            Some(reserved) => {
                let was_on_flash;
                (record.on_flash, was_on_flash) = self.write_through(hash, &record);
                let was_there = shard.store(hash, record, reserved, at) || was_on_flash;
                self.report_stored(shard, (hash, key), length, (put.hint, was_there), at);
            }
            None => {
                // Memory has no room for it; flash may have.
                shard.take(hash, key);
                if !self.flash.as_ref().is_some_and(|flash| flash.offer(hash, &record, 0)) {
                    shard.counts().refused += 1;
                    return Stored::NoMemory;
                }
            }
        }
        if self.stored.fetch_add(1, Ordering::Relaxed).is_multiple_of(INDEX_LOOK) {
            self.settle_index();
        }
        Stored::Done { cas }
    }

    fn report_stored(
        &self,
        shard: &mut Locked,
        (hash, key): (u64, &[u8]),
        length: u64,
        (hint, was_there): (Hint, bool),
        at: Moment,
    ) {
        let Some(forecaster) = &self.forecaster else { return };
        let bytes = forecaster.footprint(key.len(), length);
        // A value stored under a key that was in no tier answers a miss, unless it is new data.
        let is_fill = !was_there && hint != Hint::Ingest;
        let event = if is_fill { Event::Fill { bytes } } else { Event::Put { bytes } };
        shard.counts().filled_bytes += if is_fill { u64::from(bytes) } else { 0 };
        forecaster.saw(hash, event, hint, at.now);
    }

    /// Offers a new value to flash and removes an older version there. Returns whether it was written
    /// and, if not, whether there was an older version.
    fn write_through(&self, hash: u64, record: &Record) -> (bool, bool) {
        let Some(flash) = &self.flash else { return (false, false) };
        if flash.offer_stored(hash, record) { (true, false) } else { (false, flash.forget(hash)) }
    }

    /// Removes a key from every tier. Returns whether it was in one.
    pub fn discard(&self, shard: &mut Locked, hash: u64, key: &[u8]) -> bool {
        let was_in_memory = shard.take(hash, key).is_some();
        // An expired copy on flash does not count as removed, but is removed as well.
        let was_on_flash = self.flash.as_ref().is_some_and(|flash| {
            let is_live = flash.still_has(hash, false);
            flash.forget(hash) && is_live
        });
        if let Some(forecaster) = &self.forecaster {
            forecaster.saw(hash, Event::Removed, Hint::default(), unix_seconds(&self.env));
        }
        was_in_memory || was_on_flash
    }

    /// Counts the memory of the flash tier's index against the limit.
    pub fn settle_index(&self) {
        let Some(flash) = &self.flash else { return };
        let mut reserved = self.index_memory.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.resize_anyway(flash.index_bytes());
    }
}

/// A key and its present item, for a step under its shard's lock.
pub(crate) struct Present<'a> {
    pub hash: u64,
    pub key: &'a [u8],
    pub at: Moment,
    pub item: Option<Item>,
}

fn item_from(found: FlashItem, at: Moment) -> Item {
    let meta = ItemMeta {
        accessed_at: at.now,
        stored_at: at.now,
        fetched: true,
        stale: found.marks.stale,
        won: found.marks.won,
        tier: Tier::Flash,
        on_flash: true,
    };
    let FlashItem { value, value_bytes, flags, cas, expires_at, .. } = found;
    Item { value: Value::from(value), length: value_bytes, flags, cas, expires_at, meta }
}
