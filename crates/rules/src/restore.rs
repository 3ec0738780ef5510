//! Restores when alerts became active, after a restart, from the series `ALERTS_FOR_STATE`, as Prometheus
//! does.
//!
//! The time in which no server evaluated the rule does not count towards `for`. An alert that would fire
//! within the grace period after the restart fires at its end, so that there is time to see that the cause is
//! gone.

use std::collections::HashMap;
use std::time::Duration;

use sandur_model::{Labels, STALE_BITS, StreamId};

use crate::alert::Alerts;
use crate::data::{Instant, LastSample};

/// The name of the series with the times at which alerts became active.
pub const FOR_STATE: &str = "ALERTS_FOR_STATE";

/// The durations of restoring.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The longest outage after which alerts are restored.
    pub outage: Duration,
    /// The least time between a restart and the moment when a restored alert fires. A rule with a shorter
    /// `for` is not restored.
    pub grace: Duration,
}

/// Restores the alerts that are active now.
pub fn restore(alerts: &mut Alerts, hold: Duration, grace: Duration, stored: &[LastSample], now: Instant) {
    let by_labels: HashMap<StreamId, &LastSample> =
        stored.iter().map(|sample| (id_without_name(&sample.labels), sample)).collect();
    for alert in alerts.active_mut() {
        let Some(sample) = by_labels.get(&alert.labels.stream_id()) else { continue };
        if sample.value.to_bits() != STALE_BITS {
            alert.active_at = active_at(sample, hold, grace, now);
        }
    }
}

fn active_at(sample: &LastSample, hold: Duration, grace: Duration, now: Instant) -> Instant {
    let down_at = Instant::of_seconds(sample.at_ms.div_euclid(1_000));
    let active_at = Instant::of_seconds(sample.value as i64);
    let pending = down_at.since(active_at);
    match hold.checked_sub(pending).filter(|left| !left.is_zero()) {
        // It fired before the outage, and fires again at the next evaluation.
        None => active_at,
        Some(left) if left < grace => now.plus(grace).minus(hold),
        Some(_) => active_at.plus(now.since(down_at)),
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
}
