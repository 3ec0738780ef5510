//! The observer: it hears of every record that leaves flash or never reaches it.
//!
//! Invariant: no record disappears without one [`Drop`](DropEvent) that names the reason, except
//! that its owner replaced or removed it.

use super::format::Class;

/// Why a record is not on flash, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// Its segment was the next to be reclaimed.
    Evicted,
    /// It had expired.
    Expired,
    /// Everything was flushed.
    Flushed,
    /// Its bytes failed a checksum.
    Corrupt,
    /// The device failed to read or write it.
    DeviceError,
    /// The device does not take writes at present.
    DeviceDegraded,
    /// The write buffers are full: writes come faster than the device takes them.
    BuffersFull,
    /// No segment is free: writes come faster than segments are reclaimed.
    NoFreeSegment,
    /// The index is as large as it may become.
    IndexFull,
    /// The key is empty or too long.
    KeyLength,
    /// The value is longer than a large value may be.
    TooLarge,
    /// It was not whole when the cache was opened.
    NotRecovered,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Dropped; 12] = [
        Dropped::Evicted,
        Dropped::Expired,
        Dropped::Flushed,
        Dropped::Corrupt,
        Dropped::DeviceError,
        Dropped::DeviceDegraded,
        Dropped::BuffersFull,
        Dropped::NoFreeSegment,
        Dropped::IndexFull,
        Dropped::KeyLength,
        Dropped::TooLarge,
        Dropped::NotRecovered,
    ];

    /// The name that statistics use.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Evicted => "evicted",
            Dropped::Expired => "expired",
            Dropped::Flushed => "flushed",
            Dropped::Corrupt => "corrupt",
            Dropped::DeviceError => "device_error",
            Dropped::DeviceDegraded => "device_degraded",
            Dropped::BuffersFull => "buffers_full",
            Dropped::NoFreeSegment => "no_free_segment",
            Dropped::IndexFull => "index_full",
            Dropped::KeyLength => "key_length",
            Dropped::TooLarge => "too_large",
            Dropped::NotRecovered => "not_recovered",
        }
    }
}

/// Records that were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropEvent {
    /// Why.
    pub reason: Dropped,
    /// The class of their segment.
    pub class: Class,
    /// Hash of the key; 0 when the event is about several.
    pub hash: u64,
    /// How many records.
    pub records: u64,
    /// Bytes of the records, headers included.
    pub bytes: u64,
    /// Seconds since their segment was opened.
    pub age_s: u32,
    /// Whose they were; 0 when unknown.
    pub tenant: u32,
    /// Whether they were ever used.
    pub is_fetched: bool,
}

/// Hears of every drop, and of what lies on flash. It is called under locks of the tier, of which it must
/// ask nothing, and takes its callers' time: be quick.
pub trait Observer: Send + Sync + 'static {
    /// Records were dropped.
    fn dropped(&self, drop: DropEvent);

    /// So many bytes of records of a tenant lie on flash: they were written, or found again at the start.
    /// They do so until they are vacated, also when nobody can find them any more. Tenants beyond 255 in one
    /// segment are all number 2^32 - 1.
    fn occupied(&self, _tenant: u32, _bytes: u64) {}

    /// So many bytes of a tenant do not lie on flash any more.
    fn vacated(&self, _tenant: u32, _bytes: u64) {}
}

/// An observer that looks away.
pub struct Unobserved;

impl Observer for Unobserved {
    fn dropped(&self, _drop: DropEvent) {}
}
