//! Goal: a query that reads some fields of lines has the same answer whether the storage provides these
//! fields or complete lines.
//!
//! Method: lines of a few random statements, among them hostile ones (duplicate keys, escapes, huge
//! numbers, nested values, invalid UTF-8, cut lines), are stored in memory, where queries read complete
//! lines, and in flushed blocks, which provide fields. Random metric queries must have equal answers.
//! `SANDUR_FIELDS_SEEDS` sets the number of seeds.

use std::sync::Arc;

use sandur_conformance::script::{EPOCH_NS, Eval, Expected};
use sandur_conformance::world::{Place, World, ask};
use sandur_logql::{Kind, Request};
use sandur_model::{Labels, Level};
use sandur_query::{Direction, MemoryRow, QueryResult};
use sandur_runtime::Env;

/// Rows of a store.
const ROWS: i64 = 600;
/// Queries for each store.
const QUERIES: usize = 60;
/// Time between rows.
const GAP_NS: i64 = 700_000_000;
/// The fields of statements.
const FIELDS: [&str; 12] =
    ["status", "level", "latency_ms", "took", "user", "msg", "ok", "req", "a.b", "ratio", "app", "ts"];
const WORDS: [&str; 9] =
    ["info", "error", "alice", "bob", "GET", "timeout after", "x", "ünïcode", r#"a \"b\" [c}"#];

/// Draws numbers (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// A logging statement: the fields of its lines.
struct Statement {
    is_json: bool,
    fields: Vec<&'static str>,
}

impl Statement {
    fn new(draw: &mut Draw) -> Self {
        let mut fields: Vec<&str> = FIELDS.iter().copied().filter(|_| draw.below(3) > 0).collect();
        if draw.one_in(4) {
            fields.push("status");
        }
        Self { is_json: draw.below(2) == 0, fields }
    }

    fn line(&self, draw: &mut Draw) -> Vec<u8> {
        let quote = if self.is_json { "\"" } else { "" };
        let fields = self.fields.iter().map(|name| format!("{quote}{name}{}", self.value(name, draw)));
        let fields: Vec<String> = fields.collect();
        let text = if self.is_json { format!("{{{}}}", fields.join(",")) } else { fields.join(" ") };
        let mut text = text.into_bytes();
        if draw.one_in(60) {
            let at = draw.below(text.len() + 1);
            match draw.below(3) {
                0 => text.truncate(at),
                1 => text.insert(at, 0xFF),
                _ => text.insert(at, b"\"\\{}=,: \n"[draw.below(9)]),
            }
        }
        text
    }

    /// The rest of a field after its name.
    fn value(&self, name: &str, draw: &mut Draw) -> String {
        let number = draw.below(1_000);
        let word = draw.of(&WORDS);
        let hostile = draw.one_in(40);
        if self.is_json {
            let value = match name {
                _ if hostile => draw
                    .of(&[
                        "null",
                        "[1,{\"status\":5}]",
                        "{\"b\":{\"c\":1}}",
                        "1e400",
                        "-0",
                        "\"\\u00e9\\n\"",
                        "\"\"",
                        "true",
                        "\"5\\\"\"",
                        "12345678901234567890",
                        "\"}\"",
                        "tru",
                        "",
                        "{\"\":{\" \":7}}",
                    ])
                    .to_owned(),
                "status" => [200, 404, 500, 503][draw.below(4)].to_string(),
                "latency_ms" | "ts" => number.to_string(),
                "ratio" => format!("{}.{}", number / 100, number % 100),
                "took" => format!("\"{number}ms\""),
                "ok" => draw.of(&["true", "false"]).to_owned(),
                "req" => format!("{{\"id\":{number},\"path\":\"/{word}\"}}"),
                _ => format!("\"{word} {number}\""),
            };
            return format!("\":{value}");
        }
        match name {
            _ if hostile => draw
                .of(&["", "=", "=\"\"", "=\"a\\\"b\"", "=a=b", "=\"open", "==", "=\"\\q\"", "=x\"y"])
                .to_owned(),
            "status" => format!("={}", [200, 404, 500, 503][draw.below(4)]),
            "latency_ms" | "ts" => format!("={number}"),
            "ratio" => format!("={}.{}", number / 100, number % 100),
            "took" => format!("={number}ms"),
            "ok" => format!("={}", draw.of(&["true", "false"])),
            "user" => format!("=u{number}"),
            _ => format!("=\"{word} {number}\""),
        }
    }
}

fn rows(draw: &mut Draw) -> Vec<MemoryRow> {
    let statements: Vec<Statement> = (0..1 + draw.below(3)).map(|_| Statement::new(draw)).collect();
    let streams = [&[("app", "a"), ("env", "test")][..], &[("env", "test"), ("status", "7")]];
    let streams = streams.map(|pairs| Arc::new(Labels::from_pairs(pairs.iter().copied())));
    let has_metadata = draw.one_in(3);
    let row = |n: i64| {
        let line = statements[draw.below(statements.len())].line(draw);
        let metadata = match has_metadata && draw.one_in(2) {
            true => vec![(Arc::from(draw.of(&["level", "trace", "user"])), Arc::from(draw.of(&WORDS)))],
            false => Vec::new(),
        };
        MemoryRow {
            labels: Arc::clone(&streams[usize::from(draw.one_in(3))]),
            timestamp: EPOCH_NS + n * GAP_NS,
            line: line.into(),
            metadata,
            level: [Level::None, Level::Info, Level::Error][draw.below(3)],
        }
    };
    (0..ROWS).map(row).collect()
}

fn query(draw: &mut Draw) -> String {
    const PARSERS: [&str; 9] = [
        "json status=\"status\", req_path=\"req.path\", user",
        "json latency_ms, ok, who=\"user\", took",
        "json",
        "json",
        "logfmt",
        "logfmt",
        "logfmt --strict",
        "logfmt --keep-empty",
        "logfmt status, who=\"user\"",
    ];
    const FILTERS: [&str; 12] = [
        "| status >= 500",
        "| status = 404",
        "| took > 500ms",
        "| level =~ \"info.*\"",
        "| ok = \"true\"",
        "| user != \"\"",
        "| req_id < 300",
        "| a_b != \"x 1\"",
        "| app_extracted != \"\"",
        "| latency_ms > 10 or status = 200",
        "| ratio <= 5.5",
        "| missing = \"\"",
    ];
    const GROUPS: [&str; 11] = [
        "status",
        "level, status",
        "user",
        "app",
        "a_b",
        "req_path",
        "app_extracted",
        "ok",
        "who, status",
        "detected_level",
        "trace, status_extracted",
    ];
    const UNWRAPS: [&str; 6] =
        ["latency_ms", "duration(took)", "status", "ratio", "req_id", "bytes(latency_ms)"];
    let mut pipeline = String::new();
    if draw.one_in(4) {
        pipeline.push_str(draw.of(&["|= \"5\" ", "!= \"alice\" ", "|~ \"status\\\"?[:=]\" "]));
    }
    pipeline += &format!("| {} ", draw.of(&PARSERS));
    for _ in 0..draw.below(3) {
        pipeline += draw.of(&FILTERS);
        pipeline.push(' ');
    }
    if draw.one_in(6) {
        pipeline.push_str(draw.of(&["| label_format who=user ", "| drop level ", "| keep status, user "]));
    }
    let by = draw.of(&GROUPS);
    let errors = if draw.below(4) > 0 { "| __error__=\"\" " } else { "" };
    match draw.below(3) {
        0 => format!("sum by ({by}) (count_over_time({{env=\"test\"}} {pipeline}{errors}[10m]))"),
        1 => {
            let unwrap = draw.of(&UNWRAPS);
            let function = draw.of(&["sum_over_time(", "max_over_time(", "quantile_over_time(0.9, "]);
            format!("{function}{{env=\"test\"}} {pipeline}| unwrap {unwrap} {errors}[10m]) by ({by})")
        }
        _ => format!("topk(3, sum by ({by}) (rate({{env=\"test\"}} {pipeline}{errors}[5m])))"),
    }
}

fn eval(query: String) -> Eval {
    let request = Request {
        query,
        kind: Kind::Instant { time_ns: EPOCH_NS + ROWS * GAP_NS },
        limit: 100,
        direction: Direction::Backward,
        interval_ns: 0,
    };
    Eval { line: 0, request, aligned: false, expected: Expected::Fail(None) }
}

/// What can be compared of an answer: which row fails first depends on the order of pages.
fn comparable(answer: Result<QueryResult, String>) -> String {
    match answer {
        Ok(result) => format!("{result:?}"),
        Err(_) => "an error".to_owned(),
    }
}

async fn check(seed: u64, failures: &mut Vec<String>) -> Result<usize, String> {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let rows = rows(&mut draw);
    let env = Env::simulated(1, EPOCH_NS);
    let (mut memory, mut flushed) = (World::open(Place::Memory).await?, World::open(Place::Flushed).await?);
    memory.load(&rows).await?;
    flushed.load(&rows).await?;
    let (complete, fields) = (memory.views().await?, flushed.views().await?);
    let mut answered = 0;
    for _ in 0..QUERIES {
        let eval = eval(query(&mut draw));
        let expected = comparable(ask(&env, &complete[0], &eval).await);
        let found = comparable(ask(&env, &fields[0], &eval).await);
        answered += usize::from(expected != "an error");
        if found != expected {
            failures.push(format!(
                "seed {seed}: {}\n  lines:  {expected}\n  fields: {found}",
                eval.request.query
            ));
        }
    }
    memory.close().await?;
    flushed.close().await?;
    Ok(answered)
}

#[test]
fn fields_of_blocks_are_those_of_complete_lines() {
    let seeds = sandur_runtime::environment::variable("SANDUR_FIELDS_SEEDS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(6);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (mut failures, mut answered) = (Vec::new(), 0);
    for seed in 1..=seeds {
        answered += runtime.block_on(check(seed, &mut failures)).unwrap();
    }
    let queries = seeds as usize * QUERIES;
    assert!(failures.is_empty(), "{} of {queries} queries:\n{}", failures.len(), failures.join("\n"));
    assert!(answered > queries / 2, "{answered} of {queries} queries have an answer");
}
