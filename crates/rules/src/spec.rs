//! The parsed contents of rule files: groups, and recording and alerting rules.
//!
//! **Invariants.** Names, labels, templates and expressions were checked when the file was read. The labels
//! of a rule include those of its group.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

/// The language of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// PromQL, over samples.
    #[default]
    Promql,
    /// LogQL, over lines.
    Logql,
    /// Targets of Graphite.
    Graphite,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::Promql, Self::Logql, Self::Graphite];

    /// The language with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The name in files and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Promql => "promql",
            Self::Logql => "logql",
            Self::Graphite => "graphite",
        }
    }
}

/// An expression with what its evaluation needs besides a time.
#[derive(Clone, Copy, Debug)]
pub struct Expression<'a> {
    /// The language.
    pub language: Language,
    /// The text.
    pub text: &'a str,
    /// How far a target of Graphite looks back for values.
    pub window: Duration,
}

impl<'a> Expression<'a> {
    /// An expression with the default window.
    pub fn new(language: Language, text: &'a str) -> Self {
        Self { language, text, window: WINDOW }
    }
}

/// The default of [`RuleSpec::window`].
pub const WINDOW: Duration = Duration::from_secs(300);

/// Names with values, in the order of the file.
pub type Pairs = Vec<(String, String)>;

/// What a rule does with the series of its expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// Stores them under another name.
    Recording,
    /// Each series is an alert.
    Alerting {
        /// How long a series must be present until its alert fires.
        hold: Duration,
        /// How long an alert fires after its series ended.
        keep_firing: Duration,
        /// Templates of the annotations.
        annotations: Pairs,
    },
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// The metric that a recording rule writes, or the name of the alert.
    pub name: String,
    /// What the rule does.
    pub kind: RuleKind,
    /// The language of the expression.
    pub language: Language,
    /// The expression.
    pub expr: String,
    /// How far an expression of Graphite looks back for values.
    pub window: Duration,
    /// Labels that are added, those of the group included. In alerting rules the values are templates.
    pub labels: Pairs,
    /// The line of the rule in its file.
    pub line: usize,
}

/// What a rule and the one that continues it have in common, as in Prometheus: whether they make alerts, the
/// name, and the labels in order.
pub(crate) type Identity = (bool, String, Pairs);

impl RuleSpec {
    /// Whether the rule makes alerts.
    pub fn is_alerting(&self) -> bool {
        matches!(self.kind, RuleKind::Alerting { .. })
    }

    /// The expression with its language.
    pub fn expression(&self) -> Expression<'_> {
        Expression { language: self.language, text: &self.expr, window: self.window }
    }

    /// What it has in common with a rule that continues it.
    pub(crate) fn identity(&self) -> Identity {
        // The order of labels in the file says nothing.
        let mut labels = self.labels.clone();
        labels.sort();
        (self.is_alerting(), self.name.clone(), labels)
    }

    /// Whether the rules are the same. Their lines in files are not compared.
    fn equals(&self, other: &Self) -> bool {
        let other = Self { line: self.line, ..other.clone() };
        *self == other
    }

    fn hash(&self, hash: &mut Fields) {
        let Self { name, kind, language, expr, window, labels, line: _ } = self;
        hash.text(name);
        match kind {
            RuleKind::Recording => hash.number(0),
            RuleKind::Alerting { hold, keep_firing, annotations } => {
                hash.number(1);
                hash.duration(*hold);
                hash.duration(*keep_firing);
                hash.pairs(annotations);
            }
        }
        hash.text(language.name());
        hash.text(expr);
        hash.duration(*window);
        hash.pairs(labels);
    }
}

/// A group: rules that are evaluated one after the other at the same times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The name, unique in its file.
    pub name: String,
    /// The file.
    pub file: Arc<str>,
    /// The time between two evaluations.
    pub interval: Duration,
    /// The most series of a recording rule, or alerts of an alerting rule; 0: only the limit of the server.
    pub limit: usize,
    /// How long before its time an evaluation looks.
    pub query_offset: Duration,
    /// The rules.
    pub rules: Vec<RuleSpec>,
}

impl GroupSpec {
    /// Whether a running group with this specification needs no change to follow the other.
    pub fn equals(&self, other: &Self) -> bool {
        let rules = || self.rules.iter().zip(&other.rules);
        let options = |group: &Self| (group.interval, group.limit, group.query_offset, group.rules.len());
        self.name == other.name
            && self.file == other.file
            && options(self) == options(other)
            && rules().all(|(rule, other)| rule.equals(other))
    }

    /// A hash of everything that [`GroupSpec::equals`] compares, which processes exchange.
    pub fn fingerprint(&self) -> u128 {
        let Self { name, file, interval, limit, query_offset, rules } = self;
        let mut hash = Fields::default();
        hash.text(name);
        hash.text(file);
        hash.duration(*interval);
        hash.number(*limit as u64);
        hash.duration(*query_offset);
        hash.number(rules.len() as u64);
        rules.iter().for_each(|rule| rule.hash(&mut hash));
        hash.0.digest128()
    }
}

/// A hash of fields that cannot be confused with each other: texts are preceded by their lengths.
#[derive(Default)]
struct Fields(Xxh3);

impl Fields {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(duration.subsec_nanos().into());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn pairs(&mut self, pairs: &Pairs) {
        self.number(pairs.len() as u64);
        for (name, value) in pairs {
            self.text(name);
            self.text(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_same_fingerprint_if_they_are_equal() {
        let rule = RuleSpec {
            name: "Down".to_owned(),
            kind: RuleKind::Alerting {
                hold: Duration::from_secs(60),
                keep_firing: Duration::ZERO,
                annotations: vec![("a".to_owned(), "b".to_owned())],
            },
            language: Language::Promql,
            expr: "up == 0".to_owned(),
            window: WINDOW,
            labels: vec![("l".to_owned(), "x".to_owned())],
            line: 3,
        };
        let group = GroupSpec {
            name: "g".to_owned(),
            file: "f.yml".into(),
            interval: Duration::from_secs(60),
            limit: 0,
            query_offset: Duration::ZERO,
            rules: vec![rule.clone(), rule.clone()],
        };
        let with_rule =
            |rule: RuleSpec| GroupSpec { rules: vec![rule, group.rules[1].clone()], ..group.clone() };
        let alerting = |hold, keep_firing, annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            let kind = RuleKind::Alerting { hold, keep_firing, annotations };
            with_rule(RuleSpec { kind, ..rule.clone() })
        };
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        let others = [
            GroupSpec { name: "h".to_owned(), ..group.clone() },
            GroupSpec { file: "e.yml".into(), ..group.clone() },
            GroupSpec { interval: second, ..group.clone() },
            GroupSpec { limit: 1, ..group.clone() },
            GroupSpec { query_offset: second, ..group.clone() },
            GroupSpec { rules: vec![rule.clone()], ..group.clone() },
            with_rule(RuleSpec { name: "Up".to_owned(), ..rule.clone() }),
            with_rule(RuleSpec { kind: RuleKind::Recording, ..rule.clone() }),
            with_rule(RuleSpec { language: Language::Logql, ..rule.clone() }),
            with_rule(RuleSpec { expr: "up == 1".to_owned(), ..rule.clone() }),
            with_rule(RuleSpec { window: second, ..rule.clone() }),
            with_rule(RuleSpec { labels: Pairs::new(), ..rule.clone() }),
            alerting(second, Duration::ZERO, &[("a", "b")]),
            alerting(minute, second, &[("a", "b")]),
            alerting(minute, Duration::ZERO, &[]),
            alerting(minute, Duration::ZERO, &[("ab", "")]),
        ];
        for (n, other) in others.iter().enumerate() {
            assert!(!group.equals(other) && group.fingerprint() != other.fingerprint(), "{n}");
        }
        let moved = with_rule(RuleSpec { line: 9, ..rule });
        assert!(group.equals(&moved) && group.fingerprint() == moved.fingerprint());
    }
}
