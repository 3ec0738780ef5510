//! A notification as an e-mail in plain text.
//!
//! **Invariants.** The subject is one line without control characters, whatever the labels are, so that no
//! label becomes a header. Subject and text are bounded; the text says what it leaves out.

use std::fmt::Write;

use super::body::time;
use super::notification::{Notification, Told};

/// The name of the receiver.
pub const NAME: &str = "email";
/// The longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 200;
/// The most alerts of a text.
const ALERTS_MAX: usize = 100;
/// The longest name, value or link in a text, in characters.
const VALUE_CHARS_MAX: usize = 1_000;
/// The longest text without its last lines.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// An e-mail about a group of alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The subject.
    pub subject: String,
    /// The text, whose lines end with line feeds.
    pub text: String,
    /// Equal for all attempts to send this notification, from any process.
    pub id: String,
}

impl Mail {
    /// The e-mail about a notification.
    pub fn new(notification: &Notification) -> Self {
        let (subject, text) = (subject(notification), text(notification));
        Self { subject, text, id: notification.id.clone() }
    }
}

/// As Alertmanager's: the state, the values of the labels of the group, and those that all alerts have in
/// common.
fn subject(notification: &Notification) -> String {
    let firing = notification.about.iter().filter(|alert| alert.is_firing()).count();
    let mut subject = match firing {
        0 => "[RESOLVED]".to_owned(),
        firing => format!("[FIRING:{firing}]"),
    };
    for (_, value) in notification.labels.iter() {
        subject.push(' ');
        subject.push_str(&one_line(value));
    }
    let common = notification.common_labels();
    let more = common.iter().filter(|(name, _)| notification.labels.get(name).is_none());
    let more: Vec<String> = more.map(|(_, value)| one_line(value)).collect();
    if !more.is_empty() {
        subject.push_str(&format!(" ({})", more.join(" ")));
    }
    cut(&subject, SUBJECT_CHARS_MAX)
}

fn text(notification: &Notification) -> String {
    let mut text = String::new();
    let mut listed = 0;
    for (title, is_firing) in [("Firing", true), ("Resolved", false)] {
        let mut alerts = notification.alerts.iter().filter(|alert| alert.is_firing() == is_firing).peekable();
        if alerts.peek().is_none() {
            continue;
        }
        line(&mut text, 0, title);
        for alert in alerts {
            if listed == ALERTS_MAX || text.len() > TEXT_BYTES_MAX {
                break;
            }
            listed += 1;
            push_alert(&mut text, alert);
        }
    }
    let left_out = notification.about.len() - listed;
    if left_out > 0 {
        line(&mut text, 0, &format!("{left_out} more alerts are not listed."));
    }
    text
}

fn push_alert(text: &mut String, alert: &Told) {
    let labels: Vec<String> =
        alert.labels.iter().map(|(name, value)| format!("{}={}", shown(name), shown(value))).collect();
    line(text, 1, &labels.join(" "));
    for (name, value) in alert.annotations.iter().filter(|(_, value)| !value.is_empty()) {
        line(text, 2, &format!("{}: {}", shown(name), cut(value, VALUE_CHARS_MAX)));
    }
    line(text, 2, &format!("since {}", time(alert.starts_at)));
    if let Some(ends_at) = alert.ends_at {
        line(text, 2, &format!("until {}", time(ends_at)));
    }
    line(text, 2, &shown(&alert.link));
    text.push('\n');
}

/// Appends a text with this indentation. Further lines of the text are indented, too.
fn line(out: &mut String, depth: usize, text: &str) {
    for part in text.split('\n') {
        let part: String = part.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Writing to a text does not fail.
        let _ = writeln!(out, "{:width$}{}", "", part.trim_end(), width = 2 * depth);
    }
}

fn shown(text: &str) -> String {
    one_line(&cut(text, VALUE_CHARS_MAX))
}

fn one_line(text: &str) -> String {
    // The separators of lines and paragraphs, and characters that change the direction of a text.
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_bad(c) { ' ' } else { c }).collect()
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sandur_model::{Labels, TenantId};

    use super::*;
    use crate::data::Instant;

    fn told(instance: &str, summary: &str, is_firing: bool) -> Arc<Told> {
        let labels = Labels::from_pairs([("alertname", "Down"), ("instance", instance), ("zone", "z")]);
        let at = |second: i64| Instant::of_seconds(1_700_000_000 + second);
        Arc::new(Told {
            id: labels.stream_id(),
            of_rule: labels.stream_id(),
            labels,
            annotations: Arc::new(vec![("summary".to_owned(), summary.to_owned())]),
            link: "http://s/graph".into(),
            starts_at: at(0),
            ends_at: (!is_firing).then(|| at(60)),
        })
    }

    fn mail(alerts: Vec<Arc<Told>>) -> Mail {
        let labels = Labels::from_pairs([("alertname", "Down")]);
        let of = (TenantId::default_tenant(), "key".into(), labels);
        Mail::new(&Notification::new(of, alerts, "id".to_owned()))
    }

    #[test]
    fn an_email_lists_what_fires_and_what_ended() {
        let mail = mail(vec![told("b", "was\nhot", false), told("a", "is hot", true)]);
        assert_eq!(mail.subject, "[FIRING:1] Down (z)");
        let expected = "Firing\n  alertname=Down instance=a zone=z\n    summary: is hot\n    \
                        since 2023-11-14T22:13:20Z\n    http://s/graph\n\nResolved\n  \
                        alertname=Down instance=b zone=z\n    summary: was\n    hot\n    \
                        since 2023-11-14T22:13:20Z\n    until 2023-11-14T22:14:20Z\n    http://s/graph\n\n";
        assert_eq!(mail.text, expected);
    }

    #[test]
    fn labels_do_not_become_headers_or_lines() {
        let hostile = "x\r\nBcc: all@example.org\r\n\r\n.\r\nQUIT\0\u{2028}\u{202E}y";
        let labels = Labels::from_pairs([("alertname", hostile)]);
        let alert = Arc::new(Told { labels: labels.clone(), ..Told::clone(&told("a", hostile, true)) });
        let of = (TenantId::default_tenant(), "key".into(), labels);
        let mail = Mail::new(&Notification::new(of, vec![alert], "id".to_owned()));
        assert_eq!(mail.subject, "[FIRING:1] x  Bcc: all@example.org    .  QUIT   y");
        assert!(!mail.text.contains(['\r', '\0']) && !mail.text.lines().any(|line| line.starts_with("Bcc")));
    }

    #[test]
    fn texts_are_bounded() {
        let long = "é".repeat(100_000);
        let alerts = (0..900).map(|n| told(&format!("i{n:03}"), &long, true)).collect();
        let mail = mail(alerts);
        assert!(mail.text.len() < 300_000 && mail.text.contains("more alerts are not listed."));
        let mail = self::mail(vec![told(&long, &long, true)]);
        assert!(mail.subject.chars().count() <= SUBJECT_CHARS_MAX + 1, "{}", mail.subject);
        assert!(mail.text.len() < 10_000);
    }
}
