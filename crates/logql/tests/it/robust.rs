//! No query text and no line from a client makes the language panic.

#![allow(clippy::unwrap_used)] // tests may panic

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sandur_logql::{Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_query::{Direction, MemoryRow, MemorySource, QueryContext};
use sandur_runtime::Env;

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[5m]",
    "[1h30m]",
    "[",
    "]",
    ",",
    "app",
    "a",
    "=",
    "=~",
    "!=",
    "!~",
    "\"x\"",
    "`.*`",
    "\"",
    "|",
    "|=",
    "|~",
    "|>",
    "!>",
    "json",
    "logfmt",
    "--strict",
    "--keep-empty",
    "regexp",
    "\"(?P<x>.)\"",
    "pattern",
    "\"<a> <_>\"",
    "unpack",
    "line_format",
    "\"{{.x}}\"",
    "label_format",
    "drop",
    "keep",
    "decolorize",
    "unwrap",
    "bytes(",
    "duration(",
    "rate",
    "sum",
    "topk",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "offset",
    "5m",
    "-5m",
    "1",
    "-1",
    "1.5e3",
    "0x1p3",
    "5KB",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    ">",
    "<=",
    "==",
    "bool",
    "and",
    "or",
    "unless",
    "vector(1)",
    "label_replace",
    "count_over_time",
    "quantile_over_time",
    "ip(\"1.2.3.4\")",
    "#",
    "\n",
    "é",
    "\\",
    "\0",
];

const TEMPLATE_PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    ".",
    ".x",
    "$",
    "$x",
    ":=",
    "=",
    "|",
    "if",
    "else",
    "end",
    "range",
    "with",
    "break",
    "printf",
    "\"%d %s %5.2f %*d\"",
    "trunc",
    "substr",
    "-1",
    "99999999999",
    "1.5",
    "\"a\"",
    "`b`",
    "'c'",
    "(",
    ")",
    ",",
    "index",
    "slice",
    "len",
    "fromJson",
    "\"[1,{}]\"",
    "repeat",
    "date",
    "\"2006-01-02\"",
    "__timestamp__",
    "__line__",
    "toDate",
    "unixToTime",
    "round",
    "div",
    "mod",
    "0",
    "and",
    "or",
    "not",
    "eq",
    "lt",
    "/*",
    "*/",
    " ",
    "\n",
    "é",
    "regexReplaceAll",
    "\"(\"",
    "alignLeft",
    "indent",
    "b64dec",
    "urldecode",
    "\"%zz\"",
    "title",
    "default",
];

fn join(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop::sample::select(pieces.to_vec());
    prop::collection::vec((piece, any::<bool>()), 0..24).prop_map(|parts| {
        parts.into_iter().map(|(piece, space)| format!("{piece}{}", if space { " " } else { "" })).collect()
    })
}

/// A valid query with up to four fragments inserted or removed.
fn nearly_valid() -> impl Strategy<Value = String> {
    let edit =
        (any::<prop::sample::Index>(), 0..6usize, prop::option::of(prop::sample::select(PIECES.to_vec())));
    (prop::sample::select(QUERIES.to_vec()), prop::collection::vec(edit, 0..4)).prop_map(|(query, edits)| {
        let mut text = query.to_owned();
        for (place, taken, piece) in edits {
            let ends: Vec<usize> = text.char_indices().map(|(n, _)| n).chain([text.len()]).collect();
            let start = ends[place.index(ends.len())];
            let end = ends.iter().copied().find(|e| *e >= start + taken).unwrap_or(text.len());
            text.replace_range(start..end, piece.unwrap_or(""));
        }
        text
    })
}

fn run(query: &str, lines: &[Vec<u8>]) {
    run_at(
        query,
        lines,
        [
            Kind::Instant { time_ns: 1_000 },
            Kind::Range { start_ns: 0, end_ns: 1_000_000_000, step_ns: 100_000_000 },
        ],
    );
}

fn run_at(query: &str, lines: &[Vec<u8>], kinds: [Kind; 2]) {
    let row = |(n, line): (usize, &Vec<u8>)| MemoryRow {
        labels: Arc::new(Labels::from_pairs([("app", "a")])),
        timestamp: n as i64 + 1,
        line: line.clone().into(),
        metadata: vec![("x".into(), "m".into())],
        level: Level::Info,
    };
    let source = MemorySource::new(lines.iter().enumerate().map(row).collect());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let budget = MemoryBudget::root("query", 16 << 20);
        let env = Env::simulated(1, 0);
        let context =
            QueryContext::new(env, TenantId::default_tenant(), budget.clone(), Duration::from_secs(3_600));
        for kind in kinds {
            let request = Request {
                query: query.to_owned(),
                kind,
                limit: 10,
                direction: Direction::Forward,
                interval_ns: 0,
            };
            // Both answers and errors are accepted.
            let _ = sandur_logql::query(&source, &context, &Limits::default(), request.clone()).await;
            let _ = sandur_logql::query_unaligned(&source, &context, &Limits::default(), request).await;
        }
        assert_eq!(budget.used(), 0);
    });
}

/// Lines of fragments that parsers look for, and of arbitrary bytes.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"{"[..],
        b"}",
        b"\"",
        b"\\",
        b"\\u12",
        b"\\ud83d\\ude00",
        b":",
        b",",
        b"[",
        b"]",
        b"null",
        b"true",
        b"-1",
        b"1e5",
        b"a",
        b"x",
        b"_entry",
        b"=",
        b" ",
        b"\n",
        b"\xff",
        b"\xc3",
        b"\xc3\xa9",
        b"\x1b[31m",
        b"10.0.0.1",
        b"::1",
        b"5s",
        b"{\"a\":{\"b\":[1,{\"c\":\"d\"}]}}",
        b"k=v",
        b"k=\"v w\"",
        b"1KB",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

const QUERIES: &[&str] = &[
    r#"{app="a"} | json | logfmt | unpack | pattern "<a> <b>" | regexp "(?P<c>.+)" | decolorize"#,
    r#"{app="a"} | json x="a.b[1].c", y="[0]", z="k" | line_format "{{.x}}{{.y}}" | logfmt k, y="x""#,
    r#"{app="a"} | logfmt --strict --keep-empty | k > 1s or x = ip("::1"), a < 1KB | drop a, k="v" | keep x"#,
    r#"{app="a"} |= "a" or ip("::1") !~ "x{3}" |> "<_>=<_>" | label_format q="{{.k | upper}}", r=k"#,
    r#"sum by (a, k) (count_over_time({app="a"} | json | logfmt | __error__!="x" [1m]))"#,
    r#"quantile_over_time(0.5, {app="a"} | json | logfmt | unwrap duration(k) | __error__="" [1m]) by (x)"#,
    r#"sum(bytes_over_time({app="a"} | unpack | line_format "{{ __line__ | trunc 3 }}" [1m])) / 2"#,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_query_text_is_answered_or_refused(text in prop_oneof![join(PIECES), nearly_valid()]) {
        if let Ok(expr) = sandur_logql::parse(&text) {
            let written = expr.to_string();
            let again = sandur_logql::parse(&written);
            prop_assert!(again.is_ok(), "{text:?} was printed as {written:?}: {again:?}");
            prop_assert_eq!(again.unwrap().to_string(), written);
        }
        let _ = sandur_logql::parse_selector(&text);
        run(&text, &[b"x=1".to_vec()]);
    }

    #[test]
    fn any_times_are_answered_or_refused(
        start_ns in prop_oneof![any::<i64>(), -10..10i64],
        length in prop_oneof![any::<i64>(), 0..1000i64],
        step_ns in prop_oneof![any::<i64>(), 1..1000i64],
        query in prop::sample::select(QUERIES.to_vec()),
        offset in prop::sample::select(vec!["", " offset 5m", " offset -200y", " offset 200y"]),
        range in prop::sample::select(vec!["1m", "1ms", "290y"]),
    ) {
        let query = query.replace("[1m]", &format!("[{range}]{offset}"));
        let end_ns = start_ns.saturating_add(length);
        let kinds = [Kind::Instant { time_ns: start_ns }, Kind::Range { start_ns, end_ns, step_ns }];
        run_at(&query, &[b"x=1".to_vec()], kinds);
    }

    #[test]
    fn any_query_bytes_are_answered_or_refused(text in "\\PC{0,60}") {
        let _ = sandur_logql::parse(&text);
    }

    #[test]
    fn any_template_is_run_or_refused(text in join(TEMPLATE_PIECES), label in any::<bool>()) {
        let stage = if label { "label_format y=" } else { "line_format " };
        let text = text.replace('`', "");
        run(&format!("{{app=\"a\"}} | logfmt | {stage}`{text}`"), &[b"x=1 y=2".to_vec(), b"".to_vec()]);
    }

    #[test]
    fn any_lines_are_processed(
        lines in prop::collection::vec(line(), 0..12),
        query in prop::sample::select(QUERIES.to_vec()),
    ) {
        run(query, &lines);
    }
}
