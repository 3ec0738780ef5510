//! Parses and prints retention rules for single streams or series.
//!
//! A rule is a table with `selector` (LogQL or PromQL), `period` and, if several may select the same
//! stream, `priority`: names, order and defaults of Loki's `retention_stream`. Printed rules can be
//! parsed again.

use std::time::Duration;

use sandur_base::units::{format_duration, parse_duration};
use sandur_logql::parse_selecting;
use sandur_model::{Matcher, RetentionRule, RetentionRules, Signal};
use serde::{Deserialize, Serialize};

/// A rule as it is written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    selector: String,
    #[serde(default)]
    priority: i64,
    period: String,
}

/// Parses a list of rules. The error names the rule and says what is accepted.
pub fn read(text: &str, signal: Signal) -> Result<RetentionRules, String> {
    if text.trim().is_empty() {
        return Ok(RetentionRules::default());
    }
    let rules: Vec<Written> = serde_json::from_str(text)
        .map_err(|error| format!("{error}; expected a list of rules with selector, priority and period"))?;
    let rules = rules.into_iter().map(|rule| rule_of(rule, signal)).collect::<Result<_, _>>()?;
    RetentionRules::new(rules).map_err(|error| error.to_string())
}

fn rule_of(rule: Written, signal: Signal) -> Result<RetentionRule, String> {
    let Written { selector, priority, period } = rule;
    let wrong = |what: String| format!("'{selector}': {what}");
    let matchers = matchers_of(&selector, signal).map_err(wrong)?;
    let period_ns = parse_duration(&period).map_err(|error| wrong(format!("period: {error}")))?.as_nanos();
    let period_ns = i64::try_from(period_ns).map_err(|_| wrong(format!("period: '{period}' is too long")))?;
    RetentionRule::new(selector, matchers, priority, period_ns).map_err(|error| error.to_string())
}

fn matchers_of(selector: &str, signal: Signal) -> Result<Vec<Matcher>, String> {
    match signal {
        Signal::Logs => parse_selecting(selector).map_err(|error| error.to_string()),
        Signal::Metrics => sandur_promql::parse_selector(selector).map_err(|error| error.to_string()),
    }
}

/// Prints rules so that [`read`] accepts them.
pub fn print(rules: &RetentionRules) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let written = |rule: &RetentionRule| Written {
        selector: rule.selector().to_owned(),
        priority: rule.priority(),
        period: format_duration(Duration::from_nanos(rule.period_ns().unsigned_abs())),
    };
    let rules: Vec<Written> = rules.iter().map(written).collect();
    serde_json::to_string(&rules).expect("texts and numbers are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_printed_in_the_order_in_which_they_decide() {
        let text = r#"[{"selector":"{app=\"a\"}","period":"30d"},
            {"selector":"{app=~\"a|b\"}","priority":2,"period":"36h"}]"#;
        let rules = read(text, Signal::Logs).unwrap();
        let printed = print(&rules);
        let expected = [
            r#"[{"selector":"{app=~\"a|b\"}","priority":2,"period":"1d12h"}"#,
            r#"{"selector":"{app=\"a\"}","priority":0,"period":"30d"}]"#,
        ];
        assert_eq!(printed, expected.join(","));
        assert_eq!(read(&printed, Signal::Logs).unwrap(), rules);
        assert_eq!(read(" ", Signal::Metrics).unwrap(), RetentionRules::default());
        let named = r#"[{"selector":"up{env=\"dev\"}","period":"7d"}]"#;
        assert_eq!(read(named, Signal::Metrics).unwrap()[0].matchers().len(), 2);
        assert!(read(named, Signal::Logs).is_err());
    }

    #[test]
    fn wrong_rules_are_refused_with_what_is_wrong() {
        let one = |selector: &str, period: &str| {
            let rule = serde_json::json!([{ "selector": selector, "period": period }]);
            [Signal::Logs, Signal::Metrics].map(|signal| read(&rule.to_string(), signal).unwrap_err())
        };
        for (selector, period, what) in [
            (r#"{app="a""#, "1d", "{app="),
            (r#"{app=~"("}"#, "1d", "{app=~"),
            (r#"{app="a"}"#, "0s", "is 0"),
            (r#"{app="a"}"#, "soon", "not a duration"),
            (r#"{app="a"}"#, "400y", "too long"),
            (r#"{app=~".*"}"#, "1d", "{app=~"),
            ("{}", "1d", "{}"),
            (r#"rate({app="a"}[5m])"#, "1d", "rate"),
            (r#"{app="a"} |= "x""#, "1d", "{app="),
            (r#"{app="a"} offset 5m"#, "1d", "{app="),
        ] {
            for message in one(selector, period) {
                assert!(message.contains(what), "{selector} {period}: {message}");
            }
        }
        let unknown = read(r#"[{"selector":"{a=\"b\"}","periode":"1d"}]"#, Signal::Logs).unwrap_err();
        assert!(
            unknown.contains("periode") && unknown.contains("selector, priority and period"),
            "{unknown}"
        );
    }
}
