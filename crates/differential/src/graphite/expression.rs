//! Targets as trees, which can be printed and reduced.

use std::fmt::{self, Display, Formatter};

/// A piece of a target.
#[derive(Clone, Debug)]
pub enum Part {
    /// Mandatory text.
    Text(String),
    /// Text without which the target is still valid.
    Optional(String),
    /// A nested target.
    Inner(Expression),
}

/// A target.
#[derive(Clone, Debug)]
pub struct Expression {
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
    /// A target that consists of text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())] }
    }

    /// Returns targets that are one step smaller, with the largest reductions first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = self.descendants();
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
                    if inner.parts.len() == 1 && inner.to_string() != "total" {
                        smaller.push(with(Some(Part::Inner(Self::text("total")))));
                    }
                }
            }
        }
        smaller
    }

    fn descendants(&self) -> Vec<Self> {
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
    fn smaller_targets_lack_a_piece_or_are_one() {
        let inner = Expression { parts: vec![Part::Text("scale(total".into()), Part::Optional(",2".into())] };
        let outer =
            Expression { parts: vec![Part::Text("sum(".into()), Part::Inner(inner), Part::Text(")".into())] };
        let smaller: Vec<String> = outer.smaller().iter().map(ToString::to_string).collect();
        assert_eq!(smaller, ["scale(total,2", "sum(scale(total)"]);
    }
}
