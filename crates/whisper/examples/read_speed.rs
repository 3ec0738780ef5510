//! Measures the points per second of reading complete files, and of encoding requests from them: `cargo
//! run --release -p sandur-whisper --example read_speed FILE...`.
//!
//! Without files it generates one in whisper's form: 10 s for 30 days, a minute for a year, an hour for
//! ten years.

#![allow(clippy::disallowed_methods)] // a measurement: real time

use std::fs::File;
use std::time::Instant;

use sandur_ingest::RemoteWriteEncoder;
use sandur_model::graphite_path_labels;
use sandur_whisper::{Checks, History, ReadAt, Whisper};

const NOW: u32 = 1_795_176_000;
/// Number of points of a request, as the import sends them.
const REQUEST_POINTS: usize = 50_000;

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        measure("made up", &made_up()[..]);
    }
    for path in paths {
        match File::open(&path) {
            Ok(file) => measure(&path, file),
            Err(error) => eprintln!("{path}: {error}"),
        }
    }
}

fn measure(name: &str, source: impl ReadAt) {
    let whisper = match Whisper::open(source, Checks::All) {
        Ok(whisper) => whisper,
        Err(error) => return eprintln!("{name}: {error}"),
    };
    let (mut read, mut both) = (f64::MAX, f64::MAX);
    let (mut points, mut bytes) = (0, 0);
    for _ in 0..5 {
        let began = Instant::now();
        let history = match whisper.history(u32::MAX) {
            Ok(history) => history,
            Err(error) => return eprintln!("{name}: {error}"),
        };
        read = read.min(began.elapsed().as_secs_f64());
        points = history.points();
        bytes = encoded(&history);
        both = both.min(began.elapsed().as_secs_f64());
    }
    let rate = |seconds: f64| points as f64 / seconds / 1e6;
    println!(
        "{name}: {points} points, read at {:.1} M/s, encoded too at {:.1} M/s, {:.1} bytes sent each",
        rate(read),
        rate(both),
        bytes as f64 / points.max(1) as f64
    );
}

/// Returns the bytes of the requests.
fn encoded(history: &History) -> usize {
    let Ok(labels) = graphite_path_labels("servers.web1.cpu.load") else { return 0 };
    let mut encoder = RemoteWriteEncoder::new();
    let parts = history.archives.iter().flat_map(|kept| kept.points.chunks(REQUEST_POINTS));
    let requests = parts.map(|points| {
        encoder.series(&labels, points.iter().map(|point| (i64::from(point.time) * 1_000, point.value)));
        encoder.finish().map_or(0, |request| request.len())
    });
    requests.sum()
}

fn made_up() -> Vec<u8> {
    let archives = [(10u32, 259_200u32), (60, 525_600), (3600, 87_600)];
    let mut bytes: Vec<u8> = Vec::new();
    let words = [1, 315_360_000, 0.5f32.to_bits(), 3];
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    let mut offset = 16 + 3 * 12;
    for (step, points) in archives {
        bytes.extend([offset, step, points].iter().flat_map(|word| word.to_be_bytes()));
        offset += points * 12;
    }
    for (step, points) in archives {
        let last = NOW - NOW % step;
        // The ring wraps around in the middle.
        for slot in 0..points {
            let back = (points + points / 2 - slot) % points;
            bytes.extend((last - back * step).to_be_bytes());
            bytes.extend((f64::from(slot % 977) * 0.25).to_be_bytes());
        }
    }
    bytes
}
