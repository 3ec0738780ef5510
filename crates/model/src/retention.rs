//! How long single streams or series are kept: what selects them, and their period.
//!
//! **Invariants.** A rule has a period of more than nothing, and asks for more than the absence of labels, so
//! that no rule takes hold of everything by a slip. [`RetentionRules`] stand in the order in which they
//! decide: the first that names a series tells how long it is kept.

use std::ops::Deref;
use std::sync::Arc;

use crate::labels::Labels;
use crate::matcher::{Matcher, matches_all};

/// Most rules of a tenant and signal: each of them is looked up in every block that may hold old rows.
pub const RETENTION_RULES_MAX: usize = 1_000;

/// How long the streams or series are kept that a selector names.
#[derive(Clone, Debug)]
pub struct RetentionRule {
    selector: String,
    matchers: Vec<Matcher>,
    priority: i64,
    period_ns: i64,
}

/// Rules that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionRuleError {
    /// The period is nothing.
    #[error("the period of '{selector}' is 0: a rule says how long something is kept, such as 24h")]
    NoPeriod {
        /// The selector of the rule.
        selector: String,
    },
    /// The selector names everything.
    #[error(
        "'{selector}' names everything: ask for a label with a value, and set retention_period for the rest"
    )]
    Everything {
        /// The selector.
        selector: String,
    },
    /// There are too many.
    #[error("there are {rules} rules, more than the {RETENTION_RULES_MAX} that are allowed; join some")]
    TooMany {
        /// How many there are.
        rules: usize,
    },
}

impl RetentionRule {
    /// A rule; `selector` is the text that its matchers come from.
    pub fn new(
        selector: impl Into<String>,
        matchers: Vec<Matcher>,
        priority: i64,
        period_ns: i64,
    ) -> Result<Self, RetentionRuleError> {
        let selector = selector.into();
        if period_ns <= 0 {
            return Err(RetentionRuleError::NoPeriod { selector });
        }
        if matchers.iter().all(Matcher::matches_empty) {
            return Err(RetentionRuleError::Everything { selector });
        }
        Ok(Self { selector, matchers, priority, period_ns })
    }

    /// What it was written as.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// What it asks of labels.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// Of several rules that name a series that with the highest decides.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// How long the series is kept, in nanoseconds.
    pub fn period_ns(&self) -> i64 {
        self.period_ns
    }
}

/// The matchers come from the selector.
impl PartialEq for RetentionRule {
    fn eq(&self, other: &Self) -> bool {
        let all = |rule: &Self| (rule.priority, rule.period_ns);
        (&self.selector, all(self)) == (&other.selector, all(other))
    }
}

/// Rules in the order in which they decide. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionRules(Arc<[RetentionRule]>);

impl RetentionRules {
    /// Puts rules in order: the highest priority first, of equal ones the shortest period, as in Loki.
    pub fn new(mut rules: Vec<RetentionRule>) -> Result<Self, RetentionRuleError> {
        if rules.len() > RETENTION_RULES_MAX {
            return Err(RetentionRuleError::TooMany { rules: rules.len() });
        }
        rules.sort_by_key(|rule| (std::cmp::Reverse(rule.priority), rule.period_ns));
        Ok(Self(rules.into()))
    }

    /// The rule that decides about a series.
    pub fn of(&self, labels: &Labels) -> Option<&RetentionRule> {
        self.0.iter().find(|rule| matches_all(&rule.matchers, labels))
    }
}

impl Deref for RetentionRules {
    type Target = [RetentionRule];

    fn deref(&self) -> &[RetentionRule] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::MatchOp;

    fn rule(app: &str, priority: i64, period_ns: i64) -> Result<RetentionRule, RetentionRuleError> {
        let matcher = Matcher::new("app", MatchOp::Regex, app).unwrap();
        RetentionRule::new(format!("{{app=~{app:?}}}"), vec![matcher], priority, period_ns)
    }

    #[test]
    fn the_highest_priority_decides_and_of_equal_ones_the_shortest_period() {
        let all = [rule("a.*", 1, 9), rule("ab", 1, 5), rule("abc", 2, 99), rule(".+", -1, 1)];
        let rules = RetentionRules::new(all.into_iter().map(Result::unwrap).collect()).unwrap();
        for (app, period) in [("ax", Some(9)), ("ab", Some(5)), ("abc", Some(99)), ("z", Some(1)), ("", None)]
        {
            let labels = Labels::from_pairs([("app", app)].into_iter().filter(|(_, app)| !app.is_empty()));
            assert_eq!(rules.of(&labels).map(RetentionRule::period_ns), period, "{app}");
        }
    }

    #[test]
    fn rules_that_name_everything_or_keep_nothing_are_refused() {
        assert!(matches!(rule("a", 0, 0), Err(RetentionRuleError::NoPeriod { .. })));
        assert!(matches!(rule(".*", 0, 1), Err(RetentionRuleError::Everything { .. })));
        let many = vec![rule("a", 0, 1).unwrap(); RETENTION_RULES_MAX + 1];
        assert_eq!(RetentionRules::new(many), Err(RetentionRuleError::TooMany { rules: 1_001 }));
    }
}
