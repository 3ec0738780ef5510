//! Regular expressions that are expensive to compile or to search with, several at once, some abandoned.

use std::io::Write;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "regexes", about: "regular expressions that are expensive to compile and to search", run };

/// Number of lines that the expressions search.
const LINES: usize = 200;
const LINE_BYTES: usize = 50_000;
/// Length of a line in the short attack: a debug build searches some hundred times more slowly.
const LINE_BYTES_SHORT: usize = 300;

fn expressions() -> Vec<String> {
    let words: String = (0..5_000).map(|n| format!("{:x}a.*b|", n * 7_919)).collect();
    vec![
        format!("(?:{})z", words.trim_end_matches('|')),
        r"(?:a{1,500}){1,500}z".to_owned(),
        r"(?:\pL{1,100}|\w{1,100}){1,10}z".to_owned(),
        r".*.*.*.*.*.*.*.*=.*z".to_owned(),
        r"(?i)(?:[a-z]+[0-9]+){50}z".to_owned(),
        "(a?){200}a{200}z".to_owned(),
        "(?:x+x+)+y".to_owned(),
        r"(?s).*(?:.{200}z|.{201}y)".to_owned(),
        "a{1000}{1000}".to_owned(),
    ]
}

fn run(ground: &Ground<'_>) -> Result<()> {
    let line = "xa1".repeat(ground.pick(LINE_BYTES_SHORT, LINE_BYTES) / 3);
    for _ in 0..LINES / 20 {
        ground.store_lines("regexes", &vec![line.clone(); 20]);
    }
    let mut queries = Vec::new();
    for expression in expressions() {
        queries.push(format!("{{job=\"regexes\"}} |~ `{expression}`"));
        queries.push(format!("sum(count_over_time({{job=\"regexes\"}} !~ `{expression}`[1h]))"));
        queries.push(format!("{{job=\"regexes\"}} | regexp `(?P<name>{expression})`"));
        queries.push(format!("{{job=~`{expression}`}}"));
        queries.push(format!(
            "label_replace(rate({{job=\"regexes\"}}[1h]), \"a\", \"$1\", \"job\", `({expression})`)"
        ));
        queries.push(format!(
            "{{job=\"regexes\"}} | line_format `{{{{regexReplaceAll \"{expression}\" __line__ \"$0$0\"}}}}`"
        ));
    }
    let together = ground.pick(8, queries.len());
    for group in queries.chunks(together) {
        std::thread::scope(|scope| {
            for (n, query) in group.iter().enumerate() {
                scope.spawn(move || match n % 2 {
                    0 => drop(ground.form("/loki/api/v1/query_range", &[("query", query)])),
                    _ => abandon(ground, query),
                });
            }
        });
    }
    labels(ground);
    Ok(())
}

/// Creates long labels in PromQL and searches them many times.
fn labels(ground: &Ground<'_>) {
    let mut long = "label_replace(vector(1), \"a\", \"xayazaxayazaxaya\", \"\", \"\")".to_owned();
    for _ in 0..ground.pick(6, 12) {
        long = format!("label_join({long}, \"a\", \"\", \"a\", \"a\")");
    }
    let expression = "((?:[a-y]{1,30}){1,30}|(?:[a-x]{1,29}){1,30})*z.*";
    for _ in 0..ground.pick(10, 60) {
        long = format!("label_replace({long}, \"b\", \"$1\", \"a\", \"{expression}\")");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| ground.form("/api/v1/query", &[("query", &long)]));
        }
    });
}

/// Sends a query and disconnects before the answer.
fn abandon(ground: &Ground<'_>, query: &str) {
    let Ok(mut stream) = ground.connect() else { return };
    let form = format!("query={}", sandur_bench::http::escaped(query));
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let head = raw::head("POST", "/loki/api/v1/query_range", &headers, form.len() as u64);
    // The request need not arrive completely.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(form.as_bytes()));
}
