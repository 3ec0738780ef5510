//! Expressions laid out over lines, as Prometheus formats queries.

use crate::ast::Expr;
use crate::print::{Head, Operator, Suffix};

/// Columns beyond which an expression is split.
const COLUMNS: usize = 100;

/// The expression with long parts on lines of their own.
pub fn pretty(expr: &Expr) -> String {
    lay_out(expr, 0)
}

fn lay_out(expr: &Expr, level: usize) -> String {
    let (indent, whole) = ("  ".repeat(level), expr.to_string());
    let is_long = whole.len() > COLUMNS;
    match expr {
        Expr::Unary(unary) => {
            let inner = lay_out(&unary.inner.0, level);
            format!("{indent}{}{}", if unary.negate { "-" } else { "+" }, inner.trim())
        }
        Expr::Subquery(_) if !is_long => whole,
        Expr::Subquery(subquery) => {
            format!("{}{}", lay_out(&subquery.inner.0, level), Suffix(subquery))
        }
        _ if !is_long => indent + &whole,
        Expr::Aggregate(aggregate) => {
            let args: Vec<String> = aggregate.args.0.iter().map(|arg| lay_out(arg, level + 1)).collect();
            format!("{indent}{}(\n{}\n{indent})", Head(aggregate), args.join(",\n"))
        }
        Expr::Binary(binary) => {
            let [left, right] = [binary.left(), binary.right()].map(|side| lay_out(side, level + 1));
            format!("{left}\n{indent}{}\n{right}", Operator(binary))
        }
        Expr::Call(call) => {
            let args: Vec<String> = call.args.0.iter().map(|arg| lay_out(arg, level + 1)).collect();
            format!("{indent}{}(\n{}\n{indent})", call.function.name, args.join(",\n"))
        }
        Expr::Paren(paren) => {
            format!("{indent}(\n{}\n{indent})", lay_out(&paren.inner.0, level + 1))
        }
        Expr::Number(_) | Expr::String(_) | Expr::Selector(_) | Expr::Matrix(_) => indent + &whole,
    }
}
