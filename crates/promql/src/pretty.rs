//! Lays out expressions over several lines, in the form of Prometheus's formatter.
//!
//! Prometheus indents each operand of a chain by its distance from the end of the chain, so the output
//! grows with the square of its length: 2,000 operands take 8 MB. Memory is reserved while it is written.

use sandur_memory::Stopped;

use crate::ast::{Chain, Expr, Linked};
use crate::held_text::HeldText;
use crate::print::{Head, Operator, Suffix};

/// Expressions of more columns are split.
const COLUMNS: usize = 100;

/// Formats the expression, with long parts on their own lines.
pub fn pretty(expr: &Expr) -> Result<String, Stopped> {
    let mut page = Page::default();
    page.lay_out(expr, 0)?;
    Ok(page.0.into_text())
}

/// The text written so far.
#[derive(Default)]
struct Page(HeldText);

impl Page {
    fn indent(&mut self, level: usize) -> Result<(), Stopped> {
        self.0.push(&"  ".repeat(level))
    }

    fn lay_out(&mut self, expr: &Expr, level: usize) -> Result<(), Stopped> {
        match expr {
            Expr::Unary(unary) => {
                self.indent(level)?;
                self.0.push(if unary.negate { "-" } else { "+" })?;
                return self.trimmed(&unary.inner.0, level);
            }
            Expr::Chain(chain) => return self.chain(chain, level),
            _ => {}
        }
        let whole = expr.to_string();
        let is_long = whole.len() > COLUMNS;
        match expr {
            Expr::Subquery(_) if !is_long => self.0.push(&whole),
            Expr::Subquery(subquery) => {
                self.lay_out(&subquery.inner.0, level)?;
                self.0.push(&Suffix(subquery).to_string())
            }
            Expr::Aggregate(aggregate) if is_long => {
                self.list(&Head(aggregate).to_string(), &aggregate.args.0, level)
            }
            Expr::Call(call) if is_long => self.list(call.function.name, &call.args.0, level),
            Expr::Paren(paren) if is_long => self.list("", std::slice::from_ref(&paren.inner.0), level),
            _ => {
                self.indent(level)?;
                self.0.push(&whole)
            }
        }
    }

    /// The operand after a sign begins on the sign's line.
    fn trimmed(&mut self, expr: &Expr, level: usize) -> Result<(), Stopped> {
        let mut page = Page::default();
        page.lay_out(expr, level)?;
        self.0.push(page.0.as_str().trim())
    }

    fn list(&mut self, head: &str, args: &[Expr], level: usize) -> Result<(), Stopped> {
        self.indent(level)?;
        self.0.push(head)?;
        self.0.push("(\n")?;
        for (n, arg) in args.iter().enumerate() {
            self.0.push(if n == 0 { "" } else { ",\n" })?;
            self.lay_out(arg, level + 1)?;
        }
        self.0.push("\n")?;
        self.indent(level)?;
        self.0.push(")")
    }

    /// Each operator splits off its left side, one level deeper, until the left side is short.
    fn chain(&mut self, chain: &Chain, level: usize) -> Result<(), Stopped> {
        let first = chain.first().to_string();
        let linked: Vec<Linked<'_>> = chain.linked().collect();
        let text = |linked: &Linked<'_>| format!(" {} {}", Operator(linked), linked.right);
        let texts: Vec<String> = linked.iter().map(text).collect();
        let (mut columns, mut short) = (first.len(), 0);
        for text in &texts {
            columns += text.len();
            short += usize::from(columns <= COLUMNS);
        }
        let level_of = |link: usize| level + linked.len() - 1 - link;
        match short {
            0 => self.lay_out(chain.first(), level + linked.len())?,
            _ => {
                self.indent(level + linked.len() - short)?;
                self.0.push(&first)?;
                texts[..short].iter().try_for_each(|text| self.0.push(text))?;
            }
        }
        for (n, linked) in linked.iter().enumerate().skip(short) {
            self.0.push("\n")?;
            self.indent(level_of(n))?;
            self.0.push(&Operator(linked).to_string())?;
            self.0.push("\n")?;
            self.lay_out(linked.right, level_of(n) + 1)?;
        }
        Ok(())
    }
}
