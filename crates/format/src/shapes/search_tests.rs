//! Goal: a test that runs over pieces keeps exactly the rows that it keeps when it reads the lines, and
//! assembling some lines returns these lines. Method: needles taken from the beginning, the end and any
//! place of the lines, some of them changed, on lines of services and random bytes; before and after
//! other tests.

use proptest::prelude::*;
use sandur_model::{AutomatonParts, AutomatonState, LineAutomaton};

use super::tests::{Rows, line_of, service};
use super::*;

/// The required place of a needle in a line.
#[derive(Clone, Copy, Debug)]
enum Place {
    Anywhere,
    AtTheStart,
    AtTheEnd,
}

fn same(a: u8, b: u8, ignore_case: bool) -> bool {
    if ignore_case { a.eq_ignore_ascii_case(&b) } else { a == b }
}

/// A state is the number of needle bytes that were matched last, after the two that decide.
fn automaton(needle: &[u8], place: Place, ignore_case: bool) -> LineAutomaton {
    let len = needle.len();
    let fits =
        |seen: &[u8], from: usize| seen[from..].iter().zip(needle).all(|(&a, &b)| same(a, b, ignore_case));
    let state = |count: usize| count as AutomatonState + 2;
    let next = |count: usize, byte: u8| {
        let seen = [&needle[..count], &[byte]].concat();
        let longest = (0..=seen.len()).find(|&from| seen.len() - from <= len && fits(&seen, from));
        let matched = seen.len() - longest.unwrap_or(seen.len());
        match place {
            Place::Anywhere if matched == len => LineAutomaton::PASSES,
            Place::AtTheStart if count == len => LineAutomaton::PASSES,
            Place::AtTheStart if matched < seen.len() => LineAutomaton::FAILS,
            _ => state(matched),
        }
    };
    let row = |count: usize| (0..=255).map(|byte| next(count, byte)).collect();
    let mut table = vec![Vec::new(); 2];
    table.extend((0..=len).map(row));
    let mut passes_at_end = vec![false; len + 3];
    passes_at_end[len + 2] = true;
    let classes = std::array::from_fn(|n| n as u8);
    LineAutomaton::new(AutomatonParts { classes, next: table, passes_at_end, start: state(0) }).unwrap()
}

/// Runs tests over the pieces and over the lines, and compares the results.
fn check(rows: &Rows, bytes: &bytes::Bytes, tests: &[(LineAutomaton, bool)], alive: &[bool]) {
    let mut lines = ShapedLines::open(bytes, rows.timestamps.len(), rows.text.len()).unwrap();
    let mut found = alive.to_vec();
    let mut expected = alive.to_vec();
    for (test, negated) in tests {
        assert!(lines.retain(test, *negated, &rows.timestamps, &mut found).unwrap());
        for (row, expected) in expected.iter_mut().enumerate() {
            *expected &= test.passes(line_of(rows, row)) != *negated;
        }
        assert_eq!(found, expected);
    }
    let some = lines.lines_of(&rows.timestamps, &found).unwrap();
    for (row, wanted) in found.iter().enumerate() {
        assert_eq!(some.line(row), if *wanted { line_of(rows, row) } else { b"" });
    }
    let all = lines.lines(&rows.timestamps).unwrap();
    assert!(all.bytes == rows.text && all.ends == rows.ends);
}

#[test]
fn needles_across_slot_boundaries_are_found() {
    let rows = service(&[0, 1, 2, 3, 4], 1_500);
    let bytes = bytes::Bytes::from(rows.encoded().unwrap());
    let alive = vec![true; rows.timestamps.len()];
    for needle in [
        "timeout",
        "took",
        "took 1",
        "ms\"",
        "level\":\"warn",
        "\"status\":20",
        "203",
        "user1",
        "-20T",
        "Nov",
        "Nov 20",
        "port 6",
        "sshd[1",
        "of 1",
        "items",
        "x\\",
        "00-40",
        "0x",
        " ",
        "1",
        "e",
        "attempt 2 of",
    ] {
        for place in [Place::Anywhere, Place::AtTheStart, Place::AtTheEnd] {
            for ignore_case in [false, true] {
                let test = automaton(needle.as_bytes(), place, ignore_case);
                check(&rows, &bytes, &[(test.clone(), false)], &alive);
                check(&rows, &bytes, &[(test, true)], &alive);
            }
        }
    }
}

#[test]
fn a_needle_without_digits_reads_no_pool_of_numbers() {
    let rows = service(&[1], 1_000);
    let bytes = bytes::Bytes::from(rows.encoded().unwrap());
    let mut lines = ShapedLines::open(&bytes, rows.timestamps.len(), rows.text.len()).unwrap();
    let mut alive = vec![true; rows.timestamps.len()];
    let absent = automaton(b"timeout", Place::Anywhere, false);
    lines.retain(&absent, false, &rows.timestamps, &mut alive).unwrap();
    assert!(alive.iter().all(|alive| !alive));
    assert!((0..lines.fields()).all(|field| lines.cells_at(field).is_none()), "no field was read");
    let mut alive = vec![true; rows.timestamps.len()];
    let number = automaton(b" dur=7", Place::Anywhere, false);
    lines.retain(&number, false, &rows.timestamps, &mut alive).unwrap();
    assert!(alive.contains(&true) && alive.contains(&false));
    let read = (0..lines.fields()).filter(|&field| lines.cells_at(field).is_some()).count();
    assert_eq!(read, 1, "one pool holds the digits after the key");
}

#[test]
fn automata_that_are_too_large_are_refused() {
    let rows = service(&[2], 100);
    let bytes = bytes::Bytes::from(rows.encoded().unwrap());
    let mut lines = ShapedLines::open(&bytes, 100, rows.text.len()).unwrap();
    let needle: Vec<u8> = (0..300_u32).map(|n| (n % 251) as u8).collect();
    let test = automaton(&needle, Place::Anywhere, false);
    let mut alive = vec![true; 100];
    assert!(!lines.retain(&test, false, &rows.timestamps, &mut alive).unwrap());
    assert!(alive.iter().all(|alive| *alive));
}

/// Returns a piece of a line, or a changed one.
fn needle(rows: &Rows, (row, at, len, change): (usize, usize, usize, usize)) -> Vec<u8> {
    let line = line_of(rows, row % rows.ends.len());
    let at = at % (line.len() + 1);
    let mut needle = line[at..(at + len).min(line.len())].to_vec();
    if let Some(byte) = needle.get_mut(change) {
        *byte = byte.wrapping_add(1);
    }
    if needle.is_empty() { b"x".to_vec() } else { needle }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn tests_over_pieces_agree_with_tests_of_lines(
        kinds in proptest::collection::vec(0_u64..5, 1..4),
        count in 40_u64..300,
        rubbish in proptest::collection::vec(
            (0_usize..300, proptest::collection::vec(any::<u8>(), 0..30)),
            0..6,
        ),
        cuts in proptest::collection::vec(
            ((0_usize..300, 0_usize..200, 1_usize..24, 0_usize..60), 0_u8..3, any::<bool>(), any::<bool>()),
            1..5,
        ),
        dead in proptest::collection::vec(any::<bool>(), 300),
    ) {
        let base = service(&kinds, count);
        let mut all: Vec<(i64, Vec<u8>)> = Vec::new();
        for (row, &timestamp) in base.timestamps.iter().enumerate() {
            all.push((timestamp, line_of(&base, row).to_vec()));
        }
        for (at, bytes) in rubbish {
            let at = at % all.len();
            all[at].1.extend_from_slice(&bytes);
        }
        let rows = Rows::new(all);
        if let Some(bytes) = rows.encoded() {
            let tests: Vec<_> = cuts
                .iter()
                .map(|(cut, place, ignore_case, negated)| {
                    let place = [Place::Anywhere, Place::AtTheStart, Place::AtTheEnd][usize::from(*place)];
                    (automaton(&needle(&rows, *cut), place, *ignore_case), *negated)
                })
                .collect();
            let alive: Vec<bool> = (0..rows.ends.len()).map(|row| !dead[row]).collect();
            let bytes = bytes::Bytes::from(bytes);
            check(&rows, &bytes, &tests, &alive);
            for test in tests {
                check(&rows, &bytes, &[test], &vec![true; alive.len()]);
            }
        }
    }
}
