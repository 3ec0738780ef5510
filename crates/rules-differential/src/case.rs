//! A case: a group of rules in several versions, the series that it reads, and what happens to it.
//!
//! **Invariants.** A case has everything that an evaluation depends on. Its first event is a restart; the
//! times of its evaluations rise.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Labels or annotations by their names.
pub type Texts = BTreeMap<String, String>;

/// A time in milliseconds and the bits of a float as hexadecimal text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample(pub i64, pub String);

impl Sample {
    /// A sample.
    pub fn new(at_ms: i64, value: f64) -> Self {
        Self(at_ms, bits(value))
    }

    /// The value.
    pub fn value(&self) -> f64 {
        value_of(&self.1)
    }
}

/// The bits of a float as hexadecimal text.
pub fn bits(value: f64) -> String {
    format!("{:x}", value.to_bits())
}

/// The float with these bits.
pub fn value_of(bits: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(bits, 16).unwrap_or_default())
}

/// A series with its samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The labels, with the name of the metric.
    pub labels: Texts,
    /// The samples in the order of their times.
    pub samples: Vec<Sample>,
}

/// A rule as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The metric or the name of the alert.
    pub name: String,
    /// Whether it makes alerts.
    pub is_alerting: bool,
    /// The expression.
    pub expr: String,
    /// `for`, in seconds.
    pub hold_s: i64,
    /// `keep_firing_for`, in seconds.
    pub keep_firing_s: i64,
    /// The labels, in the order of the file.
    pub labels: Vec<(String, String)>,
    /// The annotations.
    pub annotations: Vec<(String, String)>,
}

/// A version of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The time between two evaluations, in seconds.
    pub interval_s: i64,
    /// `limit`; 0: none.
    pub limit: usize,
    /// `query_offset`, in milliseconds.
    pub offset_ms: i64,
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// The group is evaluated.
    Evaluate {
        /// The time.
        at_ms: i64,
    },
    /// The process ends and another one starts, with a version of the group.
    Restart {
        /// The version.
        version: usize,
    },
    /// The file changes.
    Reload {
        /// The version that is used from then on.
        version: usize,
    },
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The series that rules read.
    pub series: Vec<Series>,
    /// The versions of the group.
    pub versions: Vec<Group>,
    /// What happens.
    pub events: Vec<Event>,
    /// The longest outage after which alerts are restored.
    pub outage_ms: i64,
    /// The least time between a restart and the moment when a restored alert fires.
    pub grace_ms: i64,
    /// The least time between two notifications about one alert.
    pub resend_ms: i64,
    /// External labels.
    pub external_labels: Vec<(String, String)>,
    /// The URL of the server.
    pub url: String,
}

impl Case {
    /// The number of evaluations.
    pub fn steps(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Evaluate { .. })).count()
    }

    /// The time and the version of the group of each evaluation.
    pub fn evaluations(&self) -> Vec<(i64, usize)> {
        let mut current = 0;
        let mut found = Vec::new();
        for event in &self.events {
            match event {
                Event::Restart { version } | Event::Reload { version } => current = *version,
                Event::Evaluate { at_ms } => found.push((*at_ms, current)),
            }
        }
        found
    }
}

impl Serialize for Case {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let versions: Vec<String> = self.versions.iter().map(Group::yaml).collect();
        let external: Texts = self.external_labels.iter().cloned().collect();
        let mut fields = serializer.serialize_struct("Case", 8)?;
        fields.serialize_field("series", &self.series)?;
        fields.serialize_field("versions", &versions)?;
        fields.serialize_field("events", &self.events)?;
        fields.serialize_field("outage_ms", &self.outage_ms)?;
        fields.serialize_field("grace_ms", &self.grace_ms)?;
        fields.serialize_field("resend_ms", &self.resend_ms)?;
        fields.serialize_field("external_labels", &external)?;
        fields.serialize_field("url", &self.url)?;
        fields.end()
    }
}

/// A text in double quotes, as YAML and JSON write it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn pairs(indent: &str, key: &str, pairs: &[(String, String)], text: &mut String) {
    if pairs.is_empty() {
        return;
    }
    let list: Vec<String> = pairs.iter().map(|(n, v)| format!("{}: {}", quoted(n), quoted(v))).collect();
    // Writing to a text does not fail.
    let _ = writeln!(text, "{indent}{key}: {{{}}}", list.join(", "));
}

impl Group {
    /// The rule file.
    pub fn yaml(&self) -> String {
        let mut text = format!("groups:\n- name: g\n  interval: {}s\n", self.interval_s);
        if self.limit > 0 {
            let _ = writeln!(text, "  limit: {}", self.limit);
        }
        if self.offset_ms > 0 {
            let _ = writeln!(text, "  query_offset: {}ms", self.offset_ms);
        }
        pairs("  ", "labels", &self.labels, &mut text);
        text.push_str(if self.rules.is_empty() { "  rules: []\n" } else { "  rules:\n" });
        for rule in &self.rules {
            let key = if rule.is_alerting { "alert" } else { "record" };
            let _ = writeln!(text, "  - {key}: {}\n    expr: {}", quoted(&rule.name), quoted(&rule.expr));
            for (key, seconds) in [("for", rule.hold_s), ("keep_firing_for", rule.keep_firing_s)] {
                if seconds > 0 {
                    let _ = writeln!(text, "    {key}: {seconds}s");
                }
            }
            pairs("    ", "labels", &rule.labels, &mut text);
            pairs("    ", "annotations", &rule.annotations, &mut text);
        }
        text
    }
}
