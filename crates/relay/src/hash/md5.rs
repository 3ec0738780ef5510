//! The first 16 bits of MD5, which carbon and compatible relays use as a ring position.

use md5::{Digest, Md5};

/// Returns the ring position of a key.
pub(crate) fn position(key: &[u8]) -> u16 {
    let digest = Md5::digest(key);
    u16::from_be_bytes([digest[0], digest[1]])
}
