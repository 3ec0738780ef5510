//! Conditions on names: prefixes, substrings and regular expressions, each of which may be negated.
//!
//! **Invariants.** A name matches when all conditions hold; without conditions every name matches. A
//! compiled expression uses bounded memory, and a match runs in linear time.

use std::fmt;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use super::example;

/// Bytes that a compiled expression may use.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// An expression that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression '{expression}' is not understood: {reason}")]
pub struct BadExpression {
    /// The text of the expression.
    pub expression: String,
    /// The reason, in one line.
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

/// What one condition tests.
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

    /// Matches names in which any of the expressions is found.
    pub fn any_of(expressions: Vec<Regex>) -> Self {
        Self::default().and(Test::Expressions(expressions), false)
    }

    /// Adds a condition on the start of the name. An empty prefix adds no condition.
    pub fn prefix(self, prefix: &str, is_negated: bool) -> Self {
        if prefix.is_empty() { self } else { self.and(Test::Prefix(prefix.into()), is_negated) }
    }

    /// Adds a condition on a substring of the name. An empty one adds no condition.
    pub fn part(self, part: &str, is_negated: bool) -> Self {
        if part.is_empty() { self } else { self.and(Test::Part(part.into()), is_negated) }
    }

    /// Adds a condition on a regular expression. An empty one adds no condition.
    pub fn expression(self, expression: &str, is_negated: bool) -> Result<Self, BadExpression> {
        if expression.is_empty() {
            return Ok(self);
        }
        Ok(self.and(Test::Expressions(vec![compile(expression, false)?]), is_negated))
    }

    /// Adds the condition that any of the expressions is found.
    pub(crate) fn with(self, expressions: Vec<Regex>) -> Self {
        self.and(Test::Expressions(expressions), false)
    }

    /// Makes a name that matches; different numbers give different names where the conditions permit it.
    /// Returns `None` if none was found.
    pub(crate) fn example(&self, number: u64) -> Option<Vec<u8>> {
        let (mut prefix, mut parts) = (Vec::new(), Vec::new());
        for condition in self.conditions.iter().filter(|condition| !condition.is_negated) {
            match &condition.test {
                Test::Prefix(text) => prefix.clone_from(text),
                Test::Part(part) => parts.extend_from_slice(part),
                Test::Expressions(all) => {
                    let one = &all[usize::try_from(number).ok()? % all.len().max(1)];
                    parts.extend(example::of_expression(one.as_str(), number)?);
                }
            }
        }
        let unique = format!("made.up.name{number}").into_bytes();
        let dot = if prefix.is_empty() && parts.is_empty() { "" } else { "." }.as_bytes();
        let forms: [&[&[u8]]; 4] = [
            &[&prefix, &parts, dot, &unique],
            &[&prefix, &parts],
            &[&prefix, &unique, dot, &parts],
            &[&parts, dot, &unique],
        ];
        forms.iter().map(|form| form.concat()).find(|name| self.matches(name))
    }

    fn and(mut self, test: Test, is_negated: bool) -> Self {
        self.conditions.push(Condition { test, is_negated });
        self
    }

    /// Returns whether a name matches.
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

    /// Returns whether every name matches.
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
    fn an_expression_that_is_invalid_or_too_large_is_refused() {
        assert!(compile("(?=a)b", false).unwrap_err().reason.contains("look-around"));
        assert!(compile("((a{1000}){1000}){1000}", false).is_err());
        assert!(compile(&"(".repeat(10_000), false).is_err());
    }
}
