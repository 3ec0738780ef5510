//! The assignment of work on windows to live writers, by rendezvous hashing.

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_model::{Dataset, Signal, TimeRange};
use xxhash_rust::xxh3::xxh3_64;

/// Whether this writer owns the work on a window.
pub(crate) fn is_owner(snapshot: &Snapshot, dataset: &Dataset, window: TimeRange, incarnation: Id) -> bool {
    owner(snapshot, dataset, window) == Some(incarnation)
}

/// The live writer that owns the work on a window: the one with the highest hash of writer, dataset and
/// window.
fn owner(snapshot: &Snapshot, dataset: &Dataset, window: TimeRange) -> Option<Id> {
    let live = snapshot.writers().values().filter(|writer| !writer.is_sealed());
    let weight = |incarnation: Id| {
        let mut key = incarnation.to_bytes().to_vec();
        key.extend_from_slice(dataset.tenant.as_str().as_bytes());
        key.extend_from_slice(&window.start.to_le_bytes());
        // Programs without metrics hash logs without the signal, and all must compute the same owner.
        if dataset.signal != Signal::Logs {
            key.extend_from_slice(dataset.signal.as_str().as_bytes());
        }
        xxh3_64(&key)
    };
    live.map(|writer| writer.incarnation).max_by_key(|incarnation| (weight(*incarnation), *incarnation))
}
