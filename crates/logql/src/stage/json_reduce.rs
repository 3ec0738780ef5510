//! Reduces JSON lines to the members that a query reads.
//!
//! **Invariants.** A member is left out only if `json` would not read it. Lines for which a slot could
//! contain the end of a value, or something that is not a value, are not reduced, so that their errors
//! stay the same.

use std::ops::Range;

use sandur_memory::job::spend;
use sandur_model::{LinePart, LineReducer, LineTemplate, SlotRule};

use crate::stage::json_scan::{
    ENDS_TOKEN, Flow, Key, Value, append_unescaped, each_member, skip_blank, string_end, value_at,
};
use crate::stage::keys::append_sanitized;
use crate::stage::reduce::{QUOTED, Slots, TEMPLATE_UNITS, WantedNames, all_but, none_of, range_in};

/// Contents after the first bytes of a number.
const BARE_REST: SlotRule = SlotRule::new(none_of(&ENDS_TOKEN));
/// Contents with the first bytes of a number.
const BARE_START: SlotRule =
    SlotRule { first: none_of(&all_but(b"-0123456789")), may_be_empty: false, ..BARE_REST };
/// Contents that are complete values without quotes.
const BARE: SlotRule = SlotRule { words: &[b"true", b"false", b"null"], ..BARE_START };
/// Contents outside of the strings of an object or array.
const NESTED: SlotRule = SlotRule::new(all_but(b"\"\\{}[]"));

/// Keeps some members of the line's object.
pub enum JsonReducer {
    /// Those that become these labels.
    Labels(WantedNames),
    /// Those with these keys.
    Keys(WantedNames),
}

impl LineReducer for JsonReducer {
    fn parts(&self, LineTemplate { text, slots, contents }: LineTemplate<'_>) -> Option<Vec<LinePart>> {
        if text.first() != Some(&b'{') || spend(text.len() + TEMPLATE_UNITS).is_err() {
            return None;
        }
        let mut slots = Slots::new(text, slots, contents);
        let mut parts = vec![LinePart::Text(b"{")];
        let mut is_known = true;
        let outcome = each_member(text, &mut |key, value| {
            match self.member(text, key, value, &mut slots) {
                None => is_known = false,
                Some(None) => {}
                Some(Some(member)) => {
                    if parts.len() > 1 {
                        parts.push(LinePart::Text(b","));
                    }
                    parts.push(LinePart::Copy(member));
                }
            }
            Ok(if is_known { Flow::Continue } else { Flow::Stop })
        });
        // Text after the object is not read.
        let (_, end) = value_at(text, skip_blank(text, 0)).ok()?;
        if outcome.is_err() || !is_known || !slots.are_known_before(end) {
            return None;
        }
        parts.push(LinePart::Text(b"}"));
        Some(parts)
    }
}

impl JsonReducer {
    /// The place of a member, or `None` in it if the member is not wanted; `None` if a slot may contain
    /// more than a part of a value.
    fn member(
        &self,
        text: &[u8],
        key: Key<'_>,
        value: Value<'_>,
        slots: &mut Slots<'_>,
    ) -> Option<Option<Range<usize>>> {
        let key_range = range_in(text, key.raw);
        let mut plain = Vec::new();
        let key = if key.escaped {
            append_unescaped(&mut plain, key.raw);
            &plain
        } else {
            key.raw
        };
        let is_wanted = self.wants(key, &value);
        if !slots.are_known_before(key_range.end) {
            return None;
        }
        let (end, obeys) = match value {
            // Where it ends is not known.
            Value::Null => return (!is_wanted).then_some(None),
            Value::String(raw) => {
                let range = range_in(text, raw);
                (range.end + 1, slots.obey(range, &QUOTED, &QUOTED))
            }
            Value::Number(raw) | Value::Bool(raw) => {
                let range = range_in(text, raw);
                let first = if range.len() == 1 { &BARE } else { &BARE_START };
                (range.end, slots.obey(range, first, &BARE_REST))
            }
            Value::Object(raw) | Value::Array(raw) => {
                let range = range_in(text, raw);
                (range.end, nested_obey(text, range, slots))
            }
        };
        obeys.then(|| is_wanted.then(|| key_range.start - 1..end))
    }

    /// Whether a member is kept.
    fn wants(&self, key: &[u8], value: &Value<'_>) -> bool {
        let labels = match self {
            Self::Labels(labels) => labels,
            Self::Keys(keys) => return keys.has(key),
        };
        let mut name = Vec::new();
        append_sanitized(&mut name, key);
        match value {
            Value::Null | Value::Array(_) => false,
            Value::Object(_) => labels.begins_with(&name),
            Value::String(_) | Value::Number(_) | Value::Bool(_) => labels.has(&name),
        }
    }
}

/// Whether the slots of an object or array are contents of its strings and other values.
fn nested_obey(text: &[u8], range: Range<usize>, slots: &mut Slots<'_>) -> bool {
    let mut at = range.start;
    while let Some(quote) = memchr::memchr(b'"', &text[at..range.end]) {
        let string = at + quote + 1;
        let Ok((end, _)) = string_end(text, string) else { return false };
        if !slots.obey(at..string, &NESTED, &NESTED) || !slots.obey(string..end, &QUOTED, &QUOTED) {
            return false;
        }
        at = end + 1;
    }
    slots.obey(at..range.end, &NESTED, &NESTED)
}
