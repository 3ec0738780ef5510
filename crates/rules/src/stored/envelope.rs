//! The bytes of the objects of stored rules: a header with a checksum, and JSON
//! ([format](../../../../docs/formats/stored-rules.md)).
//!
//! **Invariant.** Bytes that were cut, changed, or that belong to an object of another kind are refused.

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const MAGIC: &[u8; 3] = b"SDR";
const VERSION: u8 = 1;
/// Magic, version, kind, three zeros.
const HEAD_BYTES: usize = 8;
/// The head and the checksum.
const BODY_AT: usize = HEAD_BYTES + 16;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The index of all tenants.
    Index = 1,
    /// The rules of one tenant.
    Rules = 2,
}

/// The object with this content.
pub fn seal(kind: Kind, content: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0; BODY_AT];
    bytes[..3].copy_from_slice(MAGIC);
    (bytes[3], bytes[4]) = (VERSION, kind as u8);
    // Maps with text keys, texts and numbers are always JSON.
    if serde_json::to_writer(&mut bytes, content).is_err() {
        bytes.truncate(BODY_AT);
    }
    let sum = checksum_of(&bytes);
    bytes[HEAD_BYTES..BODY_AT].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The content of an object of this kind. The error says what is wrong.
pub fn open<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, String> {
    if bytes.len() < BODY_AT || &bytes[..3] != MAGIC {
        return Err(format!("{} bytes that are no object of stored rules", bytes.len()));
    }
    if bytes[3] != VERSION {
        return Err(format!("version {}, and this program reads version {VERSION}", bytes[3]));
    }
    let mut sum = [0; 16];
    sum.copy_from_slice(&bytes[HEAD_BYTES..BODY_AT]);
    if u128::from_le_bytes(sum) != checksum_of(bytes) {
        return Err("the checksum is wrong: the object was cut or changed".to_owned());
    }
    if bytes[4] != kind as u8 {
        return Err(format!("an object of kind {} instead of {}", bytes[4], kind as u8));
    }
    serde_json::from_slice(&bytes[BODY_AT..]).map_err(|error| format!("its content cannot be read: {error}"))
}

/// The checksum of the head and the body.
fn checksum_of(bytes: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&bytes[..HEAD_BYTES]);
    hash.update(&bytes[BODY_AT..]);
    hash.digest128()
}

/// The checksum of a complete object, by which others refer to it.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_cut_and_other_objects_are_refused() {
        let bytes = seal(Kind::Rules, &vec!["a", "b"]);
        assert_eq!(open::<Vec<String>>(Kind::Rules, &bytes).unwrap(), ["a", "b"]);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(open::<Vec<String>>(Kind::Rules, &changed).is_err(), "{at}");
            assert!(open::<Vec<String>>(Kind::Rules, &bytes[..at]).is_err(), "{at}");
        }
        let other = open::<Vec<String>>(Kind::Index, &bytes).unwrap_err();
        assert_eq!(other, "an object of kind 2 instead of 1");
        let later = {
            let mut later = bytes.clone();
            later[3] = 2;
            later
        };
        assert!(open::<Vec<String>>(Kind::Rules, &later).unwrap_err().contains("version 2"));
    }
}
