//! The paths of the requests of panels, by protocol.

use super::dialect::Dialect;
use super::panels::{Panel, Shape};
use super::window::Window;
use crate::http::escaped;

/// The path of a panel's request at this time.
pub(super) fn path(dialect: Dialect, panel: &Panel, now_ms: i64, aligned: bool) -> String {
    // Only the steps of ranges are aligned.
    let is_range = matches!(panel.shape, Shape::Range);
    let window = Window::until(now_ms, panel.length_s, aligned && is_range);
    match dialect {
        Dialect::Prometheus | Dialect::VictoriaMetrics => of_prometheus(panel, window),
        Dialect::Loki => of_loki(panel, window),
        Dialect::VictoriaLogs => of_victoria_logs(panel, window),
    }
}

fn of_prometheus(panel: &Panel, window: Window) -> String {
    let query = escaped(&panel.query);
    let seconds = |ms: i64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    let (start, end) = (seconds(window.start_ms), seconds(window.end_ms));
    match panel.shape {
        Shape::Range => {
            format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={}", window.step_s)
        }
        Shape::Instant | Shape::Lines(_) => format!("/api/v1/query?query={query}&time={end}"),
        Shape::Values(label) => {
            format!("/api/v1/label/{label}/values?match%5B%5D={query}&start={start}&end={end}")
        }
        Shape::Series => format!("/api/v1/series?match%5B%5D={query}&start={start}&end={end}"),
    }
}

fn of_loki(panel: &Panel, window: Window) -> String {
    let query = escaped(&panel.query);
    let range = format!("start={}000000&end={}000000", window.start_ms, window.end_ms);
    match panel.shape {
        Shape::Range => format!("/loki/api/v1/query_range?query={query}&{range}&step={}", window.step_s),
        Shape::Lines(limit) => {
            format!("/loki/api/v1/query_range?query={query}&{range}&limit={limit}&direction=backward")
        }
        Shape::Instant => format!("/loki/api/v1/query?query={query}&time={}000000", window.end_ms),
        Shape::Values(label) => format!("/loki/api/v1/label/{label}/values?query={query}&{range}"),
        Shape::Series => format!("/loki/api/v1/series?match%5B%5D={query}&{range}"),
    }
}

fn of_victoria_logs(panel: &Panel, window: Window) -> String {
    let query = escaped(&panel.query);
    let range = format!("query={query}&start={}&end={}", moment(window.start_ms), moment(window.end_ms));
    match panel.shape {
        Shape::Range => format!("/select/logsql/stats_query_range?{range}&step={}s", window.step_s),
        Shape::Lines(limit) => format!("/select/logsql/query?{range}&limit={limit}"),
        Shape::Instant => format!("/select/logsql/query?{range}"),
        Shape::Values(label) => format!("/select/logsql/stream_field_values?{range}&field={label}"),
        Shape::Series => format!("/select/logsql/streams?{range}"),
    }
}

/// The time as RFC 3339.
fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_795_176_007_123;

    fn panel(shape: Shape) -> Panel {
        Panel { name: "one", query: "up{a=\"b\"}".to_owned(), shape, length_s: 3_600 }
    }

    #[test]
    fn requests_have_the_form_of_their_protocol() {
        for (dialect, shape, expected) in [
            (
                Dialect::Prometheus,
                Shape::Range,
                "/api/v1/query_range?query=up%7Ba%3D%22b%22%7D&start=1795172400.000\
                 &end=1795176000.000&step=15",
            ),
            (
                Dialect::VictoriaMetrics,
                Shape::Values("job"),
                "/api/v1/label/job/values?match%5B%5D=up%7Ba%3D%22b%22%7D&start=1795172407.123\
                 &end=1795176007.123",
            ),
            (
                Dialect::Loki,
                Shape::Lines(500),
                "/loki/api/v1/query_range?query=up%7Ba%3D%22b%22%7D&start=1795172407123000000\
                 &end=1795176007123000000&limit=500&direction=backward",
            ),
            (
                Dialect::VictoriaLogs,
                Shape::Range,
                "/select/logsql/stats_query_range?query=up%7Ba%3D%22b%22%7D&start=2026-11-20T11:00:00Z\
                 &end=2026-11-20T12:00:00Z&step=15s",
            ),
        ] {
            assert_eq!(path(dialect, &panel(shape), NOW_MS, true), expected);
        }
    }

    #[test]
    fn only_ranges_are_aligned_and_only_on_request() {
        let path = |shape, aligned| path(Dialect::Prometheus, &panel(shape), NOW_MS, aligned);
        assert!(path(Shape::Range, false).contains("end=1795176007.123"));
        assert!(path(Shape::Instant, true).ends_with("time=1795176007.123"));
    }
}
