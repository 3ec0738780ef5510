//! Goal: no acknowledged entry or sample is lost or duplicated, no deleted one reappears, and rollups
//! contain exactly what was sent, whatever the store and the processes do.
//!
//! Method: two seeds of the simulation, and one seed twice. `cargo xtask sim` runs thousands.

#[test]
fn seeds_hold_every_invariant() {
    let (mut acknowledged, mut deleted, mut rolled, mut kills) = (0, 0, 0, 0);
    for seed in 9..=10 {
        let outcome = sandur_sim::run(seed).unwrap_or_else(|error| panic!("{error:#}"));
        acknowledged += outcome.acknowledged;
        deleted += outcome.deleted;
        rolled += outcome.rolled;
        kills += outcome.kills;
    }
    let real = acknowledged > 250 && deleted > 20 && rolled > 20 && kills > 4;
    assert!(
        real,
        "{acknowledged} rows, {deleted} deleted, {rolled} rolled, {kills} kills: the runs did enough"
    );
}

#[test]
fn one_seed_gives_one_trace() {
    let [first, second] =
        [(); 2].map(|()| sandur_sim::run(1_000_003).unwrap_or_else(|error| panic!("{error:#}")));
    assert_eq!(first, second);
    assert!(first.requests > 100);
}
