//! Helpers for targets of blocks: a valid block to put inputs into, and the trailer that follows a
//! footer.

use bytes::Bytes;
use sandur_format::block::{BlockIndex, TRAILER_LEN};
use sandur_format::codec::crc32c;

/// Opens a valid block and its footer.
pub(super) fn opened<F: BlockIndex>(object: &'static [u8]) -> (Bytes, F) {
    let object = Bytes::from_static(object);
    let range = F::locate(&object, object.len() as u64);
    let range = range.unwrap_or_else(|error| panic!("the fixture: {error}"));
    let footer = F::open(object.slice(range.start as usize..));
    (object, footer.unwrap_or_else(|error| panic!("the fixture: {error}")))
}

/// Returns a footer followed by a trailer with correct checksums, for the offset and version. `magic` is
/// the magic number at the end of the blocks of its signal.
pub(super) fn with_trailer(footer: &[u8], offset: u64, version: u16, magic: &[u8]) -> Bytes {
    let mut trailer = offset.to_le_bytes().to_vec();
    trailer.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    trailer.extend_from_slice(&crc32c(footer).to_le_bytes());
    trailer.extend_from_slice(&version.to_le_bytes());
    trailer.extend_from_slice(&[0; 2]);
    let crc = crc32c(&trailer);
    trailer.extend_from_slice(&crc.to_le_bytes());
    trailer.extend_from_slice(magic);
    assert_eq!(trailer.len(), TRAILER_LEN);
    Bytes::from([footer, &trailer].concat())
}
