//! Gauges of a store: the state of its lanes, and the projected cost of a month.
//!
//! They are updated when the meter is read.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::gate::LaneView;
use crate::intent::Class;
use crate::lane::Lane;
use crate::trend::Trend;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    lane: &'static str,
}

type Fraction = Gauge<f64, AtomicU64>;

/// The gauges of one store.
#[derive(Default)]
pub(crate) struct Gauges {
    window: Family<Labels, Gauge>,
    under_way: Family<Labels, Gauge>,
    waiting: Family<Labels, Gauge>,
    spacing: Family<Labels, Fraction>,
    dollars_per_month: Fraction,
    pub trend: Mutex<Trend>,
    /// The trend of each class.
    pub trends: Mutex<[Trend; Class::ALL.len()]>,
}

impl Gauges {
    pub fn register(&self, store: &mut Registry) {
        store.register("lane_window", "Limit on concurrent requests", self.window.clone());
        store.register("lane_under_way", "Requests in progress", self.under_way.clone());
        store.register("lane_waiting", "Requests that wait for a slot", self.waiting.clone());
        let spacing = self.spacing.clone();
        store.register(
            "lane_spacing_seconds",
            "Time between two requests below the smallest window",
            spacing,
        );
        let dollars = self.dollars_per_month.clone();
        store.register("cost_dollars_per_month", "Cost of 30 days at the rate of the last hour", dollars);
    }

    pub fn show_lane(&self, lane: Lane, view: LaneView) {
        let labels = Labels { lane: lane.name() };
        self.window.get_or_create(&labels).set(i64::from(view.window));
        self.under_way.get_or_create(&labels).set(i64::from(view.under_way));
        self.waiting.get_or_create(&labels).set(view.waiting as i64);
        self.spacing.get_or_create(&labels).set(view.spacing.as_secs_f64());
    }

    pub fn show_month(&self, dollars: f64) {
        self.dollars_per_month.set(dollars);
    }
}
