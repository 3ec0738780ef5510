//! Parses `X-Query-Tags`, by which clients describe themselves: `Source=grafana,Feature=beta`.

/// The source that Logs Drilldown sends. It prefers a truncated answer to none.
const DRILLDOWN: &str = "grafana-lokiexplore-app";

/// The pairs with keys in lower case; parts that are not `key=value` are left out. Characters that are
/// not allowed in a log line are replaced as in Loki.
pub fn pairs(tags: &str) -> Vec<(String, String)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-=.@, ".contains(c);
    let mut safe = String::with_capacity(tags.len());
    for c in tags.chars() {
        match allowed(c) {
            true => safe.push(c),
            // A run of them becomes one `_`.
            false if safe.ends_with('\u{0}') => {}
            false => safe.push('\u{0}'),
        }
    }
    let safe = safe.replace('\u{0}', "_");
    let pair = |token: &str| {
        let mut parts = token.split('=').filter(|part| !part.is_empty());
        let (key, value) = (parts.next()?, parts.next()?);
        parts.next().is_none().then(|| (key.to_lowercase(), value.to_owned()))
    };
    safe.split(',').filter_map(pair).collect()
}

/// Whether the client is Logs Drilldown.
pub fn is_drilldown(tags: &[(String, String)]) -> bool {
    tags.iter().any(|(key, value)| key == "source" && value.eq_ignore_ascii_case(DRILLDOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_loki_reads_them() {
        let owned = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(pairs("Source=foo,Feature=beta"), [owned("source", "foo"), owned("feature", "beta")]);
        assert_eq!(pairs("Source=foo,broken,a=b=c,=x,,k=v"), [owned("source", "foo"), owned("k", "v")]);
        assert_eq!(pairs("user=a\"\n\"b,x=1/2"), [owned("user", "a_b"), owned("x", "1_2")]);
        assert!(pairs("").is_empty());
    }

    #[test]
    fn drilldown_is_recognized_by_its_source() {
        let is_drilldown = |tags| is_drilldown(&pairs(tags));
        assert!(is_drilldown("Source=grafana-lokiexplore-app"));
        assert!(is_drilldown("a=b,source=Grafana-LokiExplore-App"));
        assert!(!is_drilldown("Source=grafana,App=grafana-lokiexplore-app"));
    }
}
