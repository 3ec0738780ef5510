//! The functions of the language: one table, from which parser, evaluation and documentation are made.

pub mod buckets;
mod changes;
pub mod civil;
pub mod extended;
mod integral;
pub mod math;
pub mod over_time;
mod rate;
pub mod statistics;
pub mod whole;
pub mod window;

use sandur_model::FloatHistogram;

use crate::ast::Type;
use civil::Civil;
use whole::{Whole, WholeFn};
use window::RangeFn;

/// A function.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Types of its arguments.
    pub args: &'static [Type],
    /// How often the last argument may come beyond the first time, or may be missing; negative: any number.
    pub variadic: i8,
    /// What it answers.
    pub returns: Type,
    /// Whether Prometheus calls it experimental.
    pub experimental: bool,
    /// What it does, in a sentence.
    pub doc: &'static str,
    pub(crate) kernel: Kernel,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// How a function is evaluated.
pub(crate) enum Kernel {
    /// Each float by itself.
    Map(fn(f64) -> f64),
    /// Each float with scalars.
    MapWith(fn(f64, &[f64]) -> Option<f64>),
    /// Each histogram by itself.
    OfHistogram(fn(&FloatHistogram) -> f64),
    /// Each float as an instant.
    Date(fn(&Civil) -> f64),
    /// Each window of samples.
    Range(RangeFn, Traits),
    /// In a way of its own.
    Special(Special),
}

/// What the engine has to know of a function over windows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    /// The metric keeps its name.
    pub keeps_name: bool,
    /// It looks at the times when counting began.
    pub starts: bool,
    /// It can be used with `anchored`.
    pub anchored: bool,
    /// It can be used with `smoothed`.
    pub smoothed: bool,
    /// It is for counters, and notes metrics that do not look like one.
    pub counter: bool,
    /// It looks only at when there are samples.
    pub presence: bool,
    /// How it is evaluated over all windows of a series of floats, if it can be.
    pub whole: Option<Whole>,
}

impl Traits {
    /// It can be evaluated over all windows at once.
    const fn whole(mut self, function: WholeFn) -> Self {
        self.whole = Some(Whole { function, pairs: false, extrapolates: None });
        self
    }

    /// The same, of windows with at least two samples.
    const fn whole_of_pairs(mut self, function: WholeFn) -> Self {
        self.whole = Some(Whole { function, pairs: true, extrapolates: None });
        self
    }

    /// The same, where increases are extrapolated to the borders of the window.
    const fn extrapolated(mut self, function: WholeFn, per_second: bool) -> Self {
        self.whole = Some(Whole { function, pairs: true, extrapolates: Some(per_second) });
        self
    }
}

/// Functions that are evaluated in a way of their own.
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

/// What the engine has to know of `present_over_time`.
pub(crate) const PRESENT: Traits = Traits { presence: true, ..NO_TRAITS.whole(whole::present) };

/// The same of `count_over_time`.
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

    /// Whether its answer depends on the step's time, even when its arguments do not.
    pub fn looks_at_time(&self) -> bool {
        matches!(
            self.kernel,
            Kernel::Date(_) | Kernel::Special(Special::Context | Special::Time | Special::Timestamp)
        ) || self.name == "predict_linear"
    }

    /// The call with the names of its types.
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
    map("abs", f64::abs, "Absolute values."),
    special(
        "absent",
        &[V],
        V,
        Special::Absent,
        "1 at steps without any series; with the labels that the selector asks for.",
    ),
    special(
        "absent_over_time",
        &[M],
        V,
        Special::AbsentOverTime,
        "1 at steps whose window has no sample of any series.",
    ),
    map("acos", f64::acos, "Arc cosines."),
    map("acosh", f64::acosh, "Inverse hyperbolic cosines."),
    map("asin", f64::asin, "Arc sines."),
    map("asinh", f64::asinh, "Inverse hyperbolic sines."),
    map("atan", f64::atan, "Arc tangents."),
    map("atanh", f64::atanh, "Inverse hyperbolic tangents."),
    range_with(
        "avg_over_time",
        over_time::average,
        NO_TRAITS.whole(whole::average),
        "The mean of the samples.",
    ),
    map("ceil", f64::ceil, "Rounds up."),
    range_with("changes", changes::changes, ANCHORED.whole(whole::changes), "How often the value changed."),
    of("clamp", &[V, S, S], V, Kernel::MapWith(math::clamp), "Keeps values between a least and a most."),
    of("clamp_max", &[V, S], V, Kernel::MapWith(math::clamp_max), "Keeps values at or below a most."),
    of("clamp_min", &[V, S], V, Kernel::MapWith(math::clamp_min), "Keeps values at or above a least."),
    map("cos", f64::cos, "Cosines."),
    map("cosh", math::cosh, "Hyperbolic cosines."),
    range_with("count_over_time", over_time::count, COUNT, "How many samples there are."),
    date("days_in_month", |at| f64::from(at.days_in_month()), "Days of the month of instants, in UTC."),
    date("day_of_month", |at| f64::from(at.day), "Days of the month, from 1."),
    date("day_of_week", |at| f64::from(at.weekday), "Days of the week; Sunday is 0."),
    date("day_of_year", |at| f64::from(at.year_day), "Days of the year, from 1."),
    map("deg", math::degrees, "Radians to degrees."),
    range_with(
        "delta",
        rate::delta,
        GAUGE.extrapolated(whole::delta, false),
        "The difference between the last and the first value, extrapolated to the window.",
    ),
    range("deriv", statistics::deriv, "The slope per second of the line through the samples."),
    of(
        "double_exponential_smoothing",
        &[M, S, S],
        V,
        Kernel::Range(statistics::double_exponential_smoothing, NO_TRAITS.whole_of_pairs(whole::smoothing)),
        "A smoothed value by a smoothing factor and a trend factor.",
    )
    .experimental(),
    special("end", &[], S, Special::Context, "The time of the query's last step.").experimental(),
    map("exp", f64::exp, "Exponentials."),
    range_with("first_over_time", over_time::first, KEEPS_NAME.whole(whole::first), "The first sample."),
    map("floor", f64::floor, "Rounds down."),
    histogram("histogram_avg", |h| h.sum / h.count, "The mean of a histogram's observations."),
    histogram("histogram_count", |h| h.count, "How many observations a histogram has."),
    special(
        "histogram_fraction",
        &[S, S, V],
        V,
        Special::HistogramFraction,
        "The part of the observations between two values.",
    ),
    special(
        "histogram_quantile",
        &[S, V],
        V,
        Special::HistogramQuantile,
        "A quantile of classic or native histograms.",
    ),
    special(
        "histogram_quantiles",
        &[V, T, S, S],
        V,
        Special::HistogramQuantiles,
        "Several quantiles, told apart by a label.",
    )
    .variadic(9)
    .experimental(),
    histogram(
        "histogram_stddev",
        |h| buckets::variance(h).sqrt(),
        "The standard deviation of a histogram's observations.",
    ),
    histogram("histogram_stdvar", buckets::variance, "The variance of a histogram's observations."),
    histogram("histogram_sum", |h| h.sum, "The sum of a histogram's observations."),
    date("hour", |at| f64::from(at.hour), "Hours."),
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
        "By how much a counter grew, extrapolated to the window.",
    ),
    special("info", &[V, V], V, Special::Info, "Adds labels of info metrics with the same instance and job.")
        .variadic(1)
        .experimental(),
    of(
        "integral",
        &[M, S],
        V,
        Kernel::Range(integral::integral, NO_TRAITS),
        "The integral over time in seconds: with 0 each value holds until the next sample, with 1 from the \
         one before, with 2 or without a number the line between both counts.",
    )
    .variadic(1)
    .experimental(),
    range_with(
        "irate",
        rate::irate,
        STARTS.whole_of_pairs(whole::irate),
        "The growth per second between the last two samples of a counter.",
    ),
    special(
        "label_join",
        &[V, T, T, T],
        V,
        Special::LabelJoin,
        "Sets a label to values of others with a text between them.",
    )
    .variadic(-1),
    special(
        "label_replace",
        &[V, T, T, T, T],
        V,
        Special::LabelReplace,
        "Sets a label by a regular expression over another.",
    ),
    range_with("last_over_time", over_time::last, KEEPS_NAME.whole(whole::last), "The last sample."),
    map("ln", f64::ln, "Natural logarithms."),
    map("log10", math::log10, "Decimal logarithms."),
    map("log2", math::log2, "Binary logarithms."),
    range("mad_over_time", statistics::mad, "The median of the distances from the median.").experimental(),
    special("max_of", &[S, S], S, Special::MaxOf, "The larger of two numbers.").experimental(),
    range_with("max_over_time", over_time::max, NO_TRAITS.whole(whole::max), "The largest value."),
    special("min_of", &[S, S], S, Special::MinOf, "The smaller of two numbers.").experimental(),
    range_with("min_over_time", over_time::min, NO_TRAITS.whole(whole::min), "The smallest value."),
    date("minute", |at| f64::from(at.minute), "Minutes."),
    date("month", |at| f64::from(at.month), "Months, from 1."),
    special("pi", &[], S, Special::Pi, "Pi."),
    of(
        "predict_linear",
        &[M, S],
        V,
        Kernel::Range(statistics::predict_linear, NO_TRAITS),
        "The value so many seconds ahead, on the line through the samples.",
    ),
    range_with("present_over_time", over_time::present, PRESENT, "1 for series with a sample."),
    range("quantile_over_time", statistics::quantile_over_time, "A quantile of the values.").args(&[S, M]),
    map("rad", math::radians, "Degrees to radians."),
    special("range", &[], S, Special::Context, "The length of the query's time, in seconds.").experimental(),
    range_with(
        "rate",
        rate::rate,
        COUNTER.extrapolated(whole::rate, true),
        "By how much a counter grew per second, extrapolated to the window.",
    ),
    range_with("resets", changes::resets, RESETS.whole(whole::resets), "How often a counter was reset."),
    of(
        "round",
        &[V, S],
        V,
        Kernel::MapWith(math::round),
        "Rounds to the nearest multiple of a number, of 1 if there is none; ties go up.",
    )
    .variadic(1),
    special("scalar", &[V], S, Special::Scalar, "The value of the only series, else NaN."),
    map("sgn", math::sign, "Signs."),
    map("sin", f64::sin, "Sines."),
    map("sinh", math::sinh, "Hyperbolic sines."),
    special("sort", &[V], V, Special::Sort { descending: false }, "Series by rising value."),
    special(
        "sort_by_label",
        &[V, T],
        V,
        Special::SortByLabel { descending: false },
        "Series by labels, numbers in them by value.",
    )
    .variadic(-1)
    .experimental(),
    special(
        "sort_by_label_desc",
        &[V, T],
        V,
        Special::SortByLabel { descending: true },
        "Series by labels, the last first.",
    )
    .variadic(-1)
    .experimental(),
    special("sort_desc", &[V], V, Special::Sort { descending: true }, "Series by falling value."),
    map("sqrt", f64::sqrt, "Square roots."),
    special("start", &[], S, Special::Context, "The time of the query's first step.").experimental(),
    special(
        "start_timestamp",
        &[V],
        V,
        Special::StartTimestamp,
        "When counting began, for the samples of a selector.",
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
    map("tan", f64::tan, "Tangents."),
    map("tanh", f64::tanh, "Hyperbolic tangents."),
    special("time", &[], S, Special::Time, "The time of the step."),
    special("timestamp", &[V], V, Special::Timestamp, "The times of samples."),
    range_with(
        "ts_of_first_over_time",
        over_time::time_of_first,
        NO_TRAITS.whole(whole::time_of_first),
        "The time of the first sample.",
    )
    .experimental(),
    range_with(
        "ts_of_last_over_time",
        over_time::time_of_last,
        NO_TRAITS.whole(whole::time_of_last),
        "The time of the last sample.",
    )
    .experimental(),
    range_with(
        "ts_of_max_over_time",
        over_time::time_of_max,
        NO_TRAITS.whole(whole::time_of_max),
        "The last time of the largest value.",
    )
    .experimental(),
    range_with(
        "ts_of_min_over_time",
        over_time::time_of_min,
        NO_TRAITS.whole(whole::time_of_min),
        "The last time of the smallest value.",
    )
    .experimental(),
    special("vector", &[S], V, Special::Vector, "A series without labels."),
    date("year", |at| at.year as f64, "Years."),
];
