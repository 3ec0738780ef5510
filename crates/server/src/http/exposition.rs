//! The two text formats of metrics: OpenMetrics for who asks for it, and Prometheus's own text format 0.0.4.
//!
//! The client library writes OpenMetrics alone. The older format differs in four things: families of counters
//! are named with `_total`, those of infos with `_info` and the type `gauge`, there are no units, and there
//! is no end mark. Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus's text format 0.0.4.
    Text,
}

impl Exposition {
    /// What a client wants by its `Accept` header: OpenMetrics if it names it.
    pub fn wanted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    /// The type of the page.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Every metric of a registry.
    pub fn page(self, registry: &Registry) -> String {
        let mut page = String::new();
        encode(&mut page, registry).expect("writing to a String does not fail");
        match self {
            Self::OpenMetrics => page,
            Self::Text => as_text(&page),
        }
    }
}

/// Turns OpenMetrics into the older format.
fn as_text(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut help: Option<(&str, &str)> = None;
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            // The library writes the help of a family right before its type.
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                text += &format!("# HELP {name}{suffix} {words}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::info::Info;

    use super::*;

    fn registry() -> Registry {
        let (mut registry, counter) = (Registry::default(), Counter::<u64>::default());
        counter.inc_by(3);
        registry.register("sandur_things", "Things that came", counter);
        registry.register("sandur_build", "What was built", Info::new([("version", "1")]));
        registry
    }

    #[test]
    fn both_formats_hold_the_same_samples() {
        let text = Exposition::Text.page(&registry());
        let expected = "# HELP sandur_things_total Things that came.\n# TYPE sandur_things_total counter\n\
                        sandur_things_total 3\n# HELP sandur_build_info What was built.\n\
                        # TYPE sandur_build_info gauge\nsandur_build_info{version=\"1\"} 1\n";
        assert_eq!(text, expected);
        let open = Exposition::OpenMetrics.page(&registry());
        assert!(open.contains("# TYPE sandur_things counter\n") && open.ends_with("# EOF\n"), "{open}");
    }

    #[test]
    fn the_accept_header_decides() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Exposition::wanted(prometheus), Exposition::OpenMetrics);
        for other in ["", "*/*", "text/plain"] {
            assert_eq!(Exposition::wanted(other), Exposition::Text);
        }
    }
}
