//! A report as metrics, with the same names for `/metrics` and for `stats` of the memcached server, and
//! for programs that read them.
//!
//! | name | per scale | meaning |
//! |---|---|---|
//! | `cache_mrc_capacity_bytes` | yes | the capacity in bytes |
//! | `cache_mrc_hit_ratio` | yes | reads answered from the cache per read |
//! | `cache_mrc_byte_hit_ratio` | yes | bytes answered from the cache per byte read |
//! | `cache_mrc_store_requests_ratio` | yes | requests to the store relative to the present capacity |
//! | `cache_mrc_store_bytes_ratio` | yes | bytes from the store relative to the present capacity |
//! | `cache_mrc_self_error` | no | absolute error of the forecast for scale 1 |
//! | `cache_mrc_measured_hit_ratio` | no | the measured hit ratio over the same time |
//! | `cache_mrc_reads_per_second` | no | reads per second over the same time |
//! | `cache_mrc_read_bytes_per_second` | no | bytes read per second over the same time |
//! | `cache_mrc_sampled_reads` | no | number of reads on which the forecast for scale 1 is based |

use super::observed::{PRESENT, SCALES};
use super::report::{Forecast, Report};

/// A gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// The value of its label `scale`, if it has one.
    pub scale: Option<f64>,
    /// Its value.
    pub value: f64,
}

type OfForecast = (&'static str, &'static str, fn(&Forecast) -> f64);
type OfReport = (&'static str, &'static str, fn(&Report) -> f64);

const PER_SCALE: [OfForecast; 5] = [
    ("cache_mrc_capacity_bytes", "Capacity at a scale in bytes.", |f| f.capacity as f64),
    ("cache_mrc_hit_ratio", "Predicted hits per read at a capacity.", |f| f.hit_ratio),
    ("cache_mrc_byte_hit_ratio", "Predicted bytes hit per byte read at a capacity.", |f| f.byte_hit_ratio),
    (
        "cache_mrc_store_requests_ratio",
        "Predicted requests to the store relative to the present capacity.",
        |f| f.store_requests,
    ),
    (
        "cache_mrc_store_bytes_ratio",
        "Predicted bytes from the store relative to the present capacity.",
        |f| f.store_bytes,
    ),
];

const OVERALL: [OfReport; 5] = [
    (
        "cache_mrc_self_error",
        "Absolute difference between the prediction for scale 1 and the measured hit ratio.",
        |r| r.self_error,
    ),
    ("cache_mrc_measured_hit_ratio", "Measured hits per read over the same time.", |r| r.measured_hit_ratio),
    ("cache_mrc_reads_per_second", "Reads per second over the same time.", |r| r.reads_per_s),
    ("cache_mrc_read_bytes_per_second", "Bytes read per second over the same time.", |r| r.read_bytes_per_s),
    ("cache_mrc_sampled_reads", "Number of reads on which the prediction for scale 1 is based.", |r| {
        r.sampled_reads
    }),
];

impl Report {
    /// All gauges. Those with the same name are adjacent.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        let per_scale = PER_SCALE.into_iter().flat_map(|(name, help, value)| {
            self.forecasts.iter().map(move |forecast| {
                let scale = Some(forecast.scale);
                Metric { name, help, scale, value: value(forecast) }
            })
        });
        let overall = OVERALL.into_iter();
        per_scale.chain(overall.map(|(name, help, value)| Metric {
            name,
            help,
            scale: None,
            value: value(self),
        }))
    }

    /// Parses the report from a text exposition, which may hold other metrics too and any prefix before
    /// `cache_mrc_`. `None` if it lacks the present capacity.
    pub fn from_exposition(text: &str) -> Option<Self> {
        let mut forecasts: Vec<Forecast> = Vec::new();
        let mut report = Self::empty();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some(at) = line.find("cache_mrc_") else { continue };
            let (series, value) = line[at..].rsplit_once(' ')?;
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let scale = labels.split("scale=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
            match scale {
                Some(scale) => {
                    let at = forecasts.iter().position(|f| f.scale == scale).unwrap_or_else(|| {
                        forecasts.push(Forecast::empty(scale));
                        forecasts.len() - 1
                    });
                    forecasts[at].set(name, value);
                }
                None => report.set(name, value),
            }
        }
        forecasts.sort_by(|a, b| a.scale.total_cmp(&b.scale));
        report.forecasts = forecasts;
        report.forecasts.iter().any(|f| f.scale == SCALES[PRESENT] && f.capacity > 0).then_some(report)
    }

    fn empty() -> Self {
        Self {
            forecasts: Vec::new(),
            measured_hit_ratio: 0.0,
            self_error: 0.0,
            reads_per_s: 0.0,
            read_bytes_per_s: 0.0,
            sampled_reads: 0.0,
        }
    }

    fn set(&mut self, name: &str, value: f64) {
        match name {
            "cache_mrc_self_error" => self.self_error = value,
            "cache_mrc_measured_hit_ratio" => self.measured_hit_ratio = value,
            "cache_mrc_reads_per_second" => self.reads_per_s = value,
            "cache_mrc_read_bytes_per_second" => self.read_bytes_per_s = value,
            "cache_mrc_sampled_reads" => self.sampled_reads = value,
            _ => {}
        }
    }
}

impl Forecast {
    fn empty(scale: f64) -> Self {
        Self {
            scale,
            capacity: 0,
            hit_ratio: 0.0,
            byte_hit_ratio: 0.0,
            store_requests: 0.0,
            store_bytes: 0.0,
        }
    }

    fn set(&mut self, name: &str, value: f64) {
        match name {
            "cache_mrc_capacity_bytes" => self.capacity = value as u64,
            "cache_mrc_hit_ratio" => self.hit_ratio = value,
            "cache_mrc_byte_hit_ratio" => self.byte_hit_ratio = value,
            "cache_mrc_store_requests_ratio" => self.store_requests = value,
            "cache_mrc_store_bytes_ratio" => self.store_bytes = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_round_trips_through_an_exposition() {
        let forecast = |scale: f64| Forecast {
            scale,
            capacity: (scale * 1e9) as u64,
            hit_ratio: 0.5 + scale / 100.0,
            byte_hit_ratio: 0.4,
            store_requests: 1.0 / scale,
            store_bytes: 0.9,
        };
        let report = Report {
            forecasts: vec![forecast(0.25), forecast(1.0), forecast(10.0)],
            measured_hit_ratio: 0.52,
            self_error: 0.01,
            reads_per_s: 120.5,
            read_bytes_per_s: 1e6,
            sampled_reads: 12.0,
        };
        let mut text = "# HELP other Another.\nother{scale=\"1\"} 3\n".to_owned();
        for Metric { name, help, scale, value } in report.metrics() {
            let labels = scale.map(|scale| format!("{{scale=\"{scale}\"}}")).unwrap_or_default();
            text += &format!("# HELP sandur_{name} {help}\nsandur_{name}{labels} {value}\n");
        }
        assert_eq!(Report::from_exposition(&text), Some(report));
        assert_eq!(Report::from_exposition("other 1\n"), None);
    }
}
