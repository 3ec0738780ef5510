//! Admission to flash: decides whether a value may be written, with a reason if not.
//!
//! | hint | decision |
//! |---|---|
//! | ingest | admitted, among new data; under a write budget thinned last |
//! | metadata | admitted, exempt from thinning and tenants' caps: it is small, and every request needs it |
//! | point | admitted on probation, within the write budget and the tenant's share |
//! | scan that fits into probation | as point |
//! | larger scan | as point, if nothing has to be evicted or parts of scans are known to be reused soon; |
//! | | else kept in RAM only, until the key is offered a second time within the ghost window |
//!
//! Ordinary values are offered when they leave RAM, all others when they are stored
//! ([`Occasion::of_first_offer`]). Many values that clients set are soon replaced or deleted, and so
//! cost no write; values that were fetched from a store should survive a restart from the beginning.
//!
//! One ghost remembers the keys of scans that were refused and those that left flash while on probation.
//! A key that hits it when it is offered again skips probation: it is protected. A ghost hit counts if
//! its reuse distance is below the [tail age](super::reclaim::TailAge) of the protected segments: the
//! longer the oldest of them has gone unread, the longer the distance may be.
//!
//! **Invariants.** No scan, however large, evicts protected values. Every refusal has a [`Refusal`]. All
//! methods take a shared reference and neither lock nor wait. Memory is fixed at the start. With one
//! thread and one seed, equal calls return equal answers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::churn::Class;
use super::ghost::Ghost;
use super::reclaim::PROBATION_SHARE;
use super::scan_reuse::ScanReuse;
use super::tenant_share::{TenantCaps, TenantShares};
use super::write_budget::WriteBudget;
use crate::hint::Hint;
use crate::splitmix;

/// Scans up to this share of the capacity are treated like other reads: their values are all still on
/// probation when the scan ends.
const SMALL_SCAN_SHARE: f64 = PROBATION_SHARE;
/// The tier counts as full above this share of the bytes that it held when it last evicted.
const FULL_SHARE: f64 = 0.95;
/// Largest value as a share of the capacity: it evicts at most a hundredth of all values.
const LARGEST_SHARE: f64 = 0.01;
/// Size up to which a value is never too large, whatever the capacity.
const ALWAYS_FITS_BYTES: u64 = 1 << 20;
/// Most keys for which the ghost has cells: 32 MiB. With more values on flash, the window shrinks to the
/// youngest of them.
const GHOST_KEYS_MAX: u64 = 6_700_000;
/// Mean size of values in bytes, from which the number of the ghost's cells follows.
const GHOST_VALUE_BYTES: u64 = 16 << 10;
/// Window of the ghost, in multiples of the capacity, as in the RAM tier.
const GHOST_SHARE: f64 = 2.0;

/// Options of admission.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionOptions {
    /// Bytes of the flash tier.
    pub capacity: u64,
    /// Bytes that may be written in 24 hours; 0 for no limit.
    pub write_bytes_per_day: u64,
    /// Caps of tenants.
    pub tenants: TenantCaps,
    /// Seed of the random numbers for thinning.
    pub seed: u64,
}

/// When a value is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It has just been stored.
    Stored,
    /// It would leave RAM, and has no copy on flash.
    Leaving,
}

impl Occasion {
    /// When values with this hint are offered for the first time.
    pub fn of_first_offer(hint: Hint) -> Self {
        if hint == Hint::Point { Self::Leaving } else { Self::Stored }
    }
}

/// A value that could be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Hash of the key.
    pub hash: u64,
    /// Bytes that it occupies on flash.
    pub bytes: u64,
    /// The tenant that owns it.
    pub tenant: u32,
    /// The caller's hint.
    pub hint: Hint,
    /// Number of reads while it was in RAM.
    pub hits: u8,
    /// When it is offered.
    pub occasion: Occasion,
}

/// Why a value is not written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It is part of a large scan and was offered for the first time.
    ScannedOnce,
    /// The write budget is short, and the value was thinned out.
    WriteBudget,
    /// Its tenant holds its share already, and the tier is full.
    TenantShare,
    /// It is larger than a hundredth of the tier.
    TooLarge,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::ScannedOnce, Self::WriteBudget, Self::TenantShare, Self::TooLarge];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ScannedOnce => "scanned_once",
            Self::WriteBudget => "write_budget",
            Self::TenantShare => "tenant_share",
            Self::TooLarge => "too_large",
        }
    }
}

/// The decision. A refused value stays in RAM until it is evicted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it to flash, in a segment of this class.
    Admit(Class),
    /// Do not write it.
    RamOnly(Refusal),
}

/// Decides on candidates, and keeps the state for that.
#[derive(Debug)]
pub struct Admission {
    capacity: AtomicU64,
    /// Share of all keys that are offered; 1.0 unless this is a model of a sample.
    sample: f64,
    ghost: Ghost,
    /// Reuse distance in bytes up to which a ghost hit is protected.
    tail_age: AtomicU64,
    scans: ScanReuse,
    budget: WriteBudget,
    shares: TenantShares,
    held: AtomicU64,
    /// Bytes that were held when a value was last evicted. Segments that are kept free and waste at the
    /// ends of segments make it less than the capacity, much less on a small device. It is the capacity
    /// until a value is evicted, and again when clearly more is held than at the last eviction.
    holds_at_most: AtomicU64,
    draws: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Admission {
    /// State with an empty tier and a full budget.
    pub fn new(options: AdmissionOptions) -> Self {
        let keys = (options.capacity / GHOST_VALUE_BYTES).clamp(1_024, GHOST_KEYS_MAX);
        Self::of_sample(options, 1.0, keys as usize)
    }

    /// For a model that is offered the share `sample` of all keys and has that share of the capacity.
    /// Single values and scans are compared with the full capacity.
    pub(crate) fn of_sample(options: AdmissionOptions, sample: f64, ghost_keys: usize) -> Self {
        Self {
            capacity: AtomicU64::new(options.capacity),
            sample,
            ghost: Ghost::new((options.capacity as f64 * GHOST_SHARE) as u64, ghost_keys),
            tail_age: AtomicU64::new(u64::MAX),
            scans: ScanReuse::new(sample),
            budget: WriteBudget::new(options.write_bytes_per_day),
            shares: TenantShares::new(options.tenants),
            held: AtomicU64::new(0),
            holds_at_most: AtomicU64::new(options.capacity),
            draws: AtomicU64::new(options.seed),
            refused: Default::default(),
        }
    }

    /// Decides whether the candidate may be written; `now_ms` is any monotonic clock in milliseconds.
    pub fn decide(&self, candidate: &Candidate, now_ms: u64) -> Verdict {
        let is_parting = candidate.occasion == Occasion::Leaving && self.is_large_scan(candidate);
        if is_parting && candidate.hits == 0 {
            // The ghost has known the key since it was refused when it was stored, so this is not a reuse.
            return self.refuse(Refusal::ScannedOnce);
        }
        let tail_age = self.tail_age.load(Relaxed);
        let reuse_distance = self.ghost.take_age(candidate.hash).filter(|_| !is_parting);
        let is_proof = reuse_distance.is_some_and(|bytes| bytes <= tail_age);
        match self.refusal(candidate, reuse_distance, now_ms) {
            None => Verdict::Admit(match candidate.hint {
                Hint::Ingest | Hint::Metadata => Class::Ingest,
                _ if is_proof => Class::Protected,
                Hint::Point | Hint::Scan { .. } => Class::Probation,
            }),
            Some(reason) => self.refuse(reason),
        }
    }

    /// The time in which tail ages are measured: bytes that left probation or were refused so far.
    pub fn time(&self) -> u64 {
        self.ghost.noted()
    }

    /// Sets how long the oldest protected segment has gone unread
    /// ([`TailAge::bytes`](super::reclaim::TailAge::bytes)).
    pub fn set_tail_age(&self, bytes: u64) {
        self.tail_age.store(bytes, Relaxed);
    }

    fn refuse(&self, reason: Refusal) -> Verdict {
        self.refused[reason as usize].fetch_add(1, Relaxed);
        Verdict::RamOnly(reason)
    }

    /// Counts written bytes in the write budget.
    pub fn spent(&self, bytes: u64) {
        self.budget.spend(bytes);
    }

    /// Counts bytes of a tenant that are on flash: written now, or recovered after a restart.
    pub fn holds(&self, tenant: u32, bytes: u64) {
        let held = self.held.fetch_add(bytes, Relaxed) + bytes;
        self.shares.add(tenant, bytes);
        if held as f64 * FULL_SHARE > self.holds_at_most.load(Relaxed) as f64 {
            // The last eviction was for something that is gone now, such as an image of the index.
            self.holds_at_most.store(self.capacity.load(Relaxed), Relaxed);
        }
    }

    /// Remembers a key that was evicted from flash while in [`Class::Probation`].
    pub fn left_probation(&self, hash: u64, bytes: u64) {
        self.ghost.note(hash, bytes);
    }

    /// Notes that a value is being evicted, before its bytes are uncounted.
    pub fn made_room(&self) {
        self.holds_at_most.store(self.held.load(Relaxed), Relaxed);
    }

    /// Counts bytes of a tenant that left flash, for any reason.
    pub fn dropped(&self, tenant: u32, bytes: u64) {
        let _ = self.held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
        self.shares.subtract(tenant, bytes);
    }

    /// Changes the capacity, as when a device shrinks.
    pub fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Relaxed);
        self.holds_at_most.store(capacity, Relaxed);
    }

    /// Halves the sample and its capacity.
    pub(crate) fn halve_sample(&mut self) {
        self.sample /= 2.0;
        *self.capacity.get_mut() /= 2;
        *self.holds_at_most.get_mut() /= 2;
        self.ghost.set_window((*self.capacity.get_mut() as f64 * GHOST_SHARE) as u64);
    }

    /// Bytes that a tenant holds on flash.
    pub fn held_by(&self, tenant: u32) -> u64 {
        self.shares.held(tenant)
    }

    /// Number of refusals by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().map(|reason| (reason, self.refused[reason as usize].load(Relaxed)))
    }

    /// Bytes of memory of the policy itself.
    pub fn memory_bytes(&self) -> usize {
        self.ghost.memory_bytes() + self.shares.memory_bytes() + size_of::<Self>()
    }

    fn refusal(&self, candidate: &Candidate, reuse_distance: Option<u64>, now_ms: u64) -> Option<Refusal> {
        let capacity = self.capacity.load(Relaxed);
        let whole = capacity as f64 / self.sample;
        let largest = (whole * LARGEST_SHARE).max((ALWAYS_FITS_BYTES as f64).min(whole / 4.0));
        if candidate.bytes as f64 > largest {
            return Some(Refusal::TooLarge);
        }
        if candidate.hint == Hint::Metadata {
            return None;
        }
        let full = self.held.load(Relaxed) as f64 > self.holds_at_most.load(Relaxed) as f64 * FULL_SHARE;
        if full && self.is_large_scan(candidate) && self.is_scanned_once(candidate, reuse_distance) {
            return Some(Refusal::ScannedOnce);
        }
        if full && self.shares.exceeds(candidate.tenant, candidate.bytes, capacity) {
            return Some(Refusal::TenantShare);
        }
        // New data will be read in the next hours: it is thinned half as much as the results of reads.
        let draw = self.draw() * if candidate.hint == Hint::Ingest { 0.5 } else { 1.0 };
        if !self.budget.admits(candidate.bytes, now_ms, draw) {
            return Some(Refusal::WriteBudget);
        }
        None
    }

    fn is_large_scan(&self, candidate: &Candidate) -> bool {
        let whole = self.capacity.load(Relaxed) as f64 / self.sample;
        matches!(candidate.hint, Hint::Scan { bytes } if bytes as f64 > whole * SMALL_SCAN_SHARE)
    }

    /// Whether a value of a large scan is refused until it is offered a second time. Keeps the
    /// statistics of that.
    fn is_scanned_once(&self, candidate: &Candidate, reuse_distance: Option<u64>) -> bool {
        if candidate.hits > 0 {
            return false;
        }
        if let Some(reuse_distance) = reuse_distance {
            if reuse_distance as f64 <= self.capacity.load(Relaxed) as f64 * PROBATION_SHARE {
                self.scans.note_returned(candidate.hash);
            }
            return false;
        }
        let refuses = self.scans.refuses(candidate.hash);
        if refuses {
            self.ghost.note(candidate.hash, candidate.bytes);
            self.scans.note_refused();
        }
        refuses
    }

    /// The next random number in [0, 1) (splitmix64).
    fn draw(&self) -> f64 {
        splitmix::unit(splitmix::mix(self.draws.fetch_add(splitmix::STEP, Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 30;

    fn admission(write_bytes_per_day: u64, tenants: TenantCaps) -> Admission {
        Admission::new(AdmissionOptions { capacity: CAPACITY, write_bytes_per_day, tenants, seed: 1 })
    }

    fn candidate(key: u64, hint: Hint) -> Candidate {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Candidate { hash, bytes: 100_000, tenant: 1, hint, hits: 0, occasion: Occasion::of_first_offer(hint) }
    }

    const LARGE_SCAN: Hint = Hint::Scan { bytes: CAPACITY };

    #[test]
    fn a_large_scan_is_admitted_when_it_is_offered_a_second_time() {
        let admission = admission(0, TenantCaps::default());
        assert_eq!(admission.decide(&candidate(9, LARGE_SCAN), 1), Verdict::Admit(Class::Probation), "room");
        admission.holds(7, CAPACITY);
        let first = candidate(1, LARGE_SCAN);
        assert_eq!(admission.decide(&first, 1), Verdict::RamOnly(Refusal::ScannedOnce));
        assert_eq!(admission.decide(&first, 1), Verdict::Admit(Class::Protected));
        assert_eq!(admission.decide(&candidate(2, LARGE_SCAN), 1), Verdict::RamOnly(Refusal::ScannedOnce));
        let unread = Candidate { occasion: Occasion::Leaving, ..candidate(2, LARGE_SCAN) };
        assert_eq!(
            admission.decide(&unread, 1),
            Verdict::RamOnly(Refusal::ScannedOnce),
            "not offered a second time"
        );
        let read_in_ram = Candidate { hits: 1, ..unread };
        assert_eq!(admission.decide(&read_in_ram, 1), Verdict::Admit(Class::Probation));
        let small = candidate(3, Hint::Scan { bytes: CAPACITY / 25 });
        assert_eq!(admission.decide(&small, 1), Verdict::Admit(Class::Probation));
        let classes =
            [(Hint::Ingest, Class::Ingest), (Hint::Point, Class::Probation), (Hint::Metadata, Class::Ingest)];
        for (hint, class) in classes {
            assert_eq!(admission.decide(&candidate(4, hint), 1), Verdict::Admit(class), "{hint:?}");
        }
        assert_eq!(admission.refusals().next(), Some((Refusal::ScannedOnce, 3)));
    }

    #[test]
    fn a_scan_whose_parts_are_reused_at_once_is_admitted_on_probation() {
        let admission = admission(0, TenantCaps::default());
        admission.holds(7, CAPACITY);
        let mut admitted = 0;
        for key in 0..20_000 {
            let part = candidate(key, LARGE_SCAN);
            match admission.decide(&part, 1) {
                Verdict::Admit(class) => admitted += u32::from(class == Class::Probation),
                Verdict::RamOnly(_) => {
                    assert_eq!(admission.decide(&part, 1), Verdict::Admit(Class::Protected))
                }
            }
        }
        assert!((18_500..19_000).contains(&admitted), "{admitted} of 20,000");
    }

    #[test]
    fn a_repeated_scan_of_ten_times_the_capacity_is_refused() {
        let admission = admission(0, TenantCaps::default());
        admission.holds(7, CAPACITY);
        let keys = 10 * CAPACITY / 100_000;
        let admitted = (0..2 * keys)
            .filter(|at| {
                admission.decide(&candidate(at % keys, LARGE_SCAN), 1)
                    != Verdict::RamOnly(Refusal::ScannedOnce)
            })
            .count();
        // Equal fingerprints admit one key in some thousands.
        assert!(admitted as u64 <= keys / 500, "{admitted} of {keys} keys");
    }

    #[test]
    fn tenants_above_their_share_are_refused_only_while_the_tier_is_full() {
        let caps = TenantCaps { default: 1.0, named: vec![(9, 0.5), (1, 0.1)] };
        let admission = admission(0, caps);
        admission.holds(1, CAPACITY / 4);
        assert_eq!(
            admission.decide(&candidate(1, Hint::Point), 1),
            Verdict::Admit(Class::Probation),
            "there is room"
        );
        admission.holds(2, CAPACITY / 4 * 3);
        assert_eq!(admission.decide(&candidate(1, Hint::Point), 1), Verdict::RamOnly(Refusal::TenantShare));
        assert_eq!(admission.decide(&candidate(1, Hint::Metadata), 1), Verdict::Admit(Class::Ingest));
        admission.dropped(1, CAPACITY / 4);
        admission.holds(2, CAPACITY / 4);
        assert_eq!(
            admission.decide(&candidate(1, Hint::Point), 1),
            Verdict::Admit(Class::Probation),
            "it shrank"
        );
        assert_eq!((admission.held_by(1), admission.held_by(2)), (0, CAPACITY));
    }

    #[test]
    fn room_made_for_an_image_is_available_again_when_the_image_is_gone() {
        let admission = admission(0, TenantCaps { default: 0.1, named: Vec::new() });
        let percent = CAPACITY / 100;
        let is_full = || {
            let verdict = admission.decide(&candidate(1, Hint::Point), 1);
            verdict == Verdict::RamOnly(Refusal::TenantShare)
        };
        admission.holds(1, 90 * percent);
        assert!(!is_full(), "nothing was evicted");
        admission.made_room();
        assert!(is_full());
        for _ in 0..20 {
            admission.made_room();
            admission.dropped(1, percent);
        }
        assert!(is_full(), "more may be evicted");
        admission.holds(1, 4 * percent);
        assert!(is_full(), "74 percent, and 71 at the last eviction");
        admission.holds(1, 2 * percent);
        assert!(!is_full(), "nothing was evicted for it");
        admission.holds(1, 12 * percent);
        assert!(!is_full());
        admission.made_room();
        assert!(is_full(), "as much as before it made room for the image");
        admission.dropped(1, 3 * percent);
        assert!(is_full());
    }

    #[test]
    fn the_write_budget_is_kept_and_metadata_is_exempt() {
        let admission = admission(24_000_000, TenantCaps::default());
        let mut written = 0u64;
        for at in 0..100_000u64 {
            let candidate = candidate(at, Hint::Point);
            if admission.decide(&candidate, 1 + at * 36) == Verdict::Admit(Class::Probation) {
                admission.spent(candidate.bytes);
                admission.holds(1, candidate.bytes);
                written += candidate.bytes;
            }
        }
        // A full bucket at the start and an hour's refill.
        assert!((1_000_000..=2_100_000).contains(&written), "{written}");
        assert_eq!(admission.decide(&candidate(1, Hint::Metadata), 3_600_000), Verdict::Admit(Class::Ingest));
        assert!(admission.refusals().any(|(reason, count)| reason == Refusal::WriteBudget && count > 90_000));
    }

    #[test]
    fn a_ghost_hit_skips_probation() {
        let admission = admission(0, TenantCaps::default());
        let value = candidate(1, Hint::Point);
        admission.left_probation(value.hash, value.bytes);
        assert_eq!(admission.decide(&value, 1), Verdict::Admit(Class::Protected));
        assert_eq!(
            admission.decide(&value, 1),
            Verdict::Admit(Class::Probation),
            "the ghost has forgotten it"
        );
    }

    #[test]
    fn a_ghost_hit_is_protected_only_if_its_reuse_distance_is_below_the_tail_age() {
        let admission = admission(0, TenantCaps::default());
        let returns = |key: u64, bytes_between: u64, tail_age: u64| {
            let value = candidate(key, Hint::Point);
            admission.left_probation(value.hash, value.bytes);
            let before = admission.time();
            admission.left_probation(candidate(key + 1, Hint::Point).hash, bytes_between);
            assert_eq!(admission.time() - before, bytes_between);
            admission.set_tail_age(tail_age);
            admission.decide(&value, 1)
        };
        assert_eq!(returns(10, CAPACITY / 2, CAPACITY), Verdict::Admit(Class::Protected));
        assert_eq!(returns(20, CAPACITY / 2, CAPACITY / 3), Verdict::Admit(Class::Probation));
        assert_eq!(returns(30, CAPACITY / 4, CAPACITY / 3), Verdict::Admit(Class::Protected));
        assert_eq!(returns(40, 3 * CAPACITY, 4 * CAPACITY), Verdict::Admit(Class::Probation), "forgotten");
    }

    #[test]
    fn values_larger_than_a_hundredth_of_the_capacity_are_refused() {
        let admission = admission(0, TenantCaps::default());
        let large = Candidate { bytes: CAPACITY / 50, ..candidate(1, Hint::Point) };
        assert_eq!(admission.decide(&large, 1), Verdict::RamOnly(Refusal::TooLarge));
    }
}
