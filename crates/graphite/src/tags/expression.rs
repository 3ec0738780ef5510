//! Expressions of `seriesByTag`: `tag=value`, `tag!=value`, `tag=~regex`, `tag!=~regex`.
//!
//! A regex is anchored at its begin alone. An expression that the empty text fits also fits series without
//! the tag; of several expressions at least one must not be so.

use std::fmt;

use sandur_model::TextPattern;
use sandur_query::QueryContext;

use crate::error::{Error, Result};
use crate::pattern::python_beginning;

/// How a tag's value is compared.
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

/// One expression.
#[derive(Clone, Debug)]
pub struct TagExpression {
    /// The tag.
    pub tag: String,
    /// The comparison.
    pub operator: Operator,
    /// The value or the regex, as it was written.
    pub spec: String,
    pattern: Option<TextPattern>,
}

impl fmt::Display for TagExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.tag, self.operator.sign(), self.spec)
    }
}

impl Operator {
    /// How it is written.
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
    /// Reads an expression.
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

    /// Reads several, one of which must refuse series without its tag.
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>> {
        let all: Vec<Self> = texts.into_iter().map(Self::parse).collect::<Result<_>>()?;
        match all.iter().all(Self::fits_missing) {
            true => Err(Error::invalid("At least one tagspec must not match the empty string")),
            false => Ok(all),
        }
    }

    /// The same as a job of a query, in whose name the compiled expressions are held.
    pub(crate) async fn parse_for(context: &QueryContext, texts: Vec<String>) -> Result<Vec<Self>> {
        // A few bytes of a regex may take long to compile.
        let has_regex = texts.iter().any(|text| text.contains("=~"));
        let is_little = !has_regex && texts.len() < 64;
        let job = move || Ok(Self::parse_all(texts.iter().map(String::as_str)));
        context.compute_sized(is_little, job).await?
    }

    /// Whether a value fits; a missing tag has the empty value. In a job that was stopped (see
    /// [`sandur_base::job`]) the answer is of no use and is dropped.
    pub fn fits(&self, value: &str) -> bool {
        let fits = || self.pattern.as_ref().is_some_and(|pattern| pattern.matches(value));
        match self.operator {
            Operator::Equal => value == self.spec,
            Operator::NotEqual => value != self.spec,
            Operator::Match => fits(),
            Operator::NotMatch => !fits(),
        }
    }

    /// The most steps that a byte of a value may take.
    pub(crate) fn steps_per_byte(&self) -> usize {
        self.pattern.as_ref().map_or(1, |pattern| pattern.steps_per_byte().max(1))
    }

    /// Whether series without the tag fit.
    pub fn fits_missing(&self) -> bool {
        self.fits("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_is_anchored_at_its_begin_alone() {
        let fits = |text: &str, value| TagExpression::parse(text).unwrap().fits(value);
        assert!(fits("name=~req", "requests") && !fits("name=~total", "requests.total"));
        assert!(fits("name!=~total", "requests.total") && fits("a!=b", "") && !fits("a!=", ""));
        for wrong in ["=x", "a", "a!x", "a=b;c", "", "a=~(", "!=x"] {
            assert!(TagExpression::parse(wrong).is_err(), "{wrong}");
        }
        assert!(TagExpression::parse_all(["a=", "b!=x"]).is_err());
    }
}
