//! Reduces lines to the parts that a query reads: the form in which a query tells the storage which fields
//! of lines it needs.
//!
//! Storage that keeps lines in pieces has many lines with the same constant text and different contents
//! of the same *slots*. It shows the query a [`LineTemplate`] of such lines, in which each slot is one
//! byte. The query parses the template once, asks what the slots may contain, and returns the parts of
//! the lines that it needs. The storage then assembles only these parts.
//!
//! **Invariants.** A reducer returns parts only if its parser finds the same fields in the joined parts
//! as in the complete line, for all contents that obey the rules that it asked about.

use std::ops::Range;

/// The byte that stands for a slot in a template. A digit, because most slots contain numbers.
pub const SLOT: u8 = b'0';

/// What the contents of a slot must be.
#[derive(Clone, Debug)]
pub struct SlotRule {
    /// The bytes that may occur.
    pub bytes: [bool; 256],
    /// The bytes that may come first.
    pub first: [bool; 256],
    /// Contents that are permitted although they do not obey `first`.
    pub words: &'static [&'static [u8]],
    /// Whether there may be no content.
    pub may_be_empty: bool,
    /// The bytes that may not occur, if there are two; otherwise the rule permits everything.
    pub forbidden: Option<[u8; 2]>,
    /// With `forbidden`: contents with these bytes are permitted if this holds.
    pub unless: Option<fn(&[u8]) -> bool>,
}

impl SlotRule {
    /// A rule that permits contents of these bytes, at every place, and no content.
    pub const fn new(bytes: [bool; 256]) -> Self {
        Self { bytes, first: bytes, words: &[], may_be_empty: true, forbidden: None, unless: None }
    }

    /// Whether each of these bytes may occur, and also come first if `is_first`.
    pub fn permits_all(&self, bytes: &[u8], is_first: bool) -> bool {
        let table = if is_first { &self.first } else { &self.bytes };
        bytes.iter().all(|byte| self.bytes[usize::from(*byte)] && table[usize::from(*byte)])
    }

    /// Whether a content obeys the rule.
    pub fn permits(&self, content: &[u8]) -> bool {
        match content.first() {
            None => self.may_be_empty,
            Some(_) if self.unless.is_some_and(|holds| holds(content)) => true,
            Some(first) => {
                let begins = self.first[usize::from(*first)] || self.words.contains(&content);
                begins && content.iter().all(|byte| self.bytes[usize::from(*byte)])
            }
        }
    }
}

/// The contents of the slots of a template.
pub trait SlotContents {
    /// Whether all contents of a slot obey a rule. False if that is unknown. Rules are constants, so that
    /// answers can be kept for other templates with the same contents.
    fn obey(&mut self, slot: usize, rule: &'static SlotRule) -> bool;
}

/// Lines with the same constant text.
pub struct LineTemplate<'a> {
    /// The constant text, with [`SLOT`] in the place of each slot.
    pub text: &'a [u8],
    /// The offsets of the slots in the text, ascending.
    pub slots: &'a [usize],
    /// The contents of the slots.
    pub contents: &'a mut dyn SlotContents,
}

/// A part of a reduced line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinePart {
    /// This text.
    Text(&'static [u8]),
    /// This part of the template, with the contents of its slots.
    Copy(Range<usize>),
}

/// Tells which parts of lines a query needs.
pub trait LineReducer: Send + Sync {
    /// The parts of the template's lines that are needed; `None` if complete lines are.
    fn parts(&self, template: LineTemplate<'_>) -> Option<Vec<LinePart>>;
}
