//! Sets of automaton states, and their changes by pieces of lines.
//!
//! The *image* of a state under a slot is a set of states that contains every state which the automaton
//! may have after some token of that slot. It may contain more states: then a row is tested without need.
//! It never contains fewer. Images are computed without reading tokens if their kind determines them
//! (digits, patterns of atoms, layouts of clocks). For tokens that are text the automaton runs over each
//! of them, once per page and state, however many rows repeat them.

use std::ops::Range;

use sandur_model::{AutomatonState, LineAutomaton};

use crate::error::Error;

use super::atoms::{AtomForm, form_of};
use super::clock::MAX_CLOCKS;
use super::layout::Layout;
use super::opened::ShapedLines;
use super::repeats::{ALL_NEW, FAR, NEAR};
use super::tokens::{BODY_PATTERNS, BODY_TEXT, POOL_NUMBERS, POOL_TOKENS};
use super::values::{Arena, Patterns};

/// Automata with more states are not run over pieces.
pub(super) const MAX_STATES: usize = 256;

pub(super) const DIGITS: &[u8] = b"0123456789";
pub(super) const LOWER_HEX: &[u8] = b"0123456789abcdef";
pub(super) const UPPER_HEX: &[u8] = b"0123456789ABCDEF";
pub(super) const ADDRESS_BYTES: &[u8] = b"0123456789.";
/// The bytes of names of months and weekdays, and of padded days.
pub(super) const NAME_BYTES: &[u8] = b" 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Lengths of the groups of a UUID.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A set of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct States([u64; MAX_STATES / 64]);

impl States {
    pub(super) fn one(state: AutomatonState) -> Self {
        let mut states = Self::default();
        states.insert(state);
        states
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, state: AutomatonState) {
        self.0[usize::from(state) / 64] |= 1 << (state % 64);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = AutomatonState> + use<> {
        let words = self.0;
        (0..MAX_STATES / 64).flat_map(move |n| {
            let mut word = words[n];
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < 64).then_some((n as u32 * 64 + bit) as AutomatonState)
            })
        })
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn holds(&self, state: AutomatonState) -> bool {
        self.0[usize::from(state) / 64] >> (state % 64) & 1 > 0
    }

    /// Removes the states that decide about a line.
    pub(super) fn take_decided(&mut self) {
        self.0[0] &= !(1 << LineAutomaton::PASSES | 1 << LineAutomaton::FAILS);
    }

    /// Returns the state if the set has exactly one.
    pub(super) fn single(&self) -> Option<AutomatonState> {
        self.iter().next().filter(|_| self.len() == 1)
    }

    pub(super) fn map(&self, to: impl Fn(AutomatonState) -> AutomatonState) -> Self {
        let mut states = Self::default();
        self.iter().for_each(|state| states.insert(to(state)));
        states
    }

    /// Returns the states after one of these bytes.
    fn step(&self, automaton: &LineAutomaton, bytes: &[u8]) -> Self {
        let mut states = Self::default();
        for state in self.iter() {
            bytes.iter().for_each(|&byte| states.insert(automaton.step(state, byte)));
        }
        states
    }

    /// Returns the states after one or more of these bytes.
    fn step_often(&self, automaton: &LineAutomaton, bytes: &[u8]) -> Self {
        let mut all = self.step(automaton, bytes);
        loop {
            let mut more = all.step(automaton, bytes);
            more.add(&all);
            if more == all {
                return all;
            }
            all = more;
        }
    }
}

/// Runs over bytes. If only few bytes lead the automaton out of its start, it searches for these.
#[inline]
pub(super) fn run(automaton: &LineAutomaton, mut state: AutomatonState, bytes: &[u8]) -> AutomatonState {
    /// Shorter texts are not searched.
    const SEARCHED: usize = 16;
    let leaving = automaton.leaving().filter(|_| bytes.len() >= SEARCHED);
    let Some(leaving) = leaving else { return automaton.run(state, bytes) };
    let mut at = 0;
    while at < bytes.len() && state > LineAutomaton::FAILS {
        if state == automaton.start() {
            match find_any(leaving, &bytes[at..]) {
                Some(next) => at += next,
                None => return state,
            }
        }
        state = automaton.step(state, bytes[at]);
        at += 1;
    }
    state
}

fn find_any(needles: &[u8], bytes: &[u8]) -> Option<usize> {
    match *needles {
        [a] => memchr::memchr(a, bytes),
        [a, b] => memchr::memchr2(a, b, bytes),
        [a, b, c] => memchr::memchr3(a, b, c, bytes),
        _ => None,
    }
}

/// The possible tokens of a field.
pub(super) enum Tokens {
    /// A timestamp in the layout of this clock.
    Clock(usize),
    /// Digits.
    Numbers,
    /// These texts, each followed by a line feed.
    Texts(Range<usize>),
    /// Tokens of these patterns.
    Patterns(Patterns),
    /// Unknown tokens.
    Unknown,
}

impl Tokens {
    /// Returns the possible tokens of a field that is in use.
    pub(super) fn of(lines: &mut ShapedLines, field: usize) -> Result<Self, Error> {
        if field < MAX_CLOCKS {
            return Ok(Self::Clock(field));
        }
        let place = lines.place(field);
        let mut source = lines.streams.source(&place);
        let kind = source.directory.u8()?;
        if kind == POOL_NUMBERS {
            return Ok(Self::Numbers);
        }
        match kind - POOL_TOKENS {
            ALL_NEW => {}
            FAR => {
                source.directory.varint()?;
                source.skip_plane()?;
            }
            NEAR => source.skip_plane()?,
            _ => return Ok(Self::Unknown),
        }
        let text = place.start[1]..place.end[1];
        Ok(match source.directory.u8()? {
            BODY_TEXT => Self::Texts(text),
            BODY_PATTERNS => {
                lines.arena.enter(text);
                Self::Patterns(Patterns::read(&mut source, &mut lines.arena)?)
            }
            _ => Self::Unknown,
        })
    }

    /// Returns the image of a state; `None` when it is unknown.
    pub(super) fn image(
        &self,
        automaton: &LineAutomaton,
        lines: &ShapedLines,
        state: AutomatonState,
    ) -> Option<States> {
        let from = States::one(state);
        Some(match self {
            Self::Clock(clock) => of_layout(automaton, lines.writers[*clock].layout(), from),
            Self::Numbers => from.step_often(automaton, DIGITS),
            Self::Texts(range) => of_texts(automaton, lines.arena.text(range.clone()), state),
            Self::Patterns(patterns) => of_patterns(automaton, patterns, &lines.arena, from),
            Self::Unknown => return None,
        })
    }
}

fn of_layout(automaton: &LineAutomaton, layout: &Layout, mut states: States) -> States {
    for (at, byte) in layout.pattern().iter().enumerate() {
        states = if layout.is_literal(at) {
            states.map(|state| automaton.step(state, *byte))
        } else if layout.is_digit(at) {
            states.step(automaton, DIGITS)
        } else {
            states.step(automaton, NAME_BYTES)
        };
    }
    states
}

fn of_patterns(automaton: &LineAutomaton, patterns: &Patterns, arena: &Arena, from: States) -> States {
    let mut all = States::default();
    for parts in patterns.all() {
        let mut states = from;
        for part in parts {
            let text = arena.text(part.text_at..part.text_at + part.text_len);
            states = states.map(|state| run(automaton, state, text));
            if let Some(code) = patterns.code_after(part) {
                states = of_atom(automaton, code, states);
            }
        }
        all.add(&states);
    }
    all
}

fn of_atom(automaton: &LineAutomaton, code: u8, from: States) -> States {
    let repeat = |states: States, count: usize, bytes: &[u8]| {
        (0..count).fold(states, |states, _| states.step(automaton, bytes))
    };
    match form_of(code) {
        AtomForm::Number => from.step_often(automaton, DIGITS),
        AtomForm::Address => from.step_often(automaton, ADDRESS_BYTES),
        AtomForm::LowerHex(len) => repeat(from, len, LOWER_HEX),
        AtomForm::UpperHex(len) => repeat(from, len, UPPER_HEX),
        AtomForm::Uuid => UUID_GROUPS.iter().enumerate().fold(from, |states, (n, &len)| {
            let states = if n > 0 { states.step(automaton, b"-") } else { states };
            repeat(states, len, LOWER_HEX)
        }),
    }
}

/// Returns the states after each of the texts, which are terminated by line feeds.
fn of_texts(automaton: &LineAutomaton, texts: &[u8], from: AutomatonState) -> States {
    match automaton.leaving() {
        Some(leaving) if from == automaton.start() => of_texts_from_start(automaton, texts, leaving),
        _ => {
            let mut states = States::default();
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', texts) {
                states.insert(run(automaton, from, &texts[start..end]));
                start = end + 1;
            }
            states
        }
    }
}

/// Like [`of_texts`], from the start state: texts leave it only at a leaving byte, so only the parts from
/// such bytes are run. The start state is always included.
fn of_texts_from_start(automaton: &LineAutomaton, texts: &[u8], leaving: &[u8]) -> States {
    let start = automaton.start();
    let mut states = States::one(start);
    let mut at = 0;
    while let Some(next) = find_any(leaving, &texts[at..]) {
        at += next;
        let mut state = start;
        // A line feed may also be a leaving byte: it ends the text before that.
        while at < texts.len() && texts[at] != b'\n' {
            state = automaton.step(state, texts[at]);
            at += 1;
            if state == start || state <= LineAutomaton::FAILS {
                break;
            }
        }
        states.insert(state);
        at += usize::from(texts.get(at) == Some(&b'\n'));
    }
    states
}
