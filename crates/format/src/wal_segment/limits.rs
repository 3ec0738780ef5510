//! Versions of frames, bounds, and the name of a frame in errors.

/// Version of frames that hold only logs, and of fences: programs without metrics can read them.
pub const VERSION: u8 = 1;
/// The newest version, that of frames with a stamp; this one and all earlier ones are read.
pub const VERSION_MAX: u8 = STAMPED_SINCE;
/// The version of frames since which records hold their signal, that of frames that hold metrics.
pub(crate) const SIGNALS_SINCE: u8 = 2;
/// The version of frames since which the body begins with a stamp.
pub(crate) const STAMPED_SINCE: u8 = 3;
/// Most plain bytes of a batch's arena: bounds memory when a segment is read.
pub const ARENA_BYTES_MAX: usize = 256 << 20;
/// Name of a frame in errors.
pub(crate) const PART: &str = "WAL frame";
