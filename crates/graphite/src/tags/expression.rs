//! Expressions of `seriesByTag`: `tag=value`, `tag!=value`, `tag=~regex`, `tag!=~regex`.
//!
//! A regex is anchored only at its start. An expression that matches the empty text also matches series
//! without the tag; at least one of several expressions must not match the empty text.

use std::fmt;

use sandur_model::TextPattern;
use sandur_query::QueryContext;

use crate::error::{Error, Result};
use crate::pattern::python_beginning;

/// The comparison operator of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Match,
    /// `!=~`
    NotMatch,
}

/// A tag expression.
#[derive(Clone, Debug)]
pub struct TagExpression {
    /// The tag.
    pub tag: String,
    /// The operator.
    pub operator: Operator,
    /// The value or regex, as in the request.
    pub spec: String,
    pattern: Option<TextPattern>,
}

impl fmt::Display for TagExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.tag, self.operator.sign(), self.spec)
    }
}

impl Operator {
    /// The text of the operator.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Match => "=~",
            Self::NotMatch => "!=~",
        }
    }
}

impl TagExpression {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("Invalid tagspec {text}"));
        let end = text.find([';', '!', '=']).filter(|end| *end > 0).ok_or_else(wrong)?;
        let (tag, rest) = text.split_at(end);
        let operators = [Operator::NotMatch, Operator::Match, Operator::NotEqual, Operator::Equal];
        let found =
            operators.iter().find_map(|operator| Some((rest.strip_prefix(operator.sign())?, *operator)));
        let (spec, operator) = found.ok_or_else(wrong)?;
        if spec.contains(';') {
            return Err(wrong());
        }
        let pattern = match operator {
            Operator::Match | Operator::NotMatch => Some(python_beginning(spec)?),
            Operator::Equal | Operator::NotEqual => None,
        };
        Ok(Self { tag: tag.to_owned(), operator, spec: spec.to_owned(), pattern })
    }

    /// Parses several expressions, at least one of which must not match series without its tag.
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>> {
        let all: Vec<Self> = texts.into_iter().map(Self::parse).collect::<Result<_>>()?;
        match all.iter().all(Self::fits_missing) {
            true => Err(Error::invalid("At least one tagspec must not match the empty string")),
            false => Ok(all),
        }
    }

    /// Parses expressions as a job of the query, which is charged for the compiled regexes.
    pub(crate) async fn parse_for(context: &QueryContext, texts: Vec<String>) -> Result<Vec<Self>> {
        // Even a short regex may take long to compile.
        let has_regex = texts.iter().any(|text| text.contains("=~"));
        let is_little = !has_regex && texts.len() < 64;
        let job = move || Ok(Self::parse_all(texts.iter().map(String::as_str)));
        context.compute_sized(is_little, job).await?
    }

    /// Whether a value matches; a missing tag has the empty value. In a cancelled job (see
    /// [`sandur_memory::job`]) the result is arbitrary and will be dropped.
    pub fn fits(&self, value: &str) -> bool {
        let fits = || self.pattern.as_ref().is_some_and(|pattern| pattern.matches(value));
        match self.operator {
            Operator::Equal => value == self.spec,
            Operator::NotEqual => value != self.spec,
            Operator::Match => fits(),
            Operator::NotMatch => !fits(),
        }
    }

    /// The most steps of the expression per byte of a value.
    pub(crate) fn steps_per_byte(&self) -> usize {
        self.pattern.as_ref().map_or(1, |pattern| pattern.steps_per_byte().max(1))
    }

    /// Whether series without the tag match.
    pub fn fits_missing(&self) -> bool {
        self.fits("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_is_anchored_only_at_its_start() {
        let fits = |text: &str, value| TagExpression::parse(text).unwrap().fits(value);
        assert!(fits("name=~req", "requests") && !fits("name=~total", "requests.total"));
        assert!(fits("name!=~total", "requests.total") && fits("a!=b", "") && !fits("a!=", ""));
        for wrong in ["=x", "a", "a!x", "a=b;c", "", "a=~(", "!=x"] {
            assert!(TagExpression::parse(wrong).is_err(), "{wrong}");
        }
        assert!(TagExpression::parse_all(["a=", "b!=x"]).is_err());
    }
}
