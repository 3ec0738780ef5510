//! Label matchers with the semantics of Prometheus and Loki: regular expressions are fully anchored, and
//! an absent label has the empty string as its value.

use std::fmt;

use crate::bounded_regex::RegexError;
use crate::go_regex::translate;
use crate::labels::Labels;
use crate::matcher_form::MatcherForm;
use crate::text_pattern::TextPattern;

/// The comparison of a matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

impl MatchOp {
    /// The operator in query syntax.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }
}

/// One condition on a label.
#[derive(Clone)]
pub struct Matcher {
    name: Box<str>,
    op: MatchOp,
    value: Box<str>,
    /// Compiled `value` of the regular-expression operators.
    pattern: Option<TextPattern>,
}

/// A matcher whose regular expression is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression '{pattern}' in the matcher on '{name}': {reason}")]
pub struct MatcherError {
    /// The label of the matcher.
    pub name: String,
    /// The regular expression.
    pub pattern: String,
    /// Why it is not valid.
    pub reason: RegexError,
}

impl Matcher {
    /// A matcher; fails when `op` is a regular-expression operator and `value` does not compile.
    pub fn new(
        name: impl Into<Box<str>>,
        op: MatchOp,
        value: impl Into<Box<str>>,
    ) -> Result<Self, MatcherError> {
        let (name, value) = (name.into(), value.into());
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(anchored(&name, &value)?),
        };
        Ok(Self { name, op, value, pattern })
    }

    /// A matcher for exactly this value; an empty value matches series without the label.
    pub fn equal(name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), op: MatchOp::Equal, value: value.into(), pattern: None }
    }

    /// The name of the label.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The comparison.
    pub fn op(&self) -> MatchOp {
        self.op
    }

    /// The value or regular expression to compare with.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The values that the pattern describes, regardless of negation.
    pub fn form(&self) -> MatcherForm<'_> {
        match &self.pattern {
            None => MatcherForm::Values(std::slice::from_ref(&self.value)),
            Some(pattern) => pattern.form(),
        }
    }

    /// Whether the operator is negated.
    pub fn is_negated(&self) -> bool {
        matches!(self.op, MatchOp::NotEqual | MatchOp::NotRegex)
    }

    /// Bytes of the compiled pattern that no job was charged with.
    pub fn memory_bytes(&self) -> u64 {
        self.pattern.as_ref().map_or(0, TextPattern::memory_bytes)
    }

    /// The most steps for one byte of a value; 0 unless an automaton or text forms decide.
    pub fn steps_per_byte(&self) -> usize {
        self.pattern.as_ref().map_or(0, TextPattern::steps_per_byte)
    }

    /// Whether a label with this value matches; an absent label has the empty string. In a stopped job
    /// (see [`sandur_memory::job`]) the result is arbitrary and the caller discards it.
    pub fn matches(&self, value: &str) -> bool {
        match self.op {
            MatchOp::Equal => value == &*self.value,
            MatchOp::NotEqual => value != &*self.value,
            MatchOp::Regex => self.fits(value),
            MatchOp::NotRegex => !self.fits(value),
        }
    }

    fn fits(&self, value: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(value))
    }

    /// Whether streams without the label match.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }
}

/// Whether all matchers match the labels.
pub fn matches_all(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
}

fn anchored(name: &str, pattern: &str) -> Result<TextPattern, MatcherError> {
    // (?s): in label matchers a dot also matches a line feed, as in Prometheus.
    let read = || TextPattern::new(&format!("^(?s:{})$", translate(pattern)?));
    read().map_err(|reason| MatcherError { name: name.to_owned(), pattern: pattern.to_owned(), reason })
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:?}", self.name, self.op.as_str(), self.value)
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.op, &self.value) == (&other.name, other.op, &other.value)
    }
}

impl Eq for Matcher {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_describes_the_values_of_a_pattern() {
        let form = |op, value: &str| match Matcher::new("app", op, value).unwrap().form() {
            MatcherForm::Values(values) => values.join(","),
            MatcherForm::Start(start) => format!("{start}..."),
            other => format!("{other:?}"),
        };
        let found = [
            form(MatchOp::NotEqual, "a.*"),
            form(MatchOp::Regex, "b|a"),
            form(MatchOp::NotRegex, "api-.*"),
            form(MatchOp::Regex, ".*"),
            form(MatchOp::Regex, ".+"),
            form(MatchOp::Regex, ".*x"),
            form(MatchOp::Regex, "a[0-9]+"),
        ];
        assert_eq!(found, ["a.*", "a,b", "api-...", "Anything", "NotEmpty", "Other", "Other"]);
    }

    #[test]
    fn operators_follow_prometheus() {
        let m = |op, value: &str| Matcher::new("app", op, value).unwrap();
        assert!(m(MatchOp::Equal, "a").matches("a"));
        assert!(m(MatchOp::NotEqual, "a").matches_empty());
        assert!(m(MatchOp::Regex, "a|b").matches("b"));
        assert!(!m(MatchOp::Regex, "a|b").matches("ab"), "anchored");
        assert!(m(MatchOp::Regex, ".+").matches("x\ny"));
        assert!(!m(MatchOp::Regex, ".+").matches_empty());
        assert!(m(MatchOp::NotRegex, ".+").matches_empty());
        assert!(Matcher::new("app", MatchOp::Regex, "(").is_err());
        assert!(m(MatchOp::Regex, r"[\w-.]+").matches("a-b.c"), "Go's syntax");
        let labels = Labels::from_pairs([("app", "api")]);
        assert!(matches_all(&[m(MatchOp::Regex, "a.*")], &labels));
    }
}
