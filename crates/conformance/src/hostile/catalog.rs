//! Catalog objects with any body and a correct checksum: they are refused within bounds or read, and an
//! object that was read is the same after it is written and read again.

use sandur_format::catalog_entry::{
    BackupManifest, BackupMark, Boundary, CheckpointRoot, Entry, LogPosition, Member, decode_part,
    encode_part,
};
use sandur_format::codec::checksum::{crc32c, crc32c_append};
use sandur_format::codec::compress::put_zstd;

/// Longest input in bytes.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Magic numbers of the objects: entry, root and part of a checkpoint, boundary, member, witness, manifest
/// and mark of a backup.
const MAGICS: [&[u8; 4]; 8] = [b"SDCE", b"SDCR", b"SDCP", b"SDCB", b"SDCM", b"SDCW", b"SDBM", b"SDBK"];
/// Index of the parts of checkpoints in [`MAGICS`].
const PART: usize = 2;

/// The first byte chooses the object, the second is its version, the rest is the body. The body of a
/// part of a checkpoint is the number of rows and the uncompressed rows.
pub fn run(input: &[u8]) {
    let [choice, version, body @ ..] = input else { return };
    if body.len() > INPUT_BYTES_MAX {
        return;
    }
    let choice = usize::from(*choice) % MAGICS.len();
    let packed;
    let body = match choice {
        PART => {
            packed = packed_part(body);
            &packed
        }
        _ => body,
    };
    let object = object(MAGICS[choice], *version, body);
    match choice {
        0 => reads_as_written(&object, Entry::decode, |entry| entry.encode().ok()),
        1 => reads_as_written(&object, CheckpointRoot::decode, |root| root.encode().ok()),
        PART => reads_as_written(&object, decode_part, |rows| encode_part(rows).ok()),
        3 => reads_as_written(&object, Boundary::decode, |boundary| Some(boundary.encode())),
        4 => reads_as_written(&object, Member::decode, |member| member.encode().ok()),
        5 => reads_as_written(&object, LogPosition::decode_witness, |at| Some(at.encode_witness())),
        6 => reads_as_written(&object, BackupManifest::decode, |manifest| manifest.encode().ok()),
        _ => reads_as_written(&object, BackupMark::decode, |mark| Some(mark.encode())),
    }
}

fn packed_part(body: &[u8]) -> Vec<u8> {
    let (rows, raw) = body.split_at(body.len().min(1));
    let rows = u32::from(rows.first().copied().unwrap_or(0));
    let mut part = [rows.to_le_bytes(), (raw.len() as u32).to_le_bytes()].concat();
    put_zstd(&mut part, raw, 1);
    part
}

fn object(magic: &[u8; 4], version: u8, body: &[u8]) -> Vec<u8> {
    let head = [magic.as_slice(), &[version, 0, 0, 0]].concat();
    let checksum = crc32c_append(crc32c(&head), body).to_le_bytes();
    [&head, checksum.as_slice(), body].concat()
}

fn reads_as_written<T: PartialEq + std::fmt::Debug, E: std::fmt::Display>(
    object: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Option<Vec<u8>>,
) {
    let Ok(read) = decode(object) else { return };
    let Some(written) = encode(&read) else { return };
    match decode(&written) {
        Ok(again) => {
            // Older versions lack some fields, which the newest version has.
            let same_version = object[4] == written[4];
            assert!(
                !same_version || again == read,
                "it changes when it is written and read: {again:?} from {read:?}"
            );
            assert!(
                encode(&again).is_some_and(|twice| twice == written),
                "it is written differently the second time"
            );
        }
        Err(error) => panic!("the written object cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use sandur_format::codec::compress::get_zstd;

    use super::super::seeds;
    use super::*;

    /// Returns the bodies of the format's fixtures as inputs.
    fn inputs() -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../format/src/catalog_entry/fixtures");
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        names.sort();
        let bytes = |digits: String| {
            let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.chunks(2).map(byte).collect::<Vec<u8>>()
        };
        let input = |object: Vec<u8>| {
            let choice = MAGICS.iter().position(|magic| object.starts_with(*magic)).unwrap();
            let body = match choice {
                PART => {
                    let length = u32::from_le_bytes(object[16..20].try_into().unwrap());
                    let raw = get_zstd(&object[20..], length as usize, "", 0).unwrap();
                    [&object[12..13], &raw].concat()
                }
                _ => object[12..].to_vec(),
            };
            [&[choice as u8, object[4]], body.as_slice()].concat()
        };
        names.into_iter().map(|name| input(bytes(std::fs::read_to_string(name).unwrap()))).collect()
    }

    #[test]
    fn a_fixture_with_any_byte_changed_is_read_or_refused() {
        seeds::run_changed(run, inputs(), 0, |_| 1);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_the_inputs() {
        seeds::write("catalog", "object", inputs());
    }
}
