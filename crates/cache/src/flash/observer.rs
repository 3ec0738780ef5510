//! The observer, which is notified of every record that leaves flash or never reaches it.
//!
//! Invariant: for each record that disappears there is one [`DropEvent`] with the reason, except if its
//! owner replaced or removed it.

use super::format::Class;

/// Why a record is not on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// Its segment was reclaimed.
    Evicted,
    /// It had expired.
    Expired,
    /// Everything was flushed.
    Flushed,
    /// Its bytes failed a checksum.
    Corrupt,
    /// The device failed to read or write it.
    DeviceError,
    /// The device accepts no writes at present.
    DeviceDegraded,
    /// The write buffers are full: records arrive faster than the device writes them.
    BuffersFull,
    /// No segment is free: records arrive faster than segments are reclaimed.
    NoFreeSegment,
    /// The index has reached its largest size.
    IndexFull,
    /// The key is empty or too long.
    KeyLength,
    /// The value is longer than the limit.
    TooLarge,
    /// It was not completely on the device when the cache was opened.
    NotRecovered,
}

impl Dropped {
    /// All reasons.
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

/// A number of dropped records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropEvent {
    /// The reason.
    pub reason: Dropped,
    /// The class of their segment.
    pub class: Class,
    /// Hash of the key; 0 if the event is about several keys.
    pub hash: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of the records, including headers.
    pub bytes: u64,
    /// Seconds since their segment was opened.
    pub age_s: u32,
    /// The tenant that owned them; 0 if unknown.
    pub tenant: u32,
    /// Whether they were ever used.
    pub is_fetched: bool,
}

/// Is notified of every drop, and of the bytes on flash. It is called under locks of the tier: it must
/// be quick and must not call the tier.
pub trait Observer: Send + Sync + 'static {
    /// Records were dropped.
    fn dropped(&self, drop: DropEvent);

    /// `bytes` bytes of records of a tenant are on flash: they were written, or recovered at the start.
    /// They stay there until they are vacated, even if they can no longer be found. In one segment all
    /// tenants beyond the first 255 have the number 2^32 - 1.
    fn occupied(&self, _tenant: u32, _bytes: u64) {}

    /// `bytes` bytes of a tenant are not on flash any more.
    fn vacated(&self, _tenant: u32, _bytes: u64) {}
}

/// An observer that ignores all events.
pub struct NoObserver;

impl Observer for NoObserver {
    fn dropped(&self, _drop: DropEvent) {}
}
