//! Parses tokens to the syntax tree by descent, with one token of look-ahead. No function here recurses:
//! open constructs are kept on lists.
//!
//! Error texts follow Loki's generated parser: `syntax error: unexpected X, expecting A or B`. The list is
//! omitted if more than four tokens are valid. `matchers` parses selectors, `select` the stages after them,
//! `metric` metric expressions, and stages parse themselves (see [`crate::stage`]).

pub(crate) mod cursor;
pub(crate) mod matchers;
mod metric;
mod select;

use crate::ast::{Expr, LogExpr};
use crate::error::ParseError;
use crate::lexer::Token;
use cursor::Parser;

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
    let mut parser = Parser::new(text);
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

#[cfg(test)]
mod tests;
