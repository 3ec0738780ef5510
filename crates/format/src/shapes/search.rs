//! Runs a test of lines over their pieces.
//!
//! **How.** A shape is judged once for all its rows. The automaton runs over its constant text. At a slot
//! the state becomes the set of states that some token may lead to ([`super::image`]). Mostly the
//! constant text after the slot leads all of them back to one state: then the token does not matter. The
//! rest are *stretches* of slots and text in which a token may decide. A shape without stretches passes
//! or fails for all its rows. For rows of other shapes the automaton runs over their tokens in the
//! stretches, and only pools that occur in some stretch are read.
//!
//! **Why that is exact.** The set after a piece contains the state of every row after it, by induction:
//! the set before does, an image contains the successors of all tokens, and text maps states one by one.
//! So (1) where the set has one state, every undecided row has this state, and a stretch may begin there
//! with it; (2) outside of stretches no row becomes decided: a stretch is dropped only when no state of
//! its sets was [`LineAutomaton::PASSES`] or [`LineAutomaton::FAILS`]. Inside of stretches the automaton
//! reads exactly the bytes of the line.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use sandur_model::{AutomatonState, LineAutomaton};

use crate::error::Error;

use super::image::{MAX_STATES, States, Tokens, run};
use super::opened::{LINE_END, OUT_OF_RANGE, ShapedLines, malformed};
use super::slot_order::SlotOrder;

/// Larger sets are not followed further: the rest of the line becomes a stretch.
const FOLLOWED_STATES: u32 = 32;

/// The result for the rows of a shape.
enum Verdict {
    /// The shape has no row that is still alive.
    Unused,
    /// All rows pass, or all fail.
    Same(bool),
    /// Tokens decide about each row.
    Look(Program),
}

/// The stretches that decide whether a row passes.
struct Program {
    stretches: Vec<Stretch>,
    /// Whether rows that no stretch decides pass; `None` when the state after the last stretch determines
    /// it.
    otherwise: Option<bool>,
    /// Whether the stretches decide all rows.
    decides_all: bool,
}

/// Slots, each with the text after it, in which tokens may decide.
struct Stretch {
    /// The state before it.
    enter: AutomatonState,
    /// The part with the first slot, and the part with the last text.
    from: usize,
    to: usize,
    may_pass: bool,
    may_fail: bool,
}

/// Judges shapes.
struct ShapeMatcher<'a> {
    automaton: &'a LineAutomaton,
    lines: &'a mut ShapedLines,
    tokens: Vec<Option<Tokens>>,
    images: HashMap<(u32, AutomatonState), Option<States>, FixedState>,
}

impl ShapedLines {
    /// Clears the rows of `alive` whose lines fail the test; with `negated`, those whose lines pass it.
    /// `timestamps` are those of the rows. Returns false, and changes nothing, when the test is too large
    /// to run over pieces.
    pub fn retain(
        &mut self,
        test: &LineAutomaton,
        negated: bool,
        timestamps: &[i64],
        alive: &mut [bool],
    ) -> Result<bool, Error> {
        if test.states() > MAX_STATES || alive.len() != self.rows.len() {
            return Ok(false);
        }
        let verdicts = self.judge(test, alive)?;
        let looked = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Look(_)));
        if looked {
            self.look(test, negated, timestamps, (&verdicts, alive))?;
            return Ok(true);
        }
        let passes = |verdict: &Verdict| matches!(verdict, Verdict::Same(passes) if *passes != negated);
        let kept: Vec<bool> = verdicts.iter().map(passes).collect();
        for (alive, &shape) in alive.iter_mut().zip(&self.rows) {
            *alive &= kept[usize::from(shape)];
        }
        Ok(true)
    }

    fn judge(&mut self, test: &LineAutomaton, alive: &[bool]) -> Result<Vec<Verdict>, Error> {
        let mut used = vec![false; self.shapes.starts.len()];
        for (&shape, &alive) in self.rows.iter().zip(alive) {
            used[usize::from(shape)] |= alive;
        }
        let tokens = (0..self.fields()).map(|_| None).collect();
        let mut judge = ShapeMatcher { automaton: test, lines: self, tokens, images: HashMap::default() };
        let verdict = |(shape, used)| if used { judge.shape(shape) } else { Ok(Verdict::Unused) };
        used.into_iter().enumerate().map(verdict).collect()
    }

    /// Tests the rows that are alive.
    fn look(
        &mut self,
        test: &LineAutomaton,
        negated: bool,
        timestamps: &[i64],
        (verdicts, alive): (&[Verdict], &mut [bool]),
    ) -> Result<(), Error> {
        let mut wanted = vec![false; self.fields()];
        for verdict in verdicts {
            let Verdict::Look(program) = verdict else { continue };
            let slots = program.stretches.iter().flat_map(|stretch| stretch.from..stretch.to);
            slots.for_each(|part| wanted[self.shapes.parts[part].then as usize] = true);
        }
        self.read_fields(&wanted)?;
        let order = SlotOrder::new(self, &wanted);
        let mut cursors: Vec<usize> =
            (0..self.fields()).map(|field| self.cells_at(field).unwrap_or(0)).collect();
        for (row, &timestamp) in timestamps.iter().enumerate().take(alive.len()) {
            let shape = usize::from(self.rows[row]);
            if alive[row] {
                let passes = match &verdicts[shape] {
                    Verdict::Unused => negated,
                    Verdict::Same(passes) => *passes,
                    Verdict::Look(program) => self.passes(test, program, timestamp, (&order, &cursors))?,
                };
                alive[row] = passes != negated;
            }
            for &(field, slots) in order.advances(shape) {
                cursors[field as usize] += slots as usize;
            }
        }
        Ok(())
    }

    fn passes(
        &mut self,
        test: &LineAutomaton,
        program: &Program,
        timestamp: i64,
        (order, cursors): (&SlotOrder, &[usize]),
    ) -> Result<bool, Error> {
        let mut state = test.start();
        for stretch in &program.stretches {
            state = stretch.enter;
            for part in stretch.from..stretch.to {
                let field = self.shapes.parts[part].then as usize;
                let cell = self.cells[cursors[field] + order.number[part] as usize];
                let token = self.token(field, cell, timestamp);
                state = test.run(state, token.ok_or_else(|| malformed(OUT_OF_RANGE))?);
                if state <= LineAutomaton::FAILS {
                    break;
                }
                let text = &self.shapes.parts[part + 1];
                let (at, len) = (text.text_at as usize, text.text_len as usize);
                state = run(test, state, &self.arena.texts()[at..at + len]);
            }
            if state <= LineAutomaton::FAILS {
                return Ok(state == LineAutomaton::PASSES);
            }
        }
        Ok(program.otherwise.unwrap_or_else(|| test.passes_at_end(state)))
    }
}

impl ShapeMatcher<'_> {
    fn shape(&mut self, shape: usize) -> Result<Verdict, Error> {
        let mut states = States::one(self.automaton.start());
        let (mut stretches, mut open) = (Vec::new(), None::<Stretch>);
        let mut at = self.lines.shapes.starts[shape] as usize;
        let (otherwise, decides_all) = loop {
            let part = self.lines.shapes.parts[at];
            let text = part.text_at as usize..(part.text_at + part.text_len) as usize;
            states = states.map(|state| run(self.automaton, state, self.lines.arena.text(text.clone())));
            match &mut open {
                Some(stretch) => {
                    stretch.to = at;
                    stretch.note(&mut states);
                    if states.len() <= 1 && stretch.decides() {
                        stretches.extend(open.take());
                    } else if states.len() <= 1 {
                        open = None;
                    }
                    if states.len() == 0 {
                        break (None, true);
                    }
                }
                None if states.single().is_some_and(|state| state <= LineAutomaton::FAILS) => {
                    break (Some(states.single() == Some(LineAutomaton::PASSES)), false);
                }
                None => {}
            }
            if part.then == LINE_END {
                let mut ends = states.iter().map(|state| self.automaton.passes_at_end(state));
                let first = ends.next().unwrap_or(false);
                let same = ends.all(|passes| passes == first).then_some(first);
                stretches.extend(open.filter(|stretch| same.is_none() || stretch.decides()));
                break (same, false);
            }
            let enter = states.single().unwrap_or(LineAutomaton::FAILS);
            let stretch =
                open.get_or_insert(Stretch { enter, from: at, to: at, may_pass: false, may_fail: false });
            match self.image(part.then, &states)? {
                Some(image) => states = image,
                None => {
                    stretch.follow_to_the_end(&self.lines.shapes.parts);
                    stretches.extend(open);
                    break (None, false);
                }
            }
            stretch.note(&mut states);
            at += 1;
        };
        Ok(verdict(Program { stretches, otherwise, decides_all }))
    }

    /// Returns the states after a token of a field; `None` when they are too many or unknown.
    fn image(&mut self, field: u32, states: &States) -> Result<Option<States>, Error> {
        if states.len() > FOLLOWED_STATES {
            return Ok(None);
        }
        let mut all = States::default();
        for state in states.iter() {
            let image = match self.images.get(&(field, state)) {
                Some(known) => *known,
                None => {
                    let tokens = match &mut self.tokens[field as usize] {
                        Some(tokens) => tokens,
                        unread => unread.insert(Tokens::of(self.lines, field as usize)?),
                    };
                    let image = tokens.image(self.automaton, self.lines, state);
                    self.images.insert((field, state), image);
                    image
                }
            };
            match image {
                Some(image) => all.add(&image),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }
}

impl Stretch {
    /// Removes decided states from the set and records which they were.
    fn note(&mut self, states: &mut States) {
        self.may_pass |= states.holds(LineAutomaton::PASSES);
        self.may_fail |= states.holds(LineAutomaton::FAILS);
        states.take_decided();
    }

    fn decides(&self) -> bool {
        self.may_pass || self.may_fail
    }

    fn follow_to_the_end(&mut self, parts: &[super::opened::Part]) {
        let rest = parts[self.from..].iter().take_while(|part| part.then != LINE_END).count();
        (self.to, self.may_pass, self.may_fail) = (self.from + rest, true, true);
    }
}

/// Returns the program, unless all its outcomes are equal.
fn verdict(program: Program) -> Verdict {
    let (mut may_pass, mut may_fail) = match program.otherwise {
        Some(passes) => (passes, !passes),
        None if program.decides_all => (false, false),
        None => (true, true),
    };
    for stretch in &program.stretches {
        may_pass |= stretch.may_pass;
        may_fail |= stretch.may_fail;
    }
    if may_pass && may_fail { Verdict::Look(program) } else { Verdict::Same(may_pass) }
}
