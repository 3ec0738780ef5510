//! Resolves evaluation times of selectors, and finds expressions that are the same at all steps.
//!
//! **Invariants:** an expression that is reported as the same at all steps has, at each step, the value and
//! the notes of the first step.

use sandur_query::Error;

use crate::ast::{At, Call, Expr, Offset};
use crate::lengths;
use crate::timing::{TIME_MAX, Times, Timing};
use crate::value_type::Type;

/// The `@` and `offset` modifiers around an expression, the outermost first.
type Around<'a> = Vec<(Option<At>, &'a Offset)>;

/// The evaluation time that `@` and `offset` define.
pub fn timing(at: Option<At>, offset: &Offset, times: Times) -> Result<Timing, Error> {
    let at = at.map(|at| match at {
        At::Time(ms) => ms.clamp(-TIME_MAX, TIME_MAX),
        At::Start => times.start,
        At::End => times.end,
    });
    let offset = lengths::offset_ms(offset, times)?;
    Ok(Timing { at, offset: offset.clamp(-TIME_MAX, TIME_MAX) })
}

/// The evaluation time of info metrics: that of the selectors in the expression if all have the same, else
/// the step. It is the step also if a vector of the expression has no selector.
pub fn info_timing(expr: &Expr, times: Times) -> Result<Timing, Error> {
    let at_step = timing(None, &Offset::Fixed(0), times)?;
    let mut common: Option<Timing> = None;
    let mut open: Vec<(&Expr, Around<'_>)> = vec![(expr, Vec::new())];
    while let Some((expr, mut around)) = open.pop() {
        let selector = match expr {
            Expr::Selector(selector) => &**selector,
            Expr::Matrix(matrix) => &matrix.selector,
            Expr::Subquery(subquery) => {
                around.push((subquery.at, &subquery.offset));
                open.push((&subquery.inner.0, around));
                continue;
            }
            _ => {
                // The second argument of `info` is a list of label matchers, not a vector.
                let most = if is_info(expr) { 1 } else { usize::MAX };
                let is_vector = |child: &&Expr| matches!(child.value_type(), Type::Vector | Type::Matrix);
                let vectors = expr.children().iter().take(most).filter(is_vector);
                let before = open.len();
                open.extend(vectors.map(|child| (child, around.clone())));
                if open.len() == before {
                    return Ok(at_step);
                }
                continue;
            }
        };
        around.push((selector.at, &selector.offset));
        let own = timing_within(&around, times)?;
        let is_same =
            |known: Timing| (known.at.is_some(), known.reference(0)) == (own.at.is_some(), own.reference(0));
        if !common.is_none_or(is_same) {
            return Ok(at_step);
        }
        common = Some(own);
    }
    Ok(common.unwrap_or(at_step))
}

/// The evaluation time of an expression inside these modifiers: offsets add up outwards until an `@` is
/// found.
fn timing_within(around: &Around<'_>, times: Times) -> Result<Timing, Error> {
    let mut total = Timing { at: None, offset: 0 };
    for (at, offset) in around.iter().rev() {
        let timing = timing(*at, offset, times)?;
        total.offset += timing.offset;
        if timing.at.is_some() {
            total.at = timing.at;
            break;
        }
    }
    Ok(total)
}

fn is_info(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if call.function.name == "info")
}

/// Whether evaluating the expression once is worth it, if it is the same at all steps.
pub fn repeats(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(paren) => repeats(&paren.inner.0),
        Expr::Unary(unary) => repeats(&unary.inner.0),
        Expr::Number(_) | Expr::String(_) | Expr::Matrix(_) | Expr::Subquery(_) => false,
        _ => true,
    }
}

/// Whether the expression is the same at all steps.
pub fn is_invariant(expr: &Expr, times: Times) -> bool {
    let is_same = |expr: &Expr| is_invariant(expr, times);
    match expr {
        Expr::Number(_) | Expr::String(_) => true,
        Expr::Selector(selector) => selector.at.is_some(),
        Expr::Matrix(matrix) => matrix.selector.at.is_some(),
        Expr::Subquery(subquery) => subquery.at.is_some(),
        Expr::Paren(paren) => is_same(&paren.inner.0),
        Expr::Unary(unary) => is_same(&unary.inner.0),
        Expr::Chain(chain) => chain.operands.0.iter().all(is_same),
        Expr::Aggregate(aggregate) => is_same(aggregate.inner()),
        Expr::Call(call) => {
            let Call { function, args, .. } = &**call;
            let args = &args.0;
            if matches!(function.name, "start" | "end" | "step" | "range") {
                return true;
            }
            if is_info(expr) {
                // If its selectors have different times, info metrics are read at the step.
                let has_time = || info_timing(&args[0], times).is_ok_and(|timing| timing.at.is_some());
                return is_same(&args[0]) && has_time();
            }
            let of_selector = |arg: &Expr| matches!(arg.unwrapped(), Expr::Selector(_));
            let fits =
                !function.looks_at_time() || (function.name == "timestamp" && args.iter().all(of_selector));
            fits && args.iter().all(is_same)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Times = Times { start: 0, end: 600_000, step: 60_000 };

    fn is_same(query: &str) -> bool {
        is_invariant(&crate::parse(query).unwrap(), RANGE)
    }

    #[test]
    fn expressions_at_a_fixed_time_are_the_same_at_all_steps() {
        for query in [
            "1 + pi()",
            "sum(rate(a[5m] @ 60))",
            "max_over_time(a[5m:1m] @ end()) > 2",
            "timestamp(a @ 5)",
            "start() + step()",
            "info(a @ 60)",
            "info(a @ 120 offset 1m or b @ 60, {c=~\".+\"})",
            "info(rate(a[5m] @ start()))",
        ] {
            assert!(is_same(query), "{query}");
        }
        for query in [
            "a",
            "a @ 60 + a",
            "time()",
            "timestamp(abs(a @ 5))",
            "predict_linear(a[5m] @ 60, 10)",
            "info(a)",
            "info(a @ 60 or b @ 120)",
            "info(a @ start() or b @ end())",
            "info(a @ 60 or label_replace(vector(1), \"b\", \"c\", \"\", \"\"))",
            "sum(info(a @ 60 or b @ 120))",
        ] {
            assert!(!is_same(query), "{query}");
        }
    }
}
