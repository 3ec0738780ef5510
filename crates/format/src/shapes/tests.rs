//! Goal: lines round-trip exactly, whatever they contain; damaged bytes cause an error or other lines,
//! never a panic or more memory than the lines allow; the fixture of version 1 stays readable and equals
//! the encoder's output. Method: lines from templates and arbitrary bytes; every byte of an encoded page
//! changed, and the page truncated everywhere.

use proptest::prelude::*;

use super::reduce_tests::survives_reduced;
use super::*;

const NOON: i64 = 1_795_176_003_004_050_607; // 2026-11-20T12:00:03.004050607Z

/// Lines with their separators, ends and timestamps.
pub(super) struct Rows {
    pub(super) text: Vec<u8>,
    pub(super) ends: Vec<u32>,
    pub(super) timestamps: Vec<i64>,
}

impl Rows {
    pub(super) fn new(lines: impl IntoIterator<Item = (i64, Vec<u8>)>) -> Self {
        let mut rows = Self { text: Vec::new(), ends: Vec::new(), timestamps: Vec::new() };
        for (timestamp, line) in lines {
            rows.text.extend_from_slice(&line);
            rows.ends.push(rows.text.len() as u32);
            rows.text.push(b'\n');
            rows.timestamps.push(timestamp);
        }
        rows
    }

    fn encoded_with(&self, scratch: &mut ShapeScratch) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let encoded = encode(&self.text, &self.ends, &self.timestamps, scratch, &mut out);
        assert_eq!(&out[..6], b"before");
        assert!(encoded || out.len() == 6);
        encoded.then(|| out.split_off(6))
    }

    /// Returns the encoded lines, after checking that they decode to the same lines.
    pub(super) fn encoded(&self) -> Option<Vec<u8>> {
        let bytes = self.encoded_with(&mut ShapeScratch::default())?;
        let decoded = read(&bytes, &self.timestamps, self.text.len()).unwrap();
        assert!(decoded.bytes == self.text, "the lines changed");
        assert_eq!(decoded.ends, self.ends);
        Some(bytes)
    }
}

/// Returns the line of a row.
pub(super) fn line_of(rows: &Rows, row: usize) -> &[u8] {
    let start = if row == 0 { 0 } else { rows.ends[row - 1] as usize + 1 };
    &rows.text[start..rows.ends[row] as usize]
}

fn read(bytes: &[u8], timestamps: &[i64], raw_len: usize) -> Result<sandur_model::LineColumn, crate::Error> {
    decode(bytes, timestamps, raw_len)
}

/// Returns numbers that look random and are the same on every machine.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn time_of_day(timestamp: i64) -> String {
    let second = timestamp.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Returns a line of service `kind` % 5.
fn line(kind: u64, n: u64, timestamp: i64) -> String {
    let r = |salt: u64, below: u64| mixed(n * 31 + salt) % below;
    let time = time_of_day(timestamp);
    let nanos = timestamp.rem_euclid(1_000_000_000);
    match kind % 5 {
        0 => format!(
            concat!(
                r#"{{"ts":"2026-11-20T{}.{:06}Z","level":"{}","msg":"call to {} \"x\" took {}ms","#,
                r#""trace":"{:016x}{:016x}","status":{},"ok":{}}}"#,
            ),
            time,
            nanos / 1_000,
            ["info", "warn"][r(1, 2) as usize],
            ["a", "b", "c d"][r(2, 3) as usize],
            r(3, 900),
            mixed(n),
            mixed(n + 7),
            200 + r(4, 5),
            r(5, 2) == 0,
        ),
        1 => format!(
            "ts=2026-11-20T{time}.{:03}Z caller=main.go:{} user=user{} path=/api/v{}/items/{} dur={}.{:02}ms",
            nanos / 1_000_000,
            r(1, 40),
            r(2, 60),
            r(3, 3),
            r(4, 400),
            r(5, 90),
            r(6, 100),
        ),
        2 => format!(
            "Nov 20 {time} gw{} sshd[{}]: Failed for root from 10.{}.0.{} port {}",
            r(1, 4),
            r(2, 99_999),
            r(3, 256),
            r(4, 256),
            r(5, 65_536)
        ),
        3 => format!(
            "2026-11-20 {time},{:03} INFO blk_-{} in /data/{:08x} 0x{:x} {:08x}-0000-4000-8000-{:012x}",
            nanos / 1_000_000,
            mixed(n % 50) >> 1,
            mixed(n) as u32,
            r(1, 9_999),
            mixed(n) as u32,
            mixed(n) >> 16
        ),
        _ => format!("plain words without anything, attempt {} of {}", r(1, 3) + 1, n),
    }
}

pub(super) fn service(kinds: &[u64], rows: u64) -> Rows {
    Rows::new((0..rows).map(|n| {
        let timestamp = NOON + n as i64 * 1_234_567_891;
        (timestamp, line(kinds[mixed(n) as usize % kinds.len()], n, timestamp).into_bytes())
    }))
}

#[test]
fn lines_of_services_become_small() {
    let parts = [(0, 8), (1, 11), (2, 9), (3, 5), (4, 20)];
    for (kind, part) in parts {
        let rows = service(&[kind], 2_000);
        let bytes = rows.encoded().expect("shapes pay");
        assert!(bytes.len() < rows.text.len() / part, "kind {kind}: {} of {}", bytes.len(), rows.text.len());
    }
    assert!(service(&[0, 1, 2, 3, 4], 3_000).encoded().is_some());
}

#[test]
fn results_do_not_depend_on_earlier_use_of_the_scratch() {
    let mut scratch = ShapeScratch::default();
    let (a, b) = (service(&[0, 3], 500), service(&[1, 2], 700));
    let first = a.encoded_with(&mut scratch).unwrap();
    b.encoded_with(&mut scratch).unwrap();
    assert_eq!(a.encoded_with(&mut scratch).unwrap(), first);
}

#[test]
fn lines_without_structure_are_left_to_zstd() {
    let random = |n: u64| (0..20).flat_map(|k| mixed(n * 20 + k).to_le_bytes()).collect::<Vec<u8>>();
    assert!(Rows::new((0..500).map(|n| (0, random(n)))).encoded().is_none(), "random bytes");
    let words =
        |n: u64| (0..12).map(|k| char::from(b'a' + (mixed(n * 12 + k) % 26) as u8)).collect::<String>();
    assert!(Rows::new((0..500).map(|n| (0, words(n).into_bytes()))).encoded().is_none(), "a shape per line");
    let digits = |n: u64| (0..50).map(|k| format!("{} ", mixed(n * 50 + k) % 10)).collect::<String>();
    assert!(Rows::new((0..500).map(|n| (0, digits(n).into_bytes()))).encoded().is_none(), "too many slots");
    assert!(Rows::new([]).encoded().is_none(), "no rows");
    assert!(service(&[2], 10).encoded().is_none(), "few rows");
    let same =
        Rows::new((0..5_000).map(|_| (NOON, b"exactly the same line, which zstd does as well".to_vec())));
    same.encoded();
}

#[test]
fn malformed_columns_are_refused() {
    let rows = service(&[2], 100);
    let mut scratch = ShapeScratch::default();
    let mut refuses = |text: &[u8], ends: &[u32], timestamps: &[i64]| {
        assert!(!encode(text, ends, timestamps, &mut scratch, &mut Vec::new()));
    };
    refuses(&rows.text, &rows.ends, &rows.timestamps[1..]);
    refuses(&rows.text[..rows.text.len() - 1], &rows.ends, &rows.timestamps);
    refuses(&[&rows.text[..], b"x\n"].concat(), &rows.ends, &rows.timestamps);
    let mut ends = rows.ends.clone();
    ends.swap(3, 4);
    refuses(&rows.text, &ends, &rows.timestamps);
    ends.swap(3, 4);
    ends[7] -= 1;
    refuses(&rows.text, &ends, &rows.timestamps);
}

#[test]
fn timestamps_that_differ_from_the_rows_round_trip() {
    let lines = (0..400_u64).map(|n| {
        let timestamp = NOON + n as i64 * 777_777_777;
        let written = timestamp + [0, -3_600, 5, 86_400, -86_400 * 40][mixed(n) as usize % 5] * 1_000_000_000;
        (timestamp, line(2, n, written).into_bytes())
    });
    assert!(Rows::new(lines).encoded().is_some());
    let extremes = [i64::MIN, i64::MAX, 0, -1];
    let lines = (0..400_u64).map(|n| (extremes[n as usize % 4], line(1, n, NOON).into_bytes()));
    assert!(Rows::new(lines).encoded().is_some());
}

#[test]
fn repeated_sequences_take_few_bytes() {
    // Lists of hundreds of numbers; each list is similar to the one before.
    let list = |n: u64| (n..n + 300).map(|k| format!("seat={} ", mixed(k) >> 33)).collect::<String>();
    let rows = Rows::new((0..200).map(|n| (NOON, list(n).into_bytes())));
    let bytes = rows.encoded().expect("shapes pay");
    assert!(bytes.len() < rows.text.len() / 100, "{} of {}", bytes.len(), rows.text.len());
}

#[test]
fn tokens_with_line_feeds_round_trip() {
    let lines =
        (0..400_u64).map(|n| (NOON, format!("n={n} msg=\"a {}\n b\" x=\"\n\"\n\n", mixed(n)).into_bytes()));
    assert!(Rows::new(lines).encoded().is_some());
}

#[test]
fn version_1_fixture_equals_the_encoded_lines() {
    let rows = service(&[0, 1, 2, 3, 4], 300);
    let hex = include_str!("fixtures/page-v1.hex");
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let text = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let fixture: Vec<u8> = digits.chunks(2).map(text).collect();
    let decoded = read(&fixture, &rows.timestamps, rows.text.len()).unwrap();
    assert!(decoded.bytes == rows.text && decoded.ends == rows.ends);
    assert!(rows.encoded().unwrap() == fixture, "the encoder's output changed: is that intended?");
}

/// Decodes damaged bytes: the result must be an error, or lines of the requested length.
fn survives(bytes: &[u8], rows: &Rows) {
    if let Ok(column) = read(bytes, &rows.timestamps, rows.text.len()) {
        assert_eq!(column.bytes.len(), rows.text.len());
        assert_eq!(column.ends.len(), rows.timestamps.len());
    }
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    if let Ok(mut lines) = ShapedLines::open(&bytes, rows.timestamps.len(), rows.text.len()) {
        let wanted: Vec<bool> = (0..rows.timestamps.len()).map(|row| row % 7 == 0).collect();
        let _ = lines.lines_of(&rows.timestamps, &wanted);
    }
    survives_reduced(&bytes, rows);
}

#[test]
fn no_damaged_byte_causes_a_panic() {
    let rows = service(&[0, 1, 2, 3, 4], 60);
    let bytes = rows.encoded().unwrap();
    for at in 0..bytes.len() {
        assert!(read(&bytes[..at], &rows.timestamps, rows.text.len()).is_err(), "cut at {at}");
        for change in [[1, 0xff], [0x80, 1]][at % 2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            survives(&damaged, &rows);
        }
    }
    assert!(read(&[&bytes[..], &[0]].concat(), &rows.timestamps, rows.text.len()).is_err());
    assert!(read(&bytes, &rows.timestamps[1..], rows.text.len()).is_err());
    assert!(read(&bytes, &rows.timestamps, rows.text.len() - 1).is_err());
    assert!(read(&bytes, &rows.timestamps, usize::MAX).is_err());
    let newer = [&[VERSION + 1], &bytes[1..]].concat();
    assert!(matches!(
        read(&newer, &rows.timestamps, rows.text.len()),
        Err(crate::Error::Version { found: 2, .. })
    ));
}

/// Changes a byte of the decompressed streams of an encoded page, which zstd's checks do not detect.
fn damage_plain(bytes: &[u8], raw_len: usize, at: usize, change: u8) -> Vec<u8> {
    source::tests::with_changed_stream(bytes, stream_limit(raw_len), at, change)
}

#[test]
fn no_damage_below_the_compression_causes_a_panic() {
    let rows = service(&[0, 1, 2, 3, 4], 60);
    let bytes = rows.encoded().unwrap();
    for at in 0..3_000 {
        let change = [1, 0x80, 0x40, 0xff][at % 4];
        survives(&damage_plain(&bytes, rows.text.len(), at, change), &rows);
    }
}

/// Tokens of all kinds, and the text between them.
const TOKEN: &str = concat!(
    r"[0-9]{1,25}|[a-f0-9]{1,70}|[A-F0-9]{6,18}|0x[0-9a-f]{1,4}|[0-9.]{1,20}|\PC|\u{e9}|",
    r#"[=:"\\/@ ,{}\n-]{1,3}"#,
);

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_lines_round_trip(
        lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12),
        copies in 1_usize..40,
        timestamp in any::<i64>(),
    ) {
        let all = (0..copies).flat_map(|_| lines.clone());
        Rows::new(all.enumerate().map(|(n, line)| (timestamp.wrapping_add(n as i64), line))).encoded();
    }

    #[test]
    fn lines_of_tokens_round_trip(
        lines in proptest::collection::vec(
            proptest::collection::vec(TOKEN, 1..12),
            1..6,
        ),
        numbers in proptest::collection::vec(0_u64..5_000, 40..120),
    ) {
        let line = |n: &u64| {
            let tokens = &lines[*n as usize % lines.len()];
            let token = |(k, token): (usize, &String)| match k % 3 {
                2 => (mixed(*n) >> (k * 5 % 64)).to_string(),
                _ => token.clone(),
            };
            tokens.iter().enumerate().map(token).collect::<String>().into_bytes()
        };
        Rows::new(numbers.iter().map(|n| (*n as i64, line(n)))).encoded();
    }

    #[test]
    fn mixtures_of_services_and_random_lines_round_trip(
        kinds in proptest::collection::vec(0_u64..5, 1..4),
        rows in 40_u64..400,
        rubbish in proptest::collection::vec(
            (0_usize..400, proptest::collection::vec(any::<u8>(), 0..30)),
            0..8,
        ),
        shift in -5_000_000_000_i64..5_000_000_000,
    ) {
        let base = service(&kinds, rows);
        let mut lines: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut start = 0;
        for (&end, &timestamp) in base.ends.iter().zip(&base.timestamps) {
            lines.push((timestamp + shift, base.text[start..end as usize].to_vec()));
            start = end as usize + 1;
        }
        for (at, bytes) in rubbish {
            let at = at % lines.len();
            lines[at].1.extend_from_slice(&bytes);
        }
        Rows::new(lines).encoded();
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let rows = service(&[2], 40);
        survives(&[&[VERSION], &bytes[..]].concat(), &rows);
    }
}
