//! Runs the policy over simulated clients and a store with a fixed time per request, in steps of 1 ms.

use std::collections::VecDeque;

use super::*;

const PUT_MS: u64 = 30;
const LIMITS: PaceOptions = PaceOptions { per_second: 2.0, burst: 600.0, linger: Duration::from_millis(500) };

/// How a client pushes.
#[derive(Clone, Copy)]
enum Client {
    /// Pushes again this many milliseconds after its acknowledgement.
    Waits { think_ms: u64 },
    /// Pushes at about this interval, whatever the outcome of its earlier pushes.
    Sends { every_ms: u64 },
}

#[derive(Default)]
struct Seen {
    puts: u64,
    waits_ms: Vec<u64>,
    frames: Vec<usize>,
}

impl Seen {
    fn median_ms(&self) -> u64 {
        let mut waits = self.waits_ms.clone();
        waits.sort_unstable();
        waits[waits.len() / 2]
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn run(options: PaceOptions, clients: &[Client], total_ms: u64) -> Seen {
    run_before(PUT_MS, options, clients, total_ms)
}

/// Runs clients for `total_ms` against a store that takes `put_ms` per request. Jitter comes from a
/// fixed generator.
fn run_before(put_ms: u64, options: PaceOptions, clients: &[Client], total_ms: u64) -> Seen {
    let mut pace = Pace::new(options, Duration::ZERO);
    let mut state = 88_172_645_463_325_252u64;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n.max(1)
    };
    let mut next: Vec<u64> = clients
        .iter()
        .map(|client| match client {
            Client::Waits { think_ms } => below(think_ms + 1),
            Client::Sends { every_ms } => below(*every_ms),
        })
        .collect();
    let (mut gathered, mut in_flight) = (Vec::new(), VecDeque::<(u64, Vec<(usize, u64)>)>::new());
    let mut seen = Seen::default();
    for now in 0..total_ms {
        while in_flight.front().is_some_and(|(lands, _)| *lands <= now) {
            for (client, pushed) in in_flight.pop_front().unwrap().1 {
                seen.waits_ms.push(now - pushed);
                if let Client::Waits { think_ms } = clients[client] {
                    next[client] = now + think_ms;
                }
            }
            if in_flight.is_empty() {
                pace.landed(ms(now));
            }
        }
        for (n, client) in clients.iter().enumerate().filter(|(n, _)| next[*n] <= now).collect::<Vec<_>>() {
            gathered.push((n, now));
            pace.gathered(ms(now), 1);
            next[n] = match client {
                Client::Waits { .. } => u64::MAX,
                Client::Sends { every_ms } => now + every_ms / 2 + below(*every_ms),
            };
        }
        if !gathered.is_empty() && in_flight.len() < 4 && pace.due(ms(now), in_flight.len()) <= ms(now) {
            pace.cut(ms(now), false);
            seen.puts += 1;
            seen.frames.push(gathered.len());
            in_flight.push_back((now + put_ms, std::mem::take(&mut gathered)));
        }
    }
    seen
}

#[test]
fn an_idle_wal_writes_at_once() {
    let seen = run(LIMITS, &[Client::Sends { every_ms: 1_500 }], 600_000);
    assert!(seen.waits_ms.iter().all(|wait| *wait == PUT_MS), "{:?}", seen.waits_ms);
}

#[test]
fn a_client_that_waits_for_its_answers_waits_for_one_request_each() {
    let seen = run(LIMITS, &[Client::Waits { think_ms: 3 }], 20_000);
    assert!(seen.waits_ms.len() > 500, "{}", seen.waits_ms.len());
    assert_eq!(seen.median_ms(), PUT_MS);
}

#[test]
fn four_clients_that_wait_for_their_answers_share_segments() {
    for think_ms in [0, 3, 10] {
        let seen = run(LIMITS, &[Client::Waits { think_ms }; 4], 20_000);
        let per_second = seen.waits_ms.len() as u64 / 20;
        let least = 3_500 / (PUT_MS + think_ms + 1);
        assert!(per_second >= least, "{per_second} pushes a second after thinking for {think_ms} ms");
        assert!(seen.frames.iter().filter(|frame| **frame == 4).count() * 10 > seen.frames.len() * 9);
    }
}

#[test]
fn many_independent_clients_cost_two_requests_a_second() {
    for (per_second, put_ms) in [5, 10, 20, 80, 300].into_iter().flat_map(|n| [(n, PUT_MS), (n, 1)]) {
        let clients = [Client::Sends { every_ms: 64_000 / per_second }; 64];
        let seen = run_before(put_ms, LIMITS, &clients, 100_000);
        // Two per second, plus those before the policy knows that the clients do not wait for each other.
        assert!(seen.puts <= 400, "{} requests in 100 s at {per_second} pushes a second", seen.puts);
        assert!(seen.waits_ms.iter().all(|wait| *wait <= 500 + put_ms));
    }
}

/// Within what the budget gains, no push waits. Clients that wait for their answers are never gathered long.
#[test]
fn a_few_clients_write_to_a_fast_store_at_once() {
    let seen = run_before(1, LIMITS, &[Client::Sends { every_ms: 1_800 }; 3], 600_000);
    assert_eq!(seen.median_ms(), 1);
    let seen = run_before(2, LIMITS, &[Client::Waits { think_ms: 20 }; 4], 20_000);
    assert!(seen.waits_ms.len() > 2_300, "{}", seen.waits_ms.len());
    assert!(seen.puts * 3 < seen.waits_ms.len() as u64, "{} requests", seen.puts);
}

#[test]
fn waiting_clients_keep_their_rate_next_to_an_independent_one() {
    let mut clients = vec![Client::Waits { think_ms: 5 }; 3];
    let alone = run(LIMITS, &clients, 15_000).waits_ms.len();
    clients.push(Client::Sends { every_ms: 2_000 });
    let beside = run(LIMITS, &clients, 15_000).waits_ms.len();
    assert!(beside * 10 > alone * 6, "{beside} of {alone} pushes");
}

#[test]
fn the_budget_holds_and_no_wait_exceeds_the_linger() {
    let groups: [&[Client]; 4] = [
        &[Client::Waits { think_ms: 0 }],
        &[Client::Waits { think_ms: 1 }; 9],
        &[Client::Sends { every_ms: 40 }; 5],
        &[Client::Sends { every_ms: 333 }],
    ];
    for (per_second, burst) in [(2.0, 600.0), (2.0, 1.0), (10.0, 50.0), (0.0, 5.0), (0.5, 20.0)] {
        let options = PaceOptions { per_second, burst, ..LIMITS };
        for clients in groups {
            let seen = run(options, clients, 400_000);
            let most = burst + per_second.max(2.0) * 400.0 + 1.0;
            assert!(seen.puts as f64 <= most, "{} of {most} at {per_second}/s", seen.puts);
            assert!(seen.waits_ms.iter().all(|wait| *wait <= 501 + PUT_MS));
        }
    }
}

#[test]
fn after_a_pause_the_first_push_is_written_at_once() {
    let mut pace = Pace::new(LIMITS, Duration::ZERO);
    pace.gathered(ms(0), 3);
    pace.cut(ms(0), false);
    pace.gathered(ms(10), 5);
    pace.landed(ms(30));
    assert_eq!(pace.due(ms(30), 0), ms(210), "a trial gathers more");
    pace.cut(ms(210), false);
    pace.landed(ms(240));
    pace.gathered(ms(5_000), 1);
    assert_eq!(pace.due(ms(5_000), 0), ms(5_000));
}
