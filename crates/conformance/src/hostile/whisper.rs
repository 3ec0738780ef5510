//! Whisper files and go-carbon's compressed files; checksums are not verified.

use sandur_whisper::{Checks, Whisper};

/// Files that announce more memory are skipped, as the caller of the reader would do.
const MEMORY_MAX: u64 = 64 << 20;
/// The magic number of a compressed file.
const MAGIC: &[u8] = b"whisper_compressed";

/// The input is a file.
pub fn run(input: &[u8]) {
    let Ok(whisper) = Whisper::open(input, Checks::None) else { return };
    if whisper.memory_bytes() > MEMORY_MAX {
        return;
    }
    let Ok(history) = whisper.history(u32::MAX) else { return };
    for kept in &history.archives {
        assert!(kept.points.is_sorted_by(|a, b| a.time < b.time), "points are sorted by time");
        assert!(
            kept.points.iter().all(|point| point.time % kept.step == 0),
            "the times of points are multiples of the step"
        );
        let first_and_last = kept.points.first().zip(kept.points.last());
        let span = first_and_last.map_or(0, |(first, last)| u64::from(last.time - first.time));
        let retention = whisper.archives()[kept.archive].retention();
        assert!(span < retention, "points are within the retention");
    }
    let points = history.points() + history.left.covered_by_finer + history.left.not_a_number;
    assert!(points * 16 <= whisper.memory_bytes(), "not more memory is used than was announced");
}

/// The input is the part of a compressed file after its magic number.
pub fn run_compressed(input: &[u8]) {
    run(&[MAGIC, input].concat());
}
