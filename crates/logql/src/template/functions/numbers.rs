//! Arithmetic, as sprig does it: whole numbers, and numbers for the functions that end in `f`.

use super::{Function, Value, text_argument, to_float, to_int};
use crate::units::{parse_bytes, parse_float, parse_go_duration};

pub const TABLE: &[Function] = &[
    Function {
        name: "int",
        arguments: (1, 1),
        doc: "A whole number; 0 when it is none.",
        call: |_, a| Ok(Value::Int(to_int(&a[0]))),
    },
    Function {
        name: "float64",
        arguments: (1, 1),
        doc: "A number; 0 when it is none.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]))),
    },
    Function {
        name: "add",
        arguments: (1, 99),
        doc: "The sum of whole numbers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_add)),
    },
    Function {
        name: "sub",
        arguments: (2, 2),
        doc: "The difference of whole numbers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_sub)),
    },
    Function {
        name: "mul",
        arguments: (1, 99),
        doc: "The product of whole numbers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_mul)),
    },
    Function {
        name: "div",
        arguments: (2, 2),
        doc: "The quotient of whole numbers.",
        call: |_, a| divide(&a, i64::wrapping_div),
    },
    Function {
        name: "mod",
        arguments: (2, 2),
        doc: "The remainder of whole numbers.",
        call: |_, a| divide(&a, i64::wrapping_rem),
    },
    Function {
        name: "max",
        arguments: (1, 99),
        doc: "The greatest whole number.",
        call: |_, a| Ok(fold(&a, i64::max)),
    },
    Function {
        name: "min",
        arguments: (1, 99),
        doc: "The least whole number.",
        call: |_, a| Ok(fold(&a, i64::min)),
    },
    Function {
        name: "addf",
        arguments: (1, 99),
        doc: "The sum of numbers.",
        call: |_, a| Ok(foldf(&a, |x, y| x + y)),
    },
    Function {
        name: "subf",
        arguments: (1, 99),
        doc: "The first number without the others.",
        call: |_, a| Ok(foldf(&a, |x, y| x - y)),
    },
    Function {
        name: "mulf",
        arguments: (1, 99),
        doc: "The product of numbers.",
        call: |_, a| Ok(foldf(&a, |x, y| x * y)),
    },
    Function {
        name: "divf",
        arguments: (1, 99),
        doc: "The first number divided by the others.",
        call: |_, a| Ok(dividef(&a)),
    },
    Function {
        name: "maxf",
        arguments: (1, 99),
        doc: "The greatest number.",
        call: |_, a| Ok(foldf(&a, f64::max)),
    },
    Function {
        name: "minf",
        arguments: (1, 99),
        doc: "The least number.",
        call: |_, a| Ok(foldf(&a, f64::min)),
    },
    Function {
        name: "ceil",
        arguments: (1, 1),
        doc: "The next whole number above.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]).ceil())),
    },
    Function {
        name: "floor",
        arguments: (1, 1),
        doc: "The next whole number below.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]).floor())),
    },
    Function {
        name: "round",
        arguments: (2, 3),
        doc: "The number with that many decimals.",
        call: |_, a| Ok(round(&a)),
    },
    Function {
        name: "bytes",
        arguments: (1, 1),
        doc: "A size like 2KiB in bytes.",
        call: |_, a| parse_bytes(text_argument(&a[0])?).map(|n| Value::Float(n as f64)),
    },
    Function {
        name: "duration",
        arguments: (1, 1),
        doc: "A duration like 1m30s in seconds.",
        call: |_, a| seconds(text_argument(&a[0])?),
    },
    Function {
        name: "duration_seconds",
        arguments: (1, 1),
        doc: "A duration like 1m30s in seconds.",
        call: |_, a| seconds(text_argument(&a[0])?),
    },
];

fn fold(arguments: &[Value], op: fn(i64, i64) -> i64) -> Value {
    Value::Int(arguments[1..].iter().fold(to_int(&arguments[0]), |sum, v| op(sum, to_int(v))))
}

/// Decimal arithmetic is what sprig does; rounding to 15 digits hides what binary numbers cannot say.
fn foldf(arguments: &[Value], op: fn(f64, f64) -> f64) -> Value {
    let result = arguments[1..].iter().fold(to_float(&arguments[0]), |sum, v| op(sum, to_float(v)));
    let shown = format!("{result:.14e}");
    Value::Float(parse_float(&shown).unwrap_or(result))
}

/// Division keeps sixteen decimals, as sprig's decimal numbers do.
fn dividef(arguments: &[Value]) -> Value {
    let quotient = arguments[1..].iter().fold(to_float(&arguments[0]), |sum, v| {
        let shown = format!("{:.16}", sum / to_float(v));
        parse_float(&shown).unwrap_or(f64::NAN)
    });
    Value::Float(quotient)
}

fn divide(arguments: &[Value], op: fn(i64, i64) -> i64) -> Result<Value, String> {
    match to_int(&arguments[1]) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(Value::Int(op(to_int(&arguments[0]), divisor))),
    }
}

/// Half and more goes up, or from the given share on.
fn round(arguments: &[Value]) -> Value {
    let value = to_float(&arguments[0]);
    let scale = 10f64.powi(to_int(&arguments[1]).clamp(-300, 300) as i32);
    let up_from = arguments.get(2).map_or(0.5, to_float);
    let scaled = value * scale;
    let rest = scaled.rem_euclid(1.0);
    let whole = if rest >= up_from { scaled.ceil() } else { scaled.floor() };
    Value::Float(whole / scale)
}

fn seconds(text: &str) -> Result<Value, String> {
    parse_go_duration(text).map(|ns| Value::Float(ns as f64 / 1e9))
}
