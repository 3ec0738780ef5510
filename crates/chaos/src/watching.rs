//! Watchers: each asks random nodes random questions during the whole run, and has every answer judged.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::ledger::{Asked, Found, Ledger, PERMITTED_AGE, SECOND_NS, STEP_NS, Window};
use crate::plan::Random;
use crate::questions::{self, Answered, FINDING, Question, ask};
use crate::report::Wait;
use crate::signals::{Signal, now_ns};
use crate::traffic::Shared;

/// A node that does not answer a query within this time is left for another one.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause after all nodes have failed.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The pause between two queries of a watcher.
const ASK_EVERY_MS: u64 = 150;
/// Queries are about rows of this time, in seconds.
const WINDOW_S: i64 = 120;
/// One of this many queries demands everything that was acknowledged before it began.
const FRESH_EACH: u64 = 4;

/// Asks until the watchers stop.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
pub fn watch(shared: &Shared, seed: u64) {
    let mut random = Random(seed);
    while !shared.watchers_stop.load(Ordering::Relaxed) {
        let (signal, ledger) = &shared.ledgers[random.index(shared.ledgers.len())];
        let questions = questions::of(*signal);
        let question = questions[random.index(questions.len())];
        let fresh = random.below(FRESH_EACH) == 0;
        ask_until_answered(shared, (*signal, ledger, question), fresh, &mut random);
        thread::sleep(Duration::from_millis(random.below(2 * ASK_EVERY_MS)));
    }
}

/// Asks one node after the other until one answers. A query that demands fresh rows is asked once.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
fn ask_until_answered(
    shared: &Shared,
    (signal, ledger, question): (Signal, &Ledger, Question),
    fresh: bool,
    random: &mut Random,
) {
    let (first, began) = (random.index(shared.nodes.len()), Instant::now());
    for attempt in 0.. {
        let number = (first + attempt) % shared.nodes.len();
        let now_ns = now_ns() - signal.late_ns();
        let from_ns = now_ns / STEP_NS * STEP_NS - WINDOW_S * SECOND_NS;
        let window = Window { from_ns, to_ns: (now_ns / SECOND_NS + 1) * SECOND_NS };
        let asking = Instant::now();
        let answer = ask(shared.nodes[number], (signal, question), window, fresh, PATIENCE);
        match answer {
            Ok(answered) => {
                judge(shared, (number, signal, ledger, question), answered, (asking, fresh));
                shared.timeline.waited(Wait::Query, began, began.elapsed());
                return;
            }
            Err(error) => {
                note_failure(shared, number, (signal, question), &error);
                if fresh || shared.watchers_stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
        if number + 1 == shared.nodes.len() {
            thread::sleep(AGAIN_AFTER);
        }
    }
}

fn note_failure(shared: &Shared, node: usize, of: (Signal, Question), error: &anyhow::Error) {
    let text = format!("{error:#}");
    match text.contains(FINDING) || text.contains("status 4") || text.contains("status 500") {
        true => shared.timeline.finding(format!("node {node}, {of:?}: {text}")),
        false => shared.timeline.failed(),
    }
}

fn judge(
    shared: &Shared,
    (number, signal, ledger, question): (usize, Signal, &Ledger, Question),
    answered: Answered,
    (began, fresh): (Instant, bool),
) {
    let Answered { found, is_warned } = answered;
    let permitted_age = if fresh { Duration::ZERO } else { PERMITTED_AGE };
    shared.timeline.answered(is_warned);
    match ledger.judge(&found, Asked { began, permitted_age, is_warned }) {
        Ok(age) if !is_warned => shared.timeline.waited(Wait::Age, began, age),
        Ok(_) => {}
        Err(what) => {
            let demand = if fresh { " with X-Sandur-Min-Freshness: 0s" } else { "" };
            let at = now_ns() / 1_000_000;
            shared.timeline.finding(format!(
                "at {at} ms node {number} answers {question:?} of {}{demand} wrongly: {what}",
                signal.name()
            ));
        }
    }
}

/// Asks a node all questions about all rows until it has answered each without a warning and with every
/// acknowledged row, or until the deadline. Returns what is wrong. Wrong rows are wrong at once.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
pub fn compare(
    shared: &Shared,
    (number, node): (usize, SocketAddr),
    deadline: Instant,
) -> Result<(), String> {
    for (signal, ledger) in &shared.ledgers {
        for window in ledger.windows(Duration::from_secs(WINDOW_S as u64)) {
            for &question in questions::of(*signal) {
                let of = |what: &str| format!("node {number}, {question:?} of {}: {what}", signal.name());
                loop {
                    let asked =
                        Asked { began: Instant::now(), permitted_age: Duration::ZERO, is_warned: false };
                    let answer = ask(node, (*signal, question), window, false, PATIENCE);
                    let wrong = match &answer {
                        Ok(Answered { is_warned: true, .. }) => "it still warns".to_owned(),
                        Ok(Answered { found, .. }) => match ledger.judge(found, asked) {
                            Ok(_) => break,
                            Err(what) => what,
                        },
                        Err(error) => format!("{error:#}"),
                    };
                    let is_final = is_wrong_at_once(ledger, &answer.ok().map(|answered| answered.found));
                    if is_final || Instant::now() > deadline {
                        return Err(of(&wrong));
                    }
                    thread::sleep(AGAIN_AFTER);
                }
            }
        }
    }
    Ok(())
}

/// Whether an answer has rows twice or rows that nobody sent, which no later answer makes right.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
fn is_wrong_at_once(ledger: &Ledger, found: &Option<Found>) -> bool {
    let lenient = Asked { began: Instant::now(), permitted_age: Duration::ZERO, is_warned: true };
    found.as_ref().is_some_and(|found| ledger.judge(found, lenient).is_err())
}
