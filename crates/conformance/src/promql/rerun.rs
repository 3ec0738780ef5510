//! Rewrites a query with `@` modifiers, so that it must give the same answer at every evaluation time.

use sandur_promql::{At, Expr, parse};

/// Returns the query with an `@` of its evaluation time in every selector that has none, and the times
/// at which to evaluate it. Both are empty when the query calls a function whose answer depends on the
/// evaluation time.
pub fn pinned(expr: &str, at: i64) -> Result<(String, Vec<i64>), String> {
    let mut expr = parse(expr).map_err(|e| e.to_string())?;
    if looks_at_time(&expr) {
        return Ok((String::new(), Vec::new()));
    }
    expr.pin(At::Time(at)).map_err(|e| e.to_string())?;
    let times = match at {
        0 => vec![-1000, 0, 1000],
        at => vec![-10 * at, 0, at / 5, at, 10 * at],
    };
    Ok((expr.to_string(), times))
}

/// Whether a function outside of pinned subqueries depends on the evaluation time.
fn looks_at_time(expr: &Expr) -> bool {
    if let Expr::Subquery(subquery) = expr
        && subquery.at.is_some_and(|at| matches!(at, At::Time(_)))
    {
        return false;
    }
    let own = matches!(expr, Expr::Call(call) if call.function.looks_at_time());
    own || expr.children().iter().any(looks_at_time)
}
