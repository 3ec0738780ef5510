//! Functions that change labels, order series by them, or find missing series.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r#"
        m{g="a",i="1"} 3
        m{g="b",i="10"} 1
        m{g="c",i="2"} 2
        info_of{g="a"} 1
        target_info{g="a",job="j",instance="n",region="eu"} 1
        load{job="j",instance="n"} 7
        "#,
    )
}

#[test]
fn labels_are_replaced_if_the_whole_value_matches() {
    let one = "info_of";
    let replaced = |arguments: &str| format!("label_replace({one}, {arguments})");
    let cases = [
        (replaced(r#""new", "$1-x", "g", "(.*)""#), r#"info_of{g="a",new="a-x"} 1"#),
        (replaced(r#""new", "x", "g", "b""#), r#"info_of{g="a"} 1"#),
        (replaced(r#""new", "$n", "g", "(?P<n>.)""#), r#"info_of{g="a",new="a"} 1"#),
        (replaced(r#""g", "", "g", ".*""#), "info_of{} 1"),
        (replaced(r#""new", "x", "missing", """#), r#"info_of{g="a",new="x"} 1"#),
        (replaced(r#""new", "x", "g", "(""#), "error: invalid regular expression in label_replace"),
        (
            r#"label_replace(m, "g", "x", "g", ".*")"#.to_owned(),
            r#"m{g="x",i="1"} 3; m{g="x",i="10"} 1; m{g="x",i="2"} 2"#,
        ),
        (r#"label_replace(m, "i", "", "i", ".*") * 0"#.to_owned(), r#"{g="a"} 0; {g="b"} 0; {g="c"} 0"#),
    ];
    series().check(0, &cases.each_ref().map(|(query, answer)| (query.as_str(), *answer)));
    let equal = r#"label_replace(label_replace(m, "g", "", "g", ".*"), "i", "", "i", ".*")"#;
    series().check(0, &[(equal, "error: vector cannot contain metrics with the same labelset")]);
}

#[test]
fn labels_are_joined() {
    series().check(
        0,
        &[
            (r#"label_join(info_of, "j", "-", "g", "missing", "g")"#, r#"info_of{g="a",j="a--a"} 1"#),
            (r#"label_join(info_of, "g", "-")"#, "info_of{} 1"),
        ],
    );
}

#[test]
fn series_are_sorted_by_values_and_labels() {
    series().check(
        0,
        &[
            ("sort(m)", r#"m{g="b",i="10"} 1; m{g="c",i="2"} 2; m{g="a",i="1"} 3"#),
            ("sort_desc(m)", r#"m{g="a",i="1"} 3; m{g="c",i="2"} 2; m{g="b",i="10"} 1"#),
            // Numbers within labels are compared as numbers.
            (r#"sort_by_label(m, "i")"#, r#"m{g="a",i="1"} 3; m{g="c",i="2"} 2; m{g="b",i="10"} 1"#),
            (r#"sort_by_label_desc(m, "g")"#, r#"m{g="c",i="2"} 2; m{g="b",i="10"} 1; m{g="a",i="1"} 3"#),
        ],
    );
}

#[test]
fn missing_series_get_the_labels_of_equality_matchers() {
    series().check(
        0,
        &[
            ("absent(m)", ""),
            (r#"absent(missing{a="b",c=~"d",e!="f"})"#, r#"{a="b"} 1"#),
            (r#"absent(missing{a="b",a="c"})"#, "{} 1"),
            ("absent(sum(missing))", "{} 1"),
        ],
    );
}

#[test]
fn info_adds_the_labels_of_the_target() {
    series().check(
        0,
        &[
            ("info(load)", r#"load{g="a",instance="n",job="j",region="eu"} 7"#),
            (r#"info(load, {region="eu"})"#, r#"load{instance="n",job="j",region="eu"} 7"#),
            (r#"info(load, {region="us"})"#, ""),
        ],
    );
}
