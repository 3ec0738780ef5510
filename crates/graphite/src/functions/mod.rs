//! The functions of the language: one file each, registered in one table that evaluation, `/functions` and
//! the reference page read.

mod absolute;
mod add;
mod aggregate;
mod aggregate_line;
mod aggregate_series_lists;
mod aggregate_with_wildcards;
mod alias;
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
mod cacti_style;
mod callback;
mod changed;
mod color;
mod compress_periodic_gaps;
mod consolidate_by;
mod constant_line;
mod count_series;
mod cumulative;
mod current_above;
mod current_below;
mod dashed;
mod dates;
mod delay;
mod derivative;
mod diff_series;
mod diff_series_lists;
mod divide_series;
mod divide_series_lists;
mod draw_as_infinite;
mod events;
mod exclude;
mod exp;
mod exponential_moving_average;
mod fallback_series;
mod filter_series;
mod grep;
mod group;
mod group_by_node;
mod group_by_nodes;
mod group_by_tags;
mod highest;
mod highest_average;
mod highest_current;
mod highest_max;
mod hitcount;
mod holt_winters;
mod holt_winters_aberration;
mod holt_winters_confidence_area;
mod holt_winters_confidence_bands;
mod holt_winters_forecast;
mod identity;
mod integral;
mod integral_by_interval;
mod interpolate;
mod invert;
mod is_non_null;
mod keep_last_value;
mod keys;
mod legend_value;
mod limit;
mod line_width;
mod linear_regression;
mod logarithm;
mod logit;
mod lower;
mod lowest;
mod lowest_average;
mod lowest_current;
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
mod multiply_series;
mod multiply_series_lists;
mod multiply_series_with_wildcards;
mod n_percentile;
mod non_negative_derivative;
mod nonnegative;
mod offset;
mod offset_to_zero;
mod pairwise;
mod per_second;
mod percentile_of_series;
mod pow_series;
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
mod round;
mod same_steps;
mod scale;
mod scale_to_seconds;
mod second_yaxis;
mod series_by_tag;
mod series_of;
mod set_xfiles_factor;
mod si_units;
mod sigmoid;
mod sin;
mod smart_summarize;
mod sort_by;
mod sort_by_maxima;
mod sort_by_minima;
mod sort_by_name;
mod sort_by_total;
mod square_root;
mod stacked;
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
mod time_slice;
mod time_stack;
mod transform_null;
mod unique;
mod upper;
mod use_series_above;
mod value_text;
mod vertical_line;
mod weighted_average;
mod windows;

use crate::error::{Error, Result};
use crate::function::Function;

/// All functions by name.
pub const FUNCTIONS: &[&Function] = &[
    &absolute::FUNCTION,
    &add::FUNCTION,
    &aggregate::FUNCTION,
    &aggregate_line::FUNCTION,
    &aggregate_series_lists::FUNCTION,
    &aggregate_with_wildcards::FUNCTION,
    &alias::FUNCTION,
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
    &cacti_style::FUNCTION,
    &changed::FUNCTION,
    &color::FUNCTION,
    &compress_periodic_gaps::FUNCTION,
    &consolidate_by::FUNCTION,
    &constant_line::FUNCTION,
    &count_series::FUNCTION,
    &cumulative::FUNCTION,
    &current_above::FUNCTION,
    &current_below::FUNCTION,
    &dashed::FUNCTION,
    &delay::FUNCTION,
    &derivative::FUNCTION,
    &diff_series::FUNCTION,
    &diff_series_lists::FUNCTION,
    &divide_series::FUNCTION,
    &divide_series_lists::FUNCTION,
    &draw_as_infinite::FUNCTION,
    &events::FUNCTION,
    &exclude::FUNCTION,
    &exp::FUNCTION,
    &exponential_moving_average::FUNCTION,
    &fallback_series::FUNCTION,
    &filter_series::FUNCTION,
    &grep::FUNCTION,
    &group::FUNCTION,
    &group_by_node::FUNCTION,
    &group_by_nodes::FUNCTION,
    &group_by_tags::FUNCTION,
    &highest::FUNCTION,
    &highest_average::FUNCTION,
    &highest_current::FUNCTION,
    &highest_max::FUNCTION,
    &hitcount::FUNCTION,
    &holt_winters_aberration::FUNCTION,
    &holt_winters_confidence_area::FUNCTION,
    &holt_winters_confidence_bands::FUNCTION,
    &holt_winters_forecast::FUNCTION,
    &identity::FUNCTION,
    &integral::FUNCTION,
    &integral_by_interval::FUNCTION,
    &interpolate::FUNCTION,
    &invert::FUNCTION,
    &is_non_null::FUNCTION,
    &keep_last_value::FUNCTION,
    &legend_value::FUNCTION,
    &limit::FUNCTION,
    &line_width::FUNCTION,
    &linear_regression::FUNCTION,
    &logarithm::FUNCTION,
    &logit::FUNCTION,
    &lower::FUNCTION,
    &lowest::FUNCTION,
    &lowest_average::FUNCTION,
    &lowest_current::FUNCTION,
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
    &multiply_series::FUNCTION,
    &multiply_series_lists::FUNCTION,
    &multiply_series_with_wildcards::FUNCTION,
    &n_percentile::FUNCTION,
    &non_negative_derivative::FUNCTION,
    &offset::FUNCTION,
    &offset_to_zero::FUNCTION,
    &per_second::FUNCTION,
    &percentile_of_series::FUNCTION,
    &power::FUNCTION,
    &pow_series::FUNCTION,
    &random_walk::FUNCTION,
    &range_of_series::FUNCTION,
    &reduce_series::FUNCTION,
    &remove_above_percentile::FUNCTION,
    &remove_above_value::FUNCTION,
    &remove_below_percentile::FUNCTION,
    &remove_below_value::FUNCTION,
    &remove_between_percentile::FUNCTION,
    &remove_empty_series::FUNCTION,
    &round::FUNCTION,
    &scale::FUNCTION,
    &scale_to_seconds::FUNCTION,
    &second_yaxis::FUNCTION,
    &series_by_tag::FUNCTION,
    &set_xfiles_factor::FUNCTION,
    &sigmoid::FUNCTION,
    &sin::FUNCTION,
    &smart_summarize::FUNCTION,
    &sort_by::FUNCTION,
    &sort_by_maxima::FUNCTION,
    &sort_by_minima::FUNCTION,
    &sort_by_name::FUNCTION,
    &sort_by_total::FUNCTION,
    &square_root::FUNCTION,
    &stacked::FUNCTION,
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
    &time_slice::FUNCTION,
    &time_stack::FUNCTION,
    &transform_null::FUNCTION,
    &unique::FUNCTION,
    &upper::FUNCTION,
    &use_series_above::FUNCTION,
    &vertical_line::FUNCTION,
    &weighted_average::FUNCTION,
];

/// The function of a name.
pub(crate) fn find(name: &str) -> Result<&'static Function> {
    let found = match FUNCTIONS.binary_search_by(|function| function.name.cmp(name)) {
        Ok(place) => Some(FUNCTIONS[place]),
        Err(_) => FUNCTIONS.iter().copied().find(|function| function.aliases.contains(&name)),
    };
    found.ok_or_else(|| Error::invalid(format!("Received request for unknown function: {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
