//! What identifies this server to others: labels of alerts, and the URL under which people reach it.

use crate::spec::{Expression, Language, Pairs};

/// External labels and URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    /// Labels that are added to every alert that is sent.
    pub labels: Pairs,
    /// The URL of this server, without a slash at its end.
    pub url: String,
}

impl External {
    /// The path of the URL.
    pub fn path(&self) -> &str {
        let after_scheme = self.url.find("://").map_or(0, |at| at + 3);
        let rest = &self.url[after_scheme..];
        rest.find('/').map_or("", |at| &rest[at..])
    }

    /// A link to the page of an expression: for PromQL with the path of Prometheus.
    pub fn page_of(&self, expression: Expression<'_>) -> String {
        let Expression { language, text, .. } = expression;
        let path = match language {
            Language::Promql => table_link(text),
            Language::Logql => format!("/explore/logs?q={}", query_escape(text)),
            Language::Graphite => format!("/explore/graphite?target={}", query_escape(text)),
        };
        format!("{}{path}", self.url)
    }
}

/// The path of a page with a table of the expression, as in Prometheus.
pub fn table_link(expr: &str) -> String {
    format!("/graph?g0.expr={}&g0.tab=1", query_escape(expr))
}

/// The path of a page with a graph of the expression, as in Prometheus.
pub fn graph_link(expr: &str) -> String {
    format!("/graph?g0.expr={}&g0.tab=0", query_escape(expr))
}

/// Escapes a text as Go's `url.QueryEscape`.
pub fn query_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_of_prometheus() {
        let url = "http://sandur:3100/db".to_owned();
        let external = External { url, ..External::default() };
        assert_eq!(external.path(), "/db");
        let page = |language, text| external.page_of(Expression::new(language, text));
        assert_eq!(
            page(Language::Promql, "up == 0 and {a=~\"b\"}"),
            "http://sandur:3100/db/graph?g0.expr=up+%3D%3D+0+and+%7Ba%3D~%22b%22%7D&g0.tab=1"
        );
        assert_eq!(
            page(Language::Logql, "rate({a=\"b\"}[1m])"),
            "http://sandur:3100/db/explore/logs?q=rate%28%7Ba%3D%22b%22%7D%5B1m%5D%29"
        );
        assert_eq!(page(Language::Graphite, "a.*"), "http://sandur:3100/db/explore/graphite?target=a.%2A");
        assert_eq!(External::default().path(), "");
    }
}
