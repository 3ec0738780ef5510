//! Which names something is for: prefixes, parts and regular expressions, each of which may be negated.
//!
//! **Invariants.** All conditions must hold; none at all holds for every name. A compiled expression takes
//! bounded memory and linear time.

use std::fmt;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a compiled expression may take.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// An expression that does not compile here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression '{expression}' is not understood: {reason}")]
pub struct BadExpression {
    /// The expression.
    pub expression: String,
    /// Why, in one line.
    pub reason: String,
}

/// Compiles an expression over bytes.
pub fn compile(expression: &str, ignores_case: bool) -> Result<Regex, BadExpression> {
    let built = RegexBuilder::new(expression)
        .case_insensitive(ignores_case)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(100)
        .build();
    built.map_err(|error| BadExpression { expression: expression.to_owned(), reason: one_line(&error) })
}

/// The last line of the library's message holds the reason.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").trim().to_owned()
}

/// What one condition looks at.
#[derive(Clone, Debug)]
enum Test {
    Prefix(Vec<u8>),
    Part(Vec<u8>),
    Expressions(Vec<Regex>),
}

#[derive(Clone, Debug)]
struct Condition {
    test: Test,
    is_negated: bool,
}

/// Conditions on a name.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    conditions: Vec<Condition>,
}

impl Matcher {
    /// Matches every name.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches what any of the expressions finds.
    pub fn any_of(expressions: Vec<Regex>) -> Self {
        Self::default().and(Test::Expressions(expressions), false)
    }

    /// Also asks for a beginning; an empty one asks for nothing.
    pub fn prefix(self, prefix: &str, is_negated: bool) -> Self {
        if prefix.is_empty() { self } else { self.and(Test::Prefix(prefix.into()), is_negated) }
    }

    /// Also asks for a part; an empty one asks for nothing.
    pub fn part(self, part: &str, is_negated: bool) -> Self {
        if part.is_empty() { self } else { self.and(Test::Part(part.into()), is_negated) }
    }

    /// Also asks for an expression; an empty one asks for nothing.
    pub fn expression(self, expression: &str, is_negated: bool) -> Result<Self, BadExpression> {
        if expression.is_empty() {
            return Ok(self);
        }
        Ok(self.and(Test::Expressions(vec![compile(expression, false)?]), is_negated))
    }

    fn and(mut self, test: Test, is_negated: bool) -> Self {
        self.conditions.push(Condition { test, is_negated });
        self
    }

    /// Whether a name is meant.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.conditions.iter().all(|condition| {
            let found = match &condition.test {
                Test::Prefix(prefix) => name.starts_with(prefix),
                Test::Part(part) => memmem::find(name, part).is_some(),
                Test::Expressions(all) => all.iter().any(|one| one.is_match(name)),
            };
            found != condition.is_negated
        })
    }

    /// Whether every name is meant.
    pub fn is_everything(&self) -> bool {
        self.conditions.is_empty()
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.conditions.is_empty() {
            return f.write_str("*");
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let (gap, not) =
                (if index > 0 { " " } else { "" }, if condition.is_negated { "not " } else { "" });
            write!(f, "{gap}{not}")?;
            match &condition.test {
                Test::Prefix(prefix) => write!(f, "prefix {}", String::from_utf8_lossy(prefix))?,
                Test::Part(part) => write!(f, "sub {}", String::from_utf8_lossy(part))?,
                Test::Expressions(all) => {
                    let all: Vec<&str> = all.iter().map(Regex::as_str).collect();
                    write!(f, "{}", all.join(" | "))?;
                }
            }
        }
        Ok(())
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_must_hold() {
        let matcher = Matcher::everything().prefix("a.", false).part("tmp", true);
        let matcher = matcher.expression("cpu[0-9]+$", false).unwrap();
        let names = ["a.cpu1", "b.cpu1", "a.tmp.cpu1", "a.cpu", "a.x.cpu12"];
        assert_eq!(names.map(|name| matcher.matches(name.as_bytes())), [true, false, false, false, true]);
        assert!(Matcher::everything().prefix("", false).part("", true).is_everything());
        assert!(matcher.matches(b"a.\xff.cpu7"), "names need not be text");
    }

    #[test]
    fn an_expression_that_is_not_understood_or_too_large_is_refused() {
        assert!(compile("(?=a)b", false).unwrap_err().reason.contains("look-around"));
        assert!(compile("((a{1000}){1000}){1000}", false).is_err());
        assert!(compile(&"(".repeat(10_000), false).is_err());
    }
}
