//! Arithmetic, as in sprig: on integers, and on floats for the functions that end in `f`.

use sandur_model::go_text::{parse_bytes, parse_float, parse_go_duration};

use super::{Function, Value, text_argument, to_float, to_int};

pub const TABLE: &[Function] = &[
    Function {
        name: "int",
        arguments: (1, 1),
        doc: "Converts the value to an integer; 0 if that is not possible.",
        call: |_, a| Ok(Value::Int(to_int(&a[0]))),
    },
    Function {
        name: "float64",
        arguments: (1, 1),
        doc: "Converts the value to a float; 0 if that is not possible.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]))),
    },
    Function {
        name: "add",
        arguments: (1, 99),
        doc: "The sum of integers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_add)),
    },
    Function {
        name: "sub",
        arguments: (2, 2),
        doc: "The difference of two integers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_sub)),
    },
    Function {
        name: "mul",
        arguments: (1, 99),
        doc: "The product of integers.",
        call: |_, a| Ok(fold(&a, i64::wrapping_mul)),
    },
    Function {
        name: "div",
        arguments: (2, 2),
        doc: "The quotient of two integers, rounded towards zero.",
        call: |_, a| divide(&a, i64::wrapping_div),
    },
    Function {
        name: "mod",
        arguments: (2, 2),
        doc: "The remainder of two integers, with the sign of the dividend.",
        call: |_, a| divide(&a, i64::wrapping_rem),
    },
    Function {
        name: "max",
        arguments: (1, 99),
        doc: "The greatest of several integers.",
        call: |_, a| Ok(fold(&a, i64::max)),
    },
    Function {
        name: "min",
        arguments: (1, 99),
        doc: "The least of several integers.",
        call: |_, a| Ok(fold(&a, i64::min)),
    },
    Function {
        name: "addf",
        arguments: (1, 99),
        doc: "The sum of floats.",
        call: |_, a| Ok(foldf(&a, |x, y| x + y)),
    },
    Function {
        name: "subf",
        arguments: (1, 99),
        doc: "Subtracts the other floats from the first one.",
        call: |_, a| Ok(foldf(&a, |x, y| x - y)),
    },
    Function {
        name: "mulf",
        arguments: (1, 99),
        doc: "The product of floats.",
        call: |_, a| Ok(foldf(&a, |x, y| x * y)),
    },
    Function {
        name: "divf",
        arguments: (1, 99),
        doc: "Divides the first float by the others.",
        call: |_, a| Ok(dividef(&a)),
    },
    Function {
        name: "maxf",
        arguments: (1, 99),
        doc: "The greatest of several floats.",
        call: |_, a| Ok(foldf(&a, f64::max)),
    },
    Function {
        name: "minf",
        arguments: (1, 99),
        doc: "The least of several floats.",
        call: |_, a| Ok(foldf(&a, f64::min)),
    },
    Function {
        name: "ceil",
        arguments: (1, 1),
        doc: "Rounds up to an integer.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]).ceil())),
    },
    Function {
        name: "floor",
        arguments: (1, 1),
        doc: "Rounds down to an integer.",
        call: |_, a| Ok(Value::Float(to_float(&a[0]).floor())),
    },
    Function {
        name: "round",
        arguments: (2, 3),
        doc: "`round number decimals`: rounds to this number of decimal places.",
        call: |_, a| Ok(round(&a)),
    },
    Function {
        name: "bytes",
        arguments: (1, 1),
        doc: "Converts a size such as `2KiB` to bytes.",
        call: |_, a| parse_bytes(text_argument(&a[0])?).map(|n| Value::Float(n as f64)),
    },
    Function {
        name: "duration",
        arguments: (1, 1),
        doc: "Converts a duration such as `1m30s` to seconds.",
        call: |_, a| seconds(text_argument(&a[0])?),
    },
    Function {
        name: "duration_seconds",
        arguments: (1, 1),
        doc: "Converts a duration such as `1m30s` to seconds.",
        call: |_, a| seconds(text_argument(&a[0])?),
    },
];

fn fold(arguments: &[Value], op: fn(i64, i64) -> i64) -> Value {
    Value::Int(arguments[1..].iter().fold(to_int(&arguments[0]), |sum, v| op(sum, to_int(v))))
}

/// Folds floats. Sprig uses decimal arithmetic; rounding to 15 digits hides the errors of binary floats.
fn foldf(arguments: &[Value], op: fn(f64, f64) -> f64) -> Value {
    let result = arguments[1..].iter().fold(to_float(&arguments[0]), |sum, v| op(sum, to_float(v)));
    let shown = format!("{result:.14e}");
    Value::Float(parse_float(&shown).unwrap_or(result))
}

/// Divides floats with sixteen decimals, as sprig's decimal numbers do.
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

/// Rounds half up, or up from the fraction in the third argument.
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
