//! Tests of keys: they follow their definition on every processor, and never change.

use proptest::prelude::*;

use super::*;

/// Bytes as in logs: words, numbers, ids, punctuation, line breaks, and any others.
fn log_text() -> impl Strategy<Value = Vec<u8>> {
    let pieces = r#"(?s-u)([a-z]{1,9}|[A-Z][a-z]{1,9}|[0-9A-Fa-f]{1,32}|[ =:,."{}/_-]{1,3}|\n|.){0,400}"#;
    proptest::string::bytes_regex(pieces).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

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
