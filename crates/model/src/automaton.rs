//! A finite automaton that tests lines: the form in which a query passes a line filter to the storage.
//!
//! Storage that keeps lines in pieces can run the automaton over each piece, because the effect of a
//! piece on a state does not depend on the position of the piece. An automaton is a table and knows no
//! pattern syntax.
//!
//! **Invariants.** Every transition leads to an existing state. [`LineAutomaton::PASSES`] and
//! [`LineAutomaton::FAILS`] are never left.

/// The parts of an automaton do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table of a line automaton does not fit its states")]
pub struct AutomatonError;

/// A state of a [`LineAutomaton`].
pub type AutomatonState = u16;

/// Reads a line byte by byte and decides whether it passes.
#[derive(Clone, Debug)]
pub struct LineAutomaton {
    classes: Box<[u8; 256]>,
    /// log2 of the entries of one state in `next`.
    shift: u32,
    next: Vec<AutomatonState>,
    passes_at_end: Vec<bool>,
    start: AutomatonState,
    /// The bytes that lead from the start state to another one; `None` when there are more than three.
    leaving: Option<Vec<u8>>,
}

/// An automaton before it is checked.
#[derive(Clone, Debug)]
pub struct AutomatonParts {
    /// The class of each byte; bytes of one class have the same transitions in every state.
    pub classes: [u8; 256],
    /// For each state, the next state by class. The rows of [`LineAutomaton::PASSES`] and
    /// [`LineAutomaton::FAILS`], the first two, are ignored.
    pub next: Vec<Vec<AutomatonState>>,
    /// For each state, whether a line that ends in it passes.
    pub passes_at_end: Vec<bool>,
    /// The state before the first byte.
    pub start: AutomatonState,
}

impl LineAutomaton {
    /// A line that reaches this state passes, whatever follows.
    pub const PASSES: AutomatonState = 0;
    /// A line that reaches this state fails, whatever follows.
    pub const FAILS: AutomatonState = 1;

    /// Builds the table; fails when a class or a state is missing.
    pub fn new(parts: AutomatonParts) -> Result<Self, AutomatonError> {
        let AutomatonParts { classes, next, mut passes_at_end, start } = parts;
        let count = next.len();
        let highest = usize::from(classes.iter().copied().max().unwrap_or(0));
        let fits = count > 1
            && passes_at_end.len() == count
            && count <= usize::from(AutomatonState::MAX)
            && usize::from(start) < count;
        let whole =
            |row: &Vec<AutomatonState>| row.len() > highest && row.iter().all(|&to| usize::from(to) < count);
        if !fits || !next[2..].iter().all(whole) {
            return Err(AutomatonError);
        }
        let shift = (highest + 1).next_power_of_two().trailing_zeros();
        let mut table = vec![Self::FAILS; count << shift];
        table[..1 << shift].fill(Self::PASSES);
        for (state, row) in next.iter().enumerate().skip(2) {
            table[state << shift..][..=highest].copy_from_slice(&row[..=highest]);
        }
        passes_at_end[usize::from(Self::PASSES)] = true;
        passes_at_end[usize::from(Self::FAILS)] = false;
        let classes = Box::new(classes);
        let mut made = Self { classes, shift, next: table, passes_at_end, start, leaving: None };
        let leaving: Vec<u8> = (0..=255).filter(|&byte| made.step(start, byte) != start).collect();
        made.leaving = (leaving.len() <= 3).then_some(leaving);
        Ok(made)
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.passes_at_end.len()
    }

    /// The state before the first byte of a line.
    pub fn start(&self) -> AutomatonState {
        self.start
    }

    /// The bytes that lead from the start state to another one; `None` when there are more than three.
    pub fn leaving(&self) -> Option<&[u8]> {
        self.leaving.as_deref()
    }

    /// The state that follows `state` at `byte`.
    #[inline(always)]
    pub fn step(&self, state: AutomatonState, byte: u8) -> AutomatonState {
        self.next[usize::from(state) << self.shift | usize::from(self.classes[usize::from(byte)])]
    }

    /// The state after all of `bytes`.
    #[inline]
    pub fn run(&self, mut state: AutomatonState, bytes: &[u8]) -> AutomatonState {
        for &byte in bytes {
            state = self.step(state, byte);
        }
        state
    }

    /// Whether a line that ends in this state passes.
    pub fn passes_at_end(&self, state: AutomatonState) -> bool {
        self.passes_at_end[usize::from(state)]
    }

    /// Whether a line passes.
    pub fn passes(&self, line: &[u8]) -> bool {
        self.passes_at_end(self.run(self.start, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts lines that contain `ab`.
    fn parts() -> AutomatonParts {
        let mut classes = [0; 256];
        (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (1, 2);
        let next = vec![vec![], vec![], vec![2, 3, 2], vec![2, 3, 0]];
        AutomatonParts { classes, next, passes_at_end: vec![false; 4], start: 2 }
    }

    #[test]
    fn lines_pass_as_the_table_says() {
        let automaton = LineAutomaton::new(parts()).unwrap();
        let passing = ["ab", "xaab", "abba"];
        assert!(passing.iter().all(|line| automaton.passes(line.as_bytes())));
        assert!(["", "ba", "axb"].iter().all(|line| !automaton.passes(line.as_bytes())));
        assert_eq!(automaton.leaving(), Some(&b"a"[..]));
        assert_eq!(automaton.run(LineAutomaton::PASSES, b"zzz"), LineAutomaton::PASSES);
    }

    #[test]
    fn incomplete_tables_are_refused() {
        let broken: [fn(&mut AutomatonParts); 5] = [
            |p| p.start = 4,
            |p| p.next[3][1] = 4,
            |p| p.next[2].truncate(1),
            |p| p.passes_at_end.truncate(2),
            |p| p.next.truncate(1),
        ];
        for change in broken {
            let mut parts = parts();
            change(&mut parts);
            assert_eq!(LineAutomaton::new(parts).err(), Some(AutomatonError));
        }
    }
}
