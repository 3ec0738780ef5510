//! Goal: a store that is restored from a backup has every row that was acknowledged before the backup began,
//! whatever nodes, stores and backups do meanwhile.
//!
//! Method: three seeds of the simulation with backups; `cargo xtask sim --backups 200` runs two hundred.

#[test]
fn restored_stores_have_every_row_that_was_acknowledged_before() {
    let (mut complete, mut killed) = (0, 0);
    for seed in 1..=3 {
        let outcome = sandur_sim::run_backups(seed).unwrap_or_else(|error| panic!("{error:#}"));
        complete += outcome.backups.complete;
        killed += outcome.backups.killed;
    }
    assert!(complete > 3 && killed > 0, "the runs did enough: {complete} complete, {killed} killed");
}
