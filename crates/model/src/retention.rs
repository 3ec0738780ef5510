//! Retention rules: which streams or series are kept for how long.
//!
//! **Invariants.** A rule has a positive period, and its selector requires at least one label, so that
//! no rule selects all data by mistake. [`RetentionRules`] are ordered by precedence: the first rule
//! that selects a series determines its retention.

use std::ops::Deref;
use std::sync::Arc;

use crate::labels::Labels;
use crate::matcher::{Matcher, matches_all};

/// The most rules of a tenant and signal: each of them is looked up in every block that may contain old
/// rows.
pub const RETENTION_RULES_MAX: usize = 1_000;

/// The retention of the streams or series that a selector matches.
#[derive(Clone, Debug)]
pub struct RetentionRule {
    selector: String,
    matchers: Vec<Matcher>,
    priority: i64,
    period_ns: i64,
}

/// Why rules are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionRuleError {
    /// The period is not positive.
    #[error("the period of '{selector}' is 0: a rule says how long something is kept, such as 24h")]
    NoPeriod {
        /// The selector of the rule.
        selector: String,
    },
    /// The selector matches everything.
    #[error(
        "'{selector}' matches everything: require a label with a value, and set retention_period for the rest"
    )]
    Everything {
        /// The selector of the rule.
        selector: String,
    },
    /// There are more than [`RETENTION_RULES_MAX`] rules.
    #[error("there are {rules} rules, more than the {RETENTION_RULES_MAX} that are allowed; join some")]
    TooMany {
        /// The number of rules.
        rules: usize,
    },
}

impl RetentionRule {
    /// A rule; `matchers` are those of the text `selector`.
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

    /// The text of the selector.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// The matchers of the selector.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// Precedence: of several rules that match a series, the one with the highest priority decides.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// The retention in nanoseconds.
    pub fn period_ns(&self) -> i64 {
        self.period_ns
    }
}

/// Ignores the matchers, which are derived from the selector.
impl PartialEq for RetentionRule {
    fn eq(&self, other: &Self) -> bool {
        let all = |rule: &Self| (rule.priority, rule.period_ns);
        (&self.selector, all(self)) == (&other.selector, all(other))
    }
}

/// Rules in order of precedence. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionRules(Arc<[RetentionRule]>);

impl RetentionRules {
    /// Sorts rules by precedence: the highest priority first; of equal ones the shortest period first,
    /// as in Loki.
    pub fn new(mut rules: Vec<RetentionRule>) -> Result<Self, RetentionRuleError> {
        if rules.len() > RETENTION_RULES_MAX {
            return Err(RetentionRuleError::TooMany { rules: rules.len() });
        }
        rules.sort_by_key(|rule| (std::cmp::Reverse(rule.priority), rule.period_ns));
        Ok(Self(rules.into()))
    }

    /// The rule that determines the retention of a series.
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
    fn the_highest_priority_decides_then_the_shortest_period() {
        let all = [rule("a.*", 1, 9), rule("ab", 1, 5), rule("abc", 2, 99), rule(".+", -1, 1)];
        let rules = RetentionRules::new(all.into_iter().map(Result::unwrap).collect()).unwrap();
        for (app, period) in [("ax", Some(9)), ("ab", Some(5)), ("abc", Some(99)), ("z", Some(1)), ("", None)]
        {
            let labels = Labels::from_pairs([("app", app)].into_iter().filter(|(_, app)| !app.is_empty()));
            assert_eq!(rules.of(&labels).map(RetentionRule::period_ns), period, "{app}");
        }
    }

    #[test]
    fn rules_that_match_everything_or_have_no_period_are_refused() {
        assert!(matches!(rule("a", 0, 0), Err(RetentionRuleError::NoPeriod { .. })));
        assert!(matches!(rule(".*", 0, 1), Err(RetentionRuleError::Everything { .. })));
        let many = vec![rule("a", 0, 1).unwrap(); RETENTION_RULES_MAX + 1];
        assert_eq!(RetentionRules::new(many), Err(RetentionRuleError::TooMany { rules: 1_001 }));
    }
}
