//! The ghost: the keys of evicted values. It recognises a key that is requested again (a ghost hit) and
//! measures its reuse distance.
//!
//! Sixteen 4-byte cells are a bucket of one cache line. A cell is a 16-bit fingerprint and the time at
//! which the key was noted. Time is measured in bytes noted. A key is remembered until `window` bytes of
//! other keys have been noted after it, or until its bucket is full of younger keys.
//!
//! **Invariants.** The ghost never grows beyond its cells. False hits are about one in 4,000 lookups (16
//! cells, 2^-16 each); a false hit gives one entry a better place than it deserves. False misses occur
//! only in overfull buckets. All methods except `make_room` and `set_window` take a shared reference;
//! threads that note keys at the same time may lose one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Cells of a bucket, which is one cache line.
const BUCKET: usize = 16;
/// Most steps of the clock in one window. With 65,535 values of the clock, a cell of a bucket in which
/// nothing was noted for eight windows would look young again. Such buckets are rare, because each one
/// gets 8 to 16 notes per window.
const WINDOW_STEPS_MAX: u64 = 8_192;
/// Number of values of the clock; 0 marks an empty cell.
const CLOCK_VALUES: u64 = 65_535;

/// Fingerprints of keys with the times at which they were noted.
#[derive(Debug)]
pub(crate) struct Ghost {
    cells: Vec<AtomicU32>,
    /// Bytes noted so far.
    noted: AtomicU64,
    bytes_per_step: u64,
    /// Largest age of a key that is remembered.
    window_steps: u64,
}

impl Ghost {
    /// A ghost with a window of `window` bytes and cells for at least `keys` keys.
    pub(crate) fn new(window: u64, keys: usize) -> Self {
        let mut ghost =
            Self { cells: Vec::new(), noted: AtomicU64::new(0), bytes_per_step: 1, window_steps: 0 };
        ghost.set_window(window);
        ghost.make_room(keys);
        ghost
    }

    /// Changes the window. The ages of remembered keys are scaled with it.
    pub(crate) fn set_window(&mut self, window: u64) {
        let step = window.div_ceil(WINDOW_STEPS_MAX).max(1);
        let clock = *self.noted.get_mut() / self.bytes_per_step;
        self.noted = AtomicU64::new(clock.saturating_mul(step));
        self.bytes_per_step = step;
        self.window_steps = window / step;
    }

    /// Grows to cells for `keys` keys; never shrinks. Each bucket is copied to both of its successors,
    /// because a fingerprint does not determine the right one; the wrong copy ages out.
    pub(crate) fn make_room(&mut self, keys: usize) {
        // A quarter more cells than keys, so that buckets with more keys than average have room for them.
        let wanted = (keys + keys / 4).next_power_of_two().max(BUCKET);
        while self.cells.len() < wanted {
            if self.cells.is_empty() {
                self.cells.resize_with(wanted, AtomicU32::default);
                return;
            }
            let half = self.cells.len();
            self.cells.reserve_exact(half);
            for at in 0..half {
                let cell = self.cells[at].load(Relaxed);
                self.cells.push(AtomicU32::new(cell));
            }
        }
    }

    /// Remembers a key of `weight` bytes.
    pub(crate) fn note(&self, hash: u64, weight: u64) {
        let noted = self.noted.load(Relaxed).wrapping_add(weight);
        self.noted.store(noted, Relaxed);
        let now = self.clock(noted);
        let (bucket, print) = self.home(hash);
        let mut oldest = (0, 0);
        for (at, cell) in bucket.iter().enumerate() {
            let cell = cell.load(Relaxed);
            if cell == 0 || cell >> 16 == print {
                oldest.1 = at;
                break;
            }
            let age = age(now, cell);
            if age >= oldest.0 {
                oldest = (age, at);
            }
        }
        bucket[oldest.1].store(print << 16 | now, Relaxed);
    }

    /// Bytes noted so far.
    pub(crate) fn noted(&self) -> u64 {
        self.noted.load(Relaxed)
    }

    /// The current time, for [`Self::bytes_since`].
    pub(crate) fn time(&self) -> u16 {
        self.clock(self.noted()) as u16
    }

    /// Bytes noted since `time`, modulo a turn of the clock, which is eight windows.
    pub(crate) fn bytes_since(&self, time: u16) -> u64 {
        u64::from(age(self.clock(self.noted()), u32::from(time))) * self.bytes_per_step
    }

    /// Whether the key is remembered. Forgets it.
    pub(crate) fn take(&self, hash: u64) -> bool {
        self.take_age(hash).is_some()
    }

    /// Bytes noted since the key was, if it is remembered. Forgets it.
    pub(crate) fn take_age(&self, hash: u64) -> Option<u64> {
        let now = self.clock(self.noted.load(Relaxed));
        let (bucket, print) = self.home(hash);
        for cell in bucket {
            let found = cell.load(Relaxed);
            if found != 0 && found >> 16 == print {
                cell.store(0, Relaxed);
                let age = u64::from(age(now, found));
                return (age <= self.window_steps).then_some(age * self.bytes_per_step);
            }
        }
        None
    }

    /// Forgets all keys.
    pub(crate) fn clear(&self) {
        for cell in &self.cells {
            cell.store(0, Relaxed);
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<AtomicU32>()
    }

    fn clock(&self, noted: u64) -> u32 {
        (noted / self.bytes_per_step % CLOCK_VALUES) as u32 + 1
    }

    fn home(&self, hash: u64) -> (&[AtomicU32], u32) {
        let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9); // splitmix64's first step
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB); // and its second
        let buckets = self.cells.len() / BUCKET;
        let at = ((mixed >> 16) as usize & (buckets - 1)) * BUCKET;
        (&self.cells[at..at + BUCKET], (mixed >> 48) as u32)
    }
}

/// Steps since the cell was written, at most `CLOCK_VALUES - 1`.
fn age(now: u32, cell: u32) -> u32 {
    let then = cell & 0xFFFF;
    if now >= then { now - then } else { now + CLOCK_VALUES as u32 - then }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(key: u64) -> u64 {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn remembers_for_the_window_and_no_longer() {
        let ghost = Ghost::new(10_000, 1_000);
        for key in 0..3_000 {
            ghost.note(spread(key), 10);
        }
        let recent = (2_100..3_000).filter(|k| ghost.take(spread(*k))).count();
        assert!(recent >= 890, "{recent} of 900 remembered");
        let before = (0..1_900).filter(|k| ghost.take(spread(*k))).count();
        assert!(before <= 4, "{before} of 1,900 remembered beyond the window");
        assert_eq!((2_100..3_000).filter(|k| ghost.take(spread(*k))).count(), 0, "taken twice");
    }

    #[test]
    fn false_hits_are_rare() {
        let ghost = Ghost::new(1_000_000, 10_000);
        for key in 0..10_000 {
            ghost.note(spread(key), 100);
        }
        let wrong = (100_000..200_000).filter(|k| ghost.take(spread(*k))).count();
        assert!(wrong < 60, "{wrong} of 100,000");
    }

    #[test]
    fn growing_keeps_noted_keys() {
        let mut ghost = Ghost::new(1_000_000, 100);
        for key in 0..100 {
            ghost.note(spread(key), 100);
        }
        ghost.make_room(5_000);
        ghost.set_window(2_000_000);
        let kept = (0..100).filter(|k| ghost.take(spread(*k))).count();
        assert!(kept >= 98, "{kept} of 100");
    }
}
