//! Evaluates durations that depend on the times of a query: `[step() * 2]`, `offset (range() / 4)`.
//!
//! **Invariants:** the query fails before any planning if one of its durations cannot be computed. The
//! error names the first one in the text.

use sandur_query::Error;

use crate::ast::{DurationExpr, DurationPart, Expr, Length, Offset};
use crate::functions::math;
use crate::text::MS_NS;
use crate::timing::Times;
use crate::token::Kind;
use crate::value_type::Type;

/// Fails if the query cannot be evaluated at these times: a range query whose value is not a scalar or a
/// vector, or a computed duration that is invalid.
pub fn check_times(expr: &Expr, times: Times) -> Result<(), Error> {
    check_named_times(expr, times, times)
}

/// As [`check_times`], with the times that durations name.
pub fn check_named_times(expr: &Expr, times: Times, named: Times) -> Result<(), Error> {
    let kind = expr.value_type();
    if times.step > 0 && !matches!(kind, Type::Vector | Type::Scalar) {
        let kind = kind.documented();
        return Err(Error::Invalid(format!(
            "invalid expression type \"{kind}\" for range query, must be Scalar or instant Vector"
        )));
    }
    check_lengths(expr, named)
}

fn check_lengths(expr: &Expr, times: Times) -> Result<(), Error> {
    match expr {
        Expr::Selector(selector) => _ = offset_ms(&selector.offset, times)?,
        Expr::Matrix(matrix) => {
            length_ms(&matrix.range, times)?;
            offset_ms(&matrix.selector.offset, times)?;
        }
        Expr::Subquery(subquery) => {
            offset_ms(&subquery.offset, times)?;
            subquery.step.as_ref().map_or(Ok(0), |step| length_ms(step, times))?;
            length_ms(&subquery.range, times)?;
        }
        _ => {}
    }
    expr.children().iter().try_for_each(|child| check_lengths(child, times))
}

/// An offset in milliseconds.
pub fn offset_ms(offset: &Offset, times: Times) -> Result<i64, Error> {
    match offset {
        Offset::Fixed(ns) => Ok(ns / MS_NS),
        Offset::Expr(expr) => computed_ms(expr, times, true),
    }
}

/// A duration in milliseconds.
pub fn length_ms(length: &Length, times: Times) -> Result<i64, Error> {
    match length {
        Length::Fixed(ns) => Ok(ns / MS_NS),
        Length::Expr(expr) => computed_ms(expr, times, false),
    }
}

fn wrong(expr: &DurationExpr, what: &str) -> Error {
    Error::Invalid(format!("{}:{}: {what}", expr.span.start, expr.span.end))
}

fn computed_ms(expr: &DurationExpr, times: Times, may_be_negative: bool) -> Result<i64, Error> {
    let seconds = seconds(expr, times)?;
    if !seconds.is_finite() {
        return Err(wrong(expr, "duration is NaN or infinite"));
    }
    if seconds <= 0.0 && !may_be_negative {
        return Err(wrong(expr, "duration must be greater than 0"));
    }
    if seconds.abs() > (1u64 << 63) as f64 / 1e9 {
        return Err(wrong(expr, "duration is out of range"));
    }
    Ok((seconds * 1000.0) as i64)
}

fn seconds(expr: &DurationExpr, times: Times) -> Result<f64, Error> {
    let mut args = [0.0; 2];
    for (slot, part) in args.iter_mut().zip(&expr.args.0) {
        *slot = match part {
            DurationPart::Number(number) => number.value,
            DurationPart::Expr(inner) => seconds(inner, times)?,
        };
    }
    let [left, right] = args;
    Ok(match (expr.op, expr.args.0.len()) {
        (Kind::Step, _) => times.step as f64 / 1000.0,
        (Kind::Range, _) => (times.end - times.start) as f64 / 1000.0,
        (Kind::MaxOf, _) => math::max(left, right),
        (Kind::MinOf, _) => math::min(left, right),
        (Kind::Sub, 1) => -left,
        (_, 1) => left,
        (Kind::Add, _) => left + right,
        (Kind::Sub, _) => left - right,
        (Kind::Mul, _) => left * right,
        (Kind::Div, _) if right == 0.0 => return Err(wrong(expr, "division by zero")),
        (Kind::Div, _) => left / right,
        (Kind::Mod, _) if right == 0.0 => return Err(wrong(expr, "modulo by zero")),
        (Kind::Mod, _) => left % right,
        _ => left.powf(right),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Times = Times { start: 0, end: 600_000, step: 60_000 };

    fn refusal(query: &str, times: Times) -> Option<String> {
        check_times(&crate::parse(query).unwrap(), times).err().map(|error| error.to_string())
    }

    #[test]
    fn a_range_query_must_yield_a_scalar_or_a_vector() {
        for (query, kind) in [("up[5m]", "range vector"), ("(up[5m:1m])", "range vector"), ("'a'", "string")]
        {
            let what = format!(
                "invalid expression type \"{kind}\" for range query, must be Scalar or instant Vector"
            );
            assert_eq!(refusal(query, RANGE), Some(what), "{query}");
            assert_eq!(refusal(query, Times { start: 0, end: 0, step: 0 }), None, "{query}");
        }
        assert_eq!(refusal("up + 1", RANGE), None);
    }

    #[test]
    fn the_first_invalid_duration_is_named() {
        for (query, what) in [
            ("rate(up[step() - 1m])", "8:19: duration must be greater than 0"),
            ("rate(up[1m] offset (1m / (step() - 1m)))", "20:37: division by zero"),
            ("sum(max_over_time(up[5m:range() - 10m]))", "24:37: duration must be greater than 0"),
            ("up offset (10 ^ (step() * 10))", "11:28: duration is NaN or infinite"),
            ("up offset (step() ^ 10)", "11:22: duration is out of range"),
            ("rate(up[1m % (step() - 1m)])", "8:25: modulo by zero"),
        ] {
            assert_eq!(refusal(query, RANGE).as_deref(), Some(what), "{query}");
        }
        assert_eq!(refusal("up offset (step() - 2m)", RANGE), None, "an offset may be negative");
    }
}
