//! Functions of times and of single numbers.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r#"
        up{i="1"} 1 1
        up{i="2"} 5 5 5
        x{i="a"} -1.5
        x{i="b"} 2.5
        "#,
    )
}

#[test]
fn the_time_of_evaluation_and_of_samples_is_known() {
    series().check(
        120,
        &[
            ("time()", "120"),
            ("timestamp(up)", r#"{i="1"} 60; {i="2"} 120"#),
            ("timestamp(up offset 1m)", r#"{i="1"} 60; {i="2"} 60"#),
            ("timestamp(up + 0)", r#"{i="1"} 120; {i="2"} 120"#),
            ("vector(3)", "{} 3"),
            ("scalar(up{i=\"2\"})", "5"),
            ("scalar(up)", "NaN"),
            ("scalar(missing)", "NaN"),
            ("vector(time())", "{} 120"),
        ],
    );
    series().check_range((0, 120, 60), "time()", "{} 0 60 120");
}

#[test]
fn dates_are_those_of_utc() {
    series().check(
        0,
        &[
            ("minute(vector(3661))", "{} 1"),
            ("hour(vector(3661))", "{} 1"),
            ("hour(vector(86399))", "{} 23"),
            ("day_of_week(vector(0))", "{} 4"),
            ("day_of_week(vector(3 * 86400))", "{} 0"),
            ("day_of_month(vector(0))", "{} 1"),
            ("day_of_year(vector(59 * 86400))", "{} 60"),
            ("month(vector(0))", "{} 1"),
            ("month(vector(31 * 86400))", "{} 2"),
            ("year(vector(-1))", "{} 1969"),
            ("days_in_month(vector(31 * 86400))", "{} 28"),
            // 1972 is a leap year.
            ("days_in_month(vector((2 * 365 + 31) * 86400))", "{} 29"),
            ("year()", "{} 1970"),
        ],
    );
}

#[test]
fn numbers_are_rounded_and_bounded() {
    series().check(
        0,
        &[
            ("round(x)", r#"{i="a"} -1; {i="b"} 3"#),
            ("round(x, 2)", r#"{i="a"} -2; {i="b"} 2"#),
            ("ceil(x)", r#"{i="a"} -1; {i="b"} 3"#),
            ("floor(x)", r#"{i="a"} -2; {i="b"} 2"#),
            ("abs(x)", r#"{i="a"} 1.5; {i="b"} 2.5"#),
            ("sgn(x)", r#"{i="a"} -1; {i="b"} 1"#),
            ("clamp(x, -1, 2)", r#"{i="a"} -1; {i="b"} 2"#),
            ("clamp(x, 2, -1)", ""),
            ("clamp_min(x, 0)", r#"{i="a"} 0; {i="b"} 2.5"#),
            ("clamp_max(x, 0)", r#"{i="a"} -1.5; {i="b"} 0"#),
            ("sqrt(x)", r#"{i="a"} NaN; {i="b"} 1.5811388300841898"#),
            ("exp(vector(0))", "{} 1"),
            ("ln(vector(0))", "{} -Inf"),
            ("log2(vector(8))", "{} 3"),
            ("log10(vector(1000))", "{} 3"),
            ("deg(vector(pi()))", "{} 180"),
            ("sin(vector(0))", "{} 0"),
            ("cos(vector(0))", "{} 1"),
        ],
    );
}
