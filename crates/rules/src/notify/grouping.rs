//! Which alerts are told together, and when: Alertmanager's `group_by`, `group_wait`, `group_interval` and
//! `repeat_interval`.

use std::time::Duration;

use sandur_model::Labels;

/// Options of notifications by webhook and e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The labels whose values make a group; `None`: all labels.
    pub by: Option<Vec<String>>,
    /// How long a new group waits for more alerts.
    pub wait: Duration,
    /// The time between two notifications about a group that changed.
    pub interval: Duration,
    /// The time after which a group that did not change is told again.
    pub repeat: Duration,
}

impl Default for Grouping {
    /// The defaults of Alertmanager.
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            by: Some(vec!["alertname".to_owned()]),
            wait: Duration::from_secs(30),
            interval: minutes(5),
            repeat: minutes(240),
        }
    }
}

impl Grouping {
    /// The labels that an option names; `None` for `...`, which means all.
    pub fn labels(names: &[String]) -> Option<Vec<String>> {
        let all = names.iter().any(|name| name == "...");
        (!all).then(|| names.to_vec())
    }

    /// The labels of the group of an alert.
    pub fn labels_of(&self, alert: &Labels) -> Labels {
        let is_of_group =
            |name: &str| self.by.as_ref().is_none_or(|names| names.iter().any(|own| own == name));
        Labels::from_pairs(alert.iter().filter(|(name, _)| is_of_group(name)))
    }
}
