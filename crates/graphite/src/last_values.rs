//! The newest value of each series of a target, as rules need it.

use sandur_memory::job::spend;
use sandur_query::QueryContext;

use crate::error::{Error, Result};
use crate::evaluate::Evaluator;
use crate::functions;
use crate::grammar::{Expr, parse_whole};
use crate::scope::Scope;
use crate::series::Series;
use crate::source::Source;
use crate::tags::Tags;
use crate::zone::Zone;

/// The newest value of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct LastValue {
    /// The name of the series, as `/render` shows it.
    pub name: String,
    /// The tags of the series.
    pub tags: Tags,
    /// The value.
    pub value: f64,
}

impl LastValue {
    /// Estimated bytes in memory.
    pub fn bytes(&self) -> u64 {
        let tags = self.tags.iter().map(|(name, value)| name.len() + value.len() + 64);
        (self.name.len() + 64 + tags.sum::<usize>()) as u64
    }
}

/// Checks a target before it is stored: its text must be one complete target, and its functions must exist.
pub fn check_target(text: &str) -> std::result::Result<(), Error> {
    let target = parse_whole(text)?;
    let mut left: Vec<&Expr> = vec![&target];
    while let Some(expr) = left.pop() {
        match expr {
            Expr::Call(call) => {
                functions::find(&call.name)?;
                left.extend(call.arguments.iter().map(|argument| &**argument));
                left.extend(call.named.iter().map(|(_, argument)| &**argument));
            }
            Expr::Template(template) => left.push(&template.body),
            Expr::Number(_) | Expr::Text(_) | Expr::Flag(_) | Expr::None | Expr::Path(_) => {}
        }
    }
    Ok(())
}

/// Evaluates a target over the `window` seconds before a time, and returns the last value of each series.
/// `at` is in seconds since 1970. A series without a value in the window is left out. NaN is not a value.
pub async fn last_values(
    source: &dyn Source,
    context: &QueryContext,
    target: &str,
    (window, at): (i64, i64),
) -> std::result::Result<Vec<LastValue>, Error> {
    let zone = Zone::utc();
    let (from, until) = (zone.moment(at.saturating_sub(window)), zone.moment(at));
    let scope = Scope::new(from, until, at, zone, 0.0);
    let evaluator = Evaluator::new(source, context, &[]);
    let list = evaluator.series(target, &scope).await?;
    let last = move || list.into_iter().filter_map(|series| last_of(series, at).transpose()).collect();
    context.compute(move || Ok(last())).await?
}

/// The last value up to a time. A step that is not over yet at that time counts if it has begun.
fn last_of(series: Series, at: i64) -> Result<Option<LastValue>> {
    spend(series.values.len())?;
    let many = i64::try_from(series.values_per_point.max(1)).unwrap_or(i64::MAX);
    let step = series.step.saturating_mul(many);
    let times = (0..).map(|place: i64| series.start.saturating_add(step.saturating_mul(place)));
    let known = times.zip(series.points()).take_while(|(time, _)| *time <= at);
    let value = known.filter_map(|(_, value)| value.filter(|value| !value.is_nan())).last();
    Ok(value.map(|value| LastValue { name: series.name, tags: series.tags, value }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;

    #[test]
    fn a_target_that_is_cut_or_has_an_unknown_function_is_refused() {
        for good in ["a.b", " sumSeries( a.* )|alias('x') ", "template(a.$x, x='b')", "seriesByTag('name=a')"]
        {
            assert!(check_target(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("f(", "'(' after the target"),
            ("sumSeries(a.b", "after the target"),
            ("sumSeries(a.b))", "')' after"),
            ("alias(nosuch(a), 'b')", "unknown function: nosuch"),
            ("", "not a target"),
        ] {
            let error = check_target(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn the_last_value_is_not_missing_not_nan_and_not_in_the_future() {
        let last = |values: &[Option<f64>]| {
            let values = Column::collect(values.len(), values.iter().copied()).unwrap();
            let end = 100 + 60 * values.len() as i64;
            last_of(Series::new("a.b;c=d", 100, end, 60, values), 280).unwrap().map(|last| last.value)
        };
        // The times are 100, 160, 220, 280 and 340.
        assert_eq!(last(&[Some(1.0), Some(2.0), Some(3.0), Some(4.0), Some(5.0)]), Some(4.0));
        assert_eq!(last(&[Some(1.0), Some(2.0), None, Some(f64::NAN), Some(5.0)]), Some(2.0));
        assert_eq!(last(&[None, None, None, None, Some(5.0)]), None);
        assert_eq!(last(&[]), None);
    }
}
