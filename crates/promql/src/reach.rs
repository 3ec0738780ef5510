//! Finds the time windows of samples that each step of a query reads.
//!
//! The cache of evaluated steps uses them to detect that the samples of a step may have changed.

use crate::ast::{At, Expr, Length, Offset, Selector};
use crate::run::Options;
use crate::text::MS_NS;
use crate::timing::Extension;

/// Functions whose result depends on the complete range, or on series that the query's text does not
/// select.
const OF_THE_WHOLE: [&str; 4] = ["start", "end", "range", "info"];

/// Returns the length and offset in nanoseconds of every window that the query reads, in the order of its
/// text. A step at `t` reads the samples from `t - offset - length`, exclusive, to `t - offset`, inclusive.
/// Returns `None` if a step depends on more than its own time: on the range of the query, or on a fixed
/// instant.
pub fn windows(expr: &Expr, options: &Options) -> Option<Vec<(i64, i64)>> {
    let mut found = Vec::new();
    let lookback = options.lookback_ms.saturating_mul(MS_NS);
    Walk { lookback, found: &mut found }.look(expr, (0, 0))?;
    Some(found)
}

struct Walk<'a> {
    lookback: i64,
    found: &'a mut Vec<(i64, i64)>,
}

impl Walk<'_> {
    /// Adds the windows of an expression that is itself evaluated over the window `around`.
    fn look(&mut self, expr: &Expr, around: (i64, i64)) -> Option<()> {
        match expr {
            Expr::Number(_) | Expr::String(_) => Some(()),
            Expr::Selector(selector) => self.selector(selector, self.lookback, around),
            Expr::Matrix(matrix) => {
                let range = length(&matrix.range)?;
                let before = match matrix.selector.extension {
                    Extension::None => range,
                    Extension::Anchored | Extension::Smoothed => range.saturating_add(self.lookback),
                };
                self.selector(&matrix.selector, before, around)
            }
            Expr::Subquery(subquery) => {
                if let Some(step) = &subquery.step {
                    length(step)?;
                }
                let (range, offset) = (length(&subquery.range)?, moved(subquery.at, &subquery.offset)?);
                let around = (around.0.saturating_add(range), around.1.saturating_add(offset));
                self.look(&subquery.inner.0, around)
            }
            Expr::Call(call) if OF_THE_WHOLE.contains(&call.function.name) => None,
            Expr::Paren(_) | Expr::Unary(_) | Expr::Chain(_) | Expr::Call(_) | Expr::Aggregate(_) => {
                expr.children().iter().try_for_each(|child| self.look(child, around))
            }
        }
    }

    fn selector(&mut self, selector: &Selector, before: i64, around: (i64, i64)) -> Option<()> {
        let offset = moved(selector.at, &selector.offset)?;
        let (mut long, mut late) = (before, offset);
        if selector.extension == Extension::Smoothed {
            // Samples after the instant are read as well.
            (long, late) = (long.saturating_add(self.lookback), late.saturating_sub(self.lookback));
        }
        self.found.push((around.0.saturating_add(long), around.1.saturating_add(late)));
        Some(())
    }
}

fn length(length: &Length) -> Option<i64> {
    match length {
        Length::Fixed(ns) => Some(ns / MS_NS * MS_NS),
        Length::Expr(_) => None,
    }
}

fn moved(at: Option<At>, offset: &Offset) -> Option<i64> {
    match (at, offset) {
        (None, Offset::Fixed(ns)) => Some(ns / MS_NS * MS_NS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn of(query: &str) -> Option<Vec<(i64, i64)>> {
        let expr = crate::parse(query).unwrap();
        let seconds = |(length, offset): (i64, i64)| (length / S, offset / S);
        windows(&expr, &Options::default()).map(|all| all.into_iter().map(seconds).collect())
    }

    #[test]
    fn windows_add_up_through_subqueries_and_offsets() {
        assert_eq!(of("up").unwrap(), [(300, 0)]);
        assert_eq!(of("up offset 1m - rate(up[1m] offset -10s)").unwrap(), [(300, 60), (60, -10)]);
        assert_eq!(of("max_over_time(rate(up[1m])[1h:5m] offset 1d)").unwrap(), [(3_660, 86_400)]);
        assert_eq!(of("max_over_time(up[1h:])").unwrap(), [(3_900, 0)]);
        assert_eq!(of("increase(up[1m] anchored)").unwrap(), [(360, 0)]);
        assert_eq!(of("increase(up[1m] smoothed)").unwrap(), [(660, -300)]);
        assert_eq!(of("up smoothed").unwrap(), [(600, -300)]);
        assert_eq!(of("sum by (a) (topk(3, up)) and on (b) -(up)").unwrap(), [(300, 0), (300, 0)]);
        assert_eq!(of("time() + 1").unwrap(), []);
    }

    #[test]
    fn expressions_that_depend_on_more_than_the_step_have_no_windows() {
        for query in [
            "up @ 5",
            "up @ end()",
            "max_over_time(up[1h:] @ start())",
            "rate(up[range()])",
            "up offset step()",
            "end() - up",
            "max_over_time(up[1h:step()])",
            "info(up)",
        ] {
            assert_eq!(of(query), None, "{query}");
        }
    }
}
