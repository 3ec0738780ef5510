//! Projects the cost of requests to a month, and reports requests and costs.

use std::fmt::Write;
use std::sync::PoisonError;
use std::time::Duration;

use sandur_base::units::{ByteSize, format_duration};

use crate::intent::Class;
use crate::meter::{StoreCounters, Usage};
use crate::operation::Operation;
use crate::request::Requester;

impl Requester {
    /// Dollars per month at the current rate.
    pub(crate) fn dollars_per_month(&self) -> f64 {
        let now = self.env.monotonic();
        let mut trend = self.meter.gauges.trend.lock().unwrap_or_else(PoisonError::into_inner);
        trend.per_month(now, self.meter.dollars())
    }

    /// Dollars per month of the requests of one class, at the current rate.
    pub(crate) fn dollars_per_month_of(&self, class: Class) -> f64 {
        let (now, dollars) = (self.env.monotonic(), self.meter.dollars_of(class));
        let mut trends = self.meter.gauges.trends.lock().unwrap_or_else(PoisonError::into_inner);
        trends[class.index()].per_month(now, dollars)
    }

    /// A report of all requests since the store was opened and their cost, for operators.
    pub(crate) fn cost_report(&self) -> String {
        let open_for = self.env.monotonic().saturating_sub(self.opened_at);
        let usage = self.meter.snapshot();
        let mut text = sentence(&self.meter, &usage, &self.url, open_for, self.dollars_per_month());
        text.push_str("\nclass     operation    requests     retries      errors   cancelled       bytes\n");
        for used in usage {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:<9} {:<9} {:>11} {:>11} {:>11} {:>11} {:>11}",
                used.class.name(),
                used.operation.name(),
                used.requests,
                used.retries,
                used.errors,
                used.cancelled,
                ByteSize(used.bytes).to_string()
            );
        }
        text
    }
}

fn sentence(meter: &StoreCounters, usage: &[Usage], url: &str, open_for: Duration, month: f64) -> String {
    let requests: u64 = usage.iter().map(|u| u.requests).sum();
    let retries: u64 = usage.iter().map(|u| u.retries).sum();
    let is_read = |u: &&Usage| u.operation == Operation::Get;
    let read: u64 = usage.iter().filter(is_read).map(|u| u.bytes).sum();
    let written: u64 = usage.iter().filter(|u| !is_read(u)).map(|u| u.bytes).sum();
    let (prices, ranges, (won, not_won)) = (meter.prices(), meter.ranges(), meter.hedges());
    let whole_seconds = Duration::from_secs(open_for.as_secs());
    format!(
        "In {} {url} got {requests} requests ({retries} retries, {} second requests for slow reads, of \
         which {won} won); {} were read and {} written. {} requested ranges took {} reads, with {} of gaps. \
         These requests cost ${:.4}; at the rate of the last hour a month costs about ${month:.2}, by ${} \
         per million writes, ${} per million reads, ${} per million deletes and ${} per GiB read.\n",
        format_duration(whole_seconds),
        won + not_won,
        ByteSize(read),
        ByteSize(written),
        ranges.wanted,
        ranges.read,
        ByteSize(ranges.extra_bytes),
        meter.dollars(),
        prices.writes_per_million,
        prices.reads_per_million,
        prices.deletes_per_million,
        prices.egress_per_gib,
    )
}
