//! Points read from files of the original programs are the points that those programs read.

use std::collections::BTreeMap;

use sandur_whisper::{Checks, Form, History, Point, Whisper};
use serde_json::Value;

use crate::{FIXTURES, fixture, folder};

/// A time later than every point.
const NOW: u32 = 1_795_176_017;

fn expected(writer: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder(writer).join("expected.json")).unwrap()).unwrap()
}

/// The times and the bits of the values of an archive.
fn expected_bits(archive: &Value) -> Vec<(u32, u64)> {
    let points = archive["points"].as_array().unwrap().iter();
    let bits = |value: &Value| u64::from_str_radix(value.as_str().unwrap(), 16).unwrap();
    points.map(|point| (point[0].as_u64().expect("a time") as u32, bits(&point[1]))).collect()
}

fn bits(points: &[Point]) -> Vec<(u32, u64)> {
    points.iter().map(|point| (point.time, point.value.to_bits())).collect()
}

#[test]
fn archives_of_whisper_are_read_as_by_whisper() {
    let expected = expected("python");
    for name in FIXTURES[0].1 {
        let (bytes, expected) = (fixture("python", name), &expected[*name]);
        let whisper = Whisper::open(&bytes[..], Checks::All).unwrap();
        assert_eq!(whisper.method().to_string(), expected["method"].as_str().unwrap(), "{name}");
        assert_eq!(f64::from(whisper.x_files_factor()), expected["factor"].as_f64().unwrap(), "{name}");
        for (n, archive) in expected["archives"].as_array().unwrap().iter().enumerate() {
            assert_eq!(u64::from(whisper.archives()[n].step), archive["step"].as_u64().unwrap());
            assert_eq!(bits(&whisper.points(n, NOW).unwrap()), expected_bits(archive), "{name} {n}");
        }
    }
}

/// While reading, go-carbon computes coarser points that are not stored yet; this reader uses the finer
/// ones instead.
#[test]
fn archives_of_go_carbon_are_read_as_by_go_carbon() {
    let expected = expected("go");
    for name in FIXTURES[1].1 {
        let (bytes, expected) = (fixture("go", name), &expected[*name]);
        let whisper = Whisper::open(&bytes[..], Checks::All).unwrap_or_else(|e| panic!("{name}: {e}"));
        let form = if *name == "go" { Form::Classic } else { Form::Compressed };
        assert_eq!(whisper.form(), form, "{name}");
        assert_eq!(whisper.method().to_string(), expected["method"].as_str().unwrap(), "{name}");
        let finest = whisper.points(0, NOW).unwrap();
        for (n, archive) in expected["archives"].as_array().unwrap().iter().enumerate() {
            let (ours, theirs) = (bits(&whisper.points(n, NOW).unwrap()), expected_bits(archive));
            let ours: BTreeMap<u32, u64> = ours.into_iter().collect();
            let theirs: BTreeMap<u32, u64> = theirs.into_iter().collect();
            let first = theirs.first_key_value().map_or(0, |(time, _)| *time);
            for (time, value) in ours.range(first..) {
                assert_eq!(theirs.get(time), Some(value), "{name} {n} at {time}");
            }
            assert!(!ours.is_empty(), "{name} {n}");
            for time in theirs.keys().filter(|time| !ours.contains_key(time)) {
                let interval = *time..*time + whisper.archives()[n].step;
                assert!(n > 0, "{name} {n} lacks {time}");
                assert!(finest.iter().any(|p| interval.contains(&p.time)), "{name} {n} lacks {time}");
            }
        }
    }
}

#[test]
fn an_interval_is_covered_twice_only_at_the_end_of_a_finer_archive() {
    for (writer, names) in FIXTURES {
        for name in *names {
            let bytes = fixture(writer, name);
            let whisper = Whisper::open(&bytes[..], Checks::All).unwrap();
            let history = whisper.history(NOW).unwrap();
            assert_eq!(bits(&history.archives[0].points), bits(&whisper.points(0, NOW).unwrap()));
            check_covered_once(&history, name);
            let known: u64 = history.archives.iter().map(|kept| lost(&whisper, &history, kept.archive)).sum();
            assert_eq!(known, 0, "{writer} {name}: intervals that only a coarser archive covers are lost");
        }
    }
}

fn check_covered_once(history: &History, name: &str) {
    for (n, coarse) in history.archives.iter().enumerate() {
        let twice = coarse.points.iter().filter(|point| {
            let interval = point.time..point.time + coarse.step;
            history.archives[..n].iter().any(|finer| finer.points.iter().any(|p| interval.contains(&p.time)))
        });
        assert!(twice.count() <= n, "{name} {n}");
    }
}

/// Returns the number of points of an archive that the history does not cover.
fn lost(whisper: &Whisper<&[u8]>, history: &History, archive: usize) -> u64 {
    let step = whisper.archives()[archive].step;
    let points = whisper.points(archive, NOW).expect("a sound archive");
    let lost = points.iter().filter(|point| {
        let interval = point.time..point.time + step;
        !history.archives.iter().any(|kept| kept.points.iter().any(|p| interval.contains(&p.time)))
    });
    lost.count() as u64
}

#[test]
fn points_in_the_future_are_dropped() {
    let bytes = fixture("python", "single");
    let whisper = Whisper::open(&bytes[..], Checks::All).unwrap();
    let all = whisper.points(0, NOW).unwrap();
    let until = all[all.len() / 2].time;
    let some = whisper.points(0, until).unwrap();
    assert_eq!(some.last().unwrap().time, until);
    assert!(some.len() < all.len());
}
