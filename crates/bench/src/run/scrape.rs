//! Sums of a server's `/metrics`.

use anyhow::{Result, bail};

use crate::http::Connection;

/// The metrics of a server at one time.
pub struct Scrape(String);

impl Scrape {
    /// Requests the metrics.
    pub fn take(connection: &mut Connection) -> Result<Self> {
        let answer = connection.get("/metrics")?;
        if answer.status != 200 {
            bail!("/metrics was answered with {}: {}", answer.status, answer.text());
        }
        Ok(Self(String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// Returns the sum of a metric over its labels.
    pub fn sum(&self, name: &str) -> f64 {
        self.sum_with(name, "")
    }

    /// Returns the sum over the series whose labels contain this text, such as `class="wal"`.
    pub fn sum_with(&self, name: &str, label: &str) -> f64 {
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_whole_name = rest.starts_with(['{', ' ']);
            (is_whole_name && rest.contains(label))
                .then(|| rest.rsplit_once(' ')?.1.parse::<f64>().ok())
                .flatten()
        });
        values.sum()
    }

    /// Returns an upper bound of a quantile of what a histogram counted since an earlier time; `None` if it
    /// counted nothing.
    pub fn quantile_since(&self, before: &Self, name: &str, quantile: f64) -> Option<f64> {
        let name = format!("{name}_bucket");
        let grown = |bound: &str| {
            let label = format!("le=\"{bound}\"");
            self.sum_with(&name, &label) - before.sum_with(&name, &label)
        };
        let all = grown("+Inf");
        let bounds = self.0.lines().filter_map(|line| {
            let labels = line.strip_prefix(&name)?.strip_prefix('{')?;
            Some(labels.split_once("le=\"")?.1.split_once('"')?.0)
        });
        let reached = |bound: &&str| grown(bound) >= all * quantile;
        bounds.filter(|_| all > 0.0).find(reached)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_their_labels() {
        let text = "# HELP a_total x\na_total{l=\"a b\"} 2\na_total{l=\"c\"} 3\na_totals 7\nb 0.5\n";
        let scrape = Scrape(text.to_owned());
        assert_eq!((scrape.sum("a_total"), scrape.sum("b"), scrape.sum("c")), (5.0, 0.5, 0.0));
        assert_eq!(scrape.sum_with("a_total", "l=\"c\""), 3.0);
    }

    #[test]
    fn a_quantile_is_of_what_was_counted_since() {
        let page = |a, b, all| {
            Scrape(format!(
                "h_bucket{{le=\"0.1\"}} {a}\nh_bucket{{le=\"1.0\"}} {b}\nh_bucket{{le=\"+Inf\"}} {all}\n"
            ))
        };
        let (before, after) = (page(1, 7, 8), page(91, 107, 108));
        assert_eq!(after.quantile_since(&before, "h", 0.9), Some(0.1));
        assert_eq!(after.quantile_since(&before, "h", 0.99), Some(1.0));
        assert_eq!(before.quantile_since(&before, "h", 0.5), None);
    }
}
