//! The place of a mistake in a query, and the advice about it.

use std::ops::Range;

use crate::lexer::{Kind, Token};

/// A suggestion for a part of a query.
pub struct Advice {
    /// The part, if it is not the token at which parsing stopped.
    pub span: Option<Range<usize>>,
    pub help: Option<String>,
}

/// Advice for the token at which parsing stopped.
pub fn here(help: impl Into<String>) -> Option<Advice> {
    Some(Advice { span: None, help: Some(help.into()) })
}

/// Advice for another part.
pub fn there(span: Range<usize>, help: impl Into<String>) -> Option<Advice> {
    Some(Advice { span: Some(span), help: Some(help.into()) })
}

/// A query and the token at which parsing stopped.
pub struct Scene<'a> {
    pub text: &'a str,
    pub tokens: &'a [Token],
    pub at: usize,
}

impl<'a> Scene<'a> {
    pub fn token(&self) -> &'a Token {
        &self.tokens[self.at]
    }

    /// A token before (negative) or after the one at which parsing stopped.
    pub fn near(&self, offset: isize) -> Option<&'a Token> {
        self.tokens.get(self.at.checked_add_signed(offset)?)
    }

    pub fn source(&self, token: &Token) -> &'a str {
        self.text.get(token.span.clone()).unwrap_or_default()
    }

    /// Whether the token at this offset is not a string and has this text.
    pub fn is(&self, offset: isize, text: &str) -> bool {
        self.near(offset).is_some_and(|t| t.kind != Kind::String && self.source(t) == text)
    }

    pub fn kind(&self, offset: isize) -> Option<Kind> {
        self.near(offset).map(|t| t.kind)
    }

    /// Whether the token is between `{` and `}`.
    pub fn in_selector(&self) -> bool {
        let mut before = self.tokens[..self.at].iter().rev();
        before
            .find_map(|t| match t.kind {
                Kind::Word("{") => Some(true),
                Kind::Word("}") => Some(false),
                _ => None,
            })
            .unwrap_or(false)
    }

    /// The index of the innermost parenthesis that is open at the token.
    pub fn open_parenthesis(&self) -> Option<usize> {
        let mut closed = 0;
        for at in (0..self.at).rev() {
            match self.tokens[at].kind {
                Kind::Word(")") => closed += 1,
                Kind::Word("(") if closed == 0 => return Some(at),
                Kind::Word("(") => closed -= 1,
                _ => {}
            }
        }
        None
    }

    /// The function whose parenthesis is open at the token, and the index of that parenthesis.
    pub fn open_call(&self) -> Option<(&'a str, usize)> {
        let open = self.open_parenthesis()?;
        let mut before = open.checked_sub(1)?;
        if self.tokens[before].kind == Kind::Word(")") {
            // In `sum by (app) (`, the function name is before the labels.
            let list = self.tokens[..before].iter().rposition(|t| t.kind == Kind::Word("("))?;
            before = list.checked_sub(2)?;
        }
        match self.tokens[before].kind {
            Kind::Function(name) => Some((name, open)),
            _ => None,
        }
    }
}
