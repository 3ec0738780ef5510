//! Syntax trees as JSON, in the form of `/api/v1/parse_query`.
//!
//! Prometheus's tree has one level for each operator of a chain. The text is written operator by
//! operator, without recursion along the chain. Memory is reserved while it is written.

use sandur_memory::Stopped;
use sandur_model::Matcher;
use serde_json::{Value, json};

use crate::ast::{At, Chain, DurationExpr, DurationPart, Expr, Length, Linked, Offset, Selector};
use crate::held_text::HeldText;
use crate::text::{MS_NS, plain_number};
use crate::timing::Extension;

/// Converts the tree to JSON.
pub fn to_json(expr: &Expr) -> Result<String, Stopped> {
    let mut page = Page::default();
    page.tree(expr)?;
    Ok(page.0.into_text())
}

/// The text written so far.
#[derive(Default)]
struct Page(HeldText);

impl Page {
    fn tree(&mut self, expr: &Expr) -> Result<(), Stopped> {
        match expr {
            Expr::Aggregate(aggregate) => {
                let fields = json!({
                    "type": "aggregation",
                    "op": aggregate.op.text(),
                    "grouping": aggregate.grouping,
                    "without": aggregate.without,
                });
                self.begin(&fields)?;
                self.field("expr", Some(aggregate.inner()))?;
                self.field("param", aggregate.param())?;
            }
            Expr::Chain(chain) => return self.chain(chain),
            Expr::Call(call) => {
                let function = call.function;
                let types: Vec<&str> = function.args.iter().map(|kind| kind.name()).collect();
                let function = json!({
                    "name": function.name,
                    "argTypes": types,
                    "variadic": function.variadic,
                    "returnType": function.returns.name(),
                });
                self.begin(&json!({ "type": "call", "func": function }))?;
                self.0.push(",\"args\":[")?;
                for (n, arg) in call.args.0.iter().enumerate() {
                    self.0.push(if n == 0 { "" } else { "," })?;
                    self.tree(arg)?;
                }
                self.0.push("]")?;
            }
            Expr::Matrix(matrix) => {
                let mut fields = selector("matrixSelector", &matrix.selector);
                fields["range"] = length_ms(&matrix.range);
                fields["rangeExpr"] = length_expr(&matrix.range);
                self.begin(&fields)?;
            }
            Expr::Subquery(subquery) => {
                let fields = json!({
                    "type": "subquery",
                    "range": length_ms(&subquery.range),
                    "rangeExpr": length_expr(&subquery.range),
                    "offset": offset_ms(&subquery.offset),
                    "offsetExpr": offset_expr(&subquery.offset),
                    "step": subquery.step.as_ref().map_or(json!(0), length_ms),
                    "stepExpr": subquery.step.as_ref().map_or(Value::Null, length_expr),
                    "timestamp": timestamp(subquery.at),
                    "startOrEnd": start_or_end(subquery.at),
                });
                self.begin(&fields)?;
                self.field("expr", Some(&subquery.inner.0))?;
            }
            Expr::Number(number) => {
                self.begin(&json!({ "type": "numberLiteral", "val": plain_number(number.value) }))?;
            }
            Expr::Paren(paren) => {
                self.begin(&json!({ "type": "parenExpr" }))?;
                self.field("expr", Some(&paren.inner.0))?;
            }
            Expr::String(string) => self.begin(&json!({ "type": "stringLiteral", "val": string.value }))?,
            Expr::Unary(unary) => {
                let op = if unary.negate { "-" } else { "+" };
                self.begin(&json!({ "type": "unaryExpr", "op": op }))?;
                self.field("expr", Some(&unary.inner.0))?;
            }
            Expr::Selector(of) => self.begin(&selector("vectorSelector", of))?,
        }
        self.0.push("}")
    }

    /// Writes an object with these fields and leaves it open.
    fn begin(&mut self, fields: &Value) -> Result<(), Stopped> {
        let text = fields.to_string();
        self.0.push(text.strip_suffix('}').unwrap_or(&text))
    }

    fn field(&mut self, name: &str, expr: Option<&Expr>) -> Result<(), Stopped> {
        self.0.push(",\"")?;
        self.0.push(name)?;
        self.0.push("\":")?;
        match expr {
            Some(expr) => self.tree(expr),
            None => self.0.push("null"),
        }
    }

    /// Everything before an operator is its left side.
    fn chain(&mut self, chain: &Chain) -> Result<(), Stopped> {
        let linked: Vec<Linked<'_>> = chain.linked().collect();
        for linked in linked.iter().rev() {
            self.begin(&operator(linked))?;
            self.0.push(",\"lhs\":")?;
        }
        self.tree(chain.first())?;
        for linked in &linked {
            self.field("rhs", Some(linked.right))?;
            self.0.push("}")?;
        }
        Ok(())
    }
}

fn operator(linked: &Linked<'_>) -> Value {
    let matching = linked.matches_series().then(|| {
        let matching = &linked.link.matching;
        json!({
            "card": matching.cardinality.name(),
            "labels": matching.labels,
            "on": matching.on,
            "include": matching.include,
            "fillValues": { "lhs": matching.fill[0], "rhs": matching.fill[1] },
        })
    });
    json!({
        "type": "binaryExpr",
        "op": linked.link.op.text(),
        "matching": matching,
        "bool": linked.link.returns_bool,
    })
}

fn selector(kind: &str, selector: &Selector) -> Value {
    json!({
        "type": kind,
        "name": selector.name,
        "offset": offset_ms(&selector.offset),
        "offsetExpr": offset_expr(&selector.offset),
        "matchers": selector.matchers.iter().map(matcher).collect::<Vec<_>>(),
        "timestamp": timestamp(selector.at),
        "startOrEnd": start_or_end(selector.at),
        "anchored": selector.extension == Extension::Anchored,
        "smoothed": selector.extension == Extension::Smoothed,
    })
}

fn matcher(matcher: &Matcher) -> Value {
    json!({ "name": matcher.name(), "value": matcher.value(), "type": matcher.op().as_str() })
}

fn timestamp(at: Option<At>) -> Value {
    match at {
        Some(At::Time(ms)) => json!(ms),
        _ => Value::Null,
    }
}

fn start_or_end(at: Option<At>) -> Value {
    match at {
        Some(At::Start) => json!("start"),
        Some(At::End) => json!("end"),
        _ => Value::Null,
    }
}

fn offset_ms(offset: &Offset) -> Value {
    match offset {
        Offset::Fixed(ns) => json!(ns / MS_NS),
        Offset::Expr(_) => json!(0),
    }
}

fn offset_expr(offset: &Offset) -> Value {
    match offset {
        Offset::Fixed(_) => Value::Null,
        Offset::Expr(expr) => duration(expr),
    }
}

fn length_ms(length: &Length) -> Value {
    match length {
        Length::Fixed(ns) => json!(ns / MS_NS),
        Length::Expr(_) => json!(0),
    }
}

fn length_expr(length: &Length) -> Value {
    match length {
        Length::Fixed(_) => Value::Null,
        Length::Expr(expr) => duration(expr),
    }
}

fn duration(expr: &DurationExpr) -> Value {
    let part = |part: &DurationPart| match part {
        DurationPart::Number(number) => json!({
            "type": "numberLiteral",
            "val": plain_number(number.value),
            "duration": number.is_duration,
        }),
        DurationPart::Expr(expr) => duration(expr),
    };
    let (left, right) = match &expr.args.0[..] {
        [] => (Value::Null, Value::Null),
        [right] => (Value::Null, part(right)),
        [left, right, ..] => (part(left), part(right)),
    };
    json!({
        "type": "durationExpr",
        "op": expr.op.text(),
        "lhs": left,
        "rhs": right,
        "wrapped": expr.wrapped,
    })
}
