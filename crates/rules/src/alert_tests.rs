//! The table of transitions, with times in seconds.

use super::*;

fn found(names: &str) -> Vec<Found> {
    let one = |name: char| Found {
        labels: Arc::new(Labels::from_pairs([("alertname", "a"), ("name", &*name.to_string())])),
        annotations: Arc::default(),
        value: 1.0,
    };
    names.chars().map(one).collect()
}

fn terms(hold: u64, keep_firing: u64) -> Terms {
    Terms { hold: Duration::from_secs(hold), keep_firing: Duration::from_secs(keep_firing), limit: 0 }
}

/// The states after each step: `x` is inactive, `p` pending, `f` firing.
fn states(alerts: &Alerts) -> String {
    let one = |alert: &Alert| {
        let name = alert.labels.get("name").unwrap().to_owned();
        let state = match alert.state {
            State::Inactive => "x",
            State::Pending => "p",
            State::Firing => "f",
        };
        format!("{name}{state}")
    };
    let mut all: Vec<String> = alerts.iter().map(one).collect();
    all.sort();
    all.join(" ")
}

fn course(terms: Terms, steps: &[(i64, &str, &str)]) {
    let mut alerts = Alerts::default();
    for (at, present, expected) in steps {
        alerts.update(terms, found(present), Instant::of_seconds(*at)).unwrap();
        assert_eq!(states(&alerts), *expected, "at {at}");
    }
}

#[test]
fn alerts_without_for_fire_at_once_and_end_at_once() {
    course(terms(0, 0), &[(0, "ab", "af bf"), (60, "a", "af bx"), (120, "b", "ax bf")]);
}

#[test]
fn alerts_wait_for_their_duration_and_start_anew_after_a_gap() {
    course(
        terms(120, 0),
        &[(0, "a", "ap"), (60, "a", "ap"), (120, "a", "af"), (180, "", "ax"), (240, "a", "ap")],
    );
    course(
        terms(120, 0),
        &[(0, "a", "ap"), (60, "", ""), (120, "a", "ap"), (180, "a", "ap"), (240, "a", "af")],
    );
}

#[test]
fn an_ended_alert_is_kept_for_a_quarter_of_an_hour() {
    course(terms(0, 0), &[(0, "a", "af"), (60, "", "ax"), (960, "", "ax"), (961, "", "")]);
}

#[test]
fn keep_firing_for_counts_from_the_end_of_the_series() {
    let steps = [
        (0, "a", "ap"),
        (60, "a", "af"),
        (120, "", "af"),
        (180, "", "af"),
        (200, "a", "af"),
        (260, "", "af"),
        (379, "", "af"),
        (380, "", "ax"),
    ];
    course(terms(60, 120), &steps);
    course(terms(60, 120), &[(0, "a", "ap"), (10, "", "")]);
}

#[test]
fn an_ended_alert_that_returns_is_a_new_one() {
    let mut alerts = Alerts::default();
    for (at, present) in [(0, "a"), (60, ""), (120, "a")] {
        alerts.update(terms(0, 0), found(present), Instant::of_seconds(at)).unwrap();
    }
    let alert = alerts.iter().next().unwrap();
    assert_eq!((alert.active_at, alert.fired_at), (Instant::of_seconds(120), Some(Instant::of_seconds(120))));
    assert_eq!((alert.resolved_at, alert.last_sent_at), (None, None));
}

#[test]
fn a_firing_alert_is_pending_again_if_its_hold_is_longer_now() {
    let mut alerts = Alerts::default();
    alerts.update(terms(60, 0), found("a"), Instant::of_seconds(0)).unwrap();
    alerts.update(terms(60, 0), found("a"), Instant::of_seconds(60)).unwrap();
    let resend = Resend { delay: Duration::from_secs(60), interval: Duration::from_secs(60) };
    assert_eq!(alerts.to_send(resend, Instant::of_seconds(60)).len(), 1);
    alerts.update(terms(180, 0), found("a"), Instant::of_seconds(120)).unwrap();
    let alert = alerts.iter().next().unwrap();
    assert_eq!((alert.state, alert.fired_at, alert.last_sent_at), (State::Pending, None, None));
    assert!(alerts.to_send(resend, Instant::of_seconds(120)).is_empty());
    alerts.update(terms(180, 0), found("a"), Instant::of_seconds(180)).unwrap();
    assert_eq!(alerts.iter().next().unwrap().fired_at, Some(Instant::of_seconds(180)));
}

#[test]
fn more_alerts_than_the_limit_change_nothing() {
    let limited = Terms { limit: 2, ..terms(0, 600) };
    let mut alerts = Alerts::default();
    alerts.update(limited, found("ab"), Instant::of_seconds(0)).unwrap();
    let before = states(&alerts);
    let error = alerts.update(limited, found("abc"), Instant::of_seconds(60)).unwrap_err();
    assert_eq!(error.to_string(), "exceeded limit of 2 with 3 alerts");
    assert_eq!(states(&alerts), before);
    let error = alerts.update(limited, found("cd"), Instant::of_seconds(60)).unwrap_err();
    assert_eq!(error.to_string(), "exceeded limit of 2 with 4 alerts", "two of them are kept firing");
    assert_eq!(states(&alerts), before);
}

#[test]
fn alerts_are_sent_when_they_change_and_after_the_resend_delay() {
    let resend = Resend { delay: Duration::from_secs(60), interval: Duration::from_secs(20) };
    let mut alerts = Alerts::default();
    let mut sent = |at: i64, present: &str| {
        alerts.update(terms(20, 0), found(present), Instant::of_seconds(at)).unwrap();
        let sent = alerts.to_send(resend, Instant::of_seconds(at));
        sent.iter().map(|alert| alert.state.name()).collect::<Vec<_>>().join(",")
    };
    let course = [
        (0, "a", ""),
        (20, "a", "firing"),
        (40, "a", ""),
        (80, "a", ""),
        (81, "a", "firing"),
        (90, "", "inactive"),
        (100, "", ""),
        (151, "", "inactive"),
    ];
    for (at, present, expected) in course {
        assert_eq!(sent(at, present), expected, "at {at}");
    }
    let alert = alerts.iter().next().unwrap();
    assert_eq!(alert.valid_until, Some(Instant::of_seconds(151 + 240)));
}

/// An alert that began anew before its end was sent: receivers would never have known the end.
#[test]
fn an_end_that_was_not_sent_is_sent_after_a_new_beginning() {
    let resend = Resend { delay: Duration::from_secs(60), interval: Duration::from_secs(20) };
    let mut alerts = Alerts::default();
    for (at, present) in [(0, "a"), (20, "a"), (40, ""), (60, "a"), (80, "")] {
        alerts.update(terms(20, 0), found(present), Instant::of_seconds(at)).unwrap();
    }
    let sent = alerts.to_send(resend, Instant::of_seconds(80));
    let ends: Vec<_> = sent.iter().map(|alert| (alert.fired_at, alert.resolved_at)).collect();
    assert_eq!(ends, [(Some(Instant::of_seconds(20)), Some(Instant::of_seconds(40)))]);
    assert!(alerts.to_send(resend, Instant::of_seconds(81)).is_empty() && alerts.bytes() == 0);
}
