//! Functions that compare and select: `eq`, `lt`, `not`, `default` and similar ones.

use std::cmp::Ordering;

use super::function::{Function, function};
use crate::template::value::Value;

pub const TABLE: &[Function] = &[
    function("and", (1, 99), "The first empty argument; if there is none, the last argument.", |_, a| {
        Ok(last(a))
    }),
    function("or", (1, 99), "The first non-empty argument; if there is none, the last argument.", |_, a| {
        Ok(last(a))
    }),
    function("not", (1, 1), "Whether the argument is empty.", |_, a| Ok(Value::Bool(!a[0].is_true()))),
    function("eq", (2, 99), "Whether the first argument equals any other.", |_, a| {
        equal(&a).map(Value::Bool)
    }),
    function("ne", (2, 2), "Whether two arguments differ.", |_, a| equal(&a).map(|e| Value::Bool(!e))),
    function("lt", (2, 2), "Whether the first argument is less than the second.", |_, a| order(&a, is_less)),
    function("le", (2, 2), "Whether the first argument is less than or equal to the second.", |_, a| {
        order(&a, is_at_most)
    }),
    function("gt", (2, 2), "Whether the first argument is greater than the second.", |_, a| {
        order(&a, |ordering| !is_at_most(ordering))
    }),
    function("ge", (2, 2), "Whether the first argument is greater than or equal to the second.", |_, a| {
        order(&a, |ordering| !is_less(ordering))
    }),
    function("default", (1, 2), "The second argument; if it is empty, the first.", |_, a| Ok(default(a))),
];

fn last(mut arguments: Vec<Value>) -> Value {
    arguments.pop().unwrap_or(Value::Nil)
}

fn default(arguments: Vec<Value>) -> Value {
    match arguments.as_slice() {
        [_, given] if given.is_true() => given.clone(),
        [fallback, ..] => fallback.clone(),
        [] => Value::Nil,
    }
}

fn equal(arguments: &[Value]) -> Result<bool, String> {
    for other in &arguments[1..] {
        let same = match (&arguments[0], other) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Nil, Value::Nil) => true,
            (Value::Nil, _) | (_, Value::Nil) => false,
            (left, right) => return Err(incompatible(left, right)),
        };
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

// Go's templates define `gt` and `ge` as the opposites of `le` and `lt`, also for NaN.

fn is_less(ordering: Option<Ordering>) -> bool {
    ordering.is_some_and(Ordering::is_lt)
}

fn is_at_most(ordering: Option<Ordering>) -> bool {
    ordering.is_some_and(Ordering::is_le)
}

fn order(arguments: &[Value], holds: fn(Option<Ordering>) -> bool) -> Result<Value, String> {
    let ordering = match (&arguments[0], &arguments[1]) {
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (left, right) => return Err(incompatible(left, right)),
    };
    Ok(Value::Bool(holds(ordering)))
}

fn incompatible(left: &Value, right: &Value) -> String {
    format!("incompatible types for comparison: {} and {}", left.type_name(), right.type_name())
}
