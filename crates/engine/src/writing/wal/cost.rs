//! The cost of the WAL's requests and what latency they buy, as text for users.

use std::time::Duration;

use crate::options::EngineOptions;

/// 30 days.
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// Says what the budget of WAL segments costs in dollars per month, and what the WAL costs now.
pub(super) fn sentence(options: &EngineOptions, dollars_per_million: f64, dollars_per_month: f64) -> String {
    let per_month = |per_second: f64| per_second * MONTH_SECONDS * dollars_per_million / 1e6;
    let (rate, burst, linger) =
        (options.wal_requests_per_second, options.wal_requests_burst, options.wal_linger);
    format!(
        "The WAL writes a segment at once when it is idle. Its budget of {rate} a second \
         (wal.requests_per_second, up to {burst} saved up) costs ${:.2} a month when all of it is used. \
         Beyond the budget a push waits for others, up to {linger:?} (wal.group_age): at most ${:.2} a \
         month, and more if segments fill up earlier. At the rate of the last hour the WAL costs about \
         ${dollars_per_month:.2} a month.\n",
        per_month(rate),
        per_month(rate.max(per_second(linger))),
    )
}

fn per_second(linger: Duration) -> f64 {
    1.0 / linger.as_secs_f64().max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_and_the_longest_wait_have_a_price() {
        let options = EngineOptions { wal_requests_per_second: 1.0, ..EngineOptions::default() };
        let text = sentence(&options, 5.0, 3.456);
        assert!(text.contains("budget of 1 a second") && text.contains("costs $12.96 a month"), "{text}");
        assert!(text.contains("at most $25.92 a month") && text.contains("about $3.46 a month"), "{text}");
    }
}
