//! Tests of keys and filters: a text that is present is never ruled out, and few absent ones pass.

use proptest::prelude::*;

use super::keys::text_keys_portable;
use super::*;

/// Text as in logs: words, numbers, ids, punctuation, line breaks, any other bytes.
fn log_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[a-z]{1,9}",
        "[A-Z][a-z]{1,9}",
        "[0-9]{1,12}",
        "[0-9a-f]{8,32}",
        "[0-9A-F]{4}-[0-9a-f]{12}",
        "[ =:,.\"{}/_-]{1,3}",
        Just("\n".to_owned()),
        "\\PC{1,3}",
    ];
    let bytes =
        prop_oneof![8 => piece.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 1..4)];
    prop::collection::vec(bytes, 0..400).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_present_testable_substring_passes(
        text in log_text(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..60usize), 40),
        upper in any::<bool>(),
    ) {
        let mut builder = FilterBuilder::new();
        builder.add_text(&text);
        let filter = builder.finish();
        for (at, extra) in cuts {
            let start = at.index(text.len() + 1);
            let end = (start + NEEDLE_MIN + extra).min(text.len());
            let mut needle = text[start..end].to_vec();
            if upper {
                needle.make_ascii_uppercase();
            }
            let keys = needle_keys(&needle, upper);
            let minimizers = keys.iter().filter(|key| !is_word_key(**key)).count();
            prop_assert_eq!(minimizers == 0, needle.len() < NEEDLE_MIN);
            prop_assert!(filter.view().may_contain(&keys), "{:?}", String::from_utf8_lossy(&needle));
        }
    }

    #[test]
    fn every_present_short_substring_passes(
        text in log_text(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut builder = FilterBuilder::new();
        builder.add_text(&text);
        let filter = builder.finish();
        for at in cuts {
            let start = at.index(text.len() + 1);
            let needle = &text[start..(start + NEEDLE_MIN - 1).min(text.len())];
            let keys = needle_keys(needle, false);
            prop_assert!(filter.view().may_contain(&keys), "{:?}", String::from_utf8_lossy(needle));
        }
    }

    #[test]
    fn all_processor_variants_find_the_same_keys(text in log_text()) {
        let (mut fast, mut portable) = (Vec::new(), Vec::new());
        text_keys(&text, &mut fast);
        text_keys_portable(&text, &mut portable);
        prop_assert_eq!(fast, portable);
    }
}

/// A simple implementation of the definition.
fn plain_keys(text: &[u8]) -> Vec<u32> {
    let folded = text.to_ascii_lowercase();
    let hash = |gram: &[u8]| {
        let digit = gram.iter().any(u8::is_ascii_digit);
        let id = digit && gram.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
        let kind = u32::from(digit) + u32::from(id);
        let counted: Vec<u8> =
            gram.iter().map(|&b| if b.is_ascii_digit() && !id { b'0' } else { b }).collect();
        let word = |n: usize| u32::from_le_bytes(counted[n..n + 4].try_into().unwrap());
        let mixed = word(0).wrapping_mul(0x9E37_79B1) ^ word(2).wrapping_mul(0x85EB_CA77);
        kind << 30 | (mixed ^ mixed >> 15).wrapping_mul(0x2C1B_3C6D) >> 2 | 1
    };
    let hashes: Vec<u32> = folded.windows(GRAM).map(hash).collect();
    let mut keys: Vec<u32> = hashes.windows(WINDOW).map(|w| *w.iter().min().unwrap()).collect();
    let words = folded.windows(WORD_GRAM).filter(|gram| gram.iter().all(u8::is_ascii_lowercase));
    keys.extend(words.map(|gram| {
        let gram = gram.iter().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
        3 << 30 | (gram.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34) as u32
    }));
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[test]
fn keys_follow_their_definition() {
    let mut text = Vec::new();
    for n in 0..400u32 {
        let line = format!(
            "Level=INFO n={n} id=7f3A{:08x}-{n:04} took {}.{:03}ms \u{e9}\n",
            n * 77_777,
            n % 9,
            n % 977
        );
        text.extend_from_slice(line.as_bytes());
    }
    for length in (0..40).chain([1_023, 1_024, 1_036, 1_037, 1_038, 2_061, text.len()]) {
        assert_eq!(needle_keys(&text[..length], false), plain_keys(&text[..length]), "{length} bytes");
    }
}

/// Keys are on disk: these values must never change.
#[test]
fn keys_are_stable() {
    assert_eq!(needle_keys(b"7f3a9c21-b04e-4d6f", false), needle_keys(b"7F3A9C21-B04E-4D6F", true));
    let keys = needle_keys(b"trace_id=4bf92f3577b34da6", false);
    assert_eq!(keys, plain_keys(b"trace_id=4bf92f3577b34da6"));
    let sum =
        |words: bool| keys.iter().filter(|key| is_word_key(**key) == words).fold(0, |all, key| all ^ key);
    assert_eq!([sum(false), sum(true)].map(|sum| format!("{sum:08x}")), ["1592321f", "d1eb9899"]);
}

#[test]
fn absent_ids_rarely_pass_and_short_needles_always_do() {
    let id = |n: u64| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes()));
    let mut builder = FilterBuilder::new();
    for n in 0..2_000 {
        let line = format!(
            "ts=2026-11-20T12:{:02}:{:02}.{n:06}Z msg=\"request done\" trace={}\n",
            n / 60 % 60,
            n % 60,
            id(n)
        );
        builder.add_text(line.as_bytes());
    }
    let filter = builder.finish();
    let passes = |needle: String| filter.view().may_contain(&needle_keys(needle.as_bytes(), false));
    assert!((0..2_000).all(|n| passes(id(n))));
    let wrong = (10_000..20_000).filter(|&n| passes(id(n))).count();
    assert!(wrong < 100, "{wrong} of 10,000 absent ids pass");
    assert!(passes("code 418 x86".to_owned()), "too short, and no word of five letters");
    assert!(passes("request".to_owned()) && !passes("timeout".to_owned()), "a word");
    assert!(!passes("quorum lost while committing".to_owned()));
}

#[test]
fn a_filter_is_read_from_its_stored_form() {
    let mut builder = FilterBuilder::new();
    builder.add_text(b"a text that is long enough for keys");
    let filter = builder.finish();
    assert_eq!(filter.len(), SLICES * 64);
    let view = FilterView::parse(&filter.bytes, true).unwrap();
    assert!(view.may_contain(&needle_keys(b"long enough for", false)));
    assert!(!view.may_contain(&needle_keys(b"nothing of the kind", false)));
    assert!(FilterView::parse(&filter.bytes[1..], true).is_none());
    assert!(FilterView::parse(&[], true).unwrap().may_contain(&[1, 2, 3]), "no filter rules nothing out");
}
