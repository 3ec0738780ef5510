//! Aggregations: of all series, by and without labels, with parameters.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r#"
        m{g="a",i="1"} 1
        m{g="a",i="2"} 3
        m{g="b",i="1"} 10
        m{g="b",i="2"} NaN
        n{g="a"} 2
        n{g="b"} 4
        n{g="c"} 4
        n{g="d"} 6
        "#,
    )
}

#[test]
fn groups_are_formed_by_and_without_labels() {
    series().check(
        0,
        &[
            ("sum(n)", "{} 16"),
            ("sum by (g) (m{g=\"a\"})", r#"{g="a"} 4"#),
            ("sum(m{g=\"a\"}) by (i)", r#"{i="1"} 1; {i="2"} 3"#),
            ("sum without (i) (m{g=\"a\"})", r#"{g="a"} 4"#),
            ("sum without () (m{g=\"a\"})", r#"{g="a",i="1"} 1; {g="a",i="2"} 3"#),
            ("sum by (missing) (n)", "{} 16"),
            ("sum(missing)", ""),
            ("sum(sum by (g) (n))", "{} 16"),
        ],
    );
}

#[test]
fn values_are_combined() {
    series().check(
        0,
        &[
            ("avg(n)", "{} 4"),
            ("count(m)", "{} 4"),
            ("count by (i) (m)", r#"{i="1"} 2; {i="2"} 2"#),
            ("group(n)", "{} 1"),
            ("stdvar(n)", "{} 2"),
            ("stddev(m{g=\"a\"})", "{} 1"),
            ("sum(m)", "{} NaN"),
        ],
    );
}

#[test]
fn extremes_and_ranks_put_nan_last() {
    series().check(
        0,
        &[
            ("min(m)", "{} 1"),
            ("max(m)", "{} 10"),
            ("min(m{i=\"2\",g=\"b\"})", "{} NaN"),
            ("topk(1, m)", r#"m{g="b",i="1"} 10"#),
            ("bottomk(1, m)", r#"m{g="a",i="1"} 1"#),
            ("topk(3, m)", r#"m{g="b",i="1"} 10; m{g="a",i="2"} 3; m{g="a",i="1"} 1"#),
            ("bottomk(9, m{g=\"a\"})", r#"m{g="a",i="1"} 1; m{g="a",i="2"} 3"#),
            ("count(topk(9, m))", "{} 4"),
            ("topk(0, m)", ""),
            ("count(topk by (g) (1, m))", "{} 2"),
            ("sum(bottomk by (i) (1, m{g=\"a\"}))", "{} 4"),
        ],
    );
}

#[test]
fn quantiles_interpolate_between_ranks() {
    series().check(
        0,
        &[
            ("quantile(0, n)", "{} 2"),
            ("quantile(0.5, n)", "{} 4"),
            ("quantile(1, n)", "{} 6"),
            ("quantile(0.25, m{g=\"a\"})", "{} 1.5"),
            ("quantile(2, n)", "{} +Inf"),
            ("quantile(-1, n)", "{} -Inf"),
            ("quantile(NaN, n)", "{} NaN"),
            ("quantile by (i) (0.5, m{g=\"a\"})", r#"{i="1"} 1; {i="2"} 3"#),
        ],
    );
}

#[test]
fn equal_values_are_counted() {
    series().check(
        0,
        &[
            ("count_values(\"v\", n)", r#"{v="2"} 1; {v="4"} 2; {v="6"} 1"#),
            ("count_values by (g) (\"v\", m{i=\"1\"})", r#"{g="a",v="1"} 1; {g="b",v="10"} 1"#),
            ("count_values without (i) (\"v\", m{g=\"a\"})", r#"{g="a",v="1"} 1; {g="a",v="3"} 1"#),
            ("count_values without (i) (\"i\", m{g=\"a\"})", r#"{g="a"} 2"#),
            ("count_values(\"a b\", n)", r#"{a b="2"} 1; {a b="4"} 2; {a b="6"} 1"#),
            ("count_values(\"\", n)", "error: invalid label name"),
        ],
    );
}

#[test]
fn samples_of_series_are_limited_by_number_and_ratio() {
    series().check(
        0,
        &[
            ("count(limitk(3, n))", "{} 3"),
            ("count(limitk by (g) (1, m))", "{} 2"),
            ("limitk(0, n)", ""),
            ("count(limit_ratio(1, n))", "{} 4"),
            ("count(limit_ratio(-1, n))", "{} 4"),
            ("limit_ratio(0, n)", ""),
            ("count(limit_ratio(0.5, n) or limit_ratio(-0.5, n))", "{} 4"),
            ("limit_ratio(0.5, n) and limit_ratio(-0.5, n)", ""),
        ],
    );
}
