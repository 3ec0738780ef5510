//! Restores when alerts became active, after a restart, from the series `ALERTS_FOR_STATE`, as Prometheus
//! does.
//!
//! An alert that fired before the outage fires again at the next evaluation. Otherwise the time in which no
//! server evaluated the rule does not count towards `for`. An alert that would fire within the grace period
//! after the restart fires at its end, so that there is time to see that the cause is gone; if its `for` is
//! shorter than the grace period, it starts anew.

use std::collections::HashMap;
use std::time::Duration;

use sandur_model::{Labels, STALE_BITS, StreamId};

use crate::alert::Alerts;
use crate::data::{Instant, LastSample, ns_of};

/// The name of the series with the times at which alerts became active.
pub const FOR_STATE: &str = "ALERTS_FOR_STATE";

/// The durations of restoring.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The longest outage after which alerts are restored.
    pub outage: Duration,
    /// The least time between a restart and the moment when a restored alert fires that did not fire before.
    /// Such an alert is not restored if its `for` is shorter.
    pub grace: Duration,
}

/// Restores the alerts that are active now.
pub fn restore(alerts: &mut Alerts, hold: Duration, grace: Duration, stored: &[LastSample], now: Instant) {
    let by_labels: HashMap<StreamId, &LastSample> =
        stored.iter().map(|sample| (id_without_name(&sample.labels), sample)).collect();
    for alert in alerts.active_mut() {
        let Some(sample) = by_labels.get(&alert.labels.stream_id()) else { continue };
        if sample.value.to_bits() != STALE_BITS {
            alert.active_at = active_at(sample, hold, grace, now).unwrap_or(alert.active_at);
        }
    }
}

/// Since when the alert is active; `None` if it starts anew.
fn active_at(sample: &LastSample, hold: Duration, grace: Duration, now: Instant) -> Option<Instant> {
    let down_at = Instant::of_seconds(sample.at_ms.div_euclid(1_000));
    let active_at = Instant::of_seconds(sample.value as i64);
    // Negative if the alert became active after its last sample, which `query_offset` makes earlier.
    let pending_ns = down_at.ns().saturating_sub(active_at.ns());
    let left_ns = ns_of(hold).saturating_sub(pending_ns);
    // What fired before the outage fires again at the next evaluation.
    if left_ns <= 0 {
        Some(active_at)
    } else if hold < grace {
        None
    } else if left_ns < ns_of(grace) {
        Some(now.plus(grace).minus(hold))
    } else {
        Some(active_at.plus(now.since(down_at)))
    }
}

fn id_without_name(labels: &Labels) -> StreamId {
    Labels::from_pairs(labels.iter().filter(|(name, _)| *name != "__name__")).stream_id()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::alert::{Found, State, Terms};

    const HOLD: Duration = Duration::from_secs(30 * 60);
    const GRACE: Duration = Duration::from_secs(10 * 60);

    /// Minutes until a restored alert fires, if it became active at minute 0, the server stopped at
    /// `down_at`, and started `outage` minutes later.
    fn fires_after(down_at: i64, outage: i64) -> i64 {
        let minute = |minute: i64| Instant::of_seconds(minute * 60);
        let pairs = [("alertname", "a")];
        let labels = Arc::new(Labels::from_pairs(pairs));
        let found = || Found { labels: Arc::clone(&labels), annotations: Arc::default(), value: 1.0 };
        let terms = Terms { hold: HOLD, ..Terms::default() };
        let start = down_at + outage;
        let mut alerts = Alerts::default();
        alerts.update(terms, vec![found()], minute(start)).unwrap();
        let labels = Labels::from_pairs(pairs.into_iter().chain([("__name__", FOR_STATE)]));
        let stored = [LastSample { labels, at_ms: down_at * 60_000, value: 0.0 }];
        restore(&mut alerts, HOLD, GRACE, &stored, minute(start));
        (start..)
            .find(|at| {
                alerts.update(terms, vec![found()], minute(*at)).unwrap();
                alerts.iter().next().unwrap().state == State::Firing
            })
            .unwrap()
            - start
    }

    #[test]
    fn the_outage_does_not_count_and_the_grace_period_is_kept() {
        // 30 minutes were over before the outage.
        assert_eq!(fires_after(40, 5), 0);
        // 20 minutes are left.
        assert_eq!(fires_after(10, 5), 20);
        // 5 minutes are left, which is less than the grace period.
        assert_eq!(fires_after(25, 5), 10);
        assert_eq!(fires_after(0, 50), 30);
    }

    #[test]
    fn an_alert_that_ended_before_the_outage_is_not_restored() {
        let labels = Labels::from_pairs([("alertname", "a")]);
        let found = Found { labels: Arc::new(labels.clone()), annotations: Arc::default(), value: 1.0 };
        let mut alerts = Alerts::default();
        let now = Instant::of_seconds(6_000);
        alerts.update(Terms { hold: HOLD, ..Terms::default() }, vec![found], now).unwrap();
        let stored = [LastSample { labels, at_ms: 60_000, value: f64::from_bits(STALE_BITS) }];
        restore(&mut alerts, HOLD, GRACE, &stored, now);
        assert_eq!(alerts.iter().next().unwrap().active_at, now);
    }

    /// Since when an alert is active after a restart, if it was since `active_at` until `down_at`; seconds.
    fn restored(hold_s: u64, (active_at, down_at): (i64, i64), now: i64) -> Option<i64> {
        let labels = Labels::from_pairs([("__name__", FOR_STATE)]);
        let sample = LastSample { labels, at_ms: down_at * 1_000, value: active_at as f64 };
        let hold = Duration::from_secs(hold_s);
        super::active_at(&sample, hold, GRACE, Instant::of_seconds(now)).map(Instant::seconds)
    }

    #[test]
    fn an_alert_with_a_short_hold_is_restored_if_it_fired_before() {
        assert_eq!(restored(0, (100, 160), 200), Some(100));
        assert_eq!(restored(60, (100, 160), 200), Some(100));
        assert_eq!(restored(60, (100, 159), 200), None);
    }

    #[test]
    fn an_alert_whose_last_sample_is_before_its_begin_did_not_fire() {
        // `query_offset` makes samples earlier.
        assert_eq!(restored(0, (100, 90), 200), None);
    }
}
