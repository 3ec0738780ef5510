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
}
