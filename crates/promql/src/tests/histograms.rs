//! Functions of native and classic histograms, and operators on native histograms.

use super::table::Table;

fn series() -> Table {
    Table::load(
        r#"
        h 1,2,1/10
        k{i="1"} 1,2,1/10
        k{i="2"} 3,0,1/6
        custom 2,4,2/9@1,2
        f 5
        classic_bucket{le="1"} 2
        classic_bucket{le="2"} 6
        classic_bucket{le="+Inf"} 8
        grows 1,1/2 2,2/4 3,3/6 4,4/8 5,5/10 6,6/12
        reset 5,5/9 1,1/2 2,2/4
        "#,
    )
}

#[test]
fn counts_sums_and_means_are_read() {
    series().check(
        0,
        &[
            ("histogram_count(h)", "{} 4"),
            ("histogram_sum(h)", "{} 10"),
            ("histogram_avg(h)", "{} 2.5"),
            ("histogram_count(custom)", "{} 8"),
            ("histogram_count(f)", ""),
        ],
    );
}

#[test]
fn quantiles_interpolate_within_buckets() {
    series().check(
        0,
        &[
            // Buckets of powers of two are interpolated exponentially: half of (1, 2] is its root.
            ("histogram_quantile(0.25, h)", "{} 1"),
            ("round(histogram_quantile(0.5, h), 0.001)", "{} 1.414"),
            ("histogram_quantile(1, h)", "{} 4"),
            ("histogram_quantile(-1, h)", "{} -Inf"),
            ("histogram_quantile(2, h)", "{} +Inf"),
            // Custom and classic buckets are interpolated linearly.
            ("histogram_quantile(0.5, custom)", "{} 1.5"),
            ("histogram_quantile(0.5, classic_bucket)", "{} 1.5"),
            ("histogram_quantile(0.125, classic_bucket)", "{} 0.5"),
            ("histogram_quantile(0.25, classic_bucket)", "{} 1"),
            // Ranks in the infinite bucket get its lower bound.
            ("histogram_quantile(0.9, classic_bucket)", "{} 2"),
            ("histogram_quantile(0.5, f)", ""),
            ("histogram_quantiles(classic_bucket, \"q\", 0.25, 0.5)", r#"{q="0.25"} 1; {q="0.5"} 1.5"#),
        ],
    );
}

#[test]
fn fractions_are_the_inverse_of_quantiles() {
    series().check(
        0,
        &[
            ("histogram_fraction(1, 2, h)", "{} 0.5"),
            ("histogram_fraction(-Inf, +Inf, h)", "{} 1"),
            ("histogram_fraction(2, 1, h)", "{} 0"),
            ("histogram_fraction(0, 1, classic_bucket)", "{} 0.25"),
            ("histogram_fraction(1, 1.5, custom)", "{} 0.25"),
        ],
    );
}

#[test]
fn operators_add_and_scale_buckets() {
    series().check(
        0,
        &[
            ("h + h", "{} {count:8, sum:20, (0.5,1]:2, (1,2]:4, (2,4]:2}"),
            ("h * 3", "{} {count:12, sum:30, (0.5,1]:3, (1,2]:6, (2,4]:3}"),
            ("h / 2", "{} {count:2, sum:5, (0.5,1]:0.5, (1,2]:1, (2,4]:0.5}"),
            ("sum(k)", "{} {count:8, sum:16, (0.5,1]:4, (1,2]:2, (2,4]:2}"),
            ("avg(k)", "{} {count:4, sum:8, (0.5,1]:2, (1,2]:1, (2,4]:1}"),
            ("histogram_count(h - h)", "{} 0"),
            ("count(k)", "{} 2"),
            ("h == h", "h{} {count:4, sum:10, (0.5,1]:1, (1,2]:2, (2,4]:1}"),
            ("h != h", ""),
            ("max(k)", ""),
            ("h + f", ""),
            ("sum({__name__=~\"h|f\"})", ""),
        ],
    );
    assert!(series().notes(0, "sum(k)").is_empty());
    assert_eq!(series().notes(0, "sum({__name__=~\"h|f\"})").len(), 1, "floats and histograms are mixed");
    assert_eq!(series().notes(0, "max(k)").len(), 1, "a maximum ignores histograms");
}

#[test]
fn rates_subtract_buckets_and_detect_resets() {
    series().check(
        300,
        &[
            // From 4 to 12 observations in 240 s; the window has 300 s.
            ("histogram_count(increase(grows[5m]))", "{} 10"),
            ("histogram_sum(increase(grows[5m]))", "{} 10"),
            ("histogram_count(sum_over_time(grows[2m]))", "{} 22"),
            ("histogram_count(avg_over_time(grows[2m]))", "{} 11"),
            ("histogram_count(last_over_time(grows[5m]))", "{} 12"),
            ("count_over_time(grows[5m])", "{} 5"),
        ],
    );
    series().check(120, &[("resets(reset[3m])", "{} 1"), ("resets(grows[3m])", "{} 0")]);
}
