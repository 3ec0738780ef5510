//! Parses operands: literals, parentheses, calls, aggregations, selectors.

use crate::ast::{Aggregate, Call, Expr, Operand, Operands, Paren, StringLiteral};
use crate::functions::Function;
use crate::parser::{Failed, Parser, Read};
use crate::text::{quote, unquote_bytes};
use crate::token::{Class, Kind};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Read<Expr> {
        let (token, next) = (self.peek(), self.peek_second());
        match token.kind {
            Kind::Number | Kind::Duration => Ok(Expr::Number(Box::new(self.number()?))),
            Kind::String => {
                let value = self.unquoted(token);
                let bytes = unquote_bytes(self.slice(token)).filter(|bytes| bytes != value.as_bytes());
                self.take();
                let bytes = bytes.map(Vec::into_boxed_slice);
                Ok(Expr::String(Box::new(StringLiteral { value, bytes, span: token.span })))
            }
            Kind::LeftParen => self.paren(),
            Kind::LeftBrace => Ok(Expr::Selector(Box::new(self.vector_selector()?))),
            kind if kind.class() == Class::Aggregator
                && matches!(next, Kind::LeftParen | Kind::By | Kind::Without) =>
            {
                self.aggregate()
            }
            kind if (kind == Kind::Identifier || kind.class() == Class::Context)
                && next == Kind::LeftParen =>
            {
                self.call()
            }
            kind if kind.names_metric() => Ok(Expr::Selector(Box::new(self.vector_selector()?))),
            _ => Err(self.unexpected("", "")),
        }
    }

    fn paren(&mut self) -> Read<Expr> {
        let open = self.take();
        let inner = self.expr(0)?;
        let close = self.expect(Kind::RightParen)?;
        let inner = self.nested(Operand(inner))?;
        Ok(Expr::Paren(Box::new(Paren { inner, span: open.span.to(close.span) })))
    }

    /// Parses expressions in parentheses; also returns the end of the closing one.
    fn arguments(&mut self) -> Read<(Vec<Expr>, u32)> {
        self.expect(Kind::LeftParen)?;
        let mut args = Vec::new();
        if let Some(close) = self.take_if(Kind::RightParen) {
            return Ok((args, close.span.end));
        }
        loop {
            args.push(self.expr(0)?);
            let token = self.peek();
            match token.kind {
                Kind::RightParen => {
                    self.take();
                    return Ok((args, token.span.end));
                }
                Kind::Comma => {
                    self.take();
                    // A lexer error is reported first.
                    if !self.begins_operand() && self.kind() != Kind::Error {
                        self.note(token.span, "trailing commas not allowed in function call args");
                        let close = self.expect(Kind::RightParen)?;
                        return Ok((args, close.span.end));
                    }
                }
                _ => return Err(self.unexpected("", "")),
            }
        }
    }

    pub(super) fn begins_operand(&self) -> bool {
        let kind = self.kind();
        matches!(
            kind,
            Kind::Number
                | Kind::Duration
                | Kind::String
                | Kind::LeftParen
                | Kind::LeftBrace
                | Kind::Add
                | Kind::Sub
        ) || kind.class() == Class::Aggregator
            || kind.class() == Class::Context
            || kind.names_metric()
    }

    fn call(&mut self) -> Read<Expr> {
        let name = self.take();
        let text = self.slice(name);
        let function = Function::named(text);
        let (mut args, end) = self.arguments()?;
        if function.is_none() {
            self.note(name.span, format!("unknown function with name {}", quote(text)));
        }
        let mut span = name.span;
        span.end = end;
        if text == "info"
            && let Some(Expr::Selector(labels)) = args.get_mut(1)
        {
            labels.is_label_list = true;
        }
        let args = self.nested(Operands(args))?;
        let function = function.ok_or(Failed)?;
        Ok(Expr::Call(Box::new(Call { function, args, span })))
    }

    fn aggregate(&mut self) -> Read<Expr> {
        let op = self.take();
        self.contexts.push(("aggregation", ""));
        let mut grouping = self.modifier()?;
        let (args, end) = self.arguments()?;
        self.contexts.pop();
        let mut span = op.span;
        span.end = end;
        if grouping.is_none() {
            grouping = self.modifier()?;
            if grouping.is_some() {
                span.end = self.tokens[self.at - 1].span.end;
            } else {
                self.readable()?;
            }
        }
        let (grouping, without) = grouping.unwrap_or_default();
        let wanted = if has_parameter(op.kind) { 2 } else { 1 };
        if args.is_empty() {
            self.note(span, "no arguments for aggregate expression provided");
            return Err(Failed);
        }
        if args.len() != wanted {
            let got = args.len();
            let what = "wrong number of arguments for aggregate expression provided";
            self.note(span, format!("{what}, expected {wanted}, got {got}"));
            return Err(Failed);
        }
        let args = self.nested(Operands(args))?;
        Ok(Expr::Aggregate(Box::new(Aggregate { op: op.kind, args, grouping, without, span })))
    }

    /// Parses `by (a)` or `without (a)`. Returns the labels and whether it is `without`.
    fn modifier(&mut self) -> Read<Option<(Vec<String>, bool)>> {
        if !matches!(self.kind(), Kind::By | Kind::Without) {
            return Ok(None);
        }
        let without = self.take().kind == Kind::Without;
        Ok(Some((self.grouping()?, without)))
    }
}

/// Whether the aggregation has a parameter.
pub fn has_parameter(op: Kind) -> bool {
    matches!(
        op,
        Kind::Topk | Kind::Bottomk | Kind::CountValues | Kind::Quantile | Kind::Limitk | Kind::LimitRatio
    )
}
