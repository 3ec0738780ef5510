//! Files that are cut, changed or made up: an error or points, never more memory than announced.

use sandur_whisper::{Checks, Error, Whisper};

use crate::{FIXTURES, fixture};

/// Reads all of it; what it holds is within what was announced.
fn read(bytes: &[u8], checks: Checks) -> Result<u64, Error> {
    let whisper = Whisper::open(bytes, checks)?;
    if whisper.memory_bytes() > 64 << 20 {
        return Ok(0);
    }
    let history = whisper.history(u32::MAX)?;
    for kept in &history.archives {
        assert!(kept.points.is_sorted_by(|a, b| a.time < b.time));
        assert!(kept.points.iter().all(|point| point.time % kept.step == 0));
    }
    let points = history.points() + history.left.told_finer + history.left.not_a_number;
    assert!(points * 16 <= whisper.memory_bytes());
    Ok(points)
}

#[test]
fn files_that_are_cut_or_changed_anywhere_are_read_or_refused() {
    for (writer, names) in FIXTURES {
        for name in *names {
            let bytes = fixture(writer, name);
            let whole = read(&bytes, Checks::All).unwrap();
            for cut in (0..bytes.len()).step_by(bytes.len() / 15 + 1) {
                assert!(read(&bytes[..cut], Checks::None).is_err(), "{name} cut at {cut}");
            }
            let mut changed = bytes.clone();
            for at in (0..bytes.len().min(600)).step_by(3).chain((600..bytes.len()).step_by(331)) {
                changed[at] ^= [0xFF, 0x80, 0x01][at % 7 % 3];
                let _ = read(&changed, Checks::None);
                changed[at] = bytes[at];
            }
            assert_eq!(read(&changed, Checks::All).unwrap(), whole);
        }
    }
}

#[test]
fn a_changed_byte_of_a_compressed_file_is_found_by_its_checksums() {
    let bytes = fixture("go", "compressed");
    for at in (18..700).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(read(&changed, Checks::All).is_err(), "{at}");
    }
}

fn header(archives: &[[u32; 3]]) -> Vec<u8> {
    let words = [1, 3600, 0.5f32.to_bits(), archives.len() as u32];
    words.iter().chain(archives.iter().flatten()).flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn headers_that_cannot_be_are_refused_with_the_reason() {
    for (archives, told) in [
        (&[][..], "no archives"),
        (&[[28, 0, 10]], "10 points of 0 seconds"),
        (&[[28, 60, 0]], "0 points of 60 seconds"),
        (&[[28, 60, u32::MAX]], "is cut"),
        (&[[u32::MAX, u32::MAX, u32::MAX]], "is cut"),
        (&[[0, 60, 10]], "is cut"),
        (&[[40, 60, 10], [100, 300, 10]], "overlaps"),
        (&[[40, 60, 10], [160, 90, 10]], "no multiple"),
        (&[[40, 60, 10], [160, 60, 10]], "no multiple"),
    ] {
        let mut bytes = header(archives);
        bytes.resize(1_000, 0);
        let error = read(&bytes, Checks::All).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    for (at, word, told) in [(0, 0u32, "method"), (8, 2f32.to_bits(), "xFiles"), (12, u32::MAX, "archives")] {
        let mut bytes = header(&[[28, 60, 10]]);
        bytes.resize(1_000, 0);
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        let error = read(&bytes, Checks::All).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
