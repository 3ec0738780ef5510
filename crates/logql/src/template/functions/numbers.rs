//! Arithmetic, as in sprig: on integers, and on floats for the functions that end in `f`.

use sandur_model::go_text::{parse_bytes, parse_float, parse_go_duration};

use super::arguments::{text_argument, to_float, to_int};
use super::function::{Function, function};
use crate::template::value::Value;

pub const TABLE: &[Function] = &[
    function("int", (1, 1), "Converts the value to an integer; 0 if that is not possible.", |_, a| {
        Ok(Value::Int(to_int(&a[0])))
    }),
    function("float64", (1, 1), "Converts the value to a float; 0 if that is not possible.", |_, a| {
        Ok(Value::Float(to_float(&a[0])))
    }),
    function("add", (1, 99), "The sum of integers.", |_, a| Ok(fold(&a, i64::wrapping_add))),
    function("sub", (2, 2), "The difference of two integers.", |_, a| Ok(fold(&a, i64::wrapping_sub))),
    function("mul", (1, 99), "The product of integers.", |_, a| Ok(fold(&a, i64::wrapping_mul))),
    function("div", (2, 2), "The quotient of two integers, rounded towards zero.", |_, a| {
        divide(&a, i64::wrapping_div)
    }),
    function("mod", (2, 2), "The remainder of two integers, with the sign of the dividend.", |_, a| {
        divide(&a, i64::wrapping_rem)
    }),
    function("max", (1, 99), "The greatest of several integers.", |_, a| Ok(fold(&a, i64::max))),
    function("min", (1, 99), "The least of several integers.", |_, a| Ok(fold(&a, i64::min))),
    function("addf", (1, 99), "The sum of floats.", |_, a| Ok(foldf(&a, |x, y| x + y))),
    function("subf", (1, 99), "Subtracts the other floats from the first one.", |_, a| {
        Ok(foldf(&a, |x, y| x - y))
    }),
    function("mulf", (1, 99), "The product of floats.", |_, a| Ok(foldf(&a, |x, y| x * y))),
    function("divf", (1, 99), "Divides the first float by the others.", |_, a| Ok(dividef(&a))),
    function("maxf", (1, 99), "The greatest of several floats.", |_, a| Ok(foldf(&a, f64::max))),
    function("minf", (1, 99), "The least of several floats.", |_, a| Ok(foldf(&a, f64::min))),
    function("ceil", (1, 1), "Rounds up to an integer.", |_, a| Ok(Value::Float(to_float(&a[0]).ceil()))),
    function("floor", (1, 1), "Rounds down to an integer.", |_, a| Ok(Value::Float(to_float(&a[0]).floor()))),
    function("round", (2, 3), "`round number decimals`: rounds to this number of decimal places.", |_, a| {
        Ok(round(&a))
    }),
    function("bytes", (1, 1), "Converts a size such as `2KiB` to bytes.", |_, a| {
        parse_bytes(text_argument(&a[0])?).map(|n| Value::Float(n as f64))
    }),
    function("duration", (1, 1), "Converts a duration such as `1m30s` to seconds.", |_, a| {
        seconds(text_argument(&a[0])?)
    }),
    function("duration_seconds", (1, 1), "Converts a duration such as `1m30s` to seconds.", |_, a| {
        seconds(text_argument(&a[0])?)
    }),
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
