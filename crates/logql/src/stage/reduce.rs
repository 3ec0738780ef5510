//! Reduces lines to the fields that a parser extracts: what the reducers of `json` and `logfmt` share.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use sandur_model::{SlotContents, SlotRule};

use crate::stage::json_scan::append_unescaped;

/// The work for a template, without its text.
pub const TEMPLATE_UNITS: usize = 500;

/// The names of the fields that a query reads. A query may have thousands of them.
#[derive(Clone, Debug)]
pub struct WantedNames(BTreeSet<Vec<u8>>);

impl WantedNames {
    /// The names of the fields from which these labels are made. A label `x_extracted` may come from a
    /// field `x`.
    pub fn of_labels(labels: &[String]) -> Self {
        let plain = labels.iter().filter_map(|name| name.strip_suffix("_extracted"));
        Self(labels.iter().map(String::as_str).chain(plain).map(Vec::from).collect())
    }

    /// These names.
    pub fn new(names: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whether this is one of them.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.contains(name)
    }

    /// Whether one of them begins like this.
    pub fn begins_with(&self, prefix: &[u8]) -> bool {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.0.range::<[u8], _>(from).next().is_some_and(|name| name.starts_with(prefix))
    }
}

/// The slots of a template, in order. A template is known only if a rule holds for each of them.
pub struct Slots<'a> {
    text: &'a [u8],
    slots: &'a [usize],
    contents: &'a mut dyn SlotContents,
    /// The first slot that was not looked at.
    next: usize,
}

impl<'a> Slots<'a> {
    /// The slots at these offsets of a text.
    pub fn new(text: &'a [u8], slots: &'a [usize], contents: &'a mut dyn SlotContents) -> Self {
        Self { text, slots, contents, next: 0 }
    }

    /// Whether all slots before this offset were looked at.
    pub fn are_known_before(&self, end: usize) -> bool {
        self.slots.get(self.next).is_none_or(|slot| *slot >= end)
    }

    /// Whether all slots before the end of this range are inside of it, and obey a rule: `first` at its
    /// start, `rest` after it.
    pub fn obey(&mut self, range: Range<usize>, first: &'static SlotRule, rest: &'static SlotRule) -> bool {
        if !self.are_known_before(range.start) {
            return false;
        }
        while let Some(slot) = self.slots.get(self.next).filter(|slot| **slot < range.end) {
            let rule = if *slot == range.start { first } else { rest };
            if is_escaped(&self.text[..*slot]) || !self.contents.obey(self.next, rule) {
                return false;
            }
            self.next += 1;
        }
        true
    }
}

/// Whether text ends within an escape. The content after it decides about the escape, or an empty content
/// leaves that to the byte after the slot.
fn is_escaped(text: &[u8]) -> bool {
    let last = &text[text.len().saturating_sub(UNICODE_ESCAPE - 1)..];
    last.ends_with(b"\\") || last.windows(2).any(|pair| pair == b"\\u")
}

/// Bytes of an escape such as `\u00e9`.
const UNICODE_ESCAPE: usize = 6;

/// The offsets of a slice within its text.
pub fn range_in(text: &[u8], slice: &[u8]) -> Range<usize> {
    let at = slice.as_ptr() as usize - text.as_ptr() as usize;
    at..at + slice.len()
}

/// All bytes except these.
pub const fn all_but(excluded: &[u8]) -> [bool; 256] {
    let mut table = [true; 256];
    let mut n = 0;
    while n < excluded.len() {
        table[excluded[n] as usize] = false;
        n += 1;
    }
    table
}

/// The bytes that are not in a table.
pub const fn none_of(excluded: &[bool; 256]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut n = 0;
    while n < table.len() {
        table[n] = !excluded[n];
        n += 1;
    }
    table
}

/// Contents within quotes: without quotes and backslashes, or with complete escapes.
pub const QUOTED: SlotRule = {
    let mut rule = SlotRule::new(all_but(b"\"\\"));
    rule.forbidden = Some([b'"', b'\\']);
    rule.unless = Some(has_complete_escapes);
    rule
};

/// Whether a text within quotes has no quote that is not escaped, and only valid escapes, none of which
/// continues after it.
fn has_complete_escapes(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' || at + 1 == rest.len() {
            return false;
        }
        rest = &rest[at + 2..];
    }
    append_unescaped(&mut Vec::new(), text)
}

#[cfg(test)]
mod tests {
    use sandur_model::{LineReducer, LineTemplate};

    use super::*;
    use crate::stage::json_reduce::JsonReducer;
    use crate::stage::logfmt_reduce::LogfmtReducer;

    /// The content of every slot.
    struct Always(&'static str);

    impl SlotContents for Always {
        fn obey(&mut self, _slot: usize, rule: &'static SlotRule) -> bool {
            rule.permits(self.0.as_bytes())
        }
    }

    /// Whether lines with a slot in the place of `~`, which has this content, are reduced.
    fn is_reduced(reducer: &dyn LineReducer, line: &str, content: &'static str) -> bool {
        let slots: Vec<usize> = line.match_indices('~').map(|(at, _)| at).collect();
        let text = line.replace('~', "0").into_bytes();
        let contents = &mut Always(content);
        reducer.parts(LineTemplate { text: &text, slots: &slots, contents }).is_some()
    }

    #[test]
    fn lines_whose_slots_could_end_a_value_or_an_escape_are_not_reduced() {
        let wanted = || WantedNames::of_labels(&["a".to_owned()]);
        let json = JsonReducer::Labels(wanted());
        for (line, content, reduced) in [
            (r#"{"a":~}"#, "5", true),
            (r#"{"a":~}"#, "true", true),
            (r#"{"a":~1}"#, "true", false),
            (r#"{"a":~}"#, "", false),
            (r#"{"a":1~}"#, "", true),
            (r#"{"a":~}"#, "5,", false),
            (r#"{"a":~}"#, r#""x""#, false),
            (r#"{"b":"~"}"#, r#"say \"x\""#, true),
            (r#"{"b":"~"}"#, r#"x","a":"1"#, false),
            (r#"{"b":"~"}"#, r"x\", false),
            (r#"{"b":"\~"}"#, "n", false),
            (r#"{"b":"\u123~"}"#, "4", false),
            (r#"{"b":"\u1234~"}"#, "4", true),
            (r#"{"b":"\"~"}"#, "4", true),
            (r#"{"b":{"c":"[~"}}"#, "}", true),
            (r#"{"b":{"c":~}}"#, "}", false),
            (r#"{"~":1}"#, "a", false),
            (r#"{"a":1} ~"#, "x", true),
            (r#"~{"a":1}"#, "x", false),
        ] {
            assert_eq!(is_reduced(&json, line, content), reduced, "{line} with {content}");
        }
        let logfmt = LogfmtReducer { wanted: wanted(), keeps_empty: false };
        for (line, content, reduced) in [
            ("a=~ b=1", "5", true),
            ("a=~ b=1", "", true),
            ("a=~ b=1", "5 c", false),
            ("a=~ b=1", "=", false),
            ("~ a=1", "word", true),
            ("~=1 a=1", "word", false),
            (r#"b="~" a=1"#, r#"x \"y\""#, true),
            (r#"b="~" a=1"#, r"\q", false),
            (r#"b="\u123~" a=1"#, "x", false),
            (r#"b="~"#, "x", false),
        ] {
            assert_eq!(is_reduced(&logfmt, line, content), reduced, "{line} with {content}");
        }
    }
}
