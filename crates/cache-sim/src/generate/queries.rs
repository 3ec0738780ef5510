//! Queries of dashboards, users and audits.

use std::ops::Range;

use super::workload::{HOUR_S, Workload};
use crate::draws::{Draws, Zipf, log_uniform};

/// Smallest age of requested data in hours.
const AGE_MIN_HOURS: f64 = 0.05;

/// Streams and a time range in seconds; `to_s` is exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) streams: Range<u32>,
    pub(super) from_s: i64,
    pub(super) to_s: i64,
}

/// Generates queries.
#[derive(Debug)]
pub(super) struct Queries {
    workload: Workload,
    popularity: Zipf,
    /// First stream of each dashboard.
    dashboards: Vec<u32>,
}

impl Queries {
    pub(super) fn new(workload: &Workload, draws: &mut Draws) -> Self {
        let popularity = Zipf::new(workload.streams as usize, workload.stream_skew);
        let dashboards = (0..workload.dashboards).map(|_| popularity.draw(draws) as u32).collect();
        Self { workload: workload.clone(), popularity, dashboards }
    }

    /// The query of a dashboard at `now_s`.
    pub(super) fn dashboard(&self, dashboard: u32, now_s: i64) -> Query {
        let streams = self.streams(self.dashboards[dashboard as usize], self.workload.dashboard_streams);
        let from_s = now_s - (self.workload.dashboard_hours * HOUR_S as f64) as i64;
        Query { streams, from_s, to_s: now_s }
    }

    /// A query of a user at `now_s`.
    pub(super) fn of_user(&self, now_s: i64, draws: &mut Draws) -> Query {
        let workload = &self.workload;
        let first = self.popularity.draw(draws) as u32;
        let count = log_uniform(draws, 1.0, f64::from(workload.query_streams.max(1)) + 1.0) as u32;
        let age_hours = self.age_hours(draws);
        let (shortest, longest) = workload.range_hours;
        let range_hours = log_uniform(draws, shortest, longest.max(shortest));
        let to_s = now_s - (age_hours * HOUR_S as f64) as i64;
        let from_s = to_s - (range_hours * HOUR_S as f64).max(1.0) as i64;
        Query { streams: self.streams(first, count), from_s, to_s }
    }

    /// A scan over weeks that begins at `now_s`.
    pub(super) fn audit(&self, now_s: i64, draws: &mut Draws) -> Query {
        let first = draws.below(u64::from(self.workload.streams.max(1))) as u32;
        let from_s = now_s - i64::from(self.workload.scan_hours) * HOUR_S;
        Query { streams: self.streams(first, self.workload.scan_streams), from_s, to_s: now_s }
    }

    fn age_hours(&self, draws: &mut Draws) -> f64 {
        let mut wanted = draws.unit() * self.workload.ages.iter().map(|(share, _)| share).sum::<f64>();
        let mut younger = AGE_MIN_HOURS;
        for (share, hours) in &self.workload.ages {
            if wanted < *share {
                return log_uniform(draws, younger, hours.max(younger));
            }
            wanted -= share;
            younger = hours.max(AGE_MIN_HOURS);
        }
        younger
    }

    /// `count` streams from `first` on, of one tenant, as a selector of labels finds them.
    fn streams(&self, first: u32, count: u32) -> Range<u32> {
        let per_tenant = (self.workload.streams / self.workload.tenants.max(1)).max(1);
        let tenant_end = ((first / per_tenant + 1) * per_tenant).min(self.workload.streams);
        // If the tenant has too few streams after `first`, the range begins earlier.
        let count = count.clamp(1, per_tenant);
        let from = first.min(tenant_end.saturating_sub(count));
        from..(from + count).min(self.workload.streams)
    }
}
