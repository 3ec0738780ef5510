//! Parses tokens to the syntax tree by descent, with one token of look-ahead. No function here recurses:
//! open constructs are kept on lists.
//!
//! Error texts follow Loki's generated parser: `syntax error: unexpected X, expecting A or B`. The list is
//! omitted if more than four tokens are valid. `select` parses selectors and matchers, `metric` parses
//! metric expressions, and stages parse themselves (see [`crate::stage`]).

mod metric;
mod select;
pub use select::{NamedMatcher, new_matcher};

use sandur_base::nesting::{Depth, Nested, Node, TooNested};

use crate::ast::{Expr, LogExpr};
use crate::error::ParseError;
use crate::lexer::{Kind, Token, tokenize};

pub use select::validate_matchers;

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 131_072;

/// Parses a query and checks that it can run.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let expr = parse_unchecked(text)?;
    metric::validate(&expr)?;
    Ok(expr)
}

/// Parses a query that may select every stream.
pub fn parse_unchecked(text: &str) -> Result<Expr, ParseError> {
    if text.len() >= QUERY_BYTES_MAX {
        let message = format!("input size too long ({} > {QUERY_BYTES_MAX})", text.len());
        return Err(ParseError::whole(message));
    }
    read(text).1
}

fn read(text: &str) -> (Parser, Result<Expr, ParseError>) {
    let mut parser = Parser { tokens: tokenize(text), at: 0, depth: Depth::default(), deferred: None };
    let expr = parser.expr().and_then(|expr| parser.end().map(|()| expr));
    let expr = expr.and_then(|expr| parser.check_deferred().map(|()| expr));
    (parser, expr)
}

/// The tokens of a query, and the index at which parsing stopped: at the unexpected token, or after the
/// invalid expression. `None` if the text is too long.
pub fn stopped(text: &str) -> Option<(Vec<Token>, usize)> {
    if text.len() >= QUERY_BYTES_MAX {
        return None;
    }
    let (parser, _) = read(text);
    let last = parser.tokens.len() - 1;
    Some((parser.tokens, parser.at.min(last)))
}

/// Parses a log query and checks that it can run.
pub fn parse_log(text: &str) -> Result<LogExpr, ParseError> {
    match parse(text)? {
        Expr::Log(log) => Ok(log),
        Expr::Metric(_) => Err(ParseError::whole("only log selector is supported")),
    }
}

/// The tokens and the current position.
pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: Depth,
    /// The first error that is reported only if the rest of the query is valid, and its position.
    deferred: Option<(usize, ParseError)>,
}

impl Parser {
    /// Records an error that does not prevent parsing the rest of the query.
    fn defer(&mut self, error: ParseError) {
        self.deferred.get_or_insert((self.at, error));
    }

    fn check_deferred(&mut self) -> Result<(), ParseError> {
        let Some((at, error)) = self.deferred.take() else { return Ok(()) };
        self.at = at;
        Err(error)
    }

    /// The next token; at the end, the last one again.
    pub fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    /// The token after the next one.
    pub fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    /// The kind of the next token.
    pub fn kind(&self) -> Kind {
        self.peek().kind
    }

    /// Consumes the next token.
    pub fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Consumes the next token if it is this word; returns whether it was.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    /// Whether the next token is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), Kind::Word(w) if w == word)
    }

    /// Consumes this word, or fails.
    pub fn expect_word(&mut self, word: &str) -> Result<(), ParseError> {
        self.expect_word_of(word, &[word])
    }

    /// Consumes this word, or fails and names all valid tokens.
    pub fn expect_word_of(&mut self, word: &str, expecting: &[&str]) -> Result<(), ParseError> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(expecting)) }
    }

    /// Consumes a token of this kind, or fails.
    pub fn expect(&mut self, kind: Kind, expecting: &[&str]) -> Result<Token, ParseError> {
        if self.kind() == kind { Ok(self.take()) } else { Err(self.unexpected(expecting)) }
    }

    /// Consumes a string, or fails.
    pub fn string(&mut self) -> Result<String, ParseError> {
        Ok(self.expect(Kind::String, &["STRING"])?.text)
    }

    /// The error that the next token is unexpected.
    pub fn unexpected(&self, expecting: &[&str]) -> ParseError {
        self.peek().unexpected(expecting)
    }

    /// Fails unless all tokens are consumed.
    pub fn end(&self) -> Result<(), ParseError> {
        match self.kind() {
            Kind::End => Ok(()),
            // A stage may follow the bar, but this one is not valid.
            Kind::Word("|") => Err(self.peek_second().unexpected(&[])),
            _ => Err(self.unexpected(&[])),
        }
    }

    /// Enters a level of the tree; fails if the tree would be too deep.
    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth.enter().map_err(|limit| self.too_nested(limit))
    }

    /// Leaves the last level.
    fn leave(&mut self) {
        self.depth.leave();
    }

    /// Links a node into the tree; fails if the tree would be too deep or too large.
    fn nested<T: Node>(&self, node: T) -> Result<Nested<T>, ParseError> {
        Nested::new(node).map_err(|limit| self.too_nested(limit))
    }

    fn too_nested(&self, limit: TooNested) -> ParseError {
        let token = self.peek();
        ParseError::at(token.line, token.column, format!("the query has {limit}"))
    }
}

#[cfg(test)]
mod tests;
