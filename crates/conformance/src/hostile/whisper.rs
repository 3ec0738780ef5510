//! Files of whisper and of go-carbon's compressed form, with checksums not looked at.

use sandur_whisper::{Checks, Whisper};

/// Files that announce more are left alone, as their owner would leave them.
const MEMORY_MAX: u64 = 64 << 20;
/// What a compressed file begins with.
const MAGIC: &[u8] = b"whisper_compressed";

/// A file as it is.
pub fn run(input: &[u8]) {
    let Ok(whisper) = Whisper::open(input, Checks::None) else { return };
    if whisper.memory_bytes() > MEMORY_MAX {
        return;
    }
    let Ok(history) = whisper.history(u32::MAX) else { return };
    for kept in &history.archives {
        assert!(kept.points.is_sorted_by(|a, b| a.time < b.time), "points rise in time");
        assert!(kept.points.iter().all(|point| point.time % kept.step == 0), "points stand at steps");
        let first_and_last = kept.points.first().zip(kept.points.last());
        let span = first_and_last.map_or(0, |(first, last)| u64::from(last.time - first.time));
        let retention = whisper.archives()[kept.archive].retention();
        assert!(span < retention, "points lie within the retention");
    }
    let points = history.points() + history.left.told_finer + history.left.not_a_number;
    assert!(points * 16 <= whisper.memory_bytes(), "memory was announced");
}

/// What follows the mark of a compressed file.
pub fn run_compressed(input: &[u8]) {
    run(&[MAGIC, input].concat());
}
