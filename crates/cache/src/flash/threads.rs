//! The threads of the flash tier: one writes records, one writes the journal, one is the keeper
//! (reclaiming, images, probes, syncs), and one is the watchdog of hanging reads and writes.
//!
//! Invariants: the watchdog does no I/O, so that a hanging device cannot block it. A removal waits only
//! for earlier removals before it is written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::core::{Core, WATCH_TICK};
use super::format::Root;
use super::options::Journaling;

/// Time for which journal entries are gathered.
const GROUP_DELAY: Duration = Duration::from_millis(10);

/// How long idle threads wait before they check for work.
const IDLE: Duration = Duration::from_millis(100);

/// How often the keeper checks for work.
const KEEP_PAUSE: Duration = Duration::from_millis(20);

/// Journal writes are synced at least this often.
const SYNC_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Threads {
    closing: Arc<Closing>,
    handles: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Closing {
    closed: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Closing {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn wait(&self, patience: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_closed() {
            drop(self.wake.wait_timeout(guard, patience));
        }
    }
}

impl Threads {
    /// Starts the threads, and one that recovers the run that left `root`, if given.
    pub fn start(core: &Arc<Core>, root: Option<Root>) -> std::io::Result<Self> {
        let closing = Arc::new(Closing::default());
        let mut threads = Self { closing, handles: Vec::new() };
        if let Some(root) = root {
            threads.spawn("flash-recover", core, move |core, _| core.recover(&root))?;
        }
        threads.spawn("flash-write", core, |core, closing| {
            while !closing.is_closed() {
                core.writer.write_next(IDLE);
                core.writer.flush_buffers(false);
            }
        })?;
        threads.spawn("flash-journal", core, write_journal)?;
        threads.spawn("flash-keep", core, keep)?;
        threads.spawn("flash-watch", core, |core, closing| {
            while !closing.is_closed() {
                closing.wait(WATCH_TICK);
                core.watch_reads();
            }
        })?;
        Ok(threads)
    }

    fn spawn(
        &mut self,
        name: &str,
        core: &Arc<Core>,
        work: impl FnOnce(&Core, &Closing) + Send + 'static,
    ) -> std::io::Result<()> {
        let (core, closing) = (Arc::clone(core), Arc::clone(&self.closing));
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.handles.push(builder.spawn(move || work(&core, &closing))?);
        Ok(())
    }

    /// Stops all threads after they have finished their current work.
    pub fn stop(&mut self, core: &Core) {
        let guard = self.closing.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.closing.closed.store(true, Ordering::Release);
        drop(guard);
        self.closing.wake.notify_all();
        core.writer.queue.wake();
        core.journal.wake();
        for handle in self.handles.drain(..) {
            // A panic of the thread was reported when it occurred; the stop continues.
            let _ = handle.join();
        }
    }
}

fn write_journal(core: &Core, closing: &Closing) {
    let is_synced = core.disk.options.journaling == Journaling::Synced;
    while !closing.is_closed() {
        core.journal.wait(IDLE);
        let is_written = core.journal.commit(is_synced);
        if !is_synced || !is_written || core.journal.has_waiting() {
            closing.wait(GROUP_DELAY);
        }
    }
}

fn keep(core: &Core, closing: &Closing) {
    let mut synced_at = core.disk.env.monotonic();
    while !closing.is_closed() {
        closing.wait(KEEP_PAUSE);
        let now = core.disk.env.monotonic();
        if now >= synced_at + SYNC_PAUSE {
            synced_at = now;
            core.journal.sync();
        }
        core.keep_once();
    }
}
