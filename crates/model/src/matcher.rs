//! Label matchers with the semantics of Prometheus and Loki: regexes are fully anchored, and a
//! label that is absent matches as the empty string.

use std::fmt;

use crate::bounded_regex::{BoundedRegex, RegexError, RegexOptions};
use crate::labels::Labels;

/// How a matcher compares.
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
    /// The operator as it is written.
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
    regex: Option<BoundedRegex>,
}

/// A matcher whose regular expression is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression '{pattern}' in the matcher on '{name}': {reason}")]
pub struct MatcherError {
    /// The label.
    pub name: String,
    /// The expression.
    pub pattern: String,
    /// What the regex engine says.
    pub reason: RegexError,
}

impl Matcher {
    /// A matcher; fails when `op` is a regex operator and `value` does not compile.
    pub fn new(
        name: impl Into<Box<str>>,
        op: MatchOp,
        value: impl Into<Box<str>>,
    ) -> Result<Self, MatcherError> {
        let (name, value) = (name.into(), value.into());
        let regex = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(anchored(&name, &value)?),
        };
        Ok(Self { name, op, value, regex })
    }

    /// The label it looks at.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it compares.
    pub fn op(&self) -> MatchOp {
        self.op
    }

    /// What it compares with.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Bytes that it takes beside its text.
    pub fn memory_bytes(&self) -> u64 {
        self.regex.as_ref().map_or(0, BoundedRegex::memory_bytes)
    }

    /// Whether a label with this value passes; an absent label is the empty string. In a job that was stopped
    /// (see [`sandur_base::job`]) the answer is of no use, and nobody will use it.
    pub fn matches(&self, value: &str) -> bool {
        let regex = || self.regex.as_ref().is_some_and(|r| r.is_match(value.as_bytes()).unwrap_or(false));
        match self.op {
            MatchOp::Equal => value == &*self.value,
            MatchOp::NotEqual => value != &*self.value,
            MatchOp::Regex => regex(),
            MatchOp::NotRegex => !regex(),
        }
    }

    /// Whether streams without the label pass.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }
}

/// Whether every matcher passes on the labels.
pub fn matches_all(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
}

fn anchored(name: &str, pattern: &str) -> Result<BoundedRegex, MatcherError> {
    // (?s): in label matchers a dot also matches a line break, as in Prometheus.
    let text = format!("^(?s:{pattern})$");
    let options = RegexOptions { utf8: true, prefilter: true, groups: false };
    let compiled = BoundedRegex::parse(&text, true).and_then(|hir| BoundedRegex::new(&hir, options));
    compiled.map_err(|reason| MatcherError { name: name.to_owned(), pattern: pattern.to_owned(), reason })
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
        let labels = Labels::from_pairs([("app", "api")]);
        assert!(matches_all(&[m(MatchOp::Regex, "a.*")], &labels));
    }
}
