//! Goal: no query needs more stack than a thread has, however long or deep it is.
//!
//! Method: every form in the language's tables is repeated 10 to 1,000,000 times, each form with one of
//! the powers of ten, or with two of them if `SANDUR_LONG_FORMS` is set. The query goes through everything
//! that is done with a query, on a thread with a quarter of the smallest stack that we use. It must be
//! answered, or refused with an error that names the limit. The attacks (`cargo xtask attack`) repeat each
//! form up to every length that fits a request.

#![allow(clippy::unwrap_used)] // a test may

use sandur_base::nesting::{HEIGHT_MAX, NODES_MAX};
use sandur_conformance::hostile::whole;
use sandur_logql::{DeleteQuery, compile_log_query, forms, parse_selector};
use sandur_query::MemorySource;

/// Parts of the errors that name a limit.
const LIMITS: [&str; 9] = [
    "out of range",
    "max_query_range",
    "more than 100 levels",
    "more than 2000 operands",
    "> 131072)",
    "parentheses/brackets (250)",
    "size limit",
    "matchers-count > limit",
    "memory",
];

fn on_a_small_stack(work: impl FnOnce() + Send) {
    whole::on_a_small_stack(work, || {});
}

fn source() -> MemorySource {
    whole::source(&[b"n=1 m=2", br#"{"n":1,"a":{"a":[1]}}"#])
}

fn everything(source: &MemorySource, query: &str) -> Result<(), String> {
    whole::everything(source, &whole::context(), query)
}

/// The other entry points of the same parser.
fn others(query: &str) {
    let _ = (parse_selector(query), DeleteQuery::new(query), compile_log_query(query));
}

#[test]
fn a_query_of_any_length_and_depth_is_answered_or_refused() {
    on_a_small_stack(|| {
        let source = source();
        let is_long = sandur_runtime::environment::variable("SANDUR_LONG_FORMS").is_some();
        let (mut answered, mut refused) = (0, 0);
        for (n, form) in forms().into_iter().enumerate() {
            // A form without meaning is refused for that reason at any length.
            let meaningless = everything(&source, &form.query(2)).err();
            let counts = [[10, 100_000], [100, 1_000_000], [1000, 10_000]][n % 3];
            let counts = if is_long { &counts[..] } else { &counts[n / 3 % 2..][..1] };
            for &count in counts {
                // Shows the form with `--nocapture`: a stack overflow ends the process without a test
                // failure.
                println!("{} x {count}", form.name);
                let query = form.query(count);
                let Err(error) = everything(&source, &query) else {
                    answered += 1;
                    if count == 1000 {
                        others(&query);
                    }
                    continue;
                };
                refused += 1;
                let named = LIMITS.iter().any(|limit| error.contains(limit));
                assert!(named || meaningless.is_some(), "{} x {count}: {error:.300}", form.name);
            }
        }
        assert!(answered > 100 && refused > 100, "{answered} answered, {refused} refused");
    });
}

#[test]
fn queries_are_accepted_up_to_the_limits() {
    on_a_small_stack(|| {
        let source = source();
        let levels = usize::from(HEIGHT_MAX);
        let check = |query: String, fits: bool| {
            let outcome = everything(&source, &query);
            assert_eq!(outcome.is_ok(), fits, "{query:.100}: {outcome:?}");
        };
        let functions = |count: usize| format!("{}vector(1){}", "sum(".repeat(count), ")".repeat(count));
        check(functions(levels - 1), true);
        check(functions(levels), false);
        let powers = |count: usize| format!("{}vector(1)", "vector(1) ^ ".repeat(count));
        check(powers(levels - 1), true);
        check(powers(levels), false);
        // The chain of operators is itself a node.
        let operands = |count: usize| format!("vector(1){}", " or vector(1)".repeat(count - 1));
        check(operands(NODES_MAX as usize - 1), true);
        check(operands(NODES_MAX as usize), false);
        // The list of the template's nodes counts as a level, and so does the list of the innermost
        // `if`.
        let ifs = |count: usize| {
            let (open, end) = ("{{if true}}".repeat(count), "{{end}}".repeat(count));
            format!("{{app=\"a\"}} | line_format `{open}x{end}`")
        };
        check(ifs(levels - 1), true);
        check(ifs(levels), false);
    });
}

#[test]
fn json_lines_of_any_depth_are_parsed_or_marked_with_an_error() {
    on_a_small_stack(|| {
        for count in [10, 100, 1000, 10_000, 100_000] {
            for (open, close) in [("{\"a\":", "}"), ("[", "]"), ("{\"a\":[", "]}")] {
                for end in [close.repeat(count), String::new()] {
                    let line = format!("{}1{end}", open.repeat(count));
                    let source = whole::source(&[line.as_bytes()]);
                    for stages in [
                        "| json",
                        r#"| json x="a.a.a[0]""#,
                        "| unpack",
                        "| logfmt",
                        "| line_format `{{__line__ | fromJson}}`",
                        "| line_format `{{range fromJson __line__}}{{.}}{{end}}`",
                    ] {
                        let query = format!("{{app=\"a\"}} {stages}");
                        everything(&source, &query).unwrap_or_else(|e| panic!("{stages} x {count}: {e}"));
                    }
                }
            }
        }
    });
}
