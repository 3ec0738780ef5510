//! The parsed contents of rule files: groups, and recording and alerting rules.
//!
//! **Invariants.** Names, labels, templates and expressions were checked when the file was read. The labels
//! of a rule include those of its group.

use std::sync::Arc;
use std::time::Duration;

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
}
