//! Reduces logfmt lines to the pairs that become wanted labels.
//!
//! **Invariants.** A pair is left out only if `logfmt` would not extract it. Lines with malformed pairs,
//! and lines for which a slot could contain the end of a key or value, are not reduced.

use std::ops::Range;

use sandur_memory::job::spend;
use sandur_model::{LinePart, LineReducer, LineTemplate, SlotRule};

use crate::stage::keys::append_sanitized;
use crate::stage::logfmt_scan::{ENDS, Pair, Pairs};
use crate::stage::reduce::{QUOTED, Slots, TEMPLATE_UNITS, WantedNames, none_of, range_in};

/// Contents of a word: a value without quotes, or a key without a value.
const WORD: SlotRule = SlotRule::new(none_of(&ENDS));

/// Keeps the pairs of wanted labels.
pub struct LogfmtReducer {
    /// The labels.
    pub wanted: WantedNames,
    /// Whether pairs without a value are extracted.
    pub keeps_empty: bool,
}

impl LineReducer for LogfmtReducer {
    fn parts(&self, LineTemplate { text, slots, contents }: LineTemplate<'_>) -> Option<Vec<LinePart>> {
        spend(text.len() + TEMPLATE_UNITS).ok()?;
        let mut slots = Slots::new(text, slots, contents);
        let mut parts = Vec::new();
        for pair in Pairs::new(text) {
            if let Some(pair) = self.pair(text, pair.ok()?, &mut slots)? {
                if !parts.is_empty() {
                    parts.push(LinePart::Text(b" "));
                }
                parts.push(LinePart::Copy(pair));
            }
        }
        slots.are_known_before(text.len()).then_some(parts)
    }
}

impl LogfmtReducer {
    /// The place of a pair, or `None` in it if the pair is not wanted; `None` if a slot may contain more
    /// than a part of a value.
    fn pair(&self, text: &[u8], pair: Pair<'_>, slots: &mut Slots<'_>) -> Option<Option<Range<usize>>> {
        let key = range_in(text, pair.key);
        let mut name = Vec::new();
        append_sanitized(&mut name, pair.key);
        let is_wanted = self.wanted.has(&name);
        if text.get(key.end) != Some(&b'=') {
            if slots.are_known_before(key.end) {
                return Some((is_wanted && self.keeps_empty).then_some(key));
            }
            // Its name varies, but without a value it is not extracted.
            return (!self.keeps_empty && slots.obey(key, &WORD, &WORD)).then_some(None);
        }
        if !slots.are_known_before(key.end) {
            return None;
        }
        let start = key.end + 1;
        let (end, obeys) = match text.get(start) {
            Some(b'"') => {
                let value = start + 1..start + 1 + pair.value.len();
                (value.end + 1, slots.obey(value, &QUOTED, &QUOTED))
            }
            _ => {
                let value = start..start + pair.value.len();
                (value.end, slots.obey(value, &WORD, &WORD))
            }
        };
        obeys.then(|| is_wanted.then_some(key.start..end))
    }
}
