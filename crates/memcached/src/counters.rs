//! The counters that a worker updates while it answers.
//!
//! Invariants: each worker has its own [`Counters`] and is the only one that adds to them, so adding is
//! a plain load and store. Readers sum over workers and see each counter at some recent moment. `stats
//! reset` records the sums and later subtracts them; no counter decreases.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slab_classes::CLASSES_MAX;

/// A counter with a single writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        // there is one writer, so no read-modify-write is needed
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Sets the value of a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($name:ident, $sums:ident, $what:literal: $($field:ident),* $(,)?) => {
        #[doc = $what]
        #[derive(Debug, Default)]
        pub(super) struct $name { $(pub $field: Counter,)* }

        /// The same numbers summed over workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(super) struct $sums { $(pub $field: u64,)* }

        impl $sums {
            fn add(&mut self, counters: &$name) {
                $(self.$field = self.$field.wrapping_add(counters.$field.get());)*
            }

            #[allow(dead_code)] // gauges are not subtracted
            fn subtract(&mut self, base: &Self) {
                $(self.$field = self.$field.wrapping_sub(base.$field);)*
            }
        }
    };
}

counters!(Totals, TotalSums, "Counters of a worker that have no class.":
    get_cmds, get_misses, get_expired, get_flushed, touch_cmds, touch_misses, flush_cmds, meta_cmds,
    delete_misses, incr_misses, decr_misses, cas_misses, store_too_large, store_no_memory,
    auth_cmds, auth_errors, http_requests, idle_kicks, bytes_read, bytes_written, conn_yields,
    get_extstore, get_aborted_extstore, miss_from_extstore, total_items, response_oom, input_oom);

counters!(ClassItems, ClassSums, "Counters of a worker for one slab class.":
    get_hits, set_cmds, delete_hits, incr_hits, decr_hits, cas_hits, cas_badval, touch_hits, reclaimed);

counters!(Gauges, GaugeSums, "What a worker holds now.": input_buffers, input_bytes, input_bytes_free,
    queued_bytes, queued_answers);

/// All counters of one worker.
#[derive(Debug)]
pub(super) struct Counters {
    pub totals: Totals,
    pub gauges: Gauges,
    classes: Box<[ClassItems]>,
}

impl Default for Counters {
    fn default() -> Self {
        let classes = (0..CLASSES_MAX).map(|_| ClassItems::default()).collect();
        Self { totals: Totals::default(), gauges: Gauges::default(), classes }
    }
}

impl Counters {
    /// Returns the counters of a slab class.
    #[inline]
    pub fn class(&self, class: usize) -> &ClassItems {
        &self.classes[class]
    }
}

/// The sums of the counters of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub totals: TotalSums,
    pub gauges: GaugeSums,
    pub classes: Vec<ClassSums>,
}

impl Sums {
    /// Adds up the counters of `workers`.
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a Counters>) -> Self {
        let mut sums = Self { classes: vec![ClassSums::default(); CLASSES_MAX], ..Self::default() };
        for worker in workers {
            sums.totals.add(&worker.totals);
            sums.gauges.add(&worker.gauges);
            for (sum, class) in sums.classes.iter_mut().zip(&worker.classes) {
                sum.add(class);
            }
        }
        sums
    }

    /// Returns the counts since `base`. Gauges keep their present values.
    pub fn since(mut self, base: &Self) -> Self {
        self.totals.subtract(&base.totals);
        for (sum, base) in self.classes.iter_mut().zip(&base.classes) {
            sum.subtract(base);
        }
        self
    }

    /// Returns the sum of one counter over all classes.
    pub fn over_classes(&self, counter: impl Fn(&ClassSums) -> u64) -> u64 {
        self.classes.iter().map(counter).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_include_all_workers_and_restart_at_a_base() {
        let workers = [Counters::default(), Counters::default()];
        workers[0].totals.get_cmds.add(2);
        workers[1].totals.get_cmds.add(3);
        workers[1].class(5).get_hits.add(1);
        workers[0].gauges.queued_bytes.set(7);
        let base = Sums::of(&workers);
        assert_eq!((base.totals.get_cmds, base.over_classes(|c| c.get_hits)), (5, 1));
        workers[0].totals.get_cmds.add(4);
        workers[0].gauges.queued_bytes.set(4);
        let since = Sums::of(&workers).since(&base);
        assert_eq!((since.totals.get_cmds, since.over_classes(|c| c.get_hits)), (4, 0));
        assert_eq!(since.gauges.queued_bytes, 4, "gauges are not reset");
    }
}
