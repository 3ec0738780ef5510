//! The parts of the flash tier, each with its own state, and the periodic work that spans them.
//!
//! A part holds handles only to the parts below it: [`Disk`], then [`Space`] (segments) and [`Journal`],
//! then [`Keyspace`] (index), then [`Writer`] and [`Roots`], then [`Reader`] and [`Images`], then
//! [`Reclaimer`]. [`Recovery`] works on them during a start.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::disk::Disk;
use super::format::Root;
use super::image::Images;
use super::journal::Journal;
use super::keyspace::Keyspace;
use super::layout::PROBE;
use super::observer::Observer;
use super::read::Reader;
use super::reclaim::Reclaimer;
use super::reclaim_policy::ReclaimPolicy;
use super::recovery::Recovery;
use super::roots::Roots;
use super::space::Space;
use super::writer::Writer;
use crate::device::BLOCK;

/// Length of a tick of the watchdog.
pub(super) const WATCH_TICK: Duration = Duration::from_millis(100);

/// All parts. See the module.
pub(super) struct Core {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub journal: Arc<Journal>,
    pub keys: Arc<Keyspace>,
    pub policy: Arc<ReclaimPolicy>,
    pub writer: Arc<Writer>,
    pub reader: Arc<Reader>,
    pub roots: Arc<Roots>,
    pub images: Arc<Images>,
    pub reclaimer: Reclaimer,
    /// Held during the keeper's work, so that a probe for a stop does not run at the same time.
    keeping: Mutex<()>,
}

impl Core {
    /// The state of a run that recovers the run of `root`, or starts empty without one. `last_turn` is
    /// the turn of the newest root on the device.
    pub fn new(disk: Disk, observer: Arc<dyn Observer>, last_turn: u64, root: Option<&Root>) -> Self {
        let disk = Arc::new(disk);
        let space = Arc::new(Space::new(Arc::clone(&disk), observer));
        let journal = Arc::new(Journal::new(root.map_or(0, |root| root.journal_half), Arc::clone(&disk)));
        let keys = Keyspace::new(Arc::clone(&disk), Arc::clone(&space), Arc::clone(&journal), root);
        let keys = Arc::new(keys);
        let policy = Arc::new(ReclaimPolicy::new(disk.options.write_amplification_max));
        let writer = Arc::new(Writer::new(Arc::clone(&keys), Arc::clone(&policy)));
        let reader = Arc::new(Reader::new(Arc::clone(&writer)));
        let roots = Arc::new(Roots::new(Arc::clone(&keys), last_turn, root));
        let images = Arc::new(Images::new(Arc::clone(&roots)));
        let reclaimer = Reclaimer::new(Arc::clone(&writer), Arc::clone(&images));
        let keeping = Mutex::default();
        Self { disk, space, journal, keys, policy, writer, reader, roots, images, reclaimer, keeping }
    }

    /// Recovers the records of the run that left `root`, or frees every slot if that is not wanted.
    pub fn recover(&self, root: &Root) {
        let Self { disk, space, journal, keys, roots, .. } = self;
        Recovery { disk, space, journal, keys, roots, unread: AtomicU32::new(0) }.recover(root);
    }

    /// One round of the keeper's work: everything except writing records and the journal.
    pub fn keep_once(&self) {
        let _alone = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.probe_if_due();
        self.space.give_back_retired();
        self.roots.renew_root();
        while self.reclaimer.reclaim_next() {}
        self.reclaimer.free_spent();
        self.reclaimer.compact_next();
        self.images.image_if_due();
    }

    /// One tick of the watchdog. Deadlines count ticks as time, so only the watchdog's thread calls this.
    pub fn watch_reads(&self) {
        let patience = self.disk.options.read_deadline.as_millis().div_ceil(WATCH_TICK.as_millis());
        let patience = u32::try_from(patience).unwrap_or(u32::MAX);
        let late = self.disk.device.expire(patience);
        self.disk.read_pool.wake_all();
        let now = self.disk.env.monotonic();
        self.disk.watch.tick(patience, now);
        if late > 0 {
            self.disk.watch.reads_late(u32::try_from(late).unwrap_or(u32::MAX), patience, now);
        }
    }

    /// Probes a device that is not in use, once its pause is over.
    pub fn probe_if_due(&self) {
        if self.disk.watch.wants_probe(self.disk.env.monotonic()) {
            self.probe_now();
        }
    }

    /// Probes a device that is not in use before its pause is over, unless an operation on it is still
    /// hanging. Returns whether it is in use, or may be soon.
    pub fn probe_unless_well(&self) -> bool {
        if self.disk.watch.may_write() {
            return true;
        }
        let _alone = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.disk.watch.may_write() || self.disk.watch.is_under_way() || self.probe_now()
    }

    fn probe_now(&self) -> bool {
        let succeeded = self.probe().is_ok_and(|same| same);
        let is_taken_back = self.disk.watch.probed(succeeded, self.disk.env.monotonic());
        if is_taken_back {
            self.space.retired.hurry();
        }
        is_taken_back
    }

    fn probe(&self) -> std::io::Result<bool> {
        let Some(mut block) = self.writer.write_pool.take(BLOCK as usize) else { return Ok(false) };
        let mark = self.disk.env.random_u64().to_le_bytes();
        block.bytes_mut().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&mark));
        self.disk.device.write_at(PROBE, block.as_ref())?;
        self.disk.device.sync()?;
        block.bytes_mut().fill(0);
        self.disk.device.read_at(PROBE, block.bytes_mut())?;
        Ok(block.as_ref().chunks_exact(8).all(|word| word == mark))
    }
}
