//! Parses durations and their arithmetic, in brackets and after `offset`.

use crate::ast::{DurationExpr, DurationPart, Durations, Number};
use crate::parser::{Parser, Read, binding};
use crate::span::Span;
use crate::token::{Kind, Token};

/// The most seconds that 64-bit nanoseconds can hold.
const SECONDS_MAX: f64 = (1u64 << 63) as f64 / 1e9;

impl Parser<'_> {
    pub(super) fn begins_duration(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Number
                | Kind::Duration
                | Kind::Add
                | Kind::Sub
                | Kind::LeftParen
                | Kind::Step
                | Kind::Range
                | Kind::MaxOf
                | Kind::MinOf
        )
    }

    /// Parses a duration whose operators have at least the precedence `least`.
    pub(super) fn duration(&mut self, least: u8) -> Read<DurationPart> {
        self.enter()?;
        let left = self.duration_operand()?;
        let left = self.duration_operators(left, least)?;
        self.leave();
        Ok(left)
    }

    fn duration_operators(&mut self, mut left: DurationPart, least: u8) -> Read<DurationPart> {
        let is_operator = |kind: Kind| {
            matches!(kind, Kind::Add | Kind::Sub | Kind::Mul | Kind::Div | Kind::Mod | Kind::Pow)
        };
        while is_operator(self.kind()) {
            let Some(strength) = binding(self.kind()).filter(|strength| *strength >= least) else { break };
            let op = self.take();
            let right = self.duration(if op.kind == Kind::Pow { strength } else { strength + 1 })?;
            if let DurationPart::Number(number) = &right
                && number.value == 0.0
            {
                self.readable()?;
                match op.kind {
                    Kind::Div => self.note(op.span, "division by zero"),
                    Kind::Mod => self.note(op.span, "modulo by zero"),
                    _ => {}
                }
            }
            let span = left.span().to(right.span());
            left = self.duration_node(op.kind, vec![left, right], span)?;
        }
        Ok(left)
    }

    fn duration_node(&mut self, op: Kind, args: Vec<DurationPart>, span: Span) -> Read<DurationPart> {
        let args = self.nested(Durations(args))?;
        Ok(DurationPart::Expr(Box::new(DurationExpr { op, args, wrapped: false, span })))
    }

    fn duration_operand(&mut self) -> Read<DurationPart> {
        let token = self.peek();
        match token.kind {
            Kind::Number | Kind::Duration => {
                let number = self.number()?;
                Ok(DurationPart::Number(self.in_range(number, token)))
            }
            Kind::Add | Kind::Sub => {
                self.take();
                // A sign has a lower precedence than a power.
                let inner = self.duration(6)?;
                self.signed_duration(token, inner)
            }
            Kind::LeftParen => self.wrapped_duration(),
            Kind::Step | Kind::Range | Kind::MaxOf | Kind::MinOf => self.duration_call(),
            _ => Err(self.unexpected("", "")),
        }
    }

    fn in_range(&mut self, mut number: Number, token: Token) -> Number {
        if number.value.abs() > SECONDS_MAX {
            self.note(token.span, "duration out of range");
            number.value = 0.0;
        }
        number
    }

    fn signed_duration(&mut self, sign: Token, inner: DurationPart) -> Read<DurationPart> {
        let negate = sign.kind == Kind::Sub;
        match inner {
            DurationPart::Number(mut number) => {
                number.value = if negate { -number.value } else { number.value };
                number.span.start = sign.span.start;
                Ok(DurationPart::Number(number))
            }
            inner if negate => {
                let span = sign.span.to(inner.span());
                self.duration_node(Kind::Sub, vec![inner], span)
            }
            inner => Ok(inner),
        }
    }

    fn wrapped_duration(&mut self) -> Read<DurationPart> {
        let open = self.take();
        let inner = self.duration(0)?;
        let close = self.expect(Kind::RightParen)?;
        let wrapped = match inner {
            DurationPart::Expr(mut expr) => {
                expr.wrapped = true;
                return Ok(DurationPart::Expr(expr));
            }
            number => self.duration_node(Kind::Add, vec![number], open.span.to(close.span))?,
        };
        let DurationPart::Expr(mut expr) = wrapped else { return Ok(wrapped) };
        expr.wrapped = true;
        Ok(DurationPart::Expr(expr))
    }

    fn duration_call(&mut self) -> Read<DurationPart> {
        let word = self.take();
        self.expect(Kind::LeftParen)?;
        let mut args = Vec::new();
        if matches!(word.kind, Kind::MaxOf | Kind::MinOf) {
            args.push(self.duration(0)?);
            self.expect(Kind::Comma)?;
            args.push(self.duration(0)?);
        }
        let close = self.expect(Kind::RightParen)?;
        self.duration_node(word.kind, args, word.span.to(close.span))
    }

    /// Parses the argument of `offset`. It ends before the first operator, unless it begins with a
    /// parenthesis or two signs.
    pub(super) fn offset_duration(&mut self) -> Read<DurationPart> {
        const EXPECTED: &str = "number, duration, step(), or range()";
        if !self.begins_duration() {
            return Err(self.unexpected("offset", EXPECTED));
        }
        self.enter()?;
        self.contexts.push(("offset", EXPECTED));
        let is_sign = |kind: Kind| matches!(kind, Kind::Add | Kind::Sub);
        let part = match self.kind() {
            first if first == Kind::LeftParen || is_sign(first) && is_sign(self.peek_second()) => {
                let part = self.duration(0)?;
                self.readable()?;
                part
            }
            sign if is_sign(sign) => self.signed_offset()?,
            _ => self.duration_operand()?,
        };
        self.contexts.pop();
        self.leave();
        Ok(part)
    }

    fn signed_offset(&mut self) -> Read<DurationPart> {
        let sign = self.take();
        match self.kind() {
            Kind::Number | Kind::Duration => {
                let number = self.number()?;
                let number = self.in_range(number, sign);
                self.signed_duration(sign, DurationPart::Number(number))
            }
            Kind::LeftParen => {
                let inner = self.duration_operand()?;
                self.signed_duration(sign, inner)
            }
            // The tree keeps a plus sign before a function call.
            _ => {
                let inner = self.duration_operand()?;
                let span = sign.span.to(inner.span());
                self.duration_node(sign.kind, vec![inner], span)
            }
        }
    }
}
