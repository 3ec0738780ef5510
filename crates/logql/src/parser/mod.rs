//! Tokens to the syntax tree, by descent with one token of look-ahead. Nothing here calls itself: what is
//! open while something in it is read stands on lists.
//!
//! Error texts follow Loki's generated parser: `syntax error: unexpected X, expecting A or B`, where the
//! list is left out when more than four tokens would fit. `select` has selectors and matchers, `metric` has
//! expressions over them; stages parse themselves (see [`crate::stage`]).

mod metric;
mod select;
pub use select::{NamedMatcher, new_matcher};

use sandur_base::nesting::{Depth, Nested, Node, TooNested};

use crate::ast::{Expr, LogExpr};
use crate::error::ParseError;
use crate::lexer::{Kind, Token, tokenize};

pub use select::validate_matchers;

/// Longest query in bytes.
pub const QUERY_BYTES_MAX: usize = 131_072;

/// Reads a query and checks that it can be run.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let expr = parse_unchecked(text)?;
    metric::validate(&expr)?;
    Ok(expr)
}

/// Reads a query that may select every stream.
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

/// The tokens of a query and where reading it stopped: at the token that does not fit, or behind what is
/// wrong as a whole. `None` for a text that is too long to be read.
pub fn stopped(text: &str) -> Option<(Vec<Token>, usize)> {
    if text.len() >= QUERY_BYTES_MAX {
        return None;
    }
    let (parser, _) = read(text);
    let last = parser.tokens.len() - 1;
    Some((parser.tokens, parser.at.min(last)))
}

/// Reads a log query and checks that it can be run.
pub fn parse_log(text: &str) -> Result<LogExpr, ParseError> {
    match parse(text)? {
        Expr::Log(log) => Ok(log),
        Expr::Metric(_) => Err(ParseError::whole("only log selector is supported")),
    }
}

/// The tokens and how far they are read.
pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: Depth,
    /// The first error that is said when the rest of the query is right, and where it stands.
    deferred: Option<(usize, ParseError)>,
}

impl Parser {
    /// Notes an error that does not keep the rest of the query from being read.
    fn defer(&mut self, error: ParseError) {
        self.deferred.get_or_insert((self.at, error));
    }

    fn check_deferred(&mut self) -> Result<(), ParseError> {
        let Some((at, error)) = self.deferred.take() else { return Ok(()) };
        self.at = at;
        Err(error)
    }

    /// The next token; the last one again at the end.
    pub fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    /// The token after the next.
    pub fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    /// What the next token is.
    pub fn kind(&self) -> Kind {
        self.peek().kind
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Takes the next token when it is this word.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    /// Whether the next token is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), Kind::Word(w) if w == word)
    }

    /// Takes this word or fails.
    pub fn expect_word(&mut self, word: &str) -> Result<(), ParseError> {
        self.expect_word_of(word, &[word])
    }

    /// Takes this word or fails, naming all that could stand here.
    pub fn expect_word_of(&mut self, word: &str, expecting: &[&str]) -> Result<(), ParseError> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(expecting)) }
    }

    /// Takes a token of this kind or fails.
    pub fn expect(&mut self, kind: Kind, expecting: &[&str]) -> Result<Token, ParseError> {
        if self.kind() == kind { Ok(self.take()) } else { Err(self.unexpected(expecting)) }
    }

    /// Takes a string or fails.
    pub fn string(&mut self) -> Result<String, ParseError> {
        Ok(self.expect(Kind::String, &["STRING"])?.text)
    }

    /// The error that the next token is where it stands.
    pub fn unexpected(&self, expecting: &[&str]) -> ParseError {
        self.peek().unexpected(expecting)
    }

    /// Fails unless everything was read.
    pub fn end(&self) -> Result<(), ParseError> {
        match self.kind() {
            Kind::End => Ok(()),
            // A stage could follow the bar, but not this one.
            Kind::Word("|") => Err(self.peek_second().unexpected(&[])),
            _ => Err(self.unexpected(&[])),
        }
    }

    /// Counts a level of the tree that is being read; fails when there would be too many.
    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth.enter().map_err(|limit| self.too_nested(limit))
    }

    /// Leaves the level that was entered last.
    fn leave(&mut self) {
        self.depth.leave();
    }

    /// Links a node into the tree; fails when the tree would be too high or too large.
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
