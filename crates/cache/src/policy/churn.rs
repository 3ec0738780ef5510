//! Churn: counts of evictions, above all of values that were never read.
//!
//! A hit ratio alone is misleading: a cache of recent data can answer seven of ten reads and still
//! replace its content forty times an hour with values that are never read. These counters show that.
//! They are split by the value's class, source, age and tenant.
//!
//! **Invariants.** Memory is fixed: every axis is short, and tenants beyond the first [`TENANTS_MAX`]
//! with evictions are counted together. Counters only grow. All methods take a shared reference and use
//! no locks, except for the first eviction of each tenant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{OnceLock, atomic::AtomicUsize};

use crate::hint::Hint;

/// Most tenants that are counted separately.
pub const TENANTS_MAX: usize = 64;
/// Length in minutes of the window of [`Churn::replacements_per_hour`].
const MINUTES: u64 = 60;
/// Cells of the window: more than its minutes, for the minute that is being filled.
const MINUTE_CELLS: usize = 64;

/// Where a value was when it was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// In memory, with no copy on flash.
    Ram,
    /// On flash, among newly written data.
    Ingest,
    /// On flash, on probation: stored by reads, until it is read again.
    Probation,
    /// On flash, protected: read again on probation, or admitted by a ghost hit.
    Protected,
    /// On flash, among values that expire soon.
    Brief,
}

/// The request by which a value came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A writer put it.
    Ingest,
    /// A read fetched it from the store, or a client put it.
    Fill,
    /// A scan fetched it.
    Scan,
    /// It was put as metadata.
    Metadata,
}

/// The time between a value's arrival and its eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Age {
    /// Less than a minute.
    Minute,
    /// Less than ten minutes.
    TenMinutes,
    /// Less than an hour.
    Hour,
    /// Less than six hours.
    SixHours,
    /// Less than a day.
    Day,
    /// Less than a week.
    Week,
    /// A week or more.
    Older,
}

/// Names and order of every axis, for metrics.
macro_rules! axis {
    ($axis:ident { $($value:ident => $name:literal),+ $(,)? }) => {
        impl $axis {
            /// All values of this axis.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];

            /// Its name in metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }
        }
    };
}

axis!(Class {
    Ram => "ram",
    Ingest => "ingest",
    Probation => "fill",
    Protected => "kept",
    Brief => "brief",
});
axis!(Source { Ingest => "ingest", Fill => "fill", Scan => "scan", Metadata => "metadata" });
axis!(Age {
    Minute => "1m",
    TenMinutes => "10m",
    Hour => "1h",
    SixHours => "6h",
    Day => "1d",
    Week => "7d",
    Older => "inf",
});

impl From<Hint> for Source {
    fn from(hint: Hint) -> Self {
        match hint {
            Hint::Ingest => Self::Ingest,
            Hint::Point => Self::Fill,
            Hint::Metadata => Self::Metadata,
            Hint::Scan { .. } => Self::Scan,
        }
    }
}

impl Age {
    /// The bucket of an age in seconds.
    pub fn of_seconds(seconds: u64) -> Self {
        const ENDS: [u64; 6] = [60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400];
        let bucket = ENDS.iter().take_while(|end| seconds >= **end).count();
        Self::ALL[bucket]
    }
}

/// A value that was evicted to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Where it was.
    pub class: Class,
    /// How it came in.
    pub source: Source,
    /// The tenant that owned it.
    pub tenant: u32,
    /// Seconds since it came in.
    pub age_s: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it was ever read.
    pub fetched: bool,
}

/// A number of objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Number of objects.
    pub objects: u64,
    /// Sum of their bytes.
    pub bytes: u64,
}

/// Evicted values of one class, source and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChurnRow {
    /// Where they were.
    pub class: Class,
    /// How they came in.
    pub source: Source,
    /// Their age at the eviction.
    pub age: Age,
    /// Those that were read at least once.
    pub fetched: Amount,
    /// Those that were never read.
    pub unfetched: Amount,
}

/// The counters of evictions.
#[derive(Debug)]
pub struct Churn {
    rows: Vec<Counter>,
    tenants: Vec<(OnceLock<u32>, Counter)>,
    known_tenants: AtomicUsize,
    others: Counter,
    minutes: Vec<Minute>,
}

#[derive(Debug, Default)]
struct Cell {
    objects: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Counter {
    fetched: Cell,
    unfetched: Cell,
}

/// Bytes evicted in a minute, with the minute's number since the epoch.
#[derive(Debug, Default)]
struct Minute {
    number: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Churn {
    fn default() -> Self {
        Self::new()
    }
}

impl Churn {
    /// Counters at zero.
    pub fn new() -> Self {
        let rows = Class::ALL.len() * Source::ALL.len() * Age::ALL.len();
        Self {
            rows: (0..rows).map(|_| Counter::default()).collect(),
            tenants: (0..TENANTS_MAX).map(|_| Default::default()).collect(),
            known_tenants: AtomicUsize::new(0),
            others: Counter::default(),
            minutes: (0..MINUTE_CELLS).map(|_| Minute::default()).collect(),
        }
    }

    /// Counts an eviction at `now_s`, in seconds of any monotonic clock.
    pub fn count(&self, eviction: &Eviction, now_s: u64) {
        let age = Age::of_seconds(eviction.age_s);
        self.rows[row(eviction.class, eviction.source, age)].add(eviction);
        self.tenant(eviction.tenant).add(eviction);
        let minute = now_s / 60;
        let cell = &self.minutes[minute as usize % MINUTE_CELLS];
        // Two threads at the turn of a minute may both reset, which loses a few of its first evictions.
        if cell.number.swap(minute, Relaxed) != minute {
            cell.bytes.store(0, Relaxed);
        }
        cell.bytes.fetch_add(eviction.bytes, Relaxed);
    }

    /// The sum of all evictions.
    pub fn total(&self) -> ChurnTotal {
        let mut total = ChurnTotal::default();
        for counter in &self.rows {
            total.fetched.add(&counter.fetched);
            total.unfetched.add(&counter.unfetched);
        }
        total
    }

    /// All combinations of class, source and age with evictions.
    pub fn rows(&self) -> impl Iterator<Item = ChurnRow> {
        let axes = Class::ALL.into_iter().flat_map(|class| {
            let sources = Source::ALL.into_iter();
            sources.flat_map(move |source| Age::ALL.into_iter().map(move |age| (class, source, age)))
        });
        axes.map(|(class, source, age)| {
            let counter = &self.rows[row(class, source, age)];
            let (fetched, unfetched) = (counter.fetched.amount(), counter.unfetched.amount());
            ChurnRow { class, source, age, fetched, unfetched }
        })
        .filter(|row| row.fetched.objects + row.unfetched.objects > 0)
    }

    /// Unread evictions by tenant; `None` stands for all tenants beyond [`TENANTS_MAX`].
    pub fn unfetched_by_tenant(&self) -> Vec<(Option<u32>, Amount)> {
        let named = self.tenants.iter().filter_map(|(tenant, counter)| {
            tenant.get().map(|tenant| (Some(*tenant), counter.unfetched.amount()))
        });
        let others = self.others.unfetched.amount();
        named.chain((others.objects > 0).then_some((None, others))).collect()
    }

    /// How many times a cache of `capacity` bytes was replaced completely in the hour before `now_s`.
    pub fn replacements_per_hour(&self, capacity: u64, now_s: u64) -> f64 {
        let minute = now_s / 60;
        let recent = |cell: &&Minute| {
            let number = cell.number.load(Relaxed);
            number <= minute && number + MINUTES > minute
        };
        let bytes: u64 = self.minutes.iter().filter(recent).map(|cell| cell.bytes.load(Relaxed)).sum();
        bytes as f64 / capacity.max(1) as f64
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<Counter>()
            + self.tenants.capacity() * size_of::<(OnceLock<u32>, Counter)>()
            + self.minutes.capacity() * size_of::<Minute>()
    }

    fn tenant(&self, tenant: u32) -> &Counter {
        let known = self.known_tenants.load(Relaxed);
        let named = self.tenants[..known].iter().find(|(name, _)| name.get() == Some(&tenant));
        if let Some((_, counter)) = named {
            return counter;
        }
        for (at, (name, counter)) in self.tenants.iter().enumerate().skip(known) {
            if *name.get_or_init(|| tenant) == tenant {
                self.known_tenants.fetch_max(at + 1, Relaxed);
                return counter;
            }
        }
        &self.others
    }
}

/// All evictions, by whether the value was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChurnTotal {
    /// Values that were read at least once.
    pub fetched: Amount,
    /// Values that were never read.
    pub unfetched: Amount,
}

impl Amount {
    fn add(&mut self, cell: &Cell) {
        let more = cell.amount();
        self.objects += more.objects;
        self.bytes += more.bytes;
    }
}

impl Cell {
    fn amount(&self) -> Amount {
        Amount { objects: self.objects.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

impl Counter {
    fn add(&self, eviction: &Eviction) {
        let cell = if eviction.fetched { &self.fetched } else { &self.unfetched };
        cell.objects.fetch_add(1, Relaxed);
        cell.bytes.fetch_add(eviction.bytes, Relaxed);
    }
}

fn row(class: Class, source: Source, age: Age) -> usize {
    (class as usize * Source::ALL.len() + source as usize) * Age::ALL.len() + age as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eviction(tenant: u32, age_s: u64, fetched: bool) -> Eviction {
        Eviction { class: Class::Probation, source: Source::Fill, tenant, age_s, bytes: 10, fetched }
    }

    #[test]
    fn rows_split_by_age_and_reading() {
        let churn = Churn::new();
        churn.count(&eviction(1, 59, false), 0);
        churn.count(&eviction(1, 59, true), 0);
        churn.count(&eviction(1, 3_600, false), 0);
        let rows: Vec<ChurnRow> = churn.rows().collect();
        let one = Amount { objects: 1, bytes: 10 };
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].age, rows[0].fetched, rows[0].unfetched), (Age::Minute, one, one));
        assert_eq!((rows[1].age, rows[1].fetched.objects, rows[1].unfetched), (Age::SixHours, 0, one));
        assert_eq!(churn.total().unfetched, Amount { objects: 2, bytes: 20 });
    }

    #[test]
    fn ages_fall_into_buckets_with_open_ends() {
        let ends = [0, 59, 60, 599, 600, 86_399, 86_400, 604_799, 604_800, u64::MAX];
        let names: Vec<&str> = ends.iter().map(|s| Age::of_seconds(*s).name()).collect();
        assert_eq!(names, ["1m", "1m", "10m", "10m", "1h", "1d", "7d", "7d", "inf", "inf"]);
    }

    #[test]
    fn tenants_beyond_the_bound_are_counted_together() {
        let churn = Churn::new();
        for tenant in 0..100 {
            churn.count(&eviction(tenant, 1, false), 0);
            churn.count(&eviction(7, 1, true), 0);
        }
        let tenants = churn.unfetched_by_tenant();
        assert_eq!(tenants.len(), TENANTS_MAX + 1);
        assert!(tenants.contains(&(Some(7), Amount { objects: 1, bytes: 10 })));
        let rest = 100 - TENANTS_MAX as u64;
        assert_eq!(tenants.last(), Some(&(None, Amount { objects: rest, bytes: rest * 10 })));
    }

    #[test]
    fn replacements_count_the_last_hour() {
        let churn = Churn::new();
        for minute in 0..180u64 {
            for _ in 0..minute / 60 + 1 {
                churn.count(&eviction(1, 1, false), minute * 60);
            }
        }
        // Three evictions of 10 bytes in each of the last 60 minutes.
        assert_eq!(churn.replacements_per_hour(100, 179 * 60), 18.0);
        assert_eq!(churn.replacements_per_hour(100, 59 * 60 + 200 * 60), 0.0);
    }
}
