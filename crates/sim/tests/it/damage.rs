//! Goal: no kind of damage to the objects of a store loses an undamaged row, and no damaged store is
//! reported as sound.
//!
//! Method: ten seeded kinds of damage; `cargo run -p sandur-sim -- --damage 1000` applies a
//! thousand.

#[test]
fn damage_loses_no_undamaged_row() {
    let tally = sandur_sim::run_damage(1, 10).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(tally.refused > 0 && tally.repaired > 0 && tally.sound > 0, "the damage had effects: {tally:?}");
}
