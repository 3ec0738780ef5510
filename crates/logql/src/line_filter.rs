//! A line filter: alternatives, of which a line must match one, or none if the filter is negated.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sandur_model::LineAutomaton;
use sandur_model::go_text::quote;

use crate::line_automaton;
use crate::line_test::LineTest;
use crate::row_search::Search;

/// A line filter.
#[derive(Clone, Debug)]
pub struct LineFilter {
    /// Whether matching lines are dropped, not kept.
    pub negated: bool,
    /// The alternatives; a line matches if any of them does.
    pub tests: Vec<LineTest>,
    /// The text of each alternative, and whether it is an address.
    pub texts: Vec<(bool, String)>,
    operator: &'static str,
    /// These are created on first use, and shared by all copies of the filter.
    automaton: Arc<OnceLock<Option<LineAutomaton>>>,
    search: Arc<OnceLock<Option<Search>>>,
}

impl LineFilter {
    /// A filter without alternatives.
    pub fn new(operator: &'static str) -> Self {
        let negated = operator.starts_with('!');
        let (tests, texts, automaton, search) = (Vec::new(), Vec::new(), Arc::default(), Arc::default());
        Self { negated, tests, texts, operator, automaton, search }
    }

    /// The automaton of the alternatives, if there is one; it ignores `negated`.
    pub fn automaton(&self) -> Option<&LineAutomaton> {
        self.automaton.get_or_init(|| line_automaton::of_tests(&self.tests)).as_ref()
    }

    /// The search over many lines at once, if there is one.
    pub fn search(&self) -> Option<&Search> {
        self.search.get_or_init(|| Search::new(&self.tests)).as_ref()
    }

    /// Whether the automaton was created.
    #[cfg(test)]
    pub fn has_made_automaton(&self) -> bool {
        self.automaton.get().is_some()
    }

    /// Whether the line passes the filter.
    pub fn passes(&self, line: &[u8]) -> bool {
        self.tests.iter().any(|test| test.matches(line)) != self.negated
    }

    /// Whether every line passes the filter.
    pub fn passes_all(&self) -> bool {
        let all = |test: &LineTest| matches!(test, LineTest::Literal(finder) if finder.needle().is_empty());
        !self.negated && self.tests.iter().any(all)
    }
}

impl fmt::Display for LineFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operator)?;
        for (n, (ip, text)) in self.texts.iter().enumerate() {
            let or = if n == 0 { "" } else { " or" };
            match ip {
                true => write!(f, "{or} ip({})", quote(text))?,
                false => write!(f, "{or} {}", quote(text))?,
            }
        }
        Ok(())
    }
}
