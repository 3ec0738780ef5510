//! Parses what may follow an operand: ranges, `offset`, `@`, `anchored`, `smoothed`.

use crate::ast::{At, DurationPart, Expr, Length, MatrixSelector, Offset, Operand, Subquery};
use crate::parser::{Failed, Parser, Read};
use crate::span::Span;
use crate::timing::Extension;
use crate::token::{Kind, Token};

impl Parser<'_> {
    pub(super) fn postfix(&mut self, mut expr: Expr) -> Read<Expr> {
        loop {
            match self.kind() {
                Kind::LeftBracket => expr = self.brackets(expr)?,
                Kind::Offset => {
                    self.take();
                    let offset = match self.offset_duration()? {
                        DurationPart::Number(number) => {
                            if number.value.is_nan() {
                                self.note(number.span, "duration out of range");
                            }
                            Offset::Fixed(nanoseconds(number.value))
                        }
                        DurationPart::Expr(expr) => Offset::Expr(expr),
                    };
                    self.set_offset(&mut expr, offset);
                }
                Kind::At => {
                    self.take();
                    let at = self.at_value(&expr)?;
                    self.set_at(&mut expr, at);
                }
                Kind::Anchored | Kind::Smoothed => {
                    let token = self.take();
                    self.set_extension(&mut expr, token);
                }
                _ => return Ok(expr),
            }
        }
    }

    fn brackets(&mut self, expr: Expr) -> Read<Expr> {
        const EXPECTED: &str = "number, duration, step(), or range()";
        const EXPECTED_OR_END: &str = "number, duration, step(), range(), or \"]\"";
        let open = self.take();
        if !self.begins_duration() {
            return Err(self.unexpected("subquery or range selector", EXPECTED));
        }
        self.contexts.push(("subquery or range selector", EXPECTED));
        let range = self.positive_duration()?;
        self.contexts.pop();
        match self.kind() {
            Kind::RightBracket => {
                let close = self.take();
                self.range(expr, range, open.span.to(close.span))
            }
            Kind::Colon => {
                self.take();
                let step = if self.kind() == Kind::RightBracket {
                    None
                } else if self.begins_duration() {
                    self.contexts.push(("subquery selector", EXPECTED_OR_END));
                    let step = self.positive_duration()?;
                    self.contexts.pop();
                    Some(step)
                } else {
                    return Err(self.unexpected("subquery selector", EXPECTED_OR_END));
                };
                let Some(close) = self.take_if(Kind::RightBracket) else {
                    return Err(self.unexpected("subquery selector", "\"]\""));
                };
                let inner = self.nested(Operand(expr))?;
                let (offset, end) = (Offset::Fixed(0), close.span.end);
                Ok(Expr::Subquery(Box::new(Subquery { inner, range, step, offset, at: None, end })))
            }
            _ => Err(self.unexpected("subquery or range", "\":\" or \"]\"")),
        }
    }

    fn positive_duration(&mut self) -> Read<Length> {
        let part = self.duration(0)?;
        self.readable()?;
        Ok(match part {
            DurationPart::Number(number) => {
                if number.value <= 0.0 || number.value.is_nan() {
                    self.note(number.span, "duration must be greater than 0");
                }
                Length::Fixed(nanoseconds(number.value))
            }
            DurationPart::Expr(expr) => Length::Expr(expr),
        })
    }

    fn range(&mut self, expr: Expr, range: Length, brackets: Span) -> Read<Expr> {
        let Expr::Selector(selector) = expr else {
            self.note(brackets, "ranges only allowed for vector selectors");
            return Err(Failed);
        };
        if !matches!(selector.offset, Offset::Fixed(0)) {
            self.note(brackets, "no offset modifiers allowed before range");
        } else if selector.at.is_some() {
            self.note(brackets, "no @ modifiers allowed before range");
        }
        Ok(Expr::Matrix(Box::new(MatrixSelector { selector: *selector, range, end: brackets.end })))
    }

    /// The end of the last token that was read, exclusive.
    fn last_end(&self) -> u32 {
        self.tokens[self.at - 1].span.end
    }

    fn set_offset(&mut self, expr: &mut Expr, new: Offset) {
        let (span, end) = (expr.span(), self.last_end());
        let offset = match expr {
            Expr::Selector(selector) => {
                selector.span.end = end;
                &mut selector.offset
            }
            Expr::Matrix(matrix) => {
                matrix.end = end;
                &mut matrix.selector.offset
            }
            Expr::Subquery(subquery) => {
                subquery.end = end;
                &mut subquery.offset
            }
            _ => {
                let what = "offset modifier must be preceded by an instant vector selector or range vector \
                            selector or a subquery";
                return self.note(span, what);
            }
        };
        if matches!(offset, Offset::Fixed(0)) {
            *offset = new;
        } else {
            self.note(span, "offset may not be set multiple times");
        }
    }

    fn at_value(&mut self, expr: &Expr) -> Read<At> {
        let word = self.kind();
        if matches!(word, Kind::Start | Kind::EndOf) {
            self.take();
            self.contexts.push(("@", "timestamp"));
            self.expect(Kind::LeftParen)?;
            self.expect(Kind::RightParen)?;
            self.contexts.pop();
            return Ok(if word == Kind::Start { At::Start } else { At::End });
        }
        let negate = match word {
            Kind::Add | Kind::Sub => self.take().kind == Kind::Sub,
            _ => false,
        };
        if !matches!(self.kind(), Kind::Number | Kind::Duration) {
            return Err(self.unexpected("@", "timestamp"));
        }
        let value = self.number()?.value;
        let seconds = if negate { -value } else { value };
        if !seconds.is_finite() || seconds.abs() >= i64::MAX as f64 {
            let shown = if seconds.is_finite() {
                format!("{seconds:.6}")
            } else {
                crate::text::plain_number(seconds)
            };
            self.note(expr.span(), format!("timestamp out of bounds for @ modifier: {shown}"));
        }
        Ok(At::Time((seconds * 1000.0).round() as i64))
    }

    fn set_at(&mut self, expr: &mut Expr, new: At) {
        let (span, end) = (expr.span(), self.last_end());
        let at = match expr {
            Expr::Selector(selector) => {
                selector.span.end = end;
                &mut selector.at
            }
            Expr::Matrix(matrix) => {
                matrix.end = end;
                &mut matrix.selector.at
            }
            Expr::Subquery(subquery) => {
                subquery.end = end;
                &mut subquery.at
            }
            _ => {
                let what = "@ modifier must be preceded by an instant vector selector or range vector \
                            selector or a subquery";
                return self.note(span, what);
            }
        };
        if at.is_some() {
            self.note(span, "@ <timestamp> may not be set multiple times");
        } else {
            *at = Some(new);
        }
    }

    fn set_extension(&mut self, expr: &mut Expr, token: Token) {
        let span = expr.span();
        let (word, new) = match token.kind {
            Kind::Anchored => ("anchored", Extension::Anchored),
            _ => ("smoothed", Extension::Smoothed),
        };
        let selector = match expr {
            Expr::Selector(selector) => &mut **selector,
            Expr::Matrix(matrix) => &mut matrix.selector,
            Expr::Subquery(_) => {
                return self.note(span, format!("{word} modifier is not supported for subqueries"));
            }
            _ => return self.note(span, format!("{word} modifier not implemented")),
        };
        if selector.extension != Extension::None && selector.extension != new {
            return self.note(span, "anchored and smoothed modifiers cannot be used together");
        }
        selector.extension = new;
    }
}

/// Converts seconds to nanoseconds.
pub(super) fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}
