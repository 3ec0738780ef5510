//! The tokens of a query and the position in them, which all parts of the parser share, stages included.

use sandur_base::nesting::{Depth, Nested, Node, TooNested};

use crate::error::ParseError;
use crate::lexer::{Kind, Token, tokenize};

/// The tokens and the current position.
pub struct Parser {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    depth: Depth,
    /// The first error that is reported only if the rest of the query is valid, and its position.
    deferred: Option<(usize, ParseError)>,
}

impl Parser {
    /// At the start of a text.
    pub(super) fn new(text: &str) -> Self {
        Self { tokens: tokenize(text), at: 0, depth: Depth::default(), deferred: None }
    }

    /// Records an error that does not prevent parsing the rest of the query.
    pub(super) fn defer(&mut self, error: ParseError) {
        self.deferred.get_or_insert((self.at, error));
    }

    pub(super) fn check_deferred(&mut self) -> Result<(), ParseError> {
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
    pub(super) fn enter(&mut self) -> Result<(), ParseError> {
        self.depth.enter().map_err(|limit| self.too_nested(limit))
    }

    /// Leaves the last level.
    pub(super) fn leave(&mut self) {
        self.depth.leave();
    }

    /// Links a node into the tree; fails if the tree would be too deep or too large.
    pub(super) fn nested<T: Node>(&self, node: T) -> Result<Nested<T>, ParseError> {
        Nested::new(node).map_err(|limit| self.too_nested(limit))
    }

    pub(super) fn too_nested(&self, limit: TooNested) -> ParseError {
        let token = self.peek();
        ParseError::at(token.line, token.column, format!("the query has {limit}"))
    }
}
