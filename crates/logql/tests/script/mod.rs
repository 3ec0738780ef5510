//! Test scripts: rows to load, queries to run, answers to expect.
//!
//! The form is that of Loki's `.logqltest` files (times are offsets from the epoch), with two commands of our
//! own: `eval logs` for log queries, and `eval aligned` for range queries whose steps are aligned:
//!
//! ```text
//! load
//!   {app="a"} "line {{.i}}" @ 10s [repeat every 10s for 6] [metadata k="v"]
//! eval instant at 60s count_over_time({app="a"}[1m])
//!   {app="a", k="v"} 6
//! eval range from 0s to 60s step 30s rate({app="a"}[30s])
//!   {app="a", k="v"} _ 0.1 0.1
//! eval logs from 0s to 60s limit 2 backward {app="a"} |= "line"
//!   50s {app="a"} {k="v"} {} "line 4"
//!   40s {app="a"} {k="v"} {} "line 3"
//! eval instant at 60s count_over_time({})
//!   expect fail msg: queries require at least one
//! ```

use std::sync::Arc;

use sandur_logql::{Kind, Request};
use sandur_model::{Labels, Level};
use sandur_query::{Direction, MemoryRow};

/// A command of a script.
pub enum Command {
    Clear,
    Load(Vec<MemoryRow>),
    Eval(Box<Eval>),
}

/// A query and what it must answer.
pub struct Eval {
    pub line: usize,
    pub request: Request,
    /// Steps are aligned to multiples of the step.
    pub aligned: bool,
    pub expected: Expected,
}

/// Labels sorted by name.
pub type Pairs = Vec<(String, String)>;

/// What a query must answer.
pub enum Expected {
    Empty,
    Fail(Option<Match>),
    Scalar(f64),
    Series { ordered: bool, series: Vec<(Pairs, Vec<Option<f64>>)> },
    Logs(Vec<String>),
}

/// How an error text must look.
pub enum Match {
    Part(String),
    Regex(regex::Regex),
}

/// Reads a script; panics at what it cannot read.
pub fn parse(text: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let number = at + 1;
        let head = strip_comment(lines[at]).trim_end().to_owned();
        at += 1;
        if head.trim().is_empty() {
            continue;
        }
        assert!(!head.starts_with(' '), "line {number}: unexpected indent");
        let mut block = Vec::new();
        while at < lines.len() && lines[at].starts_with([' ', '\t']) {
            let line = strip_comment(lines[at]).trim().to_owned();
            if !line.is_empty() {
                block.push(line);
            } else if lines[at].trim().is_empty() {
                break;
            }
            at += 1;
        }
        match head.split_whitespace().next() {
            Some("clear") => commands.push(Command::Clear),
            Some("load") => commands.push(Command::Load(block.iter().flat_map(|l| load_line(l)).collect())),
            Some("eval") => commands.push(Command::Eval(Box::new(eval(number, &head, &block)))),
            _ => panic!("line {number}: unknown command: {head}"),
        }
    }
    commands
}

fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    for (n, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return &line[..n],
            (None, '"' | '`') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

fn duration(text: &str) -> i64 {
    if text == "0" {
        return 0;
    }
    // The unit of seconds and below is all that scripts use with fractions.
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().unwrap_or_else(|_| panic!("duration {text}"));
        let after = &rest[digits..];
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            unit => panic!("unit {unit} of {text}"),
        };
        total += number * unit;
        rest = &after[letters..];
    }
    total as i64
}

/// Splits after the closing brace of a label set.
fn split_labels(text: &str) -> (&str, &str) {
    let mut quote = None;
    let mut escaped = false;
    for (n, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (None, '}') => return (&text[..=n], text[n + 1..].trim_start()),
            (None, '"' | '`') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    panic!("no label set in {text}");
}

/// Splits after a quoted text.
fn split_quoted(text: &str) -> (&str, &str) {
    let quote =
        text.chars().next().filter(|c| matches!(c, '"' | '`')).unwrap_or_else(|| panic!("no quote: {text}"));
    let end = text[1..].find(quote).unwrap_or_else(|| panic!("open quote: {text}")) + 1;
    (&text[1..end], text[end + 1..].trim_start())
}

fn load_line(text: &str) -> Vec<MemoryRow> {
    let (labels, rest) = split_labels(text);
    let labels = Arc::new(Labels::parse(labels).unwrap_or_else(|e| panic!("{text}: {e}")));
    let (line, rest) = split_quoted(rest);
    let rest = rest.strip_prefix('@').unwrap_or_else(|| panic!("no time: {text}")).trim_start();
    let (start, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (mut step, mut count, mut metadata, mut level) = (0, 1, Vec::new(), Level::None);
    let mut rest = rest.trim();
    while let Some(inside) = rest.strip_prefix('[') {
        if let Some(repeat) = inside.strip_prefix("repeat every ") {
            let (body, after) = repeat.split_once(']').unwrap();
            let (every, times) = body.split_once(" for ").unwrap();
            (step, count) = (duration(every.trim()), times.trim().parse().unwrap());
            rest = after.trim_start();
        } else if let Some(mut pairs) = inside.strip_prefix("metadata ") {
            while !pairs.starts_with(']') {
                let (key, after) = if pairs.starts_with('"') {
                    split_quoted(pairs)
                } else {
                    pairs.split_at(pairs.find('=').unwrap())
                };
                let (value, after) = split_quoted(after.strip_prefix('=').unwrap());
                match Level::from_name(value).filter(|_| key == "detected_level") {
                    Some(known) => level = known,
                    None => metadata.push((Arc::from(key), Arc::from(value))),
                }
                pairs = after;
            }
            rest = pairs[1..].trim_start();
        } else {
            panic!("unknown option: {text}");
        }
    }
    assert!(rest.is_empty(), "what is this: {rest}");
    metadata.sort();
    let row = |n: i64| MemoryRow {
        labels: Arc::clone(&labels),
        timestamp: duration(start) + n * step,
        line: line.replace("{{.i}}", &n.to_string()).into(),
        metadata: metadata.clone(),
        level,
    };
    (0..count).map(row).collect()
}

fn eval(number: usize, head: &str, block: &[String]) -> Eval {
    let mut words = head.strip_prefix("eval ").unwrap().trim_start();
    let mut next = |expected: Option<&str>| -> String {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        words = rest.trim_start();
        if let Some(expected) = expected {
            assert_eq!(word, expected, "line {number}");
        }
        word.to_owned()
    };
    let mut request = Request {
        query: String::new(),
        kind: Kind::Instant { time_ns: 0 },
        limit: 100,
        direction: Direction::Backward,
        interval_ns: 0,
    };
    let mut aligned = false;
    let logs = match next(None).as_str() {
        "instant" => {
            next(Some("at"));
            request.kind = Kind::Instant { time_ns: duration(&next(None)) };
            false
        }
        kind => {
            next(Some("from"));
            let start_ns = duration(&next(None));
            next(Some("to"));
            let end_ns = duration(&next(None));
            let mut step_ns = 0;
            aligned = kind == "aligned";
            if kind == "range" || aligned {
                next(Some("step"));
                step_ns = duration(&next(None));
            }
            request.kind = Kind::Range { start_ns, end_ns, step_ns };
            kind == "logs"
        }
    };
    let mut options = logs;
    while options {
        if let Some(rest) = words.strip_prefix("limit ") {
            let (limit, rest) = rest.split_once(' ').unwrap();
            request.limit = limit.parse().unwrap();
            words = rest;
        } else if let Some(rest) = words.strip_prefix("interval ") {
            let (interval, rest) = rest.split_once(' ').unwrap();
            request.interval_ns = duration(interval);
            words = rest;
        } else if let Some(rest) = words.strip_prefix("forward ") {
            request.direction = Direction::Forward;
            words = rest;
        } else if let Some(rest) = words.strip_prefix("backward ") {
            words = rest;
        } else {
            options = false;
        }
    }
    request.query = words.to_owned();
    Eval { line: number, request, aligned, expected: expected(number, logs, block) }
}

fn expected(number: usize, logs: bool, block: &[String]) -> Expected {
    let mut ordered = false;
    let mut series = Vec::new();
    let mut lines = Vec::new();
    for line in block {
        if let Some(what) = line.strip_prefix("expect ") {
            match what.split_once(' ').map_or((what, ""), |(a, b)| (a, b.trim())) {
                ("empty", _) => return Expected::Empty,
                ("ordered", _) => ordered = true,
                ("fail", "") => return Expected::Fail(None),
                ("fail", how) => {
                    let how = match how.split_once(':') {
                        Some(("msg", text)) => Match::Part(text.trim().to_owned()),
                        Some(("regex", text)) => Match::Regex(regex::Regex::new(text.trim()).unwrap()),
                        _ => panic!("line {number}: {line}"),
                    };
                    return Expected::Fail(Some(how));
                }
                _ => panic!("line {number}: {line}"),
            }
        } else if line.starts_with("skip ") {
            // Concerns one of Loki's own stacks.
        } else if logs {
            lines.push(line.clone());
        } else if line.starts_with('{') {
            let (labels, points) = split_labels(line);
            let pairs = sandur_logql::parse_selector(labels).unwrap_or_else(|e| panic!("line {number}: {e}"));
            let mut pairs: Vec<(String, String)> =
                pairs.iter().map(|m| (m.name().to_owned(), m.value().to_owned())).collect();
            pairs.sort();
            series.push((pairs, points.split_whitespace().flat_map(points_of).collect()));
        } else {
            return Expected::Scalar(number_of(line));
        }
    }
    match logs {
        true if lines.is_empty() => panic!("line {number}: nothing expected"),
        true => Expected::Logs(lines),
        false if series.is_empty() => panic!("line {number}: nothing expected"),
        false => Expected::Series { ordered, series },
    }
}

fn number_of(text: &str) -> f64 {
    match text {
        "Inf" | "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        text => text.parse().unwrap_or_else(|_| panic!("number {text}")),
    }
}

/// `2+3x2` is `2 5 8`; `4x3` is `4 4 4 4`; `_x2` is three gaps.
fn points_of(text: &str) -> Vec<Option<f64>> {
    let Some((head, count)) = text.rsplit_once('x') else {
        return vec![(text != "_").then(|| number_of(text))];
    };
    let count: usize = count.parse().unwrap();
    if head == "_" {
        return vec![None; count];
    }
    let split = head[1..].find(['+', '-']).map(|n| n + 1);
    let (base, step) = split.map_or((head, "0"), |n| (&head[..n], &head[n..]));
    (0..=count).map(|n| Some(number_of(base) + n as f64 * number_of(step))).collect()
}
