//! Parses selectors and metrics.

use sandur_model::go_regex::reason;
use sandur_model::{Labels, MatchOp, Matcher};

use crate::ast::{Offset, Selector};
use crate::labels::METRIC_NAME;
use crate::parser::{Parser, Read};
use crate::span::Span;
use crate::timing::Extension;
use crate::token::{Kind, Token};

const CONTEXT: &str = "label matching";

impl Parser<'_> {
    pub(super) fn vector_selector(&mut self) -> Read<Selector> {
        let first = self.peek();
        let mut name = String::new();
        let mut span = first.span;
        if first.kind.names_metric() {
            name = self.slice(first).to_owned();
            self.take();
        }
        let mut matchers = Vec::new();
        if self.kind() == Kind::LeftBrace {
            (matchers, span.end) = self.braces()?;
        } else if name.is_empty() {
            return Err(self.unexpected("", ""));
        }
        if !name.is_empty()
            && let Some(matcher) = self.matcher(METRIC_NAME, MatchOp::Equal, &name, span)
        {
            matchers.push(matcher);
        }
        Ok(Selector {
            name,
            matchers,
            offset: Offset::Fixed(0),
            at: None,
            extension: Extension::None,
            is_label_list: false,
            span,
        })
    }

    fn matcher(&mut self, name: &str, op: MatchOp, value: &str, span: Span) -> Option<Matcher> {
        match Matcher::new(name, op, value) {
            Ok(matcher) => Some(matcher),
            Err(error) => {
                self.note(span, reason(value, &error.reason));
                None
            }
        }
    }

    /// Parses matchers in braces; also returns the end of the closing brace.
    fn braces(&mut self) -> Read<(Vec<Matcher>, u32)> {
        self.take();
        let mut matchers = Vec::new();
        loop {
            if let Some(close) = self.take_if(Kind::RightBrace) {
                return Ok((matchers, close.span.end));
            }
            let token = self.peek();
            let name = match token.kind {
                Kind::Identifier => self.slice(token).to_owned(),
                Kind::String => self.unquoted(token),
                _ => return Err(self.unexpected(CONTEXT, "identifier or \"}\"")),
            };
            self.take();
            matchers.extend(self.one_matcher(token, name)?);
            match self.kind() {
                Kind::Comma => _ = self.take(),
                Kind::RightBrace => {}
                _ => return Err(self.unexpected(CONTEXT, "\",\" or \"}\"")),
            }
        }
    }

    fn one_matcher(&mut self, label: Token, name: String) -> Read<Option<Matcher>> {
        let op = match self.kind() {
            Kind::Equal => MatchOp::Equal,
            Kind::Neq => MatchOp::NotEqual,
            Kind::EqlRegex => MatchOp::Regex,
            Kind::NeqRegex => MatchOp::NotRegex,
            Kind::Comma | Kind::RightBrace if label.kind == Kind::String => {
                return Ok(self.matcher(METRIC_NAME, MatchOp::Equal, &name, label.span));
            }
            _ if label.kind == Kind::String => return Err(self.unexpected(CONTEXT, "\",\" or \"}\"")),
            _ => return Err(self.unexpected(CONTEXT, "label matching operator")),
        };
        self.take();
        let token = self.peek();
        if token.kind != Kind::String {
            return Err(self.unexpected(CONTEXT, "string"));
        }
        let value = self.unquoted(token);
        self.take();
        Ok(self.matcher(&name, op, &value, label.span.to(token.span)))
    }

    /// Parses a metric with its labels.
    pub(super) fn metric(&mut self) -> Read<Labels> {
        const CONTEXT: &str = "label set";
        let mut pairs: Vec<(String, String)> = Vec::new();
        let first = self.peek();
        let is_named = first.kind.names_metric();
        if is_named {
            self.take();
        }
        let in_braces = self.take_if(Kind::LeftBrace).is_some();
        while in_braces && self.take_if(Kind::RightBrace).is_none() {
            let token = self.peek();
            let name = match token.kind {
                Kind::Identifier => self.slice(token).to_owned(),
                Kind::String => self.unquoted(token),
                _ => return Err(self.unexpected(CONTEXT, "identifier or \"}\"")),
            };
            self.take();
            if self.take_if(Kind::Equal).is_some() {
                let value = self.peek();
                if value.kind != Kind::String {
                    return Err(self.unexpected(CONTEXT, "string"));
                }
                self.take();
                let value = self.unquoted(value);
                pairs.push((name, value));
            } else if token.kind == Kind::String {
                pairs.push((METRIC_NAME.to_owned(), name));
            } else {
                return Err(self.unexpected(CONTEXT, "\"=\""));
            }
            match self.kind() {
                Kind::Comma => _ = self.take(),
                Kind::RightBrace => {}
                _ => return Err(self.unexpected(CONTEXT, "\",\" or \"}\"")),
            }
        }
        if is_named {
            // The name before the braces takes precedence over one in them.
            pairs.push((METRIC_NAME.to_owned(), self.slice(first).to_owned()));
        }
        Ok(Labels::from_pairs(pairs))
    }
}
