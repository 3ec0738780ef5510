//! Goal: no answer is wrong, doubled or silently stale, whatever nodes believe of each other, and work is
//! divided evenly.
//!
//! Method: a seed of few nodes over several rounds of faults, and one of more nodes over one round.
//! `cargo xtask nightly` runs 500 seeds of 50 nodes, with optimised code.

use sandur_sim::{FleetSize, run_fleet};

fn run(seed: u64, nodes: usize, rounds: u64) {
    let outcome = run_fleet(seed, FleetSize { nodes, rounds }).unwrap_or_else(|error| panic!("{error:#}"));
    println!("seed {seed}, {nodes} nodes: {outcome:?}");
    assert!(outcome.rows.1 >= 10 && outcome.answers.0 > 0, "the run did enough: {outcome:?}");
}

#[test]
fn a_few_nodes_that_are_wrong_about_each_other_answer_rightly() {
    run(1, 4, 6);
}

#[test]
fn ten_nodes_that_are_wrong_about_each_other_answer_rightly() {
    run(3, 10, 1);
}
