//! Words of the corpus, and some that do not occur in it.

use crate::random::Random;

/// The kind of lines that a selector finds, which determines the matching parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Logfmt,
    Json,
    Text,
    Access,
    Packed,
    Metadata,
    Counter,
}

/// A first matcher, and the kind of lines that it finds.
pub(super) const SELECTORS: &[(&str, Kind)] = &[
    (r#"app="web""#, Kind::Logfmt),
    (r#"app="web""#, Kind::Logfmt),
    (r#"app="api""#, Kind::Json),
    (r#"app="api""#, Kind::Json),
    (r#"app=~"web|api""#, Kind::Json),
    (r#"app="text""#, Kind::Text),
    (r#"app="nginx""#, Kind::Access),
    (r#"app="packed""#, Kind::Packed),
    (r#"app="meta""#, Kind::Metadata),
    (r#"service_name="shop""#, Kind::Metadata),
    (r#"app="counter""#, Kind::Counter),
    (r#"app="ties""#, Kind::Counter),
    (r#"app="huge""#, Kind::Logfmt),
    (r#"app="ünï""#, Kind::Text),
    (r#"env="prod""#, Kind::Logfmt),
    (r#"env=~"d.*""#, Kind::Text),
    (r#"app=~".+""#, Kind::Logfmt),
    (r#"service_name=~"web|counter""#, Kind::Counter),
];

pub(super) const MATCHERS: &[&str] = &[
    r#"env="prod""#,
    r#"env!="dev""#,
    r#"cluster="a""#,
    r#"cluster=~"a|b""#,
    r#"cluster="""#,
    r#"cluster!~"b.*""#,
    r#"level="info""#,
    r#"level="""#,
    r#"pod=~"p-[01]""#,
    r#"absent="""#,
    r#"absent!="x""#,
    r#"env=~"(?i)PROD""#,
    r#"name_with_quote="a\"b\\c""#,
    r#"app!~"web|nginx""#,
    r#"env=~`p.+`"#,
    r#"host="10.1.2.3""#,
];

pub(super) const NEEDLES: &[&str] = &[
    "error",
    "ERROR",
    "level",
    "level=error",
    "completed",
    "connection refused",
    "GET",
    "/api/v1",
    "status=500",
    "timeout",
    "ünï",
    "日本",
    "\\u001b[31m",
    "<html>",
    "&amp;",
    "\\\"",
    "10.0.0.5",
    "",
    " ",
    "a.b*c",
    "=",
    "José",
    "no such text",
    "\\t",
    "_entry",
    "tie",
    "straße",
    "trace=0001",
    "x",
    "msg=",
    "{\\\"level",
    "}",
];

pub(super) const PATTERNS: &[&str] = &[
    "err.*",
    "(?i)error",
    "(?i)STRASSE|straße",
    "level=(info|warn)",
    "^level",
    "status=5\\\\d\\\\d",
    "\\\\d+ms",
    "[a-f0-9]{4}",
    "^$",
    ".*",
    "",
    "completed$",
    "(?i)gET\\\\s",
    "a\\\\.b",
    "(timeout|refused)",
    "\\\\bfailed\\\\b",
    "[^a-z]{12}",
    "(?s)multi.line",
    "日|é",
    "(?P<x>err)or",
    "\\\\pL+straße",
    "^ts=.*GET",
    "(foo|bar)?",
    "x{2,3}",
    "no such (text|thing)",
];

pub(super) const LINE_PATTERNS: &[&str] = &[
    "<_>error<_>",
    "<_>level=<_> method=GET<_>",
    "ts=<_> level=info <_>",
    "<_>",
    "<_> completed<_>",
    "no such",
    "{<_>}",
    "<_>\\\"level\\\":\\\"info\\\"<_>",
    "<_>é<_>",
    "<_> - <_> [<_>] <_>",
    "tie n=<_> value=<_>",
];

pub(super) const ADDRESSES: &[&str] = &[
    "10.0.0.5",
    "10.0.0.0/8",
    "192.168.1.1-192.168.1.200",
    "::1",
    "2001:db8::/32",
    "172.16.4.1",
    "0.0.0.0/0",
];

/// Names of labels and fields.
pub const NAMES: &[&str] = &[
    "app",
    "env",
    "cluster",
    "level",
    "detected_level",
    "service_name",
    "method",
    "path",
    "status",
    "duration",
    "bytes",
    "latency",
    "ip",
    "user",
    "msg",
    "dur",
    "size",
    "latency_ms",
    "n",
    "req_method",
    "req_headers_x_id",
    "trace_id",
    "took",
    "total",
    "gauge",
    "odd",
    "pod",
    "value",
    "__error__",
    "absent",
    "level_extracted",
    "app_extracted",
    "error",
    "http_status",
    "severity",
    "a_b",
    "duplicate",
    "empty",
    "new",
    "container",
    "word",
];

/// Fields that mostly contain numbers, and some that do not.
pub(super) const NUMERIC: &[&str] = &[
    "status",
    "latency",
    "latency_ms",
    "n",
    "total",
    "gauge",
    "odd",
    "value",
    "bytes",
    "absent",
    "msg",
    "big",
    "neg",
];

pub(super) const TIMED: &[&str] = &["duration", "dur", "took", "latency"];
pub(super) const SIZED: &[&str] = &["bytes", "size", "n"];

pub(super) const VALUES: &[&str] = &[
    "info",
    "error",
    "ERROR",
    "warn",
    "GET",
    "POST",
    "200",
    "500",
    "alice",
    "José",
    "",
    "web",
    "prod",
    "a",
    "p-1",
    "0001",
    "/api/v1/users",
    "shadow",
    "12ms",
    "1KB",
    "second",
    "unknown",
    "10.0.0.5",
];

pub(super) const NUMBERS: &[&str] = &["0", "1", "200", "300", "500", "499.5", "-1", "1e2", "0.5", "3"];
pub(super) const DURATIONS: &[&str] = &["12ms", "1s", "1.5s", "250us", "2m", "1h", "0s", "100ns", "1m30s"];
pub(super) const SIZES: &[&str] = &["1KB", "1KiB", "512B", "3.5MB", "0B", "1GB", "10kb"];

/// Quotes a string in one of two ways. `text` is given as it is written within double quotes.
pub(super) fn quoted(random: &mut Random, text: &str) -> String {
    if !text.contains(['\\', '"', '`']) && random.chance(30) {
        return format!("`{text}`");
    }
    format!("\"{text}\"")
}

/// Returns a list of one to three different names.
pub(super) fn names(random: &mut Random) -> String {
    let mut all: Vec<&str> = (0..=random.below(3)).map(|_| random.pick(NAMES)).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// Returns `by (..)` or `without (..)`.
pub(super) fn grouping(random: &mut Random) -> String {
    let word = if random.chance(75) { "by" } else { "without" };
    let common = ["level", "app", "detected_level", "env", "status", "method", "cluster", "app, env", ""];
    let list = if random.chance(70) { random.pick(&common).to_owned() } else { names(random) };
    format!("{word} ({list})")
}
