//! Parses tokens to a syntax tree: operators by precedence, everything else by recursive descent.
//!
//! The parser recurses into parentheses and operators, and counts the depth, so that the text of a query
//! cannot exhaust the stack. Only the first error is reported. As in Prometheus's generated parser, an
//! error that leaves the syntax intact is recorded, and parsing continues.

mod duration;
mod postfix;
mod primary;
mod selector;

pub use primary::has_parameter as takes_parameter;

use sandur_base::nesting::{Depth, Nested, Node, TooNested};
use sandur_model::{Labels, Matcher};

use crate::ast::{Cardinality, Chain, Expr, Link, Matching, Number, Operand, Operands, Unary};
use crate::check;
use crate::error::ParseError;
use crate::lexer::tokenize;
use crate::span::Span;
use crate::text::{parse_duration, parse_number, quote, quote_bytes, unquote_bytes};
use crate::token::{Class, Kind, Token};

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 131_072;

/// Parsing failed; the error is stored in the parser.
struct Failed;
type Read<T> = Result<T, Failed>;

/// Parses an expression and checks its types.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text)?;
    let expr = parser.whole();
    let expr = parser.outcome(expr)?;
    check::check(text, &expr)?;
    Ok(expr)
}

/// Parses a selector without modifiers, as in `match[]` parameters.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, ParseError> {
    let mut parser = Parser::new(text)?;
    let read = parser.vector_selector().and_then(|selector| parser.expect_end().map(|()| selector));
    Ok(parser.outcome(read)?.matchers)
}

/// Parses a metric with its labels, `name{label="value"}`.
pub fn parse_metric(text: &str) -> Result<Labels, ParseError> {
    let mut parser = Parser::new(text)?;
    let read = parser.metric().and_then(|labels| parser.expect_end().map(|()| labels));
    parser.outcome(read)
}

/// The precedence of a binary operator; a higher number binds tighter.
pub(crate) fn binding(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::Or => 1,
        Kind::And | Kind::Unless => 2,
        Kind::Eqlc | Kind::Gte | Kind::Gtr | Kind::Lss | Kind::Lte | Kind::Neq => 3,
        Kind::TrimUpper | Kind::TrimLower => 3,
        Kind::Add | Kind::Sub => 4,
        Kind::Mul | Kind::Div | Kind::Mod | Kind::Atan2 => 5,
        Kind::Pow => 6,
        _ => return None,
    })
}

const POWER: u8 = 6;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: Depth,
    /// The constructs around the current place that Prometheus names in errors, with the tokens that they
    /// expect.
    contexts: Vec<(&'static str, &'static str)>,
    error: Option<Box<ParseError>>,
    lexed: Option<(Span, String)>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, ParseError> {
        if text.len() >= QUERY_BYTES_MAX {
            let what = format!("the query is too long ({} bytes, at most {QUERY_BYTES_MAX})", text.len());
            return Err(ParseError::new(text, Span::default(), what));
        }
        let tokens = tokenize(text);
        let (tokens, lexed) = (tokens.list, tokens.error);
        Ok(Self { text, tokens, at: 0, depth: Depth::default(), contexts: Vec::new(), error: None, lexed })
    }

    fn outcome<T>(&mut self, read: Read<T>) -> Result<T, ParseError> {
        match (self.error.take(), read) {
            (Some(error), _) => Err(*error),
            (None, Ok(value)) => Ok(value),
            // A failure stores its error where it happens.
            (None, Err(Failed)) => Err(ParseError::new(self.text, self.peek().span, "unexpected error")),
        }
    }

    fn whole(&mut self) -> Read<Expr> {
        if self.kind() == Kind::End {
            self.note(Span::default(), "no expression found in input");
            return Err(Failed);
        }
        let expr = self.expr(0)?;
        self.expect_end()?;
        Ok(expr)
    }

    fn expect_end(&mut self) -> Read<()> {
        if self.kind() == Kind::End { Ok(()) } else { Err(self.unexpected("", "")) }
    }

    fn peek(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn peek_second(&self) -> Kind {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn kind(&self) -> Kind {
        self.peek().kind
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn take_if(&mut self, kind: Kind) -> Option<Token> {
        if self.kind() == kind { Some(self.take()) } else { None }
    }

    fn slice(&self, token: Token) -> &'a str {
        self.text.get(token.span.start as usize..token.span.end as usize).unwrap_or_default()
    }

    /// Stores an error, unless there is one already.
    fn note(&mut self, span: Span, what: impl Into<String>) {
        if self.error.is_none() {
            self.error = Some(Box::new(ParseError::new(self.text, span, what)));
        }
    }

    /// Stores the error that the next token is not valid here.
    fn unexpected(&mut self, context: &str, expected: &str) -> Failed {
        let token = self.peek();
        if token.kind == Kind::Error {
            if let Some((span, what)) = self.lexed.take() {
                self.note(span, what);
            }
            return Failed;
        }
        let around = self.contexts.last().copied().filter(|_| context.is_empty());
        let (context, expected) = around.unwrap_or((context, expected));
        let mut what = format!("unexpected {}", self.describe(token));
        if !context.is_empty() {
            what = format!("{what} in {context}");
        }
        if !expected.is_empty() {
            what = format!("{what}, expected {expected}");
        }
        self.note(token.span, what);
        Failed
    }

    /// Fails if the next token is a lexer error. Prometheus reads one token ahead, so it reports that error
    /// before an error in the text before the token.
    fn readable(&mut self) -> Read<()> {
        if self.kind() == Kind::Error { Err(self.unexpected("", "")) } else { Ok(()) }
    }

    fn describe(&self, token: Token) -> String {
        let text = self.slice(token);
        let shown = || match text.len() {
            // The limit counts bytes, the cut counts characters.
            11.. => format!("{}...", quote(&text.chars().take(10).collect::<String>())),
            _ => quote(text),
        };
        match (token.kind, token.kind.class()) {
            (Kind::End, _) => "end of input".to_owned(),
            (Kind::Identifier, _) => format!("identifier {}", quote(text)),
            (Kind::MetricIdentifier, _) => format!("metric identifier {}", quote(text)),
            (Kind::String, _) => format!("string {}", shown()),
            (Kind::Number, _) => format!("number {}", shown()),
            (Kind::Duration, _) => format!("duration {}", shown()),
            (_, Class::Keyword) => format!("<{text}>"),
            (_, Class::Operator) => format!("<op:{text}>"),
            (_, Class::Aggregator) => format!("<aggr:{text}>"),
            _ => shown(),
        }
    }

    fn too_nested(&mut self, limit: TooNested) -> Failed {
        let span = self.peek().span;
        self.note(span, format!("the query has {limit}"));
        Failed
    }

    fn enter(&mut self) -> Read<()> {
        self.depth.enter().map_err(|limit| self.too_nested(limit))
    }

    fn leave(&mut self) {
        self.depth.leave();
    }

    fn nested<T: Node>(&mut self, node: T) -> Read<Nested<T>> {
        Nested::new(node).map_err(|limit| self.too_nested(limit))
    }

    /// Parses operands and binary operators with at least the precedence `least`.
    fn expr(&mut self, least: u8) -> Read<Expr> {
        self.enter()?;
        let mut left = self.signed()?;
        while let Some(strength) = binding(self.kind()).filter(|strength| *strength >= least) {
            let op = self.take().kind;
            let (mut matching, returns_bool) = self.modifiers()?;
            if check::is_set(op) && matching.cardinality == Cardinality::OneToOne {
                matching.cardinality = Cardinality::ManyToMany;
            }
            let right = self.expr(if op == Kind::Pow { strength } else { strength + 1 })?;
            left = self.linked(left, Link { op, matching, returns_bool }, right)?;
        }
        self.leave();
        Ok(left)
    }

    /// Joins two sides and the operator between them; if the left side is a chain, extends it.
    fn linked(&mut self, left: Expr, link: Link, right: Expr) -> Read<Expr> {
        let Expr::Chain(chain) = left else {
            let operands = self.nested(Operands(vec![left, right]))?;
            return Ok(Expr::Chain(Box::new(Chain { operands, links: vec![link] })));
        };
        let Chain { operands, mut links } = *chain;
        let longer = operands.with(right.extent(), |operands| operands.0.push(right));
        let operands = longer.map_err(|limit| self.too_nested(limit))?;
        links.push(link);
        Ok(Expr::Chain(Box::new(Chain { operands, links })))
    }

    /// Parses an operand with its signs, whose precedence is below that of a power.
    fn signed(&mut self) -> Read<Expr> {
        if !matches!(self.kind(), Kind::Add | Kind::Sub) {
            let operand = self.primary()?;
            return self.postfix(operand);
        }
        let sign = self.take();
        let negate = sign.kind == Kind::Sub;
        let inner = self.expr(POWER)?;
        if let Expr::Number(mut number) = inner {
            number.value = if negate { -number.value } else { number.value };
            number.span.start = sign.span.start;
            return Ok(Expr::Number(number));
        }
        let inner = self.nested(Operand(inner))?;
        Ok(Expr::Unary(Box::new(Unary { negate, inner, start: sign.span.start })))
    }

    /// Parses the modifiers between a binary operator and its right side.
    fn modifiers(&mut self) -> Read<(Matching, bool)> {
        let returns_bool = self.take_if(Kind::Bool).is_some();
        let mut matching = Matching {
            cardinality: Cardinality::OneToOne,
            labels: Vec::new(),
            on: false,
            include: Vec::new(),
            fill: [None, None],
        };
        if matches!(self.kind(), Kind::On | Kind::Ignoring) {
            matching.on = self.take().kind == Kind::On;
            matching.labels = self.grouping()?;
            if matches!(self.kind(), Kind::GroupLeft | Kind::GroupRight) {
                let left = self.take().kind == Kind::GroupLeft;
                matching.cardinality = if left { Cardinality::ManyToOne } else { Cardinality::OneToMany };
                if self.kind() == Kind::LeftParen || !self.begins_operand() {
                    matching.include = self.grouping()?;
                }
            }
        }
        match self.kind() {
            Kind::Fill => {
                self.take();
                let value = Some(self.fill_value()?);
                matching.fill = [value, value];
            }
            first @ (Kind::FillLeft | Kind::FillRight) => {
                self.take();
                let side = usize::from(first == Kind::FillRight);
                matching.fill[side] = Some(self.fill_value()?);
                let other = if side == 0 { Kind::FillRight } else { Kind::FillLeft };
                if self.take_if(other).is_some() {
                    matching.fill[1 - side] = Some(self.fill_value()?);
                }
            }
            _ => {}
        }
        Ok((matching, returns_bool))
    }

    fn fill_value(&mut self) -> Read<f64> {
        self.expect(Kind::LeftParen)?;
        let negate = match self.kind() {
            Kind::Add | Kind::Sub => self.take().kind == Kind::Sub,
            _ => false,
        };
        let number = self.number()?;
        self.expect(Kind::RightParen)?;
        Ok(if negate { -number.value } else { number.value })
    }

    fn expect(&mut self, kind: Kind) -> Read<Token> {
        match self.take_if(kind) {
            Some(token) => Ok(token),
            None => Err(self.unexpected("", "")),
        }
    }

    /// Parses a number or a duration.
    fn number(&mut self) -> Read<Number> {
        let token = self.peek();
        let text = self.slice(token);
        let read = match token.kind {
            Kind::Number => parse_number(text).map_err(|what| format!("error parsing number: {what}")),
            Kind::Duration => parse_duration(text).map(|ns| ns as f64 / 1e9),
            _ => return Err(self.unexpected("", "")),
        };
        self.take();
        let value = read.unwrap_or_else(|what| {
            self.note(token.span, what);
            0.0
        });
        Ok(Number { value, is_duration: token.kind == Kind::Duration, span: token.span })
    }

    /// Parses a list of label names: `(a, b)`.
    fn grouping(&mut self) -> Read<Vec<String>> {
        const CONTEXT: &str = "grouping opts";
        if self.take_if(Kind::LeftParen).is_none() {
            return Err(self.unexpected(CONTEXT, "\"(\""));
        }
        let mut labels = Vec::new();
        while self.kind() != Kind::RightParen {
            let token = self.peek();
            let name = match token.kind {
                Kind::String => self.unquoted(token),
                kind if kind.names_label() => self.slice(token).to_owned(),
                _ => return Err(self.unexpected(CONTEXT, "label")),
            };
            self.take();
            let bytes = if token.kind == Kind::String { unquote_bytes(self.slice(token)) } else { None };
            let quoted = bytes.filter(|bytes| bytes.is_empty() || str::from_utf8(bytes).is_err());
            if let Some(bytes) = quoted {
                let what = format!("invalid label name for grouping: {}", quote_bytes(&bytes));
                self.note(token.span, what);
            }
            labels.push(name);
            match self.kind() {
                Kind::Comma => _ = self.take(),
                Kind::RightParen => {}
                _ => return Err(self.unexpected(CONTEXT, "\",\" or \")\"")),
            }
        }
        self.take();
        Ok(labels)
    }

    fn unquoted(&mut self, token: Token) -> String {
        let text = self.slice(token);
        crate::text::unquote(text).unwrap_or_else(|| {
            self.note(token.span, format!("error unquoting string {}: invalid syntax", quote(text)));
            String::new()
        })
    }
}

#[cfg(test)]
mod tests;
