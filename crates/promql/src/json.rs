//! Syntax trees as JSON, as `/api/v1/parse_query` answers them.

use serde_json::{Value, json};

use sandur_model::Matcher;

use crate::ast::{At, Binary, DurationExpr, DurationPart, Expr, Extension, Length, Offset, Selector};
use crate::text::{MS_NS, plain_number};

/// The tree as JSON.
pub fn to_json(expr: &Expr) -> Value {
    match expr {
        Expr::Aggregate(aggregate) => json!({
            "type": "aggregation",
            "op": aggregate.op.text(),
            "expr": to_json(aggregate.inner()),
            "param": aggregate.param().map(to_json),
            "grouping": aggregate.grouping,
            "without": aggregate.without,
        }),
        Expr::Binary(binary) => operator(binary),
        Expr::Call(call) => {
            let function = call.function;
            let types: Vec<&str> = function.args.iter().map(|kind| kind.name()).collect();
            json!({
                "type": "call",
                "func": {
                    "name": function.name,
                    "argTypes": types,
                    "variadic": function.variadic,
                    "returnType": function.returns.name(),
                },
                "args": call.args.0.iter().map(to_json).collect::<Vec<_>>(),
            })
        }
        Expr::Matrix(matrix) => {
            let mut tree = selector("matrixSelector", &matrix.selector);
            tree["range"] = length_ms(&matrix.range);
            tree["rangeExpr"] = length_expr(&matrix.range);
            tree
        }
        Expr::Subquery(subquery) => json!({
            "type": "subquery",
            "expr": to_json(&subquery.inner.0),
            "range": length_ms(&subquery.range),
            "rangeExpr": length_expr(&subquery.range),
            "offset": offset_ms(&subquery.offset),
            "offsetExpr": offset_expr(&subquery.offset),
            "step": subquery.step.as_ref().map_or(json!(0), length_ms),
            "stepExpr": subquery.step.as_ref().map_or(Value::Null, length_expr),
            "timestamp": timestamp(subquery.at),
            "startOrEnd": start_or_end(subquery.at),
        }),
        Expr::Number(number) => json!({ "type": "numberLiteral", "val": plain_number(number.value) }),
        Expr::Paren(paren) => json!({ "type": "parenExpr", "expr": to_json(&paren.inner.0) }),
        Expr::String(string) => json!({ "type": "stringLiteral", "val": string.value }),
        Expr::Unary(unary) => json!({
            "type": "unaryExpr",
            "op": if unary.negate { "-" } else { "+" },
            "expr": to_json(&unary.inner.0),
        }),
        Expr::Selector(of) => selector("vectorSelector", of),
    }
}

fn operator(binary: &Binary) -> Value {
    let matching = binary.matches_series().then(|| {
        let matching = &binary.matching;
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
        "op": binary.op.text(),
        "lhs": to_json(binary.left()),
        "rhs": to_json(binary.right()),
        "matching": matching,
        "bool": binary.returns_bool,
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
