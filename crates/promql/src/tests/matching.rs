//! Binary operators: arithmetic, comparisons, sets, matching of series.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r#"
        a{job="x",i="1"} 10
        a{job="x",i="2"} 20
        a{job="y",i="1"} 30
        b{job="x"} 2
        b{job="z"} 5
        c{job="x",i="1"} 4
        c{job="y",i="1"} 3
        c{job="y",i="3"} 7
        d{job="x",i="1",v="q"} 1
        e{job="x"} 1
        e{job="w"} 9
        "#,
    )
}

#[test]
fn numbers_follow_precedence_and_ieee_754() {
    series().check(
        0,
        &[
            ("1 + 2 * 3", "7"),
            ("2 ^ 3 ^ 2", "512"),
            ("-2 ^ 2", "-4"),
            ("7 % 3", "1"),
            ("-7 % 3", "-1"),
            ("1 / 0", "+Inf"),
            ("-1 / 0", "-Inf"),
            ("0 / 0", "NaN"),
            ("1 > bool 2", "0"),
            ("2 >= bool 2", "1"),
            ("NaN == bool NaN", "0"),
            ("NaN != bool NaN", "1"),
            ("1 < 2", "error: comparisons between scalars must use BOOL modifier"),
        ],
    );
}

#[test]
fn one_to_one_drops_names_and_series_without_a_partner() {
    series().check(
        0,
        &[
            ("a + c", r#"{i="1",job="x"} 14; {i="1",job="y"} 33"#),
            ("a - on(job, i) c", r#"{i="1",job="x"} 6; {i="1",job="y"} 27"#),
            ("b * ignoring(i) b", r#"{job="x"} 4; {job="z"} 25"#),
            ("c * 2", r#"{i="1",job="x"} 8; {i="1",job="y"} 6; {i="3",job="y"} 14"#),
            ("100 - b", r#"{job="x"} 98; {job="z"} 95"#),
            ("-b", r#"{job="x"} -2; {job="z"} -5"#),
            ("round(e atan2 e, 0.001)", r#"{job="w"} 0.785; {job="x"} 0.785"#),
            ("a + missing", ""),
        ],
    );
}

#[test]
fn groups_keep_the_labels_of_the_many_side() {
    series().check(
        0,
        &[
            ("a / on(job) group_left b", r#"{i="1",job="x"} 5; {i="2",job="x"} 10"#),
            ("b * on(job) group_right a", r#"{i="1",job="x"} 20; {i="2",job="x"} 40"#),
            ("a - ignoring(i) group_left b", r#"{i="1",job="x"} 8; {i="2",job="x"} 18"#),
            ("a + on(job, i) group_left(v) d", r#"{i="1",job="x",v="q"} 11"#),
            ("a > on(job) group_left b", r#"a{i="1",job="x"} 10; a{i="2",job="x"} 20"#),
            ("a * on(job) b", "error: multiple matches for labels: many-to-one matching must be explicit"),
            ("b * on(job) a", "error: found duplicate series for the match group"),
            ("b * on(job) group_left a", "error: found duplicate series for the match group"),
        ],
    );
}

#[test]
fn comparisons_keep_the_sample_of_the_vector_unless_they_return_bool() {
    series().check(
        0,
        &[
            ("a > 15", r#"a{i="1",job="y"} 30; a{i="2",job="x"} 20"#),
            ("15 < a", r#"a{i="1",job="y"} 30; a{i="2",job="x"} 20"#),
            ("a >= 20 < 30", r#"a{i="2",job="x"} 20"#),
            ("a != 10", r#"a{i="1",job="y"} 30; a{i="2",job="x"} 20"#),
            ("a == 10", r#"a{i="1",job="x"} 10"#),
            ("a > bool 15", r#"{i="1",job="x"} 0; {i="1",job="y"} 1; {i="2",job="x"} 1"#),
            ("b > e", r#"b{job="x"} 2"#),
            ("b < bool e", r#"{job="x"} 0"#),
        ],
    );
}

#[test]
fn sets_compare_labels_and_keep_samples() {
    series().check(
        0,
        &[
            ("a and c", r#"a{i="1",job="x"} 10; a{i="1",job="y"} 30"#),
            ("a unless c", r#"a{i="2",job="x"} 20"#),
            ("a and on(job) b", r#"a{i="1",job="x"} 10; a{i="2",job="x"} 20"#),
            ("a unless on(job) b", r#"a{i="1",job="y"} 30"#),
            ("b or on(job) a", r#"a{i="1",job="y"} 30; b{job="x"} 2; b{job="z"} 5"#),
            ("b or e", r#"b{job="x"} 2; b{job="z"} 5; e{job="w"} 9"#),
            ("b and ignoring(job) missing", ""),
            ("b unless missing", r#"b{job="x"} 2; b{job="z"} 5"#),
            ("b and on() e", r#"b{job="x"} 2; b{job="z"} 5"#),
            ("b unless on() e", ""),
        ],
    );
}

#[test]
fn fill_values_replace_missing_partners() {
    series().check(
        0,
        &[
            ("b + fill(0) e", r#"{job="w"} 9; {job="x"} 3; {job="z"} 5"#),
            ("b - fill_left(1) e", r#"{job="w"} -8; {job="x"} 1"#),
            ("b - fill_right(1) e", r#"{job="x"} 1; {job="z"} 4"#),
            ("b + fill_left(10) fill_right(20) e", r#"{job="w"} 19; {job="x"} 3; {job="z"} 25"#),
        ],
    );
}
