//! Converts line filters to automata, which a source may run over lines that it stores in pieces.
//!
//! The literals and regular expressions of a filter become one automaton. A filter with a pattern or an
//! address, or with a large automaton, has none. The automaton ignores whether the filter is negated.

use std::collections::HashMap;

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_syntax::hir::Hir;
use sandur_model::{AutomatonParts, AutomatonState, LineAutomaton};

use crate::line_test::LineTest;

/// The most states of an automaton.
const STATES_MAX: usize = 1024;
/// The most bytes for building one.
const BYTES_MAX: usize = 1 << 20;
/// The most bytes of the NFA, and of the NFA state sets during determinization. Determinization cannot be
/// cancelled, and its time is proportional to these sets times the byte classes. Automata within the other
/// limits need only small sets.
const SETS_BYTES_MAX: usize = 128 << 10;

/// The automaton of the alternatives of a filter, if there is one.
pub fn of_tests(tests: &[LineTest]) -> Option<LineAutomaton> {
    let mut alternatives = Vec::with_capacity(tests.len());
    for test in tests {
        alternatives.push(match test {
            LineTest::Literal(finder) => Hir::literal(finder.needle()),
            LineTest::Regex { hir, .. } => hir.clone(),
            LineTest::Pattern(_) | LineTest::Ip(_) => return None,
        });
    }
    let automaton = compile(&Hir::alternation(alternatives))?;
    let mut states = Explored::default();
    let start = automaton.start_state(&start::Config::new().anchored(Anchored::No)).ok()?;
    let start = states.id(&automaton, start);
    states.explore(&automaton)?;
    states.decide_early();
    LineAutomaton::new(AutomatonParts {
        classes: states.classes,
        start: states.alias(start),
        next: states.next,
        passes_at_end: states.passes_at_end,
    })
    .ok()
}

fn compile(hir: &Hir) -> Option<dense::DFA<Vec<u32>>> {
    let nfa = thompson::Config::new()
        .utf8(false)
        .which_captures(thompson::WhichCaptures::None)
        .nfa_size_limit(Some(SETS_BYTES_MAX));
    let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(hir).ok()?;
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .accelerate(false)
        .dfa_size_limit(Some(BYTES_MAX))
        .determinize_size_limit(Some(SETS_BYTES_MAX));
    dense::Builder::new().configure(config).build_from_nfa(&nfa).ok()
}

/// The states reached so far.
struct Explored {
    ids: HashMap<StateID, AutomatonState>,
    found: Vec<StateID>,
    classes: [u8; 256],
    next: Vec<Vec<AutomatonState>>,
    passes_at_end: Vec<bool>,
    aliases: Vec<AutomatonState>,
}

impl Default for Explored {
    fn default() -> Self {
        Self {
            ids: HashMap::new(),
            found: Vec::new(),
            classes: [0; 256],
            next: vec![Vec::new(); 2],
            passes_at_end: vec![true, false],
            aliases: Vec::new(),
        }
    }
}

impl Explored {
    /// The number of a state; deciding states have the numbers of [`LineAutomaton`].
    fn id(&mut self, automaton: &impl Automaton, state: StateID) -> AutomatonState {
        if automaton.is_match_state(state) {
            return LineAutomaton::PASSES;
        }
        if automaton.is_dead_state(state) {
            return LineAutomaton::FAILS;
        }
        *self.ids.entry(state).or_insert_with(|| {
            self.found.push(state);
            self.found.len() as AutomatonState + 1
        })
    }

    /// Follows every transition; `None` if there are too many states or the automaton gives up.
    fn explore(&mut self, automaton: &dense::DFA<Vec<u32>>) -> Option<()> {
        let classes = automaton.byte_classes();
        self.classes = std::array::from_fn(|byte| classes.get(byte as u8));
        let count = usize::from(self.classes.iter().copied().max().unwrap_or(0)) + 1;
        let mut bytes = vec![0; count];
        (0..=255).for_each(|byte| bytes[usize::from(self.classes[usize::from(byte)])] = byte);
        let mut done = 0;
        while let Some(&state) = self.found.get(done) {
            if automaton.is_quit_state(state) || self.found.len() > STATES_MAX {
                return None;
            }
            let next = bytes.iter().map(|&byte| self.id(automaton, automaton.next_state(state, byte)));
            let next = next.collect();
            self.next.push(next);
            self.passes_at_end.push(automaton.is_match_state(automaton.next_eoi_state(state)));
            done += 1;
        }
        Some(())
    }

    /// Makes states decide as early as possible. The engine's automata report a match one byte late, and do
    /// not stop where no match can follow. A state from which every continuation passes becomes the passing
    /// state; one from which none passes becomes the failing state.
    fn decide_early(&mut self) {
        let count = self.next.len();
        let mut hopeful = self.passes_at_end.clone();
        // Searches backwards from the passing states, visiting each state once.
        let mut before = vec![Vec::new(); count];
        for (from, next) in (0u32..).zip(&self.next) {
            next.iter().for_each(|&to| before[usize::from(to)].push(from));
        }
        let mut left: Vec<usize> = (0..count).filter(|state| hopeful[*state]).collect();
        while let Some(state) = left.pop() {
            for &from in &before[state] {
                if !std::mem::replace(&mut hopeful[from as usize], true) {
                    left.push(from as usize);
                }
            }
        }
        let passes = |state: usize| {
            self.passes_at_end[state] && self.next[state].iter().all(|&to| to == LineAutomaton::PASSES)
        };
        self.aliases = (0..count)
            .map(|state| match state {
                0 | 1 => state as AutomatonState,
                _ if passes(state) => LineAutomaton::PASSES,
                _ if !hopeful[state] => LineAutomaton::FAILS,
                _ => state as AutomatonState,
            })
            .collect();
        let aliases = &self.aliases;
        self.next.iter_mut().flatten().for_each(|to| *to = aliases[usize::from(*to)]);
    }

    fn alias(&self, state: AutomatonState) -> AutomatonState {
        self.aliases[usize::from(state)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_filter::LineFilter;
    use crate::parser::parse_log;
    use proptest::prelude::*;

    fn filter(text: &str) -> LineFilter {
        let log = parse_log(&format!(r#"{{a="b"}} {text}"#)).unwrap();
        log.stages[0].line_filter().unwrap().clone()
    }

    const FILTERS: [&str; 22] = [
        r#"|= "timeout""#,
        r#"!= "timeout""#,
        r#"|= "a" or "bc""#,
        r#"|= "\n""#,
        r#"|~ "" or "x""#,
        r#"|~ "^GET""#,
        r#"|~ "0$""#,
        r#"|~ "^$""#,
        r#"|~ "(?i)time(out|d)""#,
        r#"|~ "\\b500\\b""#,
        r#"|~ "\\B5""#,
        r#"|~ "a.c""#,
        r#"|~ "(?s)a.*b$""#,
        r#"|~ "(?m)^b$""#,
        r#"|~ "[^a-z]$""#,
        r#"|~ "\" (404|5..) ""#,
        r#"|~ "ti(me)*out|x{3}""#,
        r#"|~ "(?i)k""#,
        r#"|~ "\\d+ms""#,
        r#"!~ "e(r+)o""#,
        r#"|~ "b*""#,
        r#"|~ "^(abc|ab)$""#,
    ];

    fn check(filter: &LineFilter, line: &[u8]) {
        let automaton = of_tests(&filter.tests).unwrap();
        assert_eq!(automaton.passes(line) != filter.negated, filter.passes(line), "{filter} on {line:?}");
    }

    #[test]
    fn patterns_addresses_and_large_expressions_have_no_automaton() {
        for text in [r#"|> "<_>a<_>""#, r#"|= ip("1.2.3.4")"#, r#"|~ "[ab]*a[ab]{14}c""#] {
            assert!(of_tests(&filter(text).tests).is_none(), "{text}");
        }
    }

    #[test]
    fn copies_of_a_filter_share_one_automaton() {
        let filter = filter(r#"|~ "a+b""#);
        let copy = filter.clone();
        assert!(!filter.has_made_automaton());
        assert!(std::ptr::eq(filter.automaton().unwrap(), copy.automaton().unwrap()));
    }

    #[test]
    fn a_literal_passes_at_its_last_byte() {
        let automaton = of_tests(&filter(r#"|= "abc""#).tests).unwrap();
        assert_eq!(automaton.run(automaton.start(), b"xxabc"), LineAutomaton::PASSES);
        assert_eq!(automaton.states(), 2 + 4, "three states and the one that passes early");
        assert_eq!(automaton.leaving(), Some(&b"a"[..]));
        let anchored = of_tests(&filter(r#"|~ "^abc""#).tests).unwrap();
        assert_eq!(anchored.run(anchored.start(), b"x"), LineAutomaton::FAILS);
    }

    proptest! {
        #[test]
        fn automata_agree_with_filters(
            n in 0..FILTERS.len(),
            words in proptest::collection::vec(
                prop_oneof![
                    Just("time"), Just("out"), Just("timeout"), Just("TIMED"), Just("a"), Just("b"),
                    Just("c"),
                    Just("abc"), Just("\n"), Just("500"), Just("5"), Just(" "), Just("\" 404 "), Just("ms"),
                    Just("GET"), Just("erro"), Just("xxx"), Just("\u{e9}"), Just("\u{212a}"), Just("0"),
                ],
                0..8,
            ),
            rubbish in proptest::collection::vec(any::<u8>(), 0..3),
        ) {
            let filter = filter(FILTERS[n]);
            let line = words.concat().into_bytes();
            check(&filter, &line);
            check(&filter, &[&line[..], &rubbish].concat());
            check(&filter, &[&rubbish[..], &line].concat());
        }
    }
}
