//! Expressions as trees, which can be printed and reduced.

use std::fmt::{self, Display, Formatter};

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Scalar,
    /// Series at an instant.
    Vector,
    /// Windows of series.
    Matrix,
    /// A text.
    Text,
}

/// A piece of an expression.
#[derive(Clone, Debug)]
pub enum Part {
    /// Mandatory text.
    Text(String),
    /// Text without which the expression is still valid.
    Optional(String),
    /// A nested expression.
    Inner(Expression),
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The type of its result.
    pub kind: Kind,
    /// Its pieces in order.
    pub parts: Vec<Part>,
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) | Part::Optional(text) => f.write_str(text),
            Part::Inner(inner) => inner.fmt(f),
        })
    }
}

impl Expression {
    /// An expression that consists of text only.
    pub fn text(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, parts: vec![Part::Text(text.into())] }
    }

    /// Returns expressions that are one step smaller, with the largest reductions first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller: Vec<Self> = self.descendants().into_iter().filter(|e| e.kind == self.kind).collect();
        if self.parts.len() > 1 {
            smaller.extend(match self.kind {
                Kind::Scalar => Some(Self::text(Kind::Scalar, "1")),
                Kind::Vector => Some(Self::text(Kind::Vector, "vector(1)")),
                Kind::Matrix | Kind::Text => None,
            });
        }
        for (at, part) in self.parts.iter().enumerate() {
            let with = |changed: Option<Part>| {
                let mut other = self.clone();
                other.parts.splice(at..=at, changed);
                other
            };
            match part {
                Part::Text(_) => {}
                Part::Optional(_) => smaller.push(with(None)),
                Part::Inner(inner) => {
                    smaller.extend(inner.smaller().into_iter().map(|inner| with(Some(Part::Inner(inner)))));
                }
            }
        }
        smaller
    }

    /// Returns the expressions nested in it.
    pub fn descendants(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for part in &self.parts {
            if let Part::Inner(inner) = part {
                found.push(inner.clone());
                found.extend(inner.descendants());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_expressions_lack_a_piece_or_are_one() {
        let selector = Expression {
            kind: Kind::Vector,
            parts: vec![Part::Text("up".into()), Part::Optional(" offset 5m".into())],
        };
        let sum = Expression {
            kind: Kind::Vector,
            parts: vec![Part::Text("sum(".into()), Part::Inner(selector), Part::Text(")".into())],
        };
        assert_eq!(sum.to_string(), "sum(up offset 5m)");
        let smaller: Vec<String> = sum.smaller().iter().map(ToString::to_string).collect();
        assert_eq!(smaller, ["up offset 5m", "vector(1)", "sum(vector(1))", "sum(up)"]);
    }
}
