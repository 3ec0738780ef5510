//! The functions of the language, one file each, in one table from which evaluation, `/functions` and the
//! reference page are made.

mod absolute;
mod add;
mod aggregate;
mod aggregate_line;
mod aggregate_series_lists;
mod aggregate_with_wildcards;
mod alias;
mod alias_by_base64;
mod alias_by_metric;
mod alias_by_node;
mod alias_by_tags;
mod alias_query;
mod alias_sub;
mod alpha;
mod apply_by_node;
mod area_between;
mod as_percent;
mod average_above;
mod average_below;
mod average_outside_percentile;
mod average_series;
mod average_series_with_wildcards;
mod baseline;
mod baseline_aberration;
mod baselines;
mod cacti_style;
mod callback;
mod changed;
mod color;
mod compress_periodic_gaps;
mod consolidate_by;
mod constant_line;
mod correlation;
mod count;
mod count_series;
mod count_values;
mod cumulative;
mod current_above;
mod current_below;
mod dashed;
mod dates;
mod delay;
mod derivative;
mod diff;
mod diff_series;
mod diff_series_lists;
mod divide_series;
mod divide_series_lists;
mod draw_as_infinite;
mod events;
mod ewma;
mod exclude;
mod exp;
mod exponential_moving_average;
mod fallback_series;
mod fft;
mod filter_series;
mod fourier;
mod grep;
mod group;
mod group_by_node;
mod group_by_nodes;
mod group_by_tags;
mod heat_map;
mod highest;
mod highest_average;
mod highest_current;
mod highest_max;
mod highest_min;
mod hitcount;
mod holt_winters;
mod holt_winters_aberration;
mod holt_winters_confidence_area;
mod holt_winters_confidence_bands;
mod holt_winters_forecast;
mod identity;
mod ifft;
mod integral;
mod integral_by_interval;
mod integral_with_reset;
mod interpolate;
mod invert;
mod is_non_null;
mod is_not_null;
mod join;
mod keep_last_value;
mod keys;
mod kolmogorov_smirnov_test2;
mod legend_value;
mod limit;
mod line_width;
mod linear_regression;
mod log;
mod logarithm;
mod logit;
mod low_pass;
mod lower;
mod lowest;
mod lowest_average;
mod lowest_current;
mod lowest_max;
mod lowest_min;
mod map_series;
mod max_series;
mod maximum_above;
mod maximum_below;
mod min_max;
mod min_series;
mod minimum_above;
mod minimum_below;
mod most_deviant;
mod moving;
mod moving_average;
mod moving_max;
mod moving_median;
mod moving_min;
mod moving_sum;
mod moving_window;
mod multiply;
mod multiply_series;
mod multiply_series_lists;
mod multiply_series_with_wildcards;
mod n_percentile;
mod non_negative_derivative;
mod nonnegative;
mod objectives;
mod offset;
mod offset_to_zero;
mod outliers;
mod pairwise;
mod pearson;
mod pearson_closest;
mod per_second;
mod percentile_of_series;
mod polyfit;
mod pow_series;
mod pow_series_lists;
mod power;
mod python_format;
mod random_walk;
mod range_of_series;
mod reduce_series;
mod remove_above_percentile;
mod remove_above_value;
mod remove_below_percentile;
mod remove_below_value;
mod remove_between_percentile;
mod remove_empty_series;
mod remove_zero_series;
mod round;
mod same_steps;
mod scale;
mod scale_after_timestamp;
mod scale_to_seconds;
mod second_yaxis;
mod series_by_tag;
mod series_of;
mod set_xfiles_factor;
mod si_units;
mod sigmoid;
mod sin;
mod slo;
mod slo_error_budget;
mod smart_summarize;
mod sort_by;
mod sort_by_maxima;
mod sort_by_minima;
mod sort_by_name;
mod sort_by_total;
mod square_root;
mod stacked;
mod stddev;
mod stddev_series;
mod stdev;
mod substr;
mod sum_series;
mod sum_series_lists;
mod sum_series_with_wildcards;
mod summaries;
mod summarize;
mod threshold;
mod time;
mod time_shift;
mod time_shift_by_metric;
mod time_slice;
mod time_stack;
mod transform_null;
mod tukey_above;
mod tukey_below;
mod unique;
mod upper;
mod use_series_above;
mod value_text;
mod vertical_line;
mod weighted_average;
mod windows;

use crate::error::{Error, Result};
use crate::function::Function;

/// All functions, sorted by name.
pub const FUNCTIONS: &[&Function] = &[
    &absolute::FUNCTION,
    &add::FUNCTION,
    &aggregate::FUNCTION,
    &aggregate_line::FUNCTION,
    &aggregate_series_lists::FUNCTION,
    &aggregate_with_wildcards::FUNCTION,
    &alias::FUNCTION,
    &alias_by_base64::FUNCTION,
    &alias_by_metric::FUNCTION,
    &alias_by_node::FUNCTION,
    &alias_by_tags::FUNCTION,
    &alias_query::FUNCTION,
    &alias_sub::FUNCTION,
    &alpha::FUNCTION,
    &apply_by_node::FUNCTION,
    &area_between::FUNCTION,
    &as_percent::FUNCTION,
    &average_above::FUNCTION,
    &average_below::FUNCTION,
    &average_outside_percentile::FUNCTION,
    &average_series::FUNCTION,
    &average_series_with_wildcards::FUNCTION,
    &baseline::FUNCTION,
    &baseline_aberration::FUNCTION,
    &cacti_style::FUNCTION,
    &changed::FUNCTION,
    &color::FUNCTION,
    &compress_periodic_gaps::FUNCTION,
    &consolidate_by::FUNCTION,
    &constant_line::FUNCTION,
    &count::FUNCTION,
    &count_series::FUNCTION,
    &count_values::FUNCTION,
    &cumulative::FUNCTION,
    &current_above::FUNCTION,
    &current_below::FUNCTION,
    &dashed::FUNCTION,
    &delay::FUNCTION,
    &derivative::FUNCTION,
    &diff::FUNCTION,
    &diff_series::FUNCTION,
    &diff_series_lists::FUNCTION,
    &divide_series::FUNCTION,
    &divide_series_lists::FUNCTION,
    &draw_as_infinite::FUNCTION,
    &events::FUNCTION,
    &ewma::FUNCTION,
    &exclude::FUNCTION,
    &exp::FUNCTION,
    &exponential_moving_average::FUNCTION,
    &fallback_series::FUNCTION,
    &fft::FUNCTION,
    &filter_series::FUNCTION,
    &grep::FUNCTION,
    &group::FUNCTION,
    &group_by_node::FUNCTION,
    &group_by_nodes::FUNCTION,
    &group_by_tags::FUNCTION,
    &heat_map::FUNCTION,
    &highest::FUNCTION,
    &highest_average::FUNCTION,
    &highest_current::FUNCTION,
    &highest_max::FUNCTION,
    &highest_min::FUNCTION,
    &hitcount::FUNCTION,
    &holt_winters_aberration::FUNCTION,
    &holt_winters_confidence_area::FUNCTION,
    &holt_winters_confidence_bands::FUNCTION,
    &holt_winters_forecast::FUNCTION,
    &identity::FUNCTION,
    &ifft::FUNCTION,
    &integral::FUNCTION,
    &integral_by_interval::FUNCTION,
    &integral_with_reset::FUNCTION,
    &interpolate::FUNCTION,
    &invert::FUNCTION,
    &is_non_null::FUNCTION,
    &is_not_null::FUNCTION,
    &join::FUNCTION,
    &keep_last_value::FUNCTION,
    &kolmogorov_smirnov_test2::FUNCTION,
    &legend_value::FUNCTION,
    &limit::FUNCTION,
    &line_width::FUNCTION,
    &linear_regression::FUNCTION,
    &log::FUNCTION,
    &logarithm::FUNCTION,
    &logit::FUNCTION,
    &low_pass::FUNCTION,
    &lower::FUNCTION,
    &lowest::FUNCTION,
    &lowest_average::FUNCTION,
    &lowest_current::FUNCTION,
    &lowest_max::FUNCTION,
    &lowest_min::FUNCTION,
    &map_series::FUNCTION,
    &max_series::FUNCTION,
    &maximum_above::FUNCTION,
    &maximum_below::FUNCTION,
    &min_max::FUNCTION,
    &min_series::FUNCTION,
    &minimum_above::FUNCTION,
    &minimum_below::FUNCTION,
    &most_deviant::FUNCTION,
    &moving_average::FUNCTION,
    &moving_max::FUNCTION,
    &moving_median::FUNCTION,
    &moving_min::FUNCTION,
    &moving_sum::FUNCTION,
    &moving_window::FUNCTION,
    &multiply::FUNCTION,
    &multiply_series::FUNCTION,
    &multiply_series_lists::FUNCTION,
    &multiply_series_with_wildcards::FUNCTION,
    &n_percentile::FUNCTION,
    &non_negative_derivative::FUNCTION,
    &offset::FUNCTION,
    &offset_to_zero::FUNCTION,
    &pearson::FUNCTION,
    &pearson_closest::FUNCTION,
    &per_second::FUNCTION,
    &percentile_of_series::FUNCTION,
    &polyfit::FUNCTION,
    &power::FUNCTION,
    &pow_series::FUNCTION,
    &pow_series_lists::FUNCTION,
    &random_walk::FUNCTION,
    &range_of_series::FUNCTION,
    &reduce_series::FUNCTION,
    &remove_above_percentile::FUNCTION,
    &remove_above_value::FUNCTION,
    &remove_below_percentile::FUNCTION,
    &remove_below_value::FUNCTION,
    &remove_between_percentile::FUNCTION,
    &remove_empty_series::FUNCTION,
    &remove_zero_series::FUNCTION,
    &round::FUNCTION,
    &scale::FUNCTION,
    &scale_after_timestamp::FUNCTION,
    &scale_to_seconds::FUNCTION,
    &second_yaxis::FUNCTION,
    &series_by_tag::FUNCTION,
    &set_xfiles_factor::FUNCTION,
    &sigmoid::FUNCTION,
    &sin::FUNCTION,
    &slo::FUNCTION,
    &slo_error_budget::FUNCTION,
    &smart_summarize::FUNCTION,
    &sort_by::FUNCTION,
    &sort_by_maxima::FUNCTION,
    &sort_by_minima::FUNCTION,
    &sort_by_name::FUNCTION,
    &sort_by_total::FUNCTION,
    &square_root::FUNCTION,
    &stacked::FUNCTION,
    &stddev::FUNCTION,
    &stddev_series::FUNCTION,
    &stdev::FUNCTION,
    &substr::FUNCTION,
    &sum_series::FUNCTION,
    &sum_series_lists::FUNCTION,
    &sum_series_with_wildcards::FUNCTION,
    &summarize::FUNCTION,
    &threshold::FUNCTION,
    &time::FUNCTION,
    &time_shift::FUNCTION,
    &time_shift_by_metric::FUNCTION,
    &time_slice::FUNCTION,
    &time_stack::FUNCTION,
    &transform_null::FUNCTION,
    &tukey_above::FUNCTION,
    &tukey_below::FUNCTION,
    &unique::FUNCTION,
    &upper::FUNCTION,
    &use_series_above::FUNCTION,
    &vertical_line::FUNCTION,
    &weighted_average::FUNCTION,
];

/// The function with this name.
pub(crate) fn find(name: &str) -> Result<&'static Function> {
    let found = match FUNCTIONS.binary_search_by(|function| function.name.cmp(name)) {
        Ok(place) => Some(FUNCTIONS[place]),
        Err(_) => FUNCTIONS.iter().copied().find(|function| function.aliases.contains(&name)),
    };
    found.ok_or_else(|| Error::invalid(format!("Received request for unknown function: {name}")))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::column::Column;
    use crate::function::{Computation, Evaluate, Target, call_with_values};
    use crate::number::Number;
    use crate::parameter::Argument;
    use crate::scope::Scope;
    use crate::series::Series;
    use crate::zone::{Moment, Zone};

    #[test]
    fn the_table_is_sorted_and_no_name_is_used_twice() {
        assert!(FUNCTIONS.is_sorted_by(|a, b| a.name < b.name));
        let names = FUNCTIONS.iter().flat_map(|f| f.aliases.iter().chain([&f.name]));
        let mut names: Vec<&&str> = names.collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for function in FUNCTIONS {
            let last = function.parameters.len().saturating_sub(1);
            let early = function.parameters.iter().take(last).any(|parameter| parameter.multiple);
            assert!(!early && find(function.name).is_ok(), "{}", function.name);
        }
    }

    fn series(name: &str, start: i64, values: &[f64]) -> Series {
        let some = |value: &f64| Some(*value).filter(|value| !value.is_nan());
        let column = Column::collect(values.len(), values.iter().map(some)).unwrap();
        Series::new(name, start, start + values.len() as i64, 1, column)
    }

    /// Evaluates the first argument at other times: each value grows by one per second of shift.
    struct Rising;

    impl Evaluate for Rising {
        fn target<'a>(&'a self, _: Target<'a>, scope: &'a Scope) -> BoxFuture<'a, Result<Vec<Series>>> {
            let begin = scope.from.epoch;
            let values: Vec<f64> = (begin..begin + 4).map(|time| time as f64).collect();
            async move { Ok(vec![series("a", begin, &values)]) }.boxed()
        }

        fn events<'a>(&'a self, _: &'a [String], _: i64, _: i64) -> BoxFuture<'a, Result<Vec<i64>>> {
            async { Ok(Vec::new()) }.boxed()
        }

        fn random(&self) -> f64 {
            0.5
        }

        fn compute<'a>(&'a self, job: Computation) -> BoxFuture<'a, Result<Vec<Series>>> {
            async move { job() }.boxed()
        }
    }

    /// Names, starts and values of the result, with NaN for a missing value.
    fn called(name: &str, arguments: Vec<Argument>) -> Vec<(String, i64, Vec<f64>)> {
        let scope = Scope::new(Moment::utc(100), Moment::utc(104), 104, Zone::utc(), 0.0);
        let answer = call_with_values(name, scope, arguments, Vec::new(), &Rising).now_or_never().unwrap();
        let Argument::Series(list) = answer.unwrap() else { panic!("{name}: no series") };
        let shown = |series: &Series| {
            let values = series.points().map(|value| value.unwrap_or(f64::NAN)).collect();
            (series.name.clone(), series.start, values)
        };
        list.iter().map(shown).collect()
    }

    fn number(value: i64) -> Argument {
        Argument::Number(Number::Int(value))
    }

    const NONE: f64 = f64::NAN;

    #[track_caller]
    fn answers(name: &str, arguments: Vec<Argument>, expected: &[(&str, &[f64])]) {
        let found = called(name, arguments);
        let names: Vec<&str> = found.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for ((name, _, values), (_, wanted)) in found.iter().zip(expected) {
            let is_same = |(a, b): (&f64, &f64)| a.is_nan() && b.is_nan() || (a - b).abs() < 1e-9;
            assert!(
                values.len() == wanted.len() && values.iter().zip(*wanted).all(is_same),
                "{name} {values:?}"
            );
        }
    }

    #[test]
    fn functions_of_carbonapi_alone_have_its_results() {
        let one = |values: &[f64]| Argument::Series(vec![series("a", 100, values)]);
        let two = |a: &[f64], b: &[f64]| Argument::Series(vec![series("a", 100, a), series("b", 100, b)]);
        let text = |text: &str| Argument::Text(text.to_owned());
        let line: Vec<f64> = (0..10).map(f64::from).collect();
        let cut = [0.0, 1.0, NONE, NONE, NONE, NONE, NONE, NONE, 8.0, 9.0];
        answers("lpf", vec![one(&line), number(40)], &[("lowPass(a,40)", &cut)]);
        answers("count", vec![two(&[1.0, NONE], &[2.0, NONE])], &[("countSeries(a,b)", &[2.0, 2.0])]);
        answers("multiply", vec![two(&[2.0], &[3.0])], &[("multiplySeries(a,b)", &[6.0])]);
        answers("isNotNull", vec![one(&[1.0, NONE])], &[("isNonNull(a)", &[1.0, 0.0])]);
        answers("lowestMax", vec![two(&[1.0, 9.0], &[5.0, 6.0])], &[("b", &[5.0, 6.0])]);
        answers("lowestMin", vec![two(&[1.0, 9.0], &[5.0, 6.0])], &[("a", &[1.0, 9.0])]);
        let powers: (&str, &[f64]) = ("powSeries(a,a)", &[8.0, NONE]);
        answers("powSeriesLists", vec![one(&[2.0, 3.0]), one(&[3.0, NONE])], &[powers]);
        let counted: &[(&str, &[f64])] = &[("-1", &[0.0, 1.0]), ("1", &[2.0, 0.0]), ("2", &[0.0, 1.0])];
        answers("countValues", vec![two(&[1.0, 2.5], &[1.0, -1.0])], counted);
        let many = vec![two(&[1.0, 2.5], &[1.0, -1.0]), number(2)];
        answers("countValues", many, &[("valuesLimitReached", &[0.0, 0.0])]);
        let scaled = vec![one(&[1.0, 1.0, 1.0]), number(3), number(101)];
        answers("scaleAfterTimestamp", scaled, &[("scale(a,3,101)", &[1.0, 3.0, 3.0])]);
        let joined = vec![one(&[1.0]), two(&[2.0], &[3.0]), text("xor")];
        answers("join", joined, &[("b", &[3.0])]);
        // The median of the values one and two seconds before.
        let before = vec![one(&[4.0; 4]), text("1s"), number(0), number(3)];
        answers("baseline", before, &[("baseline(a)", &[98.5, 99.5, 100.5, 101.5])]);
        let before = vec![one(&[197.0, NONE, 201.0, 0.0]), text("1s"), number(1), number(3)];
        answers("baselineAberration", before, &[("baselineAberration(a)", &[2.0, NONE, 2.0, 0.0])]);
    }

    #[test]
    fn ifft_reverses_fft() {
        let given = [3.0, 1.0, 4.0, 1.0, 5.0];
        let parts = called("fft", vec![Argument::Series(vec![series("a", 0, &given)])]);
        let [(lengths, _, length_values), (angles, _, angle_values)] = parts.as_slice() else { panic!() };
        assert_eq!((lengths.as_str(), angles.as_str()), ("fft(a,abs)", "fft(a,phase)"));
        assert!((length_values[0] - 14.0).abs() < 1e-9);
        let [lengths, angles] = [length_values, angle_values].map(|values| vec![series("f", 0, values)]);
        let back = called("ifft", vec![Argument::Series(lengths), Argument::Series(angles)]);
        assert!(back[0].2.iter().zip(given).all(|(a, b)| (a - b).abs() < 1e-9), "{back:?}");
    }

    #[test]
    fn windows_and_degrees_of_any_size_are_evaluated_or_refused() {
        let list = || Argument::Series(vec![series("a", 0, &[1.0, 2.0, NONE])]);
        let scope = || Scope::new(Moment::utc(0), Moment::utc(3), 3, Zone::utc(), 0.0);
        for size in [i64::MIN, -1, 0, 1, 2, 3, 100, i64::MAX] {
            for (name, arguments) in [
                ("pearson", vec![list(), list(), number(size)]),
                ("ksTest2", vec![list(), list(), number(size)]),
                ("pearsonClosest", vec![list(), list(), number(size)]),
                ("polyfit", vec![list(), number(size)]),
                ("polyfit", vec![list(), number(2), Argument::Text(format!("{}s", size.unsigned_abs() % 7))]),
                ("tukeyAbove", vec![list(), number(1), number(size), number(size)]),
                ("tukeyBelow", vec![list(), number(1), number(1), number(size)]),
                ("countValues", vec![list(), number(size)]),
                ("lowPass", vec![list(), number(size)]),
                ("aliasByBase64", vec![list(), number(size)]),
                ("highestMin", vec![list(), number(size)]),
                ("timeShiftByMetric", vec![list(), list(), number(size)]),
                ("baseline", vec![list(), Argument::Text("1s".to_owned()), number(size), number(0)]),
                ("scaleAfterTimestamp", vec![list(), number(size), number(size)]),
            ] {
                let call = call_with_values(name, scope(), arguments, Vec::new(), &Rising);
                let _ = call.now_or_never().unwrap();
            }
        }
    }
}
