//! Files that are truncated, changed or made up give an error or points, and never use more memory than
//! announced.

use sandur_whisper::{Checks, Damage, Error, Whisper};

use crate::{FIXTURES, fixture};

/// Reads all points and checks that the memory is within the announced bound.
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
    let points = history.points() + history.left.covered_by_finer + history.left.not_a_number;
    assert!(points * 16 <= whisper.memory_bytes());
    Ok(points)
}

#[test]
fn truncated_and_changed_files_are_read_or_refused() {
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
                let _ = (read(&changed, Checks::None), salvaged(&changed));
                changed[at] = bytes[at];
            }
            assert_eq!(read(&changed, Checks::All).unwrap(), whole);
        }
    }
}

#[test]
fn checksums_detect_a_changed_byte_of_a_compressed_file() {
    let bytes = fixture("go", "compressed");
    for at in (18..700).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(read(&changed, Checks::All).is_err(), "{at}");
    }
}

/// The number of points by archive, and the reports of damage.
fn salvaged(bytes: &[u8]) -> Result<(Vec<(usize, usize)>, Vec<String>), Error> {
    let whisper = Whisper::open_with(bytes, Checks::All, Damage::LeftOut)?;
    if whisper.memory_bytes() > 64 << 20 {
        return Ok(Default::default());
    }
    let history = whisper.history(u32::MAX)?;
    let points = history.points() + history.left.covered_by_finer + history.left.not_a_number;
    assert!(points * 16 <= whisper.memory_bytes());
    Ok((history.archives.iter().map(|kept| (kept.archive, kept.points.len())).collect(), history.damaged))
}

/// One damaged archive used to make the complete file unreadable.
#[test]
fn intact_archives_are_read_if_others_are_damaged() {
    let bytes = fixture("python", "average");
    let (whole, damaged) = salvaged(&bytes).unwrap();
    assert!(damaged.is_empty() && whole.len() > 1, "{damaged:?}");
    let (some, damaged) = salvaged(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(some, whole[..whole.len() - 1]);
    let last = whole.len() - 1;
    assert!(
        damaged.len() == 1 && damaged[0].starts_with(&format!("archive {last} is damaged")),
        "{damaged:?}"
    );
    // Changes the step of the second archive: all points of the others are read, and more of those after
    // it.
    let mut changed = bytes.clone();
    changed[16 + 12 + 4..16 + 12 + 8].copy_from_slice(&7u32.to_be_bytes());
    let (others, damaged) = salvaged(&changed).unwrap();
    assert!(damaged.len() == 1 && damaged[0].starts_with("archive 1 is damaged"), "{damaged:?}");
    assert!(
        others.iter().all(|(archive, points)| {
            whole.iter().any(|(own, before)| own == archive && before <= points)
        })
    );
    assert_eq!(others.len(), whole.len() - 1);
    assert!(salvaged(&bytes[..10]).is_err() && salvaged(&header(&[[28, 60, u32::MAX]])).is_err());
}

#[test]
fn intact_blocks_are_read_and_coarser_points_cover_damaged_ones() {
    let bytes = fixture("go", "compressed");
    let whisper = Whisper::open(&bytes[..], Checks::All).unwrap();
    let whole = whisper.history(u32::MAX).unwrap();
    let covered = |history: &sandur_whisper::History, time: u32| {
        let has = |kept: &sandur_whisper::Kept| {
            kept.points.iter().any(|point| (point.time..point.time + kept.step).contains(&time))
        };
        history.archives.iter().any(has)
    };
    let mut found = 0;
    for at in (bytes.len() / 3..bytes.len()).step_by(bytes.len() / 40) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let salvaged = Whisper::open_with(&changed[..], Checks::All, Damage::LeftOut).unwrap();
        let history = salvaged.history(u32::MAX).unwrap();
        if history.damaged.is_empty() {
            continue;
        }
        found += 1;
        assert!(history.damaged[0].contains("block"), "{:?}", history.damaged);
        assert_eq!(history.archives.len(), whole.archives.len());
        let finest = &whole.archives[0].points;
        let lost = finest.iter().filter(|point| !history.archives[0].points.contains(point));
        let oldest_coarse = whisper.points(1, u32::MAX).unwrap().first().map_or(u32::MAX, |point| point.time);
        for point in lost.filter(|point| point.time >= oldest_coarse) {
            assert!(covered(&history, point.time), "{at}: nothing covers {}", point.time);
        }
    }
    assert!(found > 0, "no block was damaged");
    // A truncation loses the blocks after it that have points: here those of the last archive.
    let cut = |length: usize| {
        let whisper = Whisper::open_with(&bytes[..length], Checks::All, Damage::LeftOut).unwrap();
        whisper.history(u32::MAX).unwrap()
    };
    assert_eq!(cut(bytes.len() - 1), whole);
    let history = cut(bytes.len() * 92 / 100);
    assert_eq!(history.damaged.len(), 1, "{:?}", history.damaged);
    assert!(history.damaged[0].starts_with("archive 2, block 0 is damaged"), "{:?}", history.damaged);
    assert_eq!(history.archives[0], whole.archives[0]);
}

fn header(archives: &[[u32; 3]]) -> Vec<u8> {
    let words = [1, 3600, 0.5f32.to_bits(), archives.len() as u32];
    words.iter().chain(archives.iter().flatten()).flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn impossible_headers_are_refused_with_the_reason() {
    for (archives, message) in [
        (&[][..], "no archives"),
        (&[[28, 0, 10]], "10 points of 0 seconds"),
        (&[[28, 60, 0]], "0 points of 60 seconds"),
        (&[[28, 60, u32::MAX]], "is truncated"),
        (&[[u32::MAX, u32::MAX, u32::MAX]], "is truncated"),
        (&[[0, 60, 10]], "is truncated"),
        (&[[40, 60, 10], [100, 300, 10]], "overlaps"),
        (&[[40, 60, 10], [160, 90, 10]], "not a multiple"),
        (&[[40, 60, 10], [160, 60, 10]], "not a multiple"),
    ] {
        let mut bytes = header(archives);
        bytes.resize(1_000, 0);
        let error = read(&bytes, Checks::All).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    for (at, word, message) in
        [(0, 0u32, "method"), (8, 2f32.to_bits(), "xFiles"), (12, u32::MAX, "archives")]
    {
        let mut bytes = header(&[[28, 60, 10]]);
        bytes.resize(1_000, 0);
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        let error = read(&bytes, Checks::All).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
