//! Bounds of the format and the names of its parts in errors.

/// First bytes of a block.
pub const HEADER_MAGIC: [u8; 4] = *b"SDLB";
/// Last bytes of a block.
pub const TRAILER_MAGIC: [u8; 4] = *b"SDLE";
/// The newest version that this program reads and writes.
pub const VERSION: u16 = 6;
/// The earliest version that this program writes, for programs that do not read later ones.
pub const VERSION_MIN: u16 = NAMED_SINCE;
/// Version since which footers list metadata keys.
pub const METADATA_KEYS_SINCE: u16 = 2;
/// The first version whose filters record whether they hold grams of words.
pub const WORD_KEYS_SINCE: u16 = 3;
/// The first version whose footers hold the origin of the block.
pub const ORIGIN_SINCE: u16 = 4;
/// The first version whose blocks hold their own id.
pub const NAMED_SINCE: u16 = 5;
/// The first version whose filters are ordered by place.
pub const BY_PLACE_SINCE: u16 = 6;

/// Most text bytes of a page: a page is closed at its limit, but a single line may be long.
pub const TEXT_BYTES_MAX: u32 = 256 << 20;
/// Most rows of a page.
pub const ROWS_MAX: u32 = 1 << 18;
/// A page is closed before rows times metadata keys exceed this: decoded ids take two bytes each, so 16
/// MiB.
pub const METADATA_CELLS: u64 = 8 << 20;
/// The bound for readers: one row may add many keys at once.
pub const METADATA_CELLS_MAX: u64 = 32 << 20;
/// Most plain bytes of a compressed part of a page's narrow columns.
pub const NARROW_BYTES_MAX: usize = 1 << 30;

/// Name of the line column in errors.
pub const PART_LINES: &str = "line column";
/// Name of the narrow columns in errors.
pub const PART_NARROW: &str = "narrow columns";
