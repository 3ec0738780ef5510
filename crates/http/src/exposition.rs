//! Renders metrics in two text formats: OpenMetrics for clients that accept it, and Prometheus's text
//! format 0.0.4.
//!
//! The `Accept` header chooses the format, as in Prometheus's libraries: the known type with the highest
//! quality. The escaping of names is the parameter of that type, or of the last type before it that has
//! one. Source: <https://prometheus.io/docs/instrumenting/content_negotiation/>.
//!
//! The client library writes only OpenMetrics. The older format differs in four points: families of
//! counters are named with `_total`, those of infos with `_info` and the type `gauge`, there are no
//! units, and there is no end mark. Source:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use axum::http::HeaderValue;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sandur_model::escaping::Escaping;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics of this version.
    OpenMetrics(&'static str),
    /// Prometheus's text format 0.0.4.
    Text,
}

/// The versions of OpenMetrics.
const OPEN_METRICS: [&str; 2] = ["1.0.0", "0.0.1"];
const TEXT_VERSION: &str = "0.0.4";
/// Maximum number of types of an `Accept` header that are read.
const ACCEPTED_MAX: usize = 32;

/// A type that a client accepts.
struct Accepted<'a> {
    kind: &'a str,
    quality: f64,
    version: Option<&'a str>,
    escaping: Option<Escaping>,
}

impl<'a> Accepted<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut read = Self { kind, quality: 1.0, version: None, escaping: None };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" => read.quality = value.parse().unwrap_or(1.0),
                "version" => read.version = Some(value),
                "escaping" => read.escaping = Escaping::of(value),
                _ => {}
            }
        }
        read
    }

    fn exposition(&self) -> Option<Exposition> {
        match self.kind {
            "application/openmetrics-text" => {
                let asked = self.version.unwrap_or("0.0.1");
                OPEN_METRICS.into_iter().find(|version| *version == asked).map(Exposition::OpenMetrics)
            }
            "text/plain" | "text/*" => {
                (self.version.unwrap_or(TEXT_VERSION) == TEXT_VERSION).then_some(Exposition::Text)
            }
            "*/*" => Some(Exposition::Text),
            _ => None,
        }
    }
}

/// The format and escaping that an `Accept` header chooses.
pub fn accepted(header: &str) -> (Exposition, Escaping) {
    let mut all: Vec<Accepted<'_>> = header.split(',').take(ACCEPTED_MAX).map(Accepted::read).collect();
    all.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let mut escaping = Escaping::default();
    for one in &all {
        escaping = one.escaping.unwrap_or(escaping);
        if let Some(exposition) = one.exposition() {
            return (exposition, escaping);
        }
    }
    (Exposition::Text, escaping)
}

impl Exposition {
    /// The content type of a page with this escaping of names.
    pub fn content_type(self, escaping: Escaping) -> HeaderValue {
        let (kind, version) = match self {
            Self::OpenMetrics(version) => ("application/openmetrics-text", version),
            Self::Text => ("text/plain", TEXT_VERSION),
        };
        let escaping = escaping.parameter();
        let text = format!("{kind}; version={version}; charset=utf-8; escaping={escaping}");
        HeaderValue::from_str(&text).expect("the parts are characters that a header allows")
    }

    /// Renders all metrics of a registry.
    pub fn page(self, registry: &Registry) -> String {
        let mut page = String::new();
        encode(&mut page, registry).expect("writing to a String does not fail");
        match self {
            Self::OpenMetrics(_) => page,
            Self::Text => as_text(&page),
        }
    }
}

/// Converts OpenMetrics to the older format.
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
        let open = Exposition::OpenMetrics("1.0.0").page(&registry());
        assert!(open.contains("# TYPE sandur_things counter\n") && open.ends_with("# EOF\n"), "{open}");
    }

    #[test]
    fn the_accept_header_decides() {
        let (first, second) = (Exposition::OpenMetrics("0.0.1"), Exposition::OpenMetrics("1.0.0"));
        for (accept, exposition, escaping) in [
            ("", Exposition::Text, Escaping::Underscores),
            ("*/*", Exposition::Text, Escaping::Underscores),
            ("text/plain", Exposition::Text, Escaping::Underscores),
            ("text/plain; escaping=dots", Exposition::Text, Escaping::Dots),
            ("text/plain; version=0.0.4; escaping=\"values\"", Exposition::Text, Escaping::Values),
            ("text/html, */*;q=0.1", Exposition::Text, Escaping::Underscores),
            ("application/openmetrics-text", first, Escaping::Underscores),
            ("application/openmetrics-text; version=2.0.0", Exposition::Text, Escaping::Underscores),
            ("text/plain;q=0.5,application/openmetrics-text;version=1.0.0", second, Escaping::Underscores),
            ("text/plain;q=0.5;escaping=what", Exposition::Text, Escaping::Underscores),
            (
                // Prometheus 2
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                 q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                second,
                Escaping::Underscores,
            ),
            (
                // Prometheus 3
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,\
                 */*;q=0.1",
                second,
                Escaping::AllowUtf8,
            ),
            (
                // Prometheus 3 without OpenMetrics: the escaping of an unknown type before it applies to
                // the old one.
                "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,\
                 */*;q=0.4",
                Exposition::Text,
                Escaping::AllowUtf8,
            ),
        ] {
            assert_eq!(accepted(accept), (exposition, escaping), "{accept}");
        }
        assert_eq!(accepted(&"a/b,".repeat(100_000)).0, Exposition::Text);
        let kind = second.content_type(Escaping::Dots);
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=dots");
    }
}
