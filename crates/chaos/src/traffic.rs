//! Writers: each pushes the rows of one signal, one push after the other, to random nodes. A push without
//! an acknowledgement is sent again, unchanged, to another node; sometimes one with an acknowledgement, too,
//! as a pair of agents does.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Request;
use crate::ledger::Ledger;
use crate::plan::Random;
use crate::report::{Timeline, Wait};
use crate::signals::{Signal, now_ns};

/// A node that does not answer a push within this time is left for another one; the push may still arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before a push is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long a writer repeats its last push after the end of a run.
const LAST_PATIENCE: Duration = Duration::from_secs(60);
/// Points have a step of a second: no two pushes have the same one.
const POINTS_EVERY: Duration = Duration::from_millis(1_010);
const ROWS_EVERY_MS: u64 = 400;
/// One of this many pushes is sent again although it is acknowledged.
const TWICE_EACH: u64 = 4;

/// What writers and watchers share.
pub struct Shared {
    pub nodes: Vec<SocketAddr>,
    pub ledgers: Vec<(Signal, Ledger)>,
    pub timeline: Timeline,
    pub writers_stop: AtomicBool,
    pub watchers_stop: AtomicBool,
}

/// Writes the rows of a signal until the writers stop.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
pub fn write(shared: &Shared, (signal, ledger): &(Signal, Ledger), seed: u64) {
    let mut random = Random(seed);
    let mut id = 0;
    while !shared.writers_stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let rows = signal.rows(id, now_ns());
        id += rows.len() as u64;
        let place = ledger.note(&rows);
        let request = signal.push(&rows);
        if push(shared, *signal, &request, &mut random) {
            ledger.acknowledge(place, rows.len());
            shared.timeline.waited(Wait::Acknowledgement, began, began.elapsed());
            if random.below(TWICE_EACH) == 0 {
                // Whether it is acknowledged again does not matter.
                let _ = request.send(shared.nodes[random.index(shared.nodes.len())], PATIENCE);
            }
        }
        let pause = match signal {
            Signal::Points => POINTS_EVERY,
            _ => Duration::from_millis(ROWS_EVERY_MS / 2 + random.below(ROWS_EVERY_MS)),
        };
        thread::sleep(pause);
    }
}

/// Sends a push until a node acknowledges it. Returns whether one did.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
fn push(shared: &Shared, signal: Signal, request: &Request, random: &mut Random) -> bool {
    let mut stops_at = None;
    let mut node = random.index(shared.nodes.len());
    loop {
        match request.send(shared.nodes[node], PATIENCE) {
            Ok(answer) if (200..300).contains(&answer.status) => return true,
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => {
                let what = format!("{}: {} {}", signal.name(), answer.status, answer.text());
                shared.timeline.finding(format!("node {node} refuses a push of {what}"));
                return false;
            }
            _ => {}
        }
        if shared.writers_stop.load(Ordering::Relaxed) {
            let stops_at = *stops_at.get_or_insert_with(|| Instant::now() + LAST_PATIENCE);
            if Instant::now() > stops_at {
                return false;
            }
        }
        node = (node + 1 + random.index(shared.nodes.len().saturating_sub(1))) % shared.nodes.len();
        thread::sleep(AGAIN_AFTER);
    }
}
