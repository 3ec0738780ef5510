//! Queries: an expression and its times.

use std::fmt::{self, Display, Formatter};

use sandur_promql::Times;

use super::expression::Expression;
use super::grammar::{random_expression, spoilt};
use super::series::{BEGIN_MS, LENGTH_MS};
use crate::random::Random;

/// A query.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The expression.
    pub expression: Expression,
    /// The times; without a step, one instant.
    pub times: Times,
}

impl Ask {
    /// Returns whether it is a range query.
    pub fn is_range(&self) -> bool {
        self.times.step > 0
    }

    /// Returns the same query with another expression.
    pub fn of(&self, expression: Expression) -> Self {
        Self { expression, times: self.times }
    }

    /// Returns whether the order of series in the answer is significant.
    pub fn is_ordered(&self) -> bool {
        let text = self.expression.to_string();
        // Series that are chosen from one group are sorted by value.
        !self.is_range() && ["sort", "topk(", "bottomk("].iter().any(|head| text.starts_with(head))
    }

    /// Returns the path of the API and the parameters.
    pub fn parameters(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let seconds = |ms: i64| format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
        let Times { start, end, step } = self.times;
        let query = ("query", self.expression.to_string());
        if self.is_range() {
            let rest = [("start", seconds(start)), ("end", seconds(end)), ("step", seconds(step))];
            ("query_range", [query].into_iter().chain(rest).collect())
        } else {
            ("query", vec![query, ("time", seconds(start))])
        }
    }
}

impl Display for Ask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (path, parameters) = self.parameters();
        write!(f, "{path}")?;
        parameters.iter().try_for_each(|(name, value)| write!(f, "\n    {name} = {value}"))
    }
}

/// Returns query number `index` of a seed.
pub fn random_ask(seed: u64, index: u64) -> Ask {
    let random = &mut Random::fork(seed, index);
    let is_range = random.chance(60);
    let around = |random: &mut Random| {
        let at = BEGIN_MS + random.between(-300, LENGTH_MS / 1000 + 400) * 1000;
        at + if random.chance(20) { random.between(1, 999) } else { 0 }
    };
    let times = if is_range {
        let start = around(random);
        let step = [1_000, 15_000, 30_000, 60_000, 60_000, 300_000, 7_500, 97_000][random.below(8)];
        let end = start
            + step * random.between(0, 60)
            + if random.chance(20) { random.between(0, step) } else { 0 };
        Times { start, end, step }
    } else {
        let at = around(random);
        Times { start: at, end: at, step: 0 }
    };
    let expression = match random.chance(4) {
        true => spoilt(random),
        false => random_expression(random, is_range),
    };
    Ask { expression, times }
}
