//! Reduces lines to the fields that a parser extracts: what the reducers of `json` and `logfmt` share.

use std::ops::Range;

use sandur_model::{SlotContents, SlotRule};

use crate::stage::json_scan::append_unescaped;

/// The labels that a query reads.
#[derive(Clone, Debug)]
pub struct WantedLabels(Vec<String>);

impl WantedLabels {
    /// The labels with these names. A label `x_extracted` may come from a field `x`.
    pub fn new(names: &[String]) -> Self {
        let plain = names.iter().filter_map(|name| name.strip_suffix("_extracted"));
        Self(names.iter().map(String::as_str).chain(plain).map(str::to_owned).collect())
    }

    /// Whether one has this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|wanted| wanted.as_bytes() == name)
    }

    /// Whether the name of one begins like this.
    pub fn begins_with(&self, prefix: &[u8]) -> bool {
        self.0.iter().any(|wanted| wanted.as_bytes().starts_with(prefix))
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
            // A backslash would escape the first byte of the content, or the one after an empty content.
            if self.text[..*slot].ends_with(b"\\") || !self.contents.obey(self.next, rule) {
                return false;
            }
            self.next += 1;
        }
        true
    }
}

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
