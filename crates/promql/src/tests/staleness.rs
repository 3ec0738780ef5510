//! Which samples a selector and a window read: look-back, stale markers, bounds.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r"
        s 1
        t 1 stale
        u 1 stale 3
        c 0 1 2 3 4 5
        n 1,1/2
        ",
    )
}

#[test]
fn a_sample_is_read_for_less_than_five_minutes() {
    series().check(0, &[("s", "s{} 1")]);
    series().check(299, &[("s", "s{} 1"), ("absent(s)", "")]);
    series().check(300, &[("s", ""), ("absent(s)", "{} 1"), ("last_over_time(s[10m])", "s{} 1")]);
    series().check(479, &[("s offset 3m", "s{} 1")]);
    series().check(480, &[("s offset 3m", ""), ("s @ 0", "s{} 1")]);
}

#[test]
fn a_stale_marker_ends_a_series() {
    series().check(59, &[("t", "t{} 1")]);
    series().check(60, &[("t", ""), ("count_over_time(t[2m])", "{} 1"), ("sum_over_time(t[2m])", "{} 1")]);
    series().check(61, &[("t", ""), ("t[61s]", ""), ("t[62s]", "t{} 1@0")]);
    series().check_range((0, 120, 30), "u", "u{} 1 1 _ _ 3");
}

#[test]
fn a_window_excludes_its_start_and_includes_its_end() {
    series().check(
        120,
        &[
            ("count_over_time(c[1m])", "{} 1"),
            ("count_over_time(c[59s])", "{} 1"),
            ("count_over_time(c[61s])", "{} 2"),
            ("count_over_time(c[2m])", "{} 2"),
            ("c[1m]", "c{} 2@120000"),
            ("c[2m]", "c{} 1@60000 2@120000"),
        ],
    );
    series().check(119, &[("count_over_time(c[1m])", "{} 1"), ("c[1m]", "c{} 1@60000")]);
}

#[test]
fn a_histogram_is_read_for_less_than_five_minutes() {
    series().check(299, &[("histogram_count(n)", "{} 2")]);
    series().check(300, &[("histogram_count(n)", ""), ("count_over_time(n[5m])", "")]);
    series().check_range((240, 360, 60), "histogram_count(n)", "{} 2 _ _");
}

#[test]
fn steps_without_a_sample_are_missing() {
    series().check_range((0, 600, 150), "s", "s{} 1 1 _ _ _");
    series().check_range((0, 600, 150), "s or vector(9)", "{} _ _ 9 9 9; s{} 1 1 _ _ _");
    series().check_range((240, 660, 60), "count_over_time(c[2m])", "{} 2 2 1 _ _ _ _ _");
}
