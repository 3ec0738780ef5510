//! Tests of keys and filters: a text that is present is never ruled out, and few absent ones pass.

use proptest::prelude::*;

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
