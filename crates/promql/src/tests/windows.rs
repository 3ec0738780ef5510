//! Functions over windows.

use super::table::Table;

/// A counter with a reset, a line, and counters of which only a part of the window has samples.
fn series() -> Table {
    Table::load(
        r"
        c 0 60 120 30 90 150
        g 0 60 120 180 240 300
        late _ _ _ 10 20
        young _ _ _ 1 21
        one _ _ _ _ 7
        z 1 NaN 3
        ",
    )
}

#[test]
fn increases_add_resets_and_extrapolate_to_the_window() {
    series().check(
        300,
        &[
            // The window (0, 300] has 60, 120, 30, 90, 150: 210 in 240 s, and 60 s more on the left.
            ("increase(c[5m])", "{} 262.5"),
            ("rate(c[5m])", "{} 0.875"),
            ("delta(c[5m])", "{} 112.5"),
            // 10 in 60 s; 30 s on the left, half of the gap between samples, and 60 s on the right.
            ("increase(late[5m])", "{} 25"),
            // The counter was zero 3 s before its first sample.
            ("increase(young[5m])", "{} 41"),
            ("increase(one[5m])", ""),
            ("irate(c[5m])", "{} 1"),
            ("idelta(c[5m])", "{} 60"),
            ("irate(one[5m])", ""),
        ],
    );
    series().check(180, &[("irate(c[5m])", "{} 0.5"), ("idelta(c[5m])", "{} -90")]);
}

#[test]
fn anchored_and_smoothed_windows_include_samples_around_them() {
    series().check(
        300,
        &[
            ("increase(c[5m] anchored)", "{} 270"),
            ("delta(g[5m] smoothed)", "{} 300"),
            ("delta(g[90s] smoothed)", "{} 90"),
            ("changes(c[5m] anchored)", "{} 5"),
        ],
    );
}

#[test]
fn samples_are_combined_over_time() {
    series().check(
        300,
        &[
            ("sum_over_time(c[5m])", "{} 450"),
            ("avg_over_time(c[5m])", "{} 90"),
            ("min_over_time(c[5m])", "{} 30"),
            ("max_over_time(c[5m])", "{} 150"),
            ("count_over_time(c[5m])", "{} 5"),
            ("stdvar_over_time(c[5m])", "{} 1800"),
            ("round(stddev_over_time(c[5m]), 0.001)", "{} 42.426"),
            ("present_over_time(c[5m])", "{} 1"),
            ("last_over_time(c[5m])", "c{} 150"),
            ("first_over_time(c[5m])", "c{} 60"),
            ("quantile_over_time(0.5, c[5m])", "{} 90"),
            ("quantile_over_time(0.25, c[5m])", "{} 60"),
            ("quantile_over_time(7, c[5m])", "{} +Inf"),
            ("mad_over_time(c[5m])", "{} 30"),
            ("changes(c[5m])", "{} 4"),
            ("resets(c[5m])", "{} 1"),
            ("max_over_time(z[10m])", "{} 3"),
            ("sum_over_time(z[10m])", "{} NaN"),
            ("sum_over_time(missing[5m])", ""),
        ],
    );
}

#[test]
fn times_of_samples_are_in_seconds() {
    series().check(
        300,
        &[
            ("ts_of_first_over_time(c[5m])", "{} 60"),
            ("ts_of_last_over_time(c[5m])", "{} 300"),
            ("ts_of_max_over_time(c[5m])", "{} 300"),
            ("ts_of_min_over_time(c[5m])", "{} 180"),
        ],
    );
}

#[test]
fn lines_are_fitted_to_samples() {
    series().check(
        300,
        &[
            ("deriv(g[5m])", "{} 1"),
            ("predict_linear(g[5m], 60)", "{} 360"),
            ("predict_linear(g[5m], -300)", "{} 0"),
            ("deriv(one[5m])", ""),
            // With both factors 0.5: level 60, 120 and trend 60 continue the line.
            ("double_exponential_smoothing(g[5m], 0.5, 0.5)", "{} 300"),
            ("double_exponential_smoothing(g[5m], 2, 0.5)", "error: invalid smoothing factor"),
        ],
    );
}

#[test]
fn missing_windows_are_found() {
    series().check(
        300,
        &[
            ("absent_over_time(c[5m])", ""),
            ("absent_over_time(missing{a=\"b\",d=~\"e\"}[5m])", r#"{a="b"} 1"#),
            ("absent_over_time(one[30s])", "{} 1"),
        ],
    );
}
