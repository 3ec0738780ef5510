//! Goal: no kind of damage to the objects of a store costs a row that is undamaged, and none is called sound.
//!
//! Method: twenty-four seeded kinds of damage; `cargo run -p sandur-sim -- --damage 1000` does a thousand.

#[test]
fn kinds_of_damage_cost_no_undamaged_row() {
    let tally = sandur_sim::run_damage(1, 24).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(tally.refused > 0 && tally.repaired > 0 && tally.sound > 0, "the damage was real: {tally:?}");
}
