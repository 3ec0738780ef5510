//! Pools: the variable tokens at the same place, across all shapes.
//!
//! The place of a slot is the last word before it: a JSON or logfmt key, or the word in front of a
//! number. If there is no word, the place is derived from the place of the slot before and the text
//! between them.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::split::{Token, VARIABLE};
use super::table::ShapeTable;
use super::words::{fold, fold_bytes};

/// Places with fewer tokens share the first pool: a separate pool takes about 30 bytes.
const MIN_TOKENS: u32 = 24;

/// Number of bytes before a slot in which a word is searched for.
const MAX_WORD: usize = 24;

/// The place of the first slot of a line without a word before it.
const LINE_START: u64 = 0x6c6f_6773;

/// Assigns slots to pools, and holds the tokens of each pool.
#[derive(Default)]
pub(super) struct Pools {
    places: HashMap<u64, u32, FixedState>,
    /// Number of tokens of each place.
    counts: Vec<u32>,
    /// Pool of each variable slot, shape by shape.
    routes: Vec<u32>,
    /// Start of the routes of each shape, and the end of the last.
    route_starts: Vec<u32>,
    /// Start of each pool in `tokens`, and the end of the last.
    starts: Vec<u32>,
    cursors: Vec<u32>,
    tokens: Vec<Token>,
}

impl Pools {
    /// Assigns all slots to pools.
    pub(super) fn plan(&mut self, shapes: &ShapeTable) {
        self.places.clear();
        self.counts.clear();
        self.routes.clear();
        self.route_starts.clear();
        for shape in shapes.shapes() {
            self.route_starts.push(self.routes.len() as u32);
            let constants = shapes.constants(shape);
            let (mut at, mut place) = (0, LINE_START);
            for slot in shapes.slots(shape) {
                place = place_after(place, &constants[at..at + slot.constant()], slot.code());
                at += slot.constant();
                if slot.code() == VARIABLE {
                    self.add_route(place, shape.uses);
                }
            }
        }
        self.route_starts.push(self.routes.len() as u32);
        self.merge_small();
    }

    fn add_route(&mut self, place: u64, uses: u32) {
        let next = self.counts.len() as u32;
        let number = *self.places.entry(place).or_insert(next);
        if number == next {
            self.counts.push(0);
        }
        self.counts[number as usize] += uses;
        self.routes.push(number);
    }

    fn merge_small(&mut self) {
        let mut pools = Vec::with_capacity(self.counts.len());
        let (mut sizes, mut shared) = (vec![0], 0);
        for &count in &self.counts {
            if count < MIN_TOKENS {
                pools.push(0);
                shared += count;
            } else {
                pools.push(sizes.len() as u32);
                sizes.push(count);
            }
        }
        sizes[0] = shared;
        self.routes.iter_mut().for_each(|route| *route = pools[*route as usize]);
        self.starts.clear();
        self.starts.push(0);
        for size in sizes {
            self.starts.push(self.starts.last().expect("pushed above") + size);
        }
    }

    /// Sorts the tokens of all rows, whose shapes are `rows`, into the pools.
    pub(super) fn fill(&mut self, rows: &[u32], tokens: &[Token]) {
        self.cursors.clear();
        self.cursors.extend_from_slice(&self.starts);
        self.tokens.clear();
        self.tokens.resize(tokens.len(), Token::default());
        let mut rest = tokens;
        for &shape in rows {
            let from = self.route_starts[shape as usize] as usize;
            let to = self.route_starts[shape as usize + 1] as usize;
            let (now, later) = rest.split_at(to - from);
            rest = later;
            for (&route, &token) in self.routes[from..to].iter().zip(now) {
                let cursor = &mut self.cursors[route as usize];
                self.tokens[*cursor as usize] = token;
                *cursor += 1;
            }
        }
    }

    /// Returns the number of pools.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the pools of the variable slots of all shapes, in order.
    pub(super) fn routes(&self) -> &[u32] {
        &self.routes
    }

    /// Returns the tokens of a pool, in the order of rows.
    pub(super) fn tokens(&self, pool: usize) -> &[Token] {
        &self.tokens[self.starts[pool] as usize..self.starts[pool + 1] as usize]
    }
}

fn place_after(place: u64, constant: &[u8], code: u8) -> u64 {
    let near = &constant[constant.len().saturating_sub(MAX_WORD)..];
    let place = match near.iter().rposition(u8::is_ascii_alphabetic) {
        Some(letter) => {
            let in_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            let before = near[..letter].iter().rev().take_while(|b| in_word(b)).count();
            let word = &near[letter - before..];
            fold_bytes(1, word)
        }
        None => fold_bytes(place, constant),
    };
    fold(place, u64::from(code) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_slot_is_the_word_before_it() {
        let place = |constant: &str| place_after(LINE_START, constant.as_bytes(), VARIABLE);
        assert_eq!(place(r#","a":1,"status":"#), place(r#"{"status":"#));
        assert_ne!(place(r#"{"status":"#), place(r#"{"status":""#));
        assert_ne!(place(r#"{"status":"#), place(r#"{"http_status":"#));
        assert_ne!(place(" "), place("/"));
        let second = |first: &str| place_after(place(first), b" ", VARIABLE);
        assert_eq!(second("a port "), second("the port "));
        assert_ne!(second("port "), second("from "));
    }
}
