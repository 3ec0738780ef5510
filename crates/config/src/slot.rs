//! A slot: a typed reference to a setting that an option reads and writes as text.
//!
//! Values of file, environment and flags all arrive as text, so each kind has one parser and one printer.
//! Printed values can be parsed again.

use std::time::Duration;

use sandur_base::units::{ByteSize, format_duration, parse_duration};
use sandur_model::{BlockedQuery, DeletionMode, RetentionRules, Role, Roles, Signal, TranslationStrategy};

use super::retention_rules;
use super::tenant_shares::TenantShares;

/// A borrowed setting of a known kind.
pub enum Slot<'a> {
    /// Any text.
    Text(&'a mut String),
    /// One of these words.
    Choice(&'a mut String, &'static [&'static str]),
    /// What happens to rows of delete requests.
    Deletion(&'a mut DeletionMode),
    /// How OTLP names become names of metrics and labels.
    Translation(&'a mut TranslationStrategy),
    /// Bytes, with units.
    Size(&'a mut u64),
    /// A duration in Prometheus form.
    Duration(&'a mut Duration),
    /// A duration that is stored as nanoseconds.
    DurationNs(&'a mut i64),
    /// A plain number.
    Count(&'a mut u64),
    /// A number per second.
    Rate(&'a mut f64),
    /// Dollars.
    Price(&'a mut f64),
    /// `true` or `false`.
    Switch(&'a mut bool),
    /// Words separated by commas.
    List(&'a mut Vec<String>),
    /// Roles of a node, separated by commas.
    Roles(&'a mut Roles),
    /// Shares of tenants.
    Shares(&'a mut TenantShares),
    /// Policies that block queries; as text a JSON array, in a file an array of tables.
    Policies(&'a mut Vec<BlockedQuery>),
    /// Retention rules; written like policies.
    Retention(&'a mut RetentionRules, Signal),
}

impl Slot<'_> {
    /// The kind of value, for help and documentation.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Choice(..) | Self::Deletion(_) | Self::Translation(_) => "word",
            Self::Size(_) => "size",
            Self::Duration(_) | Self::DurationNs(_) => "duration",
            Self::Count(_) | Self::Rate(_) => "number",
            Self::Price(_) => "dollars",
            Self::Switch(_) => "true|false",
            Self::List(_) | Self::Roles(_) => "list",
            Self::Shares(_) => "shares",
            Self::Policies(_) => "policies",
            Self::Retention(..) => "rules",
        }
    }

    /// Parses the text into the setting. The error says what is accepted.
    pub fn set(self, text: &str) -> Result<(), String> {
        match self {
            Self::Text(slot) => text.clone_into(slot),
            Self::Choice(slot, words) => {
                if !words.contains(&text) {
                    return Err(format!("'{text}' is not one of {}", words.join(", ")));
                }
                text.clone_into(slot);
            }
            Self::Deletion(slot) => {
                *slot = DeletionMode::parse(text).ok_or_else(|| {
                    let words = DeletionMode::ALL.map(DeletionMode::as_str);
                    format!("'{text}' is not one of {}", words.join(", "))
                })?;
            }
            Self::Translation(slot) => {
                *slot = TranslationStrategy::parse(text).ok_or_else(|| {
                    let words = TranslationStrategy::ALL.map(TranslationStrategy::as_str);
                    format!("'{text}' is not one of {}", words.join(", "))
                })?;
            }
            Self::Size(slot) => *slot = text.parse::<ByteSize>().map_err(|e| e.to_string())?.0,
            Self::Duration(slot) => *slot = parse_duration(text).map_err(|e| e.to_string())?,
            Self::DurationNs(slot) => {
                let duration = parse_duration(text).map_err(|e| e.to_string())?;
                *slot = i64::try_from(duration.as_nanos()).map_err(|_| format!("'{text}' is too long"))?;
            }
            Self::Count(slot) => {
                let plain = text.replace('_', "");
                *slot = plain.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
            }
            Self::Rate(slot) => {
                let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
                *slot = rate.ok_or_else(|| format!("'{text}' is not a rate: write it like 0.5"))?;
            }
            Self::Price(slot) => {
                let price = text.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
                *slot = price.ok_or_else(|| format!("'{text}' is not a price: write it like 0.4"))?;
            }
            Self::Switch(slot) => {
                *slot = match text {
                    "true" | "yes" | "on" | "1" => true,
                    "false" | "no" | "off" | "0" => false,
                    _ => return Err(format!("'{text}' is neither true nor false")),
                };
            }
            Self::List(slot) => {
                let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
                *slot = words.map(str::to_owned).collect();
            }
            Self::Roles(slot) => *slot = roles(text)?,
            Self::Shares(slot) => *slot = text.parse()?,
            Self::Policies(slot) => *slot = policies(text)?,
            Self::Retention(slot, signal) => *slot = retention_rules::read(text, signal)?,
        }
        Ok(())
    }

    /// Prints the setting as it would be written.
    pub fn print(&self) -> String {
        match self {
            Self::Text(value) | Self::Choice(value, _) => (*value).clone(),
            Self::Deletion(mode) => mode.as_str().to_owned(),
            Self::Translation(strategy) => strategy.as_str().to_owned(),
            Self::Size(bytes) => ByteSize(**bytes).to_string(),
            Self::Duration(duration) => format_duration(**duration),
            Self::DurationNs(ns) => format_duration(Duration::from_nanos((**ns).max(0) as u64)),
            Self::Count(number) => number.to_string(),
            Self::Rate(rate) => rate.to_string(),
            Self::Price(dollars) => dollars.to_string(),
            Self::Switch(on) => on.to_string(),
            Self::List(words) => words.join(","),
            Self::Roles(roles) => roles.to_string(),
            Self::Shares(shares) => shares.to_string(),
            Self::Retention(rules, _) => retention_rules::print(rules),
            Self::Policies(policies) if policies.is_empty() => String::new(),
            Self::Policies(policies) => {
                serde_json::to_string(policies).expect("texts and numbers are always JSON")
            }
        }
    }
}

fn roles(text: &str) -> Result<Roles, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let roles: Roles = words
        .map(|word| word.parse::<Role>().map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    match roles == Roles::NONE {
        true => Err("a process needs at least one role; leave the option out for all".to_owned()),
        false => Ok(roles),
    }
}

fn policies(text: &str) -> Result<Vec<BlockedQuery>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let policies: Vec<BlockedQuery> = serde_json::from_str(text).map_err(|error| {
        format!("{error}; expected a list of policies with pattern, regex, hash, types and tags")
    })?;
    for policy in policies.iter().filter(|policy| policy.regex) {
        sandur_logql::policy_regex(&policy.pattern)?;
    }
    Ok(policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_printed_and_errors_say_what_is_accepted() {
        let mut size = 0;
        Slot::Size(&mut size).set("1.5GiB").unwrap();
        assert_eq!(size, 3 << 29);
        assert!(Slot::Size(&mut size).set("many").unwrap_err().contains("512MiB"));
        let mut ns = 0;
        Slot::DurationNs(&mut ns).set("1h30m").unwrap();
        assert_eq!((ns, Slot::DurationNs(&mut ns).print().as_str()), (5_400_000_000_000, "1h30m"));
        let mut word = String::new();
        let error = Slot::Choice(&mut word, &["text", "json"]).set("xml").unwrap_err();
        assert_eq!(error, "'xml' is not one of text, json");
        let mut price = 0.0;
        Slot::Price(&mut price).set("0.45").unwrap();
        assert_eq!(Slot::Price(&mut price).print(), "0.45");
        for wrong in ["-1", "NaN", "cheap"] {
            assert!(Slot::Price(&mut price).set(wrong).unwrap_err().contains("not a price"), "{wrong}");
        }
        let mut rate = 0.0;
        Slot::Rate(&mut rate).set("0.5").unwrap();
        assert_eq!(Slot::Rate(&mut rate).print(), "0.5");
        assert!(Slot::Rate(&mut rate).set("inf").unwrap_err().contains("not a rate"));
        let mut on = false;
        Slot::Switch(&mut on).set("on").unwrap();
        assert!(on && Slot::Switch(&mut on).set("maybe").is_err());
        let mut list = Vec::new();
        Slot::List(&mut list).set("a, b,,c").unwrap();
        assert_eq!(Slot::List(&mut list).print(), "a,b,c");
        let mut roles = Roles::ALL;
        Slot::Roles(&mut roles).set("query, compact").unwrap();
        assert_eq!(Slot::Roles(&mut roles).print(), "query,compact");
        assert!(Slot::Roles(&mut roles).set("store").unwrap_err().contains("no role 'store'"));
        assert!(Slot::Roles(&mut roles).set("").unwrap_err().contains("at least one"));
        let mut policies = Vec::new();
        Slot::Policies(&mut policies).set(r#"[{"pattern":".*","regex":true,"types":["metric"]}]"#).unwrap();
        assert_eq!(
            Slot::Policies(&mut policies).print(),
            r#"[{"pattern":".*","regex":true,"types":["metric"]}]"#
        );
        assert!(Slot::Policies(&mut policies).set(r#"[{"pattern":"(","regex":true}]"#).is_err());
        assert!(Slot::Policies(&mut policies).set(r#"[{"patern":"x"}]"#).unwrap_err().contains("patern"));
        Slot::Policies(&mut policies).set("").unwrap();
        assert!(policies.is_empty());
    }
}
