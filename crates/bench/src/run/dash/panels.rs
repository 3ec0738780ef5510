//! The panels of a dashboard: twenty queries, and three requests for the values of its variables.
//!
//! Viewers look at different parts of the data, as people with variables do: every second viewer at all of
//! it, the others at one job or two applications.

use super::dialect::Dialect;
use super::window::step_of;

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Series over a range.
    Range,
    /// A table of the values at the end of the range.
    Instant,
    /// The newest lines, at most this number.
    Lines(u32),
    /// The values of this label.
    Values(&'static str),
    /// The labels of series or streams.
    Series,
}

/// A panel.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// Its title.
    pub(super) name: &'static str,
    /// The query in the language of the server.
    pub(super) query: String,
    /// What it shows.
    pub(super) shape: Shape,
    /// Length of its range in seconds.
    pub(super) length_s: i64,
}

impl Panel {
    /// Whether the request is for the values of a variable.
    pub(super) fn is_variable(&self) -> bool {
        matches!(self.shape, Shape::Values(_) | Shape::Series)
    }
}

/// Jobs of the metrics.
pub(super) const JOBS: [&str; 4] = ["front", "orders", "stock", "billing"];
/// Applications of the logs ([`crate::services`]).
const APPS: [&str; 9] =
    ["gateway", "auth", "catalog", "checkout", "payments", "inventory", "mailer", "postgres", "node"];

const HOUR: i64 = 3_600;
const QUARTER: i64 = 6 * HOUR;
const DAY: i64 = 24 * HOUR;

/// A row of the tables below; `$` stands for selectors of the viewer.
type MetricRow = (&'static str, &'static str, Shape, i64);

const OF_METRICS: [MetricRow; 23] = [
    ("requests by job", "sum by (job) (rate(requests_total{$all}[1m]))", Shape::Range, HOUR),
    (
        "share of errors by route",
        "sum by (route) (rate(requests_total{$jobs,code=~\"5..\"}[1m])) / sum by (route) \
         (rate(requests_total{$jobs}[1m]))",
        Shape::Range,
        HOUR,
    ),
    (
        "p95 of durations",
        "histogram_quantile(0.95, sum by (le) (rate(request_seconds_bucket{$all}[5m])))",
        Shape::Range,
        HOUR,
    ),
    (
        "p99 of durations by route",
        "histogram_quantile(0.99, sum by (le, route) (rate(request_seconds_bucket{$jobs}[5m])))",
        Shape::Range,
        QUARTER,
    ),
    (
        "busy processors by instance",
        "1 - avg by (instance) (rate(cpu_seconds_total{$jobs,mode=\"idle\"}[5m]))",
        Shape::Range,
        HOUR,
    ),
    ("processors by mode", "sum by (mode) (rate(cpu_seconds_total{$all}[5m]))", Shape::Range, DAY),
    ("free memory", "memory_free_bytes{$all} / memory_size_bytes{$all}", Shape::Range, QUARTER),
    ("network by direction", "sum by (direction) (rate(network_bytes_total{$jobs}[5m]))", Shape::Range, DAY),
    (
        "fullest disks",
        "max by (mount) (1 - disk_free_bytes{$jobs} / disk_size_bytes{$jobs})",
        Shape::Range,
        DAY,
    ),
    ("targets by job", "sum by (job) (up{$jobs})", Shape::Range, HOUR),
    ("load by job", "avg by (job) (load1{$jobs})", Shape::Range, QUARTER),
    ("threads", "threads{$all}", Shape::Range, QUARTER),
    ("busiest routes", "topk(5, sum by (route) (rate(requests_total{$all}[5m])))", Shape::Range, HOUR),
    (
        "resident memory, 90th of 100",
        "quantile by (job) (0.9, process_resident_bytes{$jobs})",
        Shape::Range,
        DAY,
    ),
    ("requests per hour", "sum by (job) (increase(requests_total{$jobs}[1h]))", Shape::Range, DAY),
    (
        "mean duration by route",
        "sum by (route) (rate(request_seconds_sum{$jobs}[5m])) / sum by (route) \
         (rate(request_seconds_count{$jobs}[5m]))",
        Shape::Range,
        QUARTER,
    ),
    ("least free memory", "min by (job) (min_over_time(memory_free_bytes{$jobs}[10m]))", Shape::Range, DAY),
    (
        "disks in an hour",
        "min by (mount) (predict_linear(disk_free_bytes{$all}[1h], 3600))",
        Shape::Range,
        QUARTER,
    ),
    (
        "requests and yesterday's",
        "sum(rate(requests_total{$jobs}[5m])) / sum(rate(requests_total{$jobs}[5m] offset 22h))",
        Shape::Range,
        HOUR,
    ),
    ("instances now", "sort_desc(sum by (instance) (rate(requests_total{$jobs}[5m])))", Shape::Instant, HOUR),
    ("variable: jobs", "up", Shape::Values("job"), HOUR),
    ("variable: instances", "up{$jobs}", Shape::Values("instance"), HOUR),
    ("variable: disks", "disk_size_bytes{$jobs}", Shape::Series, HOUR),
];

/// LogQL, then LogsQL; `$s` is the step.
type LogRow = (&'static str, &'static str, &'static str, Shape, i64);

const OF_LOGS: [LogRow; 23] = [
    (
        "lines by application, an hour",
        "sum by (app) (count_over_time({$apps}[$s]))",
        "{$apps} | stats by (app) count() n",
        Shape::Range,
        HOUR,
    ),
    (
        "lines by region, six hours",
        "sum by (region) (count_over_time({$apps}[$s]))",
        "{$apps} | stats by (region) count() n",
        Shape::Range,
        QUARTER,
    ),
    (
        "lines by application, a day",
        "sum by (app) (count_over_time({$apps}[$s]))",
        "{$apps} | stats by (app) count() n",
        Shape::Range,
        DAY,
    ),
    (
        "rate of errors",
        "sum by (app) (rate({$apps} |~ `(?i)error` [1m]))",
        "{$apps} ~\"(?i)error\" | stats by (app) rate() n",
        Shape::Range,
        HOUR,
    ),
    (
        "timeouts by application, six hours",
        "sum by (app) (count_over_time({$apps} |= `timed out` [$s]))",
        "{$apps} \"timed out\" | stats by (app) count() n",
        Shape::Range,
        QUARTER,
    ),
    (
        "timeouts, a day",
        "sum(count_over_time({$apps} |= `timed out` [$s]))",
        "{$apps} \"timed out\" | stats count() n",
        Shape::Range,
        DAY,
    ),
    (
        "failed requests by region",
        "sum by (region) (rate({app=\"gateway\"} |~ `HTTP/1.1\" (404|5..) ` [1m]))",
        "{app=\"gateway\"} ~\"HTTP/1.1\\\" (404|5..) \" | stats by (region) rate() n",
        Shape::Range,
        HOUR,
    ),
    (
        "failed payments by bank",
        "sum by (bank) (count_over_time({app=\"payments\"} | json | status>=500 [$s]))",
        "{app=\"payments\"} | unpack_json fields (status, bank) | filter status:>=500 \
         | stats by (bank) count() n",
        Shape::Range,
        QUARTER,
    ),
    (
        "p95 of payments by bank",
        "quantile_over_time(0.95, {app=\"payments\"} | json | unwrap duration_ms [1m]) by (bank)",
        "{app=\"payments\"} | unpack_json fields (duration_ms, bank) \
         | stats by (bank) quantile(0.95, duration_ms) q",
        Shape::Range,
        HOUR,
    ),
    (
        "repeated logins",
        "sum(count_over_time({app=\"auth\"} | logfmt | attempt>3 [$s]))",
        "{app=\"auth\"} | unpack_logfmt fields (attempt) | filter attempt:>3 | stats count() n",
        Shape::Range,
        QUARTER,
    ),
    (
        "bytes by pod",
        "sum by (pod) (bytes_over_time({$one}[$s]))",
        "{$one} | stats by (pod) sum_len(_msg) n",
        Shape::Range,
        DAY,
    ),
    (
        "loudest pods now",
        "topk(5, sum by (pod) (count_over_time({$apps}[1h])))",
        "{$apps} | stats by (pod) count() n | sort by (n desc) limit 5",
        Shape::Instant,
        HOUR,
    ),
    (
        "shelves that run empty",
        "sum(count_over_time({app=\"inventory\"} | logfmt | left<=3 [$s]))",
        "{app=\"inventory\"} | unpack_logfmt fields (left) | filter left:<=3 | stats count() n",
        Shape::Range,
        HOUR,
    ),
    ("newest lines", "{$one}", "{$one}", Shape::Lines(500), HOUR),
    ("newest errors", "{$apps} |~ `(?i)error`", "{$apps} ~\"(?i)error\"", Shape::Lines(500), HOUR),
    (
        "mails that were not delivered",
        "{$apps} |= `cannot deliver`",
        "{$apps} \"cannot deliver\"",
        Shape::Lines(500),
        DAY,
    ),
    (
        "products that failed",
        "{$one} |~ `/api/products/[0-9]+.* 50[0-9] `",
        "{$one} ~\"/api/products/[0-9]+.* 50[0-9] \"",
        Shape::Lines(500),
        QUARTER,
    ),
    ("a trace", "{app=~\".+\"} |= `$trace`", "\"$trace\"", Shape::Lines(100), DAY),
    (
        "orders that were not placed",
        "{app=\"checkout\"} | json | level=`error`",
        "{app=\"checkout\"} | unpack_json | filter level:=error",
        Shape::Lines(200),
        HOUR,
    ),
    (
        "lines that are not about usual work",
        "{$apps} !~ `INFO|info|DEBUG` != `GET`",
        "{$apps} !~\"INFO|info|DEBUG\" !\"GET\"",
        Shape::Lines(500),
        HOUR,
    ),
    ("variable: applications", "{app=~\".+\"}", "*", Shape::Values("app"), HOUR),
    ("variable: pods", "{$apps}", "{$apps}", Shape::Values("pod"), QUARTER),
    ("variable: streams", "{$one}", "{$one}", Shape::Series, HOUR),
];

/// The panels of a viewer. `trace` is the id of a trace that is stored.
pub(super) fn panels(dialect: Dialect, viewer: usize, trace: &str) -> Vec<Panel> {
    if dialect.is_of_metrics() {
        let (jobs, all) = metrics_of(viewer);
        let query = |text: &str| text.replace("$all", &all).replace("$jobs", &jobs);
        let rows = OF_METRICS.into_iter();
        return rows
            .map(|(name, text, shape, length_s)| Panel { name, query: query(text), shape, length_s })
            .collect();
    }
    let (apps, one) = logs_of(viewer);
    let panel = |(name, logql, logsql, shape, length_s): LogRow| {
        let text = if dialect == Dialect::Loki { logql } else { logsql };
        let step = format!("{}s", step_of(length_s));
        let text = text.replace("$apps", &apps).replace("$one", &one);
        let query = text.replace("$trace", trace).replace("$s", &step);
        Panel { name, query, shape, length_s }
    };
    OF_LOGS.into_iter().map(panel).collect()
}

/// Matchers of the jobs of a viewer, and of its jobs and instances.
fn metrics_of(viewer: usize) -> (String, String) {
    if viewer.is_multiple_of(2) {
        return (format!("job=~\"{}\"", JOBS.join("|")), "instance=~\".+\"".to_owned());
    }
    let job = JOBS[viewer / 2 % JOBS.len()];
    let jobs = format!("job=~\"{job}\"");
    let all = match viewer % 4 {
        3 => format!("{jobs},instance=~\"{job}-0[0-4]:9100\""),
        _ => jobs.clone(),
    };
    (jobs, all)
}

/// Matchers of the applications of a viewer, and of one application.
fn logs_of(viewer: usize) -> (String, String) {
    let one = APPS[viewer % APPS.len()];
    let apps = match viewer.is_multiple_of(2) {
        true => APPS.join("|"),
        false => format!("{one}|{}", APPS[(viewer + 4) % APPS.len()]),
    };
    (format!("app=~\"{apps}\""), format!("app=\"{one}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_twenty_panels_and_three_variables_without_placeholders() {
        for name in Dialect::NAMES {
            let dialect = Dialect::of_name(name).unwrap();
            for viewer in 0..12 {
                let panels = panels(dialect, viewer, "5f0c1d");
                assert_eq!(panels.iter().filter(|panel| panel.is_variable()).count(), 3);
                assert_eq!(panels.len(), 23);
                for panel in &panels {
                    assert!(!panel.query.contains('$'), "{name}: {}", panel.query);
                }
            }
        }
    }

    #[test]
    fn viewers_look_at_different_parts() {
        let first = |viewer| panels(Dialect::Prometheus, viewer, "")[0].query.clone();
        assert_eq!(first(0), "sum by (job) (rate(requests_total{instance=~\".+\"}[1m]))");
        assert_eq!(first(1), "sum by (job) (rate(requests_total{job=~\"front\"}[1m]))");
        assert_eq!(
            first(3),
            "sum by (job) (rate(requests_total{job=~\"orders\",instance=~\"orders-0[0-4]:9100\"}[1m]))"
        );
        assert_eq!(first(0), first(2));
        let volume = |viewer| panels(Dialect::Loki, viewer, "")[0].query.clone();
        assert_eq!(volume(1), "sum by (app) (count_over_time({app=~\"auth|inventory\"}[15s]))");
    }

    #[test]
    fn logs_are_asked_in_the_language_of_the_server() {
        let of = |dialect| panels(dialect, 0, "5f0c1d")[17].query.clone();
        assert_eq!(of(Dialect::Loki), "{app=~\".+\"} |= `5f0c1d`");
        assert_eq!(of(Dialect::VictoriaLogs), "\"5f0c1d\"");
    }

    #[test]
    fn applications_are_those_of_the_generator() {
        let streams = crate::services::Services::new(1, 1).between(1_795_176_000, 1_795_176_600, 5.0);
        for app in APPS {
            assert!(streams.iter().any(|stream| stream.labels.get("app") == Some(app)), "{app}");
        }
    }
}
