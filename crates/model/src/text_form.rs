//! A text form: a sequence of literals, single characters of a set, and runs of characters of a set.
//!
//! **Invariants.** Literals are not empty and not adjacent. Comparing takes time at most proportional to
//! the length of the form times the length of the text.

use std::sync::Arc;

/// A form that texts can be compared with.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TextForm {
    pieces: Vec<FormPiece>,
}

/// A part of a text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormPiece {
    /// A literal text.
    Text(String),
    /// One character of a set.
    One(CharSet),
    /// Any number of characters of a set.
    Many(CharSet),
}

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharSet {
    /// All characters.
    Any,
    /// The characters of some ranges, or all others.
    Ranges {
        /// Whether the set contains the characters outside of the ranges.
        negated: bool,
        /// First and last character of each range.
        ranges: Arc<[(char, char)]>,
    },
}

impl CharSet {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Any => true,
            Self::Ranges { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }

    /// The most ranges that a character is compared with.
    fn width(&self) -> usize {
        match self {
            Self::Any => 1,
            Self::Ranges { ranges, .. } => ranges.len().max(1),
        }
    }
}

impl FormPiece {
    /// The most bytes by which a form grows when this piece is appended: strings and lists of pieces may
    /// have twice the capacity that they need.
    pub(crate) fn bytes_at_most(&self) -> usize {
        let own = match self {
            Self::Text(text) => 2 * text.len() + 16,
            Self::One(CharSet::Any) | Self::Many(CharSet::Any) => 0,
            Self::One(CharSet::Ranges { ranges, .. }) | Self::Many(CharSet::Ranges { ranges, .. }) => {
                size_of_val(&**ranges) + 32
            }
        };
        own + 2 * size_of::<Self>()
    }
}

impl TextForm {
    /// Appends a piece.
    pub fn push(&mut self, piece: FormPiece) {
        match (self.pieces.last_mut(), piece) {
            (_, FormPiece::Text(text)) if text.is_empty() => {}
            (Some(FormPiece::Text(last)), FormPiece::Text(text)) => last.push_str(&text),
            (Some(FormPiece::Many(CharSet::Any)), FormPiece::Many(CharSet::Any)) => {}
            (_, piece) => self.pieces.push(piece),
        }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[FormPiece] {
        &self.pieces
    }

    /// The only text that the form accepts, if there is exactly one.
    pub(crate) fn exact(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [FormPiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The literals, which every accepted text contains.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            FormPiece::Text(text) => Some(text.as_str()),
            FormPiece::One(_) | FormPiece::Many(_) => None,
        })
    }

    pub(crate) fn literal_bytes(&self) -> usize {
        self.literals().map(str::len).sum()
    }

    /// Bytes of memory that the form uses.
    pub(crate) fn bytes(&self) -> usize {
        let ranges =
            |set: &CharSet| if let CharSet::Ranges { ranges, .. } = set { ranges.len() * 8 + 32 } else { 0 };
        let piece = |piece: &FormPiece| match piece {
            FormPiece::Text(text) => text.capacity() + 16,
            FormPiece::One(set) | FormPiece::Many(set) => ranges(set),
        };
        let pieces = self.pieces.iter().map(piece).sum::<usize>();
        size_of::<Self>() + self.pieces.capacity() * size_of::<FormPiece>() + pieces
    }

    /// Estimates the steps of a comparison; never much less than the actual number.
    pub(crate) fn work(&self, text: &str) -> usize {
        let piece = |piece: &FormPiece| match piece {
            FormPiece::Text(text) => text.len().div_ceil(8),
            FormPiece::One(set) | FormPiece::Many(set) => set.width(),
        };
        let once = self.pieces.iter().map(piece).sum::<usize>();
        let is_set = |piece: &FormPiece| matches!(piece, FormPiece::Many(CharSet::Ranges { .. }));
        let passes = if self.pieces.iter().any(is_set) {
            self.pieces.len() * (text.len() / 2 + 1)
        } else if self.pieces.iter().any(|piece| matches!(piece, FormPiece::Many(_))) {
            text.len() / 4 + 1
        } else {
            1
        };
        once.saturating_mul(passes)
    }

    /// Whether the form accepts a text.
    pub(crate) fn takes(&self, text: &str) -> bool {
        let is_free = |piece: &FormPiece| !matches!(piece, FormPiece::Many(CharSet::Ranges { .. }));
        match self.pieces.iter().all(is_free) {
            true => self.takes_freely(text),
            false => self.takes_by_sets(text),
        }
    }

    /// Compares when every run accepts all characters: then the first position that fits the pieces
    /// between two runs suffices, so that backtracking to the last run is enough.
    fn takes_freely(&self, text: &str) -> bool {
        let (mut piece, mut at) = (0, 0);
        let mut back: Option<(usize, usize)> = None;
        loop {
            let next = match self.pieces.get(piece) {
                Some(FormPiece::Many(_)) => {
                    piece += 1;
                    if piece == self.pieces.len() {
                        return true;
                    }
                    back = Some((piece, at));
                    continue;
                }
                Some(FormPiece::Text(literal)) => {
                    text[at..].starts_with(literal.as_str()).then(|| at + literal.len())
                }
                Some(FormPiece::One(set)) => text[at..]
                    .chars()
                    .next()
                    .filter(|character| set.takes(*character))
                    .map(|character| at + character.len_utf8()),
                None if at == text.len() => return true,
                None => None,
            };
            (piece, at) = match (next, back) {
                (Some(next), _) => (piece + 1, next),
                (None, Some((after, from))) => {
                    let Some(character) = text[from..].chars().next() else { return false };
                    let from = from + character.len_utf8();
                    back = Some((after, from));
                    (after, from)
                }
                (None, None) => return false,
            };
        }
    }

    /// Compares by following all positions in the form that the text may have reached, character by
    /// character.
    fn takes_by_sets(&self, text: &str) -> bool {
        // A piece, and how many bytes of it have matched.
        let mut now: Vec<(usize, usize)> = Vec::new();
        let mut next: Vec<(usize, usize)> = Vec::new();
        let enter = |places: &mut Vec<(usize, usize)>, mut piece: usize| loop {
            if !places.contains(&(piece, 0)) {
                places.push((piece, 0));
            }
            match self.pieces.get(piece) {
                Some(FormPiece::Many(_)) => piece += 1,
                _ => break,
            }
        };
        enter(&mut now, 0);
        for character in text.chars() {
            next.clear();
            for &(piece, met) in &now {
                match self.pieces.get(piece) {
                    Some(FormPiece::Text(literal)) if literal[met..].starts_with(character) => {
                        match met + character.len_utf8() {
                            all if all == literal.len() => enter(&mut next, piece + 1),
                            part => next.push((piece, part)),
                        }
                    }
                    Some(FormPiece::One(set)) if set.takes(character) => enter(&mut next, piece + 1),
                    Some(FormPiece::Many(set)) if set.takes(character) => enter(&mut next, piece),
                    _ => {}
                }
            }
            std::mem::swap(&mut now, &mut next);
            if now.is_empty() {
                return false;
            }
        }
        now.contains(&(self.pieces.len(), 0))
    }
}
