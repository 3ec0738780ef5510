//! Which rules may have written a series.

use std::collections::HashMap;

use sandur_model::Labels;

use crate::restore::FOR_STATE;
use crate::spec::RuleSpec;
use crate::template::is_constant;

const NAME: &str = "__name__";
const ALERTS: &str = "ALERTS";
const ALERT_NAME: &str = "alertname";

/// Rules by what they write.
pub struct Writers<'a>(HashMap<(bool, &'a str), Vec<(usize, &'a RuleSpec)>>);

impl<'a> Writers<'a> {
    /// These rules, with their numbers.
    pub fn of(rules: impl IntoIterator<Item = (usize, &'a RuleSpec)>) -> Self {
        let mut all: HashMap<(bool, &'a str), Vec<(usize, &'a RuleSpec)>> = HashMap::new();
        for (number, rule) in rules {
            all.entry((rule.is_alerting(), &rule.name)).or_default().push((number, rule));
        }
        Self(all)
    }

    /// The numbers of the rules that may have written a series, in order.
    pub fn of_series(&self, labels: &Labels) -> Vec<usize> {
        let name = labels.get(NAME).unwrap_or_default();
        let is_alert = name == ALERTS || name == FOR_STATE;
        let name = if is_alert { labels.get(ALERT_NAME).unwrap_or_default() } else { name };
        let named = self.0.get(&(is_alert, name)).map_or(&[][..], Vec::as_slice);
        named.iter().filter(|(_, rule)| has_labels_of(rule, labels)).map(|(number, _)| *number).collect()
    }
}

/// Whether a series has the labels that the rule adds. What a template becomes is not known.
fn has_labels_of(rule: &RuleSpec, labels: &Labels) -> bool {
    rule.labels.iter().all(|(name, value)| {
        let is_template = rule.is_alerting() && !is_constant(value);
        is_template || name == ALERT_NAME || labels.get(name).unwrap_or_default() == value
    })
}
