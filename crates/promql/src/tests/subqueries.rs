//! Subqueries, offsets and fixed times.

use super::table::Table;

fn series() -> Table {
    Table::load("g 0 60 120 180 240 300")
}

#[test]
fn steps_of_subqueries_are_multiples_of_their_length() {
    series().check(
        300,
        &[
            ("sum_over_time(g[3m:1m])", "{} 720"),
            ("max_over_time(g[3m:1m])", "{} 300"),
            ("count_over_time(g[5m:90s])", "{} 3"),
            ("sum_over_time((g * 2)[2m:1m])", "{} 1080"),
            ("max_over_time(sum_over_time(g[2m])[2m:1m])", "{} 540"),
            ("min_over_time(time()[5m:2m])", "error: subquery is only allowed on instant vector"),
            ("max_over_time(vector(time())[5m:2m])", "{} 240"),
        ],
    );
    // 310 s is no multiple of a minute: the steps are 240 s and 300 s.
    series().check(310, &[("sum_over_time(vector(time())[2m:1m])", "{} 540")]);
}

#[test]
fn subqueries_are_moved() {
    series().check(
        300,
        &[
            ("sum_over_time(g[2m:1m] offset 1m)", "{} 420"),
            ("sum_over_time(g[2m:1m] @ 180)", "{} 300"),
            ("sum_over_time(g[2m:1m] @ 180 offset 1m)", "{} 180"),
        ],
    );
}

#[test]
fn selectors_are_moved() {
    series().check(
        180,
        &[
            ("g offset 1m", "g{} 120"),
            ("g offset -1m", "g{} 240"),
            ("g @ 300", "g{} 300"),
            ("g @ 300 offset 2m", "g{} 180"),
            ("sum_over_time(g[2m] @ 300)", "{} 540"),
            ("sum_over_time(g[2m] offset 1m)", "{} 180"),
        ],
    );
    series().check_range((0, 120, 60), "g @ start() + time()", "{} 0 60 120");
    series().check_range((0, 120, 60), "g @ end()", "g{} 120 120 120");
    series().check_range((60, 180, 60), "g offset 1m", "g{} 0 60 120");
}
