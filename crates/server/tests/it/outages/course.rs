//! The events around an outage, second by second, and the table of them.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use tracing::Level;

use super::alerts::Monitor;
use super::log::{Line, Log};
use super::node::Node;
use crate::harness::NOW;

pub const SEED: u64 = 8;
/// Time before the outage, in which rates become defined. Not a multiple of the interval of heartbeats or
/// scrapes.
const BEFORE_S: u64 = 123;
/// Time before the outage in which there are queries already, so that they are not the first of the server.
const ASKED_BEFORE_S: u64 = 20;
/// Time after the outage.
const AFTER_S: u64 = 120;
/// Time between two scrapes.
const SCRAPE_S: u64 = 15;

/// A bucket that works.
pub fn works() -> FaultPlan {
    FaultPlan { latency_median: Duration::from_millis(20), ..FaultPlan::none() }
}

/// A temporary failure of a bucket.
pub struct Outage {
    pub what: &'static str,
    pub plan: FaultPlan,
    pub seconds: u64,
}

/// The result of a request: the second in which it was sent, the one in which it was answered, and the
/// outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestResult {
    sent: u64,
    answered: u64,
    how: &'static str,
}

/// The events, by seconds since the outage began.
pub struct Course {
    outage: Outage,
    pushes: Vec<RequestResult>,
    queries: Vec<RequestResult>,
    ready: [Vec<RequestResult>; 3],
    alerts: Vec<(String, u64, Option<u64>)>,
    log: Vec<(u64, Line)>,
}

/// The parameters of `/ready`.
const WANTED: [&str; 3] = ["push", "query", ""];

/// Runs an outage of a server that gets a push and a query each second; queries begin shortly before it.
pub async fn course(outage: Outage) -> Course {
    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, works());
    let log = Log::collect(&env);
    let node = Arc::new(Node::open(&env, &bucket, |_| {}).await);
    let mut monitor = Monitor::new(&env);
    let (pushes, queries) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (mut ready, mut tasks) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    let begins = env.monotonic() + Duration::from_secs(BEFORE_S);
    for second in 0..BEFORE_S + outage.seconds + AFTER_S {
        let since = move |env: &Env| env.monotonic().checked_sub(begins).map(|since| since.as_secs());
        if second == BEFORE_S {
            bucket.set_plan(outage.plan.clone());
        }
        if second == BEFORE_S + outage.seconds {
            bucket.set_plan(works());
        }
        let is_asked = second + ASKED_BEFORE_S >= BEFORE_S;
        for (met, is_push) in [(&pushes, true), (&queries, false)] {
            if !is_push && !is_asked {
                continue;
            }
            let (node, env, met) = (Arc::clone(&node), env.clone(), Arc::clone(met));
            tasks.push(env.clone().spawn("request", async move {
                let sent = since(&env);
                let how = if is_push { push(&node, second).await } else { query(&node).await };
                let answered = since(&env).unwrap_or_default();
                met.lock().unwrap().extend(sent.map(|sent| RequestResult { sent, answered, how }));
            }));
        }
        for (asked, met) in WANTED.iter().zip(&mut ready).filter(|_| is_asked) {
            let answer = node.server.get("/ready", &[("for", asked)]).await;
            let how = match answer.status {
                200 => "200",
                503 => "503",
                other => panic!("/ready answers {other}: {}", answer.body),
            };
            met.extend(since(&env).map(|now| RequestResult { sent: now, answered: now, how }));
        }
        if second % SCRAPE_S == 0 {
            monitor.look(Some(&node)).await;
        }
        let next = begins + Duration::from_secs(second + 1) - Duration::from_secs(BEFORE_S);
        env.sleep(next.saturating_sub(env.monotonic())).await;
    }
    for task in tasks {
        task.join().await.unwrap();
    }
    let of = |met: &Arc<Mutex<Vec<RequestResult>>>| {
        let mut met = met.lock().unwrap().clone();
        met.sort_by_key(|met| met.sent);
        met
    };
    let seconds = |at: Duration| at.saturating_sub(begins).as_secs();
    let fired = monitor.alerts.iter().flat_map(|alert| {
        let of =
            |(from, to): &(Duration, Option<Duration>)| (alert.name.clone(), seconds(*from), to.map(seconds));
        alert.fired.iter().map(of).collect::<Vec<_>>()
    });
    let lines = log.lines().into_iter().filter(|line| line.at >= begins);
    Course {
        pushes: of(&pushes),
        queries: of(&queries),
        ready,
        alerts: fired.collect(),
        log: lines.map(|line| (seconds(line.at), line)).collect(),
        outage,
    }
}

async fn push(node: &Node, number: u64) -> &'static str {
    let answer = node.push(&format!("line {number}"), 0).await;
    match answer.status {
        204 => "204",
        503 if answer.headers.contains_key("retry-after") => "503",
        other => panic!("a push is answered {other}: {}", answer.body),
    }
}

async fn query(node: &Node) -> &'static str {
    let answer = node.query().await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let is_warned = answer.body.contains("query.max_view_age");
    assert_eq!(answer.headers.contains_key("x-sandur-warning"), is_warned);
    if is_warned { "200 with a warning" } else { "200" }
}

impl Course {
    /// The table, as in the documentation.
    pub fn table(&self) -> String {
        let Outage { what, seconds, .. } = self.outage;
        let mut text = format!("#### {what} for {seconds} s\n\n| | by seconds since it began |\n|---|---|\n");
        let mut row = |name: &str, cell: String| writeln!(text, "| {name} | {cell} |").unwrap();
        row("pushes", runs(&self.pushes));
        row("queries", runs(&self.queries));
        for (asked, met) in WANTED.iter().zip(&self.ready) {
            let asked = if asked.is_empty() { String::new() } else { format!("?for={asked}") };
            row(&format!("`/ready{asked}`"), runs(met));
        }
        row("alerts", self.alerts());
        row("log", self.log());
        text
    }

    fn alerts(&self) -> String {
        let one = |(name, from, to): &(String, u64, Option<u64>)| match to {
            Some(to) => format!("`{name}` from {} to {}", shown(*from), shown(*to)),
            None => format!("`{name}` from {}", shown(*from)),
        };
        let all: Vec<String> = self.alerts.iter().map(one).collect();
        if all.is_empty() { "none".to_owned() } else { all.join("; ") }
    }

    /// Each message with the second of its first line.
    fn log(&self) -> String {
        let mut all: Vec<(u64, String)> = Vec::new();
        // Of lines below warning only those about recovery.
        let is_shown = |line: &Line| line.level < Level::INFO || line.message.contains("again");
        for (second, line) in self.log.iter().filter(|(_, line)| is_shown(line)) {
            let text = format!("{} {}", line.level, line.message);
            if !all.iter().any(|(_, known)| *known == text) {
                all.push((shown(*second), text));
            }
        }
        all.sort();
        let all: Vec<String> = all.iter().map(|(second, text)| format!("{second}: {text}")).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
    }
}

/// A second as in the table. Pauses between attempts are random, so later seconds are rounded up to 5 s:
/// the table must not change with every seed.
fn shown(second: u64) -> u64 {
    if second <= EXACT_S { second } else { second.next_multiple_of(5) }
}

/// Seconds up to this one are shown exactly.
const EXACT_S: u64 = 15;

/// Consecutive requests with the same result, by the second in which they were sent.
fn runs(all: &[RequestResult]) -> String {
    let alike = |met: &RequestResult| match met.answered - met.sent {
        0 => met.how.to_owned(),
        _ => format!("{} at {}", met.how, shown(met.answered)),
    };
    // Each run has the second of its first request; runs that are rounded to the same second are merged.
    let mut runs: Vec<(u64, String)> = Vec::new();
    for met in all {
        let how = alike(met);
        if runs.last().is_some_and(|(_, known)| *known == how) {
            continue;
        }
        let since = shown(met.sent);
        if runs.last().is_some_and(|(first, _)| *first == since) {
            runs.pop();
        }
        runs.push((since, how));
    }
    match &runs[..] {
        [(_, how)] => how.clone(),
        runs => runs.iter().map(|(first, how)| format!("from {first}: {how}")).collect::<Vec<_>>().join("; "),
    }
}
