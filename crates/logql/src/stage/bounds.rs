//! Tests of every stage with expensive rows: it checks often enough whether its job may continue, and it
//! reserves its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandur_memory::job::{self, Owner};
use sandur_memory::{MemoryBudget, OverBudget, Stopped};

use super::STAGES;
use super::testing::run;

/// An owner that lets a job continue for `most` checks.
struct Counting {
    asked: AtomicU64,
    most: u64,
    budget: MemoryBudget,
}

impl Counting {
    fn new(most: u64, memory: u64) -> Arc<Self> {
        Arc::new(Self { asked: AtomicU64::new(0), most, budget: MemoryBudget::root("query", memory) })
    }
}

impl Owner for Counting {
    fn goes_on(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) < self.most
    }
    fn budget(&self) -> &MemoryBudget {
        &self.budget
    }
    fn refused(&self, _: OverBudget) {}
}

/// Stages of each keyword, and filters, with lines that are expensive for them. The number of checks is
/// compared with the bytes of the lines.
fn cases() -> Vec<(&'static str, String, String)> {
    let keys =
        |pair: fn(usize) -> String, between: &str| (0..800).map(pair).collect::<Vec<_>>().join(between);
    let json = format!("{{{}}}", keys(|n| format!("\"key{n}\":\"v{n}\""), ","));
    let nested = format!("{}1{}", "{\"a-b\":".repeat(60), "}".repeat(60));
    let logfmt = keys(|n| format!("key{n}=v{n}"), " ");
    let packed = format!("{{{},\"_entry\":\"x\"}}", keys(|n| format!("\"key{n}\":\"v{n}\""), ","));
    let (hard, long) = ("a".repeat(20_000), "ab".repeat(20_000));
    let words: Vec<String> = (0..200).map(|n| format!("(a?x{n:03}.*)")).collect();
    let alternation = words.join("|");
    let case = |name, stages: String, line: &String| (name, stages, line.clone());
    vec![
        case("json", "| json".into(), &json),
        case("json", "| json".into(), &nested),
        case("json", "| json a=\"key799\", b=\"key798\"".into(), &json),
        case("logfmt", "| logfmt --keep-empty".into(), &logfmt),
        case("logfmt", "| logfmt a=\"key799\"".into(), &logfmt),
        case("unpack", "| unpack".into(), &packed),
        case("regexp", "| regexp `(?P<x>(a*)*b|a.{30}c)`".into(), &hard),
        case("pattern", "| pattern `<a>b<c>`".into(), &long),
        case("line_format", "| line_format `{{regexReplaceAll \"a?\" __line__ \"b\"}}`".into(), &hard),
        case("label_format", "| label_format x=`{{__line__ | b64enc | ToUpper}}`".into(), &long),
        case("decolorize", "| decolorize".into(), &"\u{1b}[31ma".repeat(9_000)),
        case("drop", "| logfmt | drop key1, key2=~`v.*|(a?b){20}`, key3".into(), &logfmt),
        case("keep", "| logfmt | keep key1, key2=~`v.*|(a?b){20}`".into(), &logfmt),
        case("label filter", "| logfmt | key1=~`(v|w)+.{20}` or key2 > 5".into(), &logfmt),
        case("line filter", format!("|~ `{alternation}`"), &hard),
        case("line filter", "|~ `a.{40}b`".into(), &hard),
        case("line filter", "|> `<_>b<_>c` != ip(`10.0.0.0/8`) != `b` or `c`".into(), &long),
    ]
}

#[test]
fn every_stage_checks_whether_its_job_may_continue() {
    let cases = cases();
    for stage in STAGES {
        assert!(cases.iter().any(|(name, ..)| *name == stage.name), "{} has no case", stage.name);
    }
    for (name, stages, line) in cases {
        let query = format!("{{app=\"s\"}} {stages}");
        // An expression that runs in the slow NFA simulation needs only few lines.
        let rows = (if line.starts_with("aaa") { 40_000 } else { 480_000 }) / line.len();
        let owner = Counting::new(u64::MAX, u64::MAX);
        job::run(owner.clone(), || _ = run_rows(&query, &line, rows)).unwrap();
        let (asked, bytes) = (owner.asked.load(Ordering::Relaxed), (rows * line.len()) as u64);
        // At least one check per MiB of lines, for every stage.
        assert!(
            asked >= 2 && asked > bytes / (1 << 20),
            "{name}: {asked} checks for {bytes} bytes of {stages:.80}"
        );
        // After a failed check, no further rows are processed.
        for most in [1, asked / 2] {
            let owner = Counting::new(most, u64::MAX);
            let stopped = job::run(owner.clone(), || run_rows(&query, &line, rows));
            assert_eq!(stopped, Err(Stopped), "{name} after {most} of {asked} in {stages:.80}");
            assert_eq!(
                owner.asked.load(Ordering::Relaxed),
                most + 1,
                "there is no check after the failed one"
            );
        }
    }
}

/// Runs the stages `rows` times over the same line; returns how many rows pass.
fn run_rows(query: &str, line: &str, rows: usize) -> usize {
    super::testing::run_many(query, line, rows)
}

#[test]
fn memory_for_names_and_labels_is_reserved() {
    // Names joined from nested keys take more memory than the line.
    let leaves: Vec<String> = (0..2_000).map(|n| format!("\"{n}\":1")).collect();
    let line = format!("{{\"{}\":{{{}}}}}", "k".repeat(20_000), leaves.join(","));
    let outcome = job::run(Counting::new(u64::MAX, 8 << 20), || run("{app=\"s\"} | json", &line));
    assert_eq!(outcome, Err(Stopped), "2,000 names of 20 kB are 40 MB");
    let owner = Counting::new(u64::MAX, 200 << 20);
    let out = job::run(owner.clone(), || run("{app=\"s\"} | json", &line)).unwrap().unwrap();
    let bytes: usize = out.parsed.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert_eq!(out.parsed.len(), 2_000);
    assert!(owner.budget.peak() > bytes as u64, "{} for {bytes}", owner.budget.peak());
    assert_eq!(owner.budget.used(), 0);
    for stages in ["| logfmt", "| label_format a=`{{__line__}}` | label_format b=`{{.a}}{{.a}}`"] {
        let line = format!("x={} y={}", "v".repeat(300_000), "w".repeat(300_000));
        let query = format!("{{app=\"s\"}} {stages}");
        assert_eq!(
            job::run(Counting::new(u64::MAX, 400_000), || run(&query, &line)),
            Err(Stopped),
            "{stages}"
        );
    }
}

/// A selector of a thousand expressions was compiled completely, even after the client had disconnected.
#[test]
fn compiling_matchers_ends_with_the_job() {
    let matchers: Vec<String> = (0..1_000).map(|n| format!("a{n}=~\"x{n}.*\"")).collect();
    let text = format!("{{{}}}", matchers.join(","));
    let compile = || crate::parse_selector(&text).map(|matchers| matchers.len());
    let owner = Counting::new(u64::MAX, 1 << 30);
    assert!(matches!(job::run(owner.clone(), compile), Ok(Ok(1_000))));
    assert!(owner.asked.load(Ordering::Relaxed) > 20, "compiling checks whether the job may continue");
    assert!(job::run(Counting::new(3, 1 << 30), compile).is_err());
}
