//! Bounds of the format and the names of its parts in errors.

/// First bytes of a block.
pub const HEADER_MAGIC: [u8; 4] = *b"SDLB";
/// Last bytes of a block.
pub const TRAILER_MAGIC: [u8; 4] = *b"SDLE";
/// Version of the format that this program writes.
pub const VERSION: u16 = 4;
/// Version since which footers list metadata keys.
pub const METADATA_KEYS_SINCE: u16 = 2;
/// The first version whose filters say whether they hold grams of words.
pub const WORD_KEYS_SINCE: u16 = 3;
/// The version since which footers say what the block was made from.
pub const ORIGIN_SINCE: u16 = 4;
/// Most inputs that a footer names.
pub const INPUTS_MAX: usize = 1 << 16;
/// Bytes of the header: magic, version, two zero bytes.
pub const HEADER_LEN: u64 = 8;
/// Bytes of the trailer: footer offset, footer length, footer crc, version, two zero bytes, crc of the
/// trailer before, magic.
pub const TRAILER_LEN: usize = 28;

/// Most text bytes of a page: a page is cut at its limit, but one line may be long.
pub const TEXT_BYTES_MAX: u32 = 256 << 20;
/// Most rows of a page.
pub const ROWS_MAX: u32 = 1 << 18;
/// A page is cut before rows times metadata keys exceed this: decoded ids take two bytes each, so 16 MiB.
pub const METADATA_CELLS: u64 = 8 << 20;
/// What a reader accepts: one row may add many keys at once.
pub const METADATA_CELLS_MAX: u64 = 32 << 20;
/// Most plain bytes of a compressed part of a page's narrow columns.
pub const NARROW_BYTES_MAX: usize = 1 << 30;
/// Most plain bytes of a footer section.
pub const SECTION_BYTES_MAX: usize = 1 << 30;

/// Errors name parts by these.
pub const PART_HEADER: &str = "block header";
/// Footer and trailer.
pub const PART_FOOTER: &str = "block footer";
/// Lines of a page.
pub const PART_LINES: &str = "line column";
/// Everything of a page but its lines.
pub const PART_NARROW: &str = "narrow columns";
