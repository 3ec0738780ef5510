//! Assembles only the parts of lines that a query reads.
//!
//! **How.** Each shape becomes a template: its constant text, with a byte for each slot. The reducer parses
//! the template once for all rows of the shape, asks what the tokens of the slots may be, and returns the
//! parts that the query needs. Only pools of slots in these parts are read for each row. What tokens may
//! be is known from the kind of their pool, or from its distinct texts.
//!
//! **Invariants.** The parts of a line are bytes of the line, or text of the reducer. A row of a shape
//! that the reducer does not know has its complete line.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::FixedState;
use sandur_model::{LineColumn, LinePart, LineReducer, LineTemplate, SLOT, SlotContents, SlotRule};

use crate::error::Error;

use super::atoms::{AtomForm, form_of};
use super::image::{ADDRESS_BYTES, DIGITS, LOWER_HEX, NAME_BYTES, Tokens, UPPER_HEX};
use super::opened::{LINE_END, OUT_OF_RANGE, ShapedLines, malformed};
use super::slot_order::SlotOrder;

/// If more than this fraction of the rows needs complete lines, all lines are assembled.
const COMPLETE_ONE_IN: usize = 2;
/// If shapes have fewer rows than this on average, all lines are assembled: programs would cost more than
/// they save. This also bounds the memory of the programs.
const ROWS_OF_SHAPE: usize = 4;
/// The bytes of a reduced line for which memory is allocated at first.
const USUAL_BYTES: usize = 24;

/// A piece of a reduced line.
enum Piece {
    /// A part of the programs' text.
    Text(usize, usize),
    /// The token of the slot after this part of the shape.
    Slot(usize),
}

/// What is assembled for the rows of each shape.
struct Programs {
    /// The pieces of each shape; none if it has no wanted row.
    of_shapes: Vec<Vec<Piece>>,
    text: Vec<u8>,
}

impl ShapedLines {
    /// Returns the parts of the `wanted` rows' lines that the reducer needs; the other lines are empty.
    /// `None` if most lines are needed completely. `timestamps` are those of the rows.
    pub fn reduced(
        &mut self,
        reducer: &dyn LineReducer,
        timestamps: &[i64],
        wanted: &[bool],
    ) -> Result<Option<LineColumn>, Error> {
        let mut rows_of = vec![0_usize; self.shapes.starts.len()];
        let rows = self.rows.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        rows.for_each(|(&shape, _)| rows_of[usize::from(shape)] += 1);
        let shapes = rows_of.iter().filter(|rows| **rows > 0).count();
        if shapes * ROWS_OF_SHAPE > rows_of.iter().sum() {
            return Ok(None);
        }
        let Some(programs) = self.programs(reducer, &rows_of)? else { return Ok(None) };
        let mut read = vec![false; self.fields()];
        for piece in programs.of_shapes.iter().flatten() {
            if let Piece::Slot(part) = piece {
                read[self.shapes.parts[*part].then as usize] = true;
            }
        }
        self.read_fields(&read)?;
        self.assemble_pieces(&programs, &read, timestamps, wanted).map(Some)
    }

    /// Makes the programs of the shapes that have rows.
    fn programs(&mut self, reducer: &dyn LineReducer, rows_of: &[usize]) -> Result<Option<Programs>, Error> {
        let mut programs = Programs { of_shapes: Vec::with_capacity(rows_of.len()), text: Vec::new() };
        let mut contents = TokensOfSlots {
            tokens: (0..self.fields()).map(|_| None).collect(),
            lines: self,
            known: HashMap::default(),
            fields: Vec::new(),
            failure: None,
        };
        let (mut text, mut slots) = (Vec::new(), Vec::new());
        let (all, mut complete) = (rows_of.iter().sum::<usize>(), 0);
        for (shape, &rows) in rows_of.iter().enumerate() {
            if rows == 0 {
                programs.of_shapes.push(Vec::new());
                continue;
            }
            contents.show(shape as u16, &mut text, &mut slots);
            let template = LineTemplate { text: &text, slots: &slots, contents: &mut contents };
            let parts = reducer.parts(template);
            if let Some(failure) = contents.failure.take() {
                return Err(failure);
            }
            let parts = parts.unwrap_or_else(|| {
                complete += rows;
                vec![LinePart::Copy(0..text.len())]
            });
            if complete * COMPLETE_ONE_IN > all {
                return Ok(None);
            }
            let first = contents.lines.shapes.starts[shape] as usize;
            programs.add(&parts, first, (&text, &slots));
        }
        Ok(Some(programs))
    }

    /// Assembles the pieces of the wanted rows. The fields in `read` were read.
    fn assemble_pieces(
        &mut self,
        programs: &Programs,
        read: &[bool],
        timestamps: &[i64],
        wanted: &[bool],
    ) -> Result<LineColumn, Error> {
        let order = SlotOrder::new(self, read);
        let mut cursors: Vec<usize> =
            (0..self.fields()).map(|field| self.cells_at(field).unwrap_or(0)).collect();
        let mut ends = Vec::with_capacity(self.rows.len());
        let mut out = Vec::with_capacity(self.rows.len() * USUAL_BYTES);
        for (row, &timestamp) in timestamps.iter().enumerate().take(self.rows.len()) {
            let shape = usize::from(self.rows[row]);
            if wanted.get(row).copied().unwrap_or(false) {
                for piece in &programs.of_shapes[shape] {
                    match *piece {
                        Piece::Text(from, to) => out.extend_from_slice(&programs.text[from..to]),
                        Piece::Slot(part) => {
                            let field = self.shapes.parts[part].then as usize;
                            let cell = self.cells[cursors[field] + order.number[part] as usize];
                            let token = self.token(field, cell, timestamp);
                            out.extend_from_slice(token.ok_or_else(|| malformed(OUT_OF_RANGE))?);
                        }
                    }
                }
            }
            for &(field, slots) in order.advances(shape) {
                cursors[field as usize] += slots as usize;
            }
            if out.len() > self.raw_len {
                return Err(malformed("the lines are too long"));
            }
            ends.push(out.len() as u32);
            out.push(b'\n');
        }
        Ok(LineColumn { bytes: Bytes::from(out), ends })
    }
}

impl Programs {
    /// Adds the program of a shape with these parts of its template.
    fn add(&mut self, parts: &[LinePart], first_part: usize, (template, slots): (&[u8], &[usize])) {
        let mut pieces = Vec::new();
        for part in parts {
            let range = match part {
                LinePart::Text(text) => {
                    self.text_piece(text, &mut pieces);
                    continue;
                }
                LinePart::Copy(range) => range.clone(),
            };
            let mut at = range.start;
            let from = slots.partition_point(|slot| *slot < range.start);
            for (slot, &offset) in slots.iter().enumerate().skip(from).take_while(|(_, at)| **at < range.end)
            {
                self.text_piece(&template[at..offset], &mut pieces);
                pieces.push(Piece::Slot(first_part + slot));
                at = offset + 1;
            }
            self.text_piece(&template[at..range.end], &mut pieces);
        }
        self.of_shapes.push(pieces);
    }

    /// Adds constant text, to the previous text if there is one.
    fn text_piece(&mut self, text: &[u8], pieces: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        let from = self.text.len();
        self.text.extend_from_slice(text);
        match pieces.last_mut() {
            Some(Piece::Text(_, to)) => *to = self.text.len(),
            _ => pieces.push(Piece::Text(from, self.text.len())),
        }
    }
}

/// The tokens of the slots of the shape that was shown last.
struct TokensOfSlots<'a> {
    lines: &'a mut ShapedLines,
    /// The possible tokens of each field, once they were needed.
    tokens: Vec<Option<Tokens>>,
    /// Whether the tokens of a field obey the rule at an address. Many shapes have slots of one field.
    known: HashMap<(usize, *const SlotRule), bool, FixedState>,
    /// The field of each slot.
    fields: Vec<usize>,
    failure: Option<Error>,
}

impl TokensOfSlots<'_> {
    /// Writes the template of a shape.
    fn show(&mut self, shape: u16, text: &mut Vec<u8>, slots: &mut Vec<usize>) {
        text.clear();
        slots.clear();
        self.fields.clear();
        for part in self.lines.shapes.parts_from(shape) {
            let (at, len) = (part.text_at as usize, part.text_len as usize);
            text.extend_from_slice(self.lines.arena.text(at..at + len));
            if part.then == LINE_END {
                break;
            }
            slots.push(text.len());
            text.push(SLOT);
            self.fields.push(part.then as usize);
        }
    }
}

impl SlotContents for TokensOfSlots<'_> {
    fn obey(&mut self, slot: usize, rule: &'static SlotRule) -> bool {
        let field = self.fields[slot];
        if let Some(known) = self.known.get(&(field, std::ptr::from_ref(rule))) {
            return *known;
        }
        let tokens = match &mut self.tokens[field] {
            Some(tokens) => tokens,
            unread => match Tokens::of(self.lines, field) {
                Ok(tokens) => unread.insert(tokens),
                Err(failure) => {
                    self.failure = Some(failure);
                    return false;
                }
            },
        };
        let obey = tokens.obey(self.lines, rule);
        self.known.insert((field, std::ptr::from_ref(rule)), obey);
        obey
    }
}

impl Tokens {
    /// Whether all tokens obey a rule; false if that is unknown.
    fn obey(&self, lines: &ShapedLines, rule: &SlotRule) -> bool {
        match self {
            Self::Clock(clock) => {
                let layout = lines.writers[*clock].layout();
                (0..layout.pattern().len()).all(|at| {
                    let bytes = match (layout.is_literal(at), layout.is_digit(at)) {
                        (true, _) => &layout.pattern()[at..=at],
                        (_, true) => DIGITS,
                        _ => NAME_BYTES,
                    };
                    rule.permits_all(bytes, at == 0)
                })
            }
            Self::Numbers => rule.permits_all(DIGITS, true),
            Self::Texts(range) => texts_obey(lines.arena.text(range.clone()), rule),
            Self::Patterns(patterns) => patterns.all().all(|parts| {
                let mut is_first = true;
                parts.iter().all(|part| {
                    let text = lines.arena.text(part.text_at..part.text_at + part.text_len);
                    let begins = text.first().is_none_or(|byte| rule.permits_all(&[*byte], is_first));
                    let obeys = begins && rule.permits_all(text, false);
                    is_first &= text.is_empty();
                    let atom = patterns.code_after(part).map(|code| bytes_of_atom(form_of(code)));
                    let obeys = obeys && atom.is_none_or(|bytes| rule.permits_all(bytes, is_first));
                    is_first &= atom.is_none();
                    obeys
                }) && (!is_first || rule.may_be_empty)
            }),
            Self::Unknown => false,
        }
    }
}

/// The bytes that an atom may have.
fn bytes_of_atom(form: AtomForm) -> &'static [u8] {
    match form {
        AtomForm::Number => DIGITS,
        AtomForm::Address => ADDRESS_BYTES,
        AtomForm::LowerHex(_) => LOWER_HEX,
        AtomForm::UpperHex(_) => UPPER_HEX,
        AtomForm::Uuid => UUID_BYTES,
    }
}

const UUID_BYTES: &[u8] = b"-0123456789abcdef";

/// Whether each of the texts, which are terminated by line feeds, obeys the rule.
fn texts_obey(texts: &[u8], rule: &SlotRule) -> bool {
    let mut start = 0;
    let Some([a, b]) = rule.forbidden else {
        return memchr::memchr_iter(b'\n', texts).all(|end| {
            let text = &texts[start..end];
            start = end + 1;
            rule.permits(text)
        });
    };
    while let Some(at) = memchr::memchr2(a, b, &texts[start..]) {
        let at = start + at;
        let first = memchr::memrchr(b'\n', &texts[..at]).map_or(0, |before| before + 1);
        let end = memchr::memchr(b'\n', &texts[at..]).map_or(texts.len(), |after| at + after);
        if !rule.permits(&texts[first..end]) {
            return false;
        }
        start = end;
    }
    true
}
