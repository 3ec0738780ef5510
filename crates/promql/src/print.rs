//! Writes expressions as text that parses to the same tree.

use std::fmt::{self, Display, Write};

use sandur_model::Matcher;

use crate::ast::{
    Aggregate, At, Cardinality, DurationExpr, DurationPart, Expr, Length, Linked, MatrixSelector, Number,
    Offset, Selector, Subquery,
};
use crate::labels::METRIC_NAME;
use crate::text::{GoNumber, MS_NS, format_duration, is_plain_label, plain_number, quote};
use crate::timing::Extension;
use crate::token::Kind;

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(string) => string.fmt(f),
            Self::Selector(selector) => write!(f, "{}{}", Bare(selector), Modifiers(selector, false)),
            Self::Matrix(matrix) => matrix.fmt(f),
            Self::Subquery(subquery) => write!(f, "{}{}", subquery.inner.0, Suffix(subquery)),
            Self::Paren(paren) => write!(f, "({})", paren.inner.0),
            Self::Unary(unary) => write!(f, "{}{}", if unary.negate { "-" } else { "+" }, unary.inner.0),
            Self::Chain(chain) => {
                chain.first().fmt(f)?;
                chain.linked().try_for_each(|linked| write!(f, " {} {}", Operator(&linked), linked.right))
            }
            Self::Call(call) => write!(f, "{}({})", call.function.name, List(&call.args.0)),
            Self::Aggregate(aggregate) => {
                write!(f, "{}({})", Head(aggregate), List(&aggregate.args.0))
            }
        }
    }
}

struct List<'a>(&'a [Expr]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, expr) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            expr.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_duration {
            // The parser reads durations in milliseconds.
            let ms = (self.value * 1e3).round() as i64;
            return f.write_str(&format_duration(ms.saturating_mul(MS_NS)));
        }
        f.write_str(&plain_number(self.value))
    }
}

/// An operator with its modifiers.
pub struct Operator<'a>(pub &'a Linked<'a>);

impl Display for Operator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.0.link;
        let (op, matching) = (link.op, &link.matching);
        f.write_str(op.text())?;
        f.write_str(if link.returns_bool { " bool" } else { "" })?;
        if !self.0.matches_series() {
            return Ok(());
        }
        let group = match matching.cardinality {
            Cardinality::ManyToOne => Some("left"),
            Cardinality::OneToMany => Some("right"),
            _ => None,
        };
        if !matching.labels.is_empty() || matching.on || group.is_some() {
            let word = if matching.on { "on" } else { "ignoring" };
            write!(f, " {word} ({})", Names(&matching.labels))?;
        }
        if let Some(side) = group {
            write!(f, " group_{side} ({})", Names(&matching.include))?;
        }
        match matching.fill {
            [None, None] => Ok(()),
            [Some(left), Some(right)] if left == right => write!(f, " fill ({})", GoNumber(left)),
            fill => ["left", "right"].iter().zip(fill).try_for_each(|(side, value)| match value {
                Some(value) => write!(f, " fill_{side} ({})", GoNumber(value)),
                None => Ok(()),
            }),
        }
    }
}

struct Names<'a>(&'a [String]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, name) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            if is_plain_label(name) { f.write_str(name)? } else { f.write_str(&quote(name))? }
        }
        Ok(())
    }
}

/// The part of an aggregation before its parenthesis.
pub struct Head<'a>(pub &'a Aggregate);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Aggregate { op, grouping, without, .. } = self.0;
        f.write_str(op.text())?;
        if *without {
            return write!(f, " without ({}) ", Names(grouping));
        }
        if grouping.is_empty() { Ok(()) } else { write!(f, " by ({}) ", Names(grouping)) }
    }
}

/// A matcher in the syntax of queries.
pub fn matcher_text(matcher: &Matcher) -> String {
    let name = matcher.name();
    let name = if is_plain_label(name) { name.to_owned() } else { quote(name) };
    format!("{name}{}{}", matcher.op().as_str(), quote(matcher.value()))
}

/// A selector without its modifiers.
struct Bare<'a>(&'a Selector);

impl Display for Bare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Selector { name, matchers, .. } = self.0;
        let is_name = |matcher: &&Matcher| {
            matcher.name() == METRIC_NAME
                && matcher.op() == sandur_model::MatchOp::Equal
                && matcher.value() == name
                && !name.is_empty()
        };
        let mut texts: Vec<String> = matchers.iter().filter(|m| !is_name(m)).map(matcher_text).collect();
        texts.sort_unstable();
        f.write_str(name)?;
        match texts.is_empty() && !name.is_empty() {
            true => Ok(()),
            false => write!(f, "{{{}}}", texts.join(",")),
        }
    }
}

/// The modifiers after a selector. After a window, `anchored` and `smoothed` come first.
struct Modifiers<'a>(&'a Selector, bool);

impl Display for Modifiers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Selector { at, extension, offset, .. } = self.0;
        let extension = match extension {
            Extension::None => "",
            Extension::Anchored => " anchored",
            Extension::Smoothed => " smoothed",
        };
        if self.1 {
            write!(f, "{extension}{}", AtText(*at))?;
        } else {
            write!(f, "{}{extension}", AtText(*at))?;
        }
        offset.fmt(f)
    }
}

struct AtText(Option<At>);

impl Display for AtText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(At::Time(ms)) => write!(f, " @ {:.3}", ms as f64 / 1000.0),
            Some(At::Start) => f.write_str(" @ start()"),
            Some(At::End) => f.write_str(" @ end()"),
        }
    }
}

impl Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(0) => Ok(()),
            Self::Fixed(ns) => write!(f, " offset {}", format_duration(*ns)),
            Self::Expr(expr) => {
                let text = expr.to_string();
                let is_whole = text.starts_with('(') || text.starts_with("--") || ends_itself(expr);
                if is_whole { write!(f, " offset {text}") } else { write!(f, " offset ({text})") }
            }
        }
    }
}

/// Whether the expression can follow `offset` without parentheses: there, signs bind tighter than
/// operators.
fn ends_itself(expr: &DurationExpr) -> bool {
    match &expr.args.0[..] {
        [DurationPart::Expr(inner)] => inner.wrapped || inner.is_call(),
        [DurationPart::Number(_)] => true,
        _ => expr.is_call(),
    }
}

impl Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ns) => f.write_str(&format_duration(*ns)),
            Self::Expr(expr) => expr.fmt(f),
        }
    }
}

impl Display for MatrixSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]{}", Bare(&self.selector), self.range, Modifiers(&self.selector, true))
    }
}

/// The window and modifiers of a subquery.
pub struct Suffix<'a>(pub &'a Subquery);

impl Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subquery { range, step, offset, at, .. } = self.0;
        write!(f, "[{range}:")?;
        if let Some(step) = step {
            step.fmt(f)?;
        }
        write!(f, "]{}{offset}", AtText(*at))
    }
}

impl Display for DurationPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Expr(expr) => expr.fmt(f),
        }
    }
}

impl Display for DurationExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wrapped {
            f.write_char('(')?;
        }
        match (self.op, &self.args.0[..]) {
            (op, []) => write!(f, "{}()", op.text())?,
            (Kind::Add, [inner]) => inner.fmt(f)?,
            (op, [inner]) => write!(f, "{}{inner}", op.text())?,
            (op @ (Kind::MaxOf | Kind::MinOf), [left, right, ..]) => {
                write!(f, "{}({left}, {right})", op.text())?;
            }
            (op, [left, right, ..]) => write!(f, "{left} {} {right}", op.text())?,
        }
        if self.wrapped { f.write_char(')') } else { Ok(()) }
    }
}
