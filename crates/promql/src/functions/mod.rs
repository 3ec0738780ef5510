//! The functions of the language: one table, from which the parser, the evaluation and the documentation
//! are made.

pub mod buckets;
mod changes;
pub mod civil;
pub mod extended;
mod integral;
pub mod math;
pub mod over_time;
mod rate;
mod starts;
pub mod statistics;
pub mod whole;
pub mod window;

use sandur_model::FloatHistogram;

use crate::value_type::Type;
use civil::Civil;
use whole::{Whole, WholeFn};
use window::RangeFn;

/// A function.
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// The types of the arguments.
    pub args: &'static [Type],
    /// How many more times the last argument may occur; if not 0, it may also be missing. Negative: any
    /// number of times.
    pub variadic: i8,
    /// The type of the result.
    pub returns: Type,
    /// Whether Prometheus marks it as experimental.
    pub experimental: bool,
    /// What it does, in one sentence, for the reference page.
    pub doc: &'static str,
    pub(crate) kernel: Kernel,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The implementation of a function, by its shape.
pub(crate) enum Kernel {
    /// A function of each float.
    Map(fn(f64) -> f64),
    /// A function of each float and scalar arguments.
    MapWith(fn(f64, &[f64]) -> Option<f64>),
    /// A function of each histogram.
    OfHistogram(fn(&FloatHistogram) -> f64),
    /// A function of the date that each float stands for.
    Date(fn(&Civil) -> f64),
    /// A function of the samples of each window.
    Range(RangeFn, Traits),
    /// A function with its own operator.
    Special(Special),
}

/// Properties of a function over windows that the engine needs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    /// Whether the result keeps the metric's name.
    pub keeps_name: bool,
    /// Whether it reads start timestamps.
    pub starts: bool,
    /// Whether it supports `anchored`.
    pub anchored: bool,
    /// Whether it supports `smoothed`.
    pub smoothed: bool,
    /// Whether it is for counters, and adds a note for a metric that does not look like one.
    pub counter: bool,
    /// Whether it reads only the presence of samples, not their values.
    pub presence: bool,
    /// The implementation over all windows of a series of floats at once, if there is one.
    pub whole: Option<Whole>,
}

impl Traits {
    /// Adds an implementation over all windows at once.
    const fn whole(mut self, function: WholeFn) -> Self {
        self.whole = Some(Whole { function, pairs: false, extrapolates: None });
        self
    }

    /// Adds an implementation over all windows at once, for windows with at least two samples.
    const fn whole_of_pairs(mut self, function: WholeFn) -> Self {
        self.whole = Some(Whole { function, pairs: true, extrapolates: None });
        self
    }

    /// Adds an implementation over all windows at once that extrapolates increases to the bounds of the
    /// window.
    const fn extrapolated(mut self, function: WholeFn, per_second: bool) -> Self {
        self.whole = Some(Whole { function, pairs: true, extrapolates: Some(per_second) });
        self
    }
}

/// Functions with their own operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Absent,
    AbsentOverTime,
    Context,
    HistogramFraction,
    HistogramQuantile,
    HistogramQuantiles,
    Info,
    LabelJoin,
    LabelReplace,
    MaxOf,
    MinOf,
    Pi,
    Scalar,
    Sort { descending: bool },
    SortByLabel { descending: bool },
    StartTimestamp,
    Time,
    Timestamp,
    Vector,
}

const V: Type = Type::Vector;
const M: Type = Type::Matrix;
const S: Type = Type::Scalar;
const T: Type = Type::String;

const fn of(
    name: &'static str,
    args: &'static [Type],
    returns: Type,
    kernel: Kernel,
    doc: &'static str,
) -> Function {
    Function { name, args, variadic: 0, returns, experimental: false, doc, kernel }
}

const fn map(name: &'static str, f: fn(f64) -> f64, doc: &'static str) -> Function {
    of(name, &[V], V, Kernel::Map(f), doc)
}

const fn date(name: &'static str, f: fn(&Civil) -> f64, doc: &'static str) -> Function {
    of(name, &[V], V, Kernel::Date(f), doc).variadic(1)
}

const fn histogram(name: &'static str, f: fn(&FloatHistogram) -> f64, doc: &'static str) -> Function {
    of(name, &[V], V, Kernel::OfHistogram(f), doc)
}

const NO_TRAITS: Traits = Traits {
    keeps_name: false,
    starts: false,
    anchored: false,
    smoothed: false,
    counter: false,
    presence: false,
    whole: None,
};

/// The properties of `present_over_time`.
pub(crate) const PRESENT: Traits = Traits { presence: true, ..NO_TRAITS.whole(whole::present) };

/// The properties of `count_over_time`.
const COUNT: Traits = Traits { presence: true, ..NO_TRAITS.whole(whole::count) };

const fn range(name: &'static str, f: RangeFn, doc: &'static str) -> Function {
    of(name, &[M], V, Kernel::Range(f, NO_TRAITS), doc)
}

const fn range_with(name: &'static str, f: RangeFn, traits: Traits, doc: &'static str) -> Function {
    of(name, &[M], V, Kernel::Range(f, traits), doc)
}

const fn special(
    name: &'static str,
    args: &'static [Type],
    returns: Type,
    s: Special,
    doc: &'static str,
) -> Function {
    of(name, args, returns, Kernel::Special(s), doc)
}

impl Function {
    const fn variadic(mut self, more: i8) -> Self {
        self.variadic = more;
        self
    }

    const fn experimental(mut self) -> Self {
        self.experimental = true;
        self
    }

    const fn args(mut self, args: &'static [Type]) -> Self {
        self.args = args;
        self
    }

    /// The function with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Whether its result depends on the time of the step even if its arguments do not.
    pub fn looks_at_time(&self) -> bool {
        matches!(
            self.kernel,
            Kernel::Date(_) | Kernel::Special(Special::Context | Special::Time | Special::Timestamp)
        ) || self.name == "predict_linear"
    }

    /// The function with the types of its arguments, for the reference page.
    pub fn signature(&self) -> String {
        let mut args: Vec<String> = self.args.iter().map(|kind| kind.documented().to_owned()).collect();
        if self.variadic != 0
            && let Some(last) = args.last_mut()
        {
            *last = match self.variadic {
                1 => format!("[{last}]"),
                _ => format!("{last} ..."),
            };
        }
        format!("{}({})", self.name, args.join(", "))
    }
}

const KEEPS_NAME: Traits = Traits { keeps_name: true, ..NO_TRAITS };
const COUNTER: Traits = Traits { starts: true, anchored: true, smoothed: true, counter: true, ..NO_TRAITS };
const GAUGE: Traits = Traits { anchored: true, smoothed: true, ..NO_TRAITS };
const ANCHORED: Traits = Traits { anchored: true, ..NO_TRAITS };
const RESETS: Traits = Traits { anchored: true, starts: true, ..NO_TRAITS };
const STARTS: Traits = Traits { starts: true, ..NO_TRAITS };

/// Every function.
pub static FUNCTIONS: &[Function] = &[
    map("abs", f64::abs, "The absolute value."),
    special(
        "absent",
        &[V],
        V,
        Special::Absent,
        "1 at steps at which the vector is empty, with the labels of the selector's equality matchers.",
    ),
    special(
        "absent_over_time",
        &[M],
        V,
        Special::AbsentOverTime,
        "1 at steps at which no series has a sample in its window.",
    ),
    map("acos", f64::acos, "The arc cosine."),
    map("acosh", f64::acosh, "The inverse hyperbolic cosine."),
    map("asin", f64::asin, "The arc sine."),
    map("asinh", f64::asinh, "The inverse hyperbolic sine."),
    map("atan", f64::atan, "The arc tangent."),
    map("atanh", f64::atanh, "The inverse hyperbolic tangent."),
    range_with(
        "avg_over_time",
        over_time::average,
        NO_TRAITS.whole(whole::average),
        "The mean of the samples.",
    ),
    map("ceil", f64::ceil, "Rounds up."),
    range_with(
        "changes",
        changes::changes,
        ANCHORED.whole(whole::changes),
        "The number of times that the value changed.",
    ),
    of(
        "clamp",
        &[V, S, S],
        V,
        Kernel::MapWith(math::clamp),
        "Limits values to the range between a minimum and a maximum.",
    ),
    of("clamp_max", &[V, S], V, Kernel::MapWith(math::clamp_max), "Limits values to a maximum."),
    of("clamp_min", &[V, S], V, Kernel::MapWith(math::clamp_min), "Limits values to a minimum."),
    map("cos", f64::cos, "The cosine."),
    map("cosh", math::cosh, "The hyperbolic cosine."),
    range_with("count_over_time", over_time::count, COUNT, "The number of samples."),
    date(
        "days_in_month",
        |at| f64::from(at.days_in_month()),
        "The number of days in the month of a Unix time, in UTC.",
    ),
    date("day_of_month", |at| f64::from(at.day), "The day of the month, from 1, in UTC."),
    date("day_of_week", |at| f64::from(at.weekday), "The day of the week, from 0 for Sunday, in UTC."),
    date("day_of_year", |at| f64::from(at.year_day), "The day of the year, from 1, in UTC."),
    map("deg", math::degrees, "Converts radians to degrees."),
    range_with(
        "delta",
        rate::delta,
        GAUGE.extrapolated(whole::delta, false),
        "The difference between the last and the first value, extrapolated to the window.",
    ),
    range("deriv", statistics::deriv, "The slope per second of the linear regression through the samples."),
    of(
        "double_exponential_smoothing",
        &[M, S, S],
        V,
        Kernel::Range(statistics::double_exponential_smoothing, NO_TRAITS.whole_of_pairs(whole::smoothing)),
        "Smooths values exponentially with a smoothing factor and a trend factor, each between 0 and 1.",
    )
    .experimental(),
    special("end", &[], S, Special::Context, "The time of the query's last step, in seconds since 1970.")
        .experimental(),
    map("exp", f64::exp, "The exponential function."),
    range_with("first_over_time", over_time::first, KEEPS_NAME.whole(whole::first), "The first sample."),
    map("floor", f64::floor, "Rounds down."),
    histogram("histogram_avg", |h| h.sum / h.count, "The mean of a native histogram's observations."),
    histogram("histogram_count", |h| h.count, "The number of a native histogram's observations."),
    special(
        "histogram_fraction",
        &[S, S, V],
        V,
        Special::HistogramFraction,
        "The fraction of a histogram's observations between two values.",
    ),
    special(
        "histogram_quantile",
        &[S, V],
        V,
        Special::HistogramQuantile,
        "A quantile of the observations of classic or native histograms.",
    ),
    special(
        "histogram_quantiles",
        &[V, T, S, S],
        V,
        Special::HistogramQuantiles,
        "Several quantiles, distinguished by a label.",
    )
    .variadic(9)
    .experimental(),
    histogram(
        "histogram_stddev",
        |h| buckets::variance(h).sqrt(),
        "The standard deviation of a native histogram's observations.",
    ),
    histogram("histogram_stdvar", buckets::variance, "The variance of a native histogram's observations."),
    histogram("histogram_sum", |h| h.sum, "The sum of a native histogram's observations."),
    date("hour", |at| f64::from(at.hour), "The hour of the day, from 0, in UTC."),
    range_with(
        "idelta",
        rate::idelta,
        NO_TRAITS.whole_of_pairs(whole::idelta),
        "The difference between the last two samples.",
    ),
    range_with(
        "increase",
        rate::increase,
        COUNTER.extrapolated(whole::increase, false),
        "The increase of a counter, extrapolated to the window.",
    ),
    special("info", &[V, V], V, Special::Info, "Adds labels of info metrics with the same instance and job.")
        .variadic(1)
        .experimental(),
    of(
        "integral",
        &[M, S],
        V,
        Kernel::Range(integral::integral, NO_TRAITS),
        "The integral over time in seconds, by the rule of the second argument: 0 is the left rectangle, \
         1 the right rectangle, 2 (the default) the trapezoid.",
    )
    .variadic(1)
    .experimental(),
    range_with(
        "irate",
        rate::irate,
        STARTS.whole_of_pairs(whole::irate),
        "The increase per second between the last two samples of a counter.",
    ),
    special(
        "label_join",
        &[V, T, T, T],
        V,
        Special::LabelJoin,
        "Sets a label to the values of other labels, joined by a separator.",
    )
    .variadic(-1),
    special(
        "label_replace",
        &[V, T, T, T, T],
        V,
        Special::LabelReplace,
        "Sets a label to the expansion of a regular expression's match on another label.",
    ),
    range_with("last_over_time", over_time::last, KEEPS_NAME.whole(whole::last), "The last sample."),
    map("ln", f64::ln, "The natural logarithm."),
    map("log10", math::log10, "The decimal logarithm."),
    map("log2", math::log2, "The binary logarithm."),
    range("mad_over_time", statistics::mad, "The median of the absolute deviations from the median.")
        .experimental(),
    special("max_of", &[S, S], S, Special::MaxOf, "The larger of two numbers.").experimental(),
    range_with("max_over_time", over_time::max, NO_TRAITS.whole(whole::max), "The largest value."),
    special("min_of", &[S, S], S, Special::MinOf, "The smaller of two numbers.").experimental(),
    range_with("min_over_time", over_time::min, NO_TRAITS.whole(whole::min), "The smallest value."),
    date("minute", |at| f64::from(at.minute), "The minute of the hour, from 0, in UTC."),
    date("month", |at| f64::from(at.month), "The month of the year, from 1, in UTC."),
    special("pi", &[], S, Special::Pi, "Pi."),
    of(
        "predict_linear",
        &[M, S],
        V,
        Kernel::Range(statistics::predict_linear, NO_TRAITS),
        "The value a number of seconds after the step, by the linear regression through the samples.",
    ),
    range_with(
        "present_over_time",
        over_time::present,
        PRESENT,
        "1 for each series with a sample in the window.",
    ),
    range("quantile_over_time", statistics::quantile_over_time, "A quantile of the values.").args(&[S, M]),
    map("rad", math::radians, "Converts degrees to radians."),
    special(
        "range",
        &[],
        S,
        Special::Context,
        "The time between the query's first and last step, in seconds.",
    )
    .experimental(),
    range_with(
        "rate",
        rate::rate,
        COUNTER.extrapolated(whole::rate, true),
        "The increase of a counter per second, extrapolated to the window.",
    ),
    range_with(
        "resets",
        changes::resets,
        RESETS.whole(whole::resets),
        "The number of times that a counter was reset.",
    ),
    of(
        "round",
        &[V, S],
        V,
        Kernel::MapWith(math::round),
        "Rounds to the nearest multiple of a number, by default 1; ties round up.",
    )
    .variadic(1),
    special(
        "scalar",
        &[V],
        S,
        Special::Scalar,
        "The value of the vector's only series; NaN if it has no series or several.",
    ),
    map("sgn", math::sign, "The sign: 1, -1 or 0."),
    map("sin", f64::sin, "The sine."),
    map("sinh", math::sinh, "The hyperbolic sine."),
    special("sort", &[V], V, Special::Sort { descending: false }, "Sorts series by ascending value."),
    special(
        "sort_by_label",
        &[V, T],
        V,
        Special::SortByLabel { descending: false },
        "Sorts series by labels in natural order: numbers in label values compare by value.",
    )
    .variadic(-1)
    .experimental(),
    special(
        "sort_by_label_desc",
        &[V, T],
        V,
        Special::SortByLabel { descending: true },
        "Sorts series by labels in descending natural order.",
    )
    .variadic(-1)
    .experimental(),
    special("sort_desc", &[V], V, Special::Sort { descending: true }, "Sorts series by descending value."),
    map("sqrt", f64::sqrt, "The square root."),
    special("start", &[], S, Special::Context, "The time of the query's first step, in seconds since 1970.")
        .experimental(),
    special(
        "start_timestamp",
        &[V],
        V,
        Special::StartTimestamp,
        "The start timestamps of samples, in seconds since 1970.",
    )
    .experimental(),
    range_with(
        "stddev_over_time",
        statistics::stddev,
        NO_TRAITS.whole(whole::deviation),
        "The standard deviation of the values.",
    ),
    range_with(
        "stdvar_over_time",
        statistics::stdvar,
        NO_TRAITS.whole(whole::variance),
        "The variance of the values.",
    ),
    special("step", &[], S, Special::Context, "The time between the query's steps, in seconds.")
        .experimental(),
    range_with("sum_over_time", over_time::sum, NO_TRAITS.whole(whole::sum), "The sum of the samples."),
    map("tan", f64::tan, "The tangent."),
    map("tanh", f64::tanh, "The hyperbolic tangent."),
    special("time", &[], S, Special::Time, "The time of the step, in seconds since 1970."),
    special("timestamp", &[V], V, Special::Timestamp, "The timestamps of samples, in seconds since 1970."),
    range_with(
        "ts_of_first_over_time",
        over_time::time_of_first,
        NO_TRAITS.whole(whole::time_of_first),
        "The timestamp of the first sample, in seconds since 1970.",
    )
    .experimental(),
    range_with(
        "ts_of_last_over_time",
        over_time::time_of_last,
        NO_TRAITS.whole(whole::time_of_last),
        "The timestamp of the last sample, in seconds since 1970.",
    )
    .experimental(),
    range_with(
        "ts_of_max_over_time",
        over_time::time_of_max,
        NO_TRAITS.whole(whole::time_of_max),
        "The timestamp of the last sample with the largest value, in seconds since 1970.",
    )
    .experimental(),
    range_with(
        "ts_of_min_over_time",
        over_time::time_of_min,
        NO_TRAITS.whole(whole::time_of_min),
        "The timestamp of the last sample with the smallest value, in seconds since 1970.",
    )
    .experimental(),
    special("vector", &[S], V, Special::Vector, "Converts a scalar to a series without labels."),
    date("year", |at| at.year as f64, "The year, in UTC."),
];
