//! The functions of the language, one file per family. Evaluation, `/functions` and the reference page are
//! made from the table [`FUNCTIONS`].
//!
//! A family is a `TABLE` of entries, and the code that they share; what differs by a word is an argument in
//! the entry.

mod arithmetic;
mod as_percent;
mod baselines;
mod calculus;
mod combining;
mod consolidation;
mod correlation;
mod drawing;
mod filters;
mod fourier;
mod gaps;
mod grouping;
mod histograms;
mod holt_winters;
mod intervals;
mod keys;
mod legends;
mod lines;
mod lists;
mod moving;
mod names;
mod objectives;
mod outliers;
mod pairwise;
mod python_format;
mod ranking;
mod regression;
mod series_of;
mod sources;
mod spectrum;
mod time_shift;
mod value_filters;

use std::sync::LazyLock;

use sandur_base::spelling;

use crate::error::{Error, Result};
use crate::function::Function;

/// All functions, by family.
const FAMILIES: &[&[Function]] = &[
    arithmetic::TABLE,
    as_percent::TABLE,
    baselines::TABLE,
    calculus::TABLE,
    combining::TABLE,
    consolidation::TABLE,
    correlation::TABLE,
    drawing::TABLE,
    filters::TABLE,
    gaps::TABLE,
    grouping::TABLE,
    histograms::TABLE,
    holt_winters::TABLE,
    intervals::TABLE,
    legends::TABLE,
    lines::TABLE,
    lists::TABLE,
    moving::TABLE,
    names::TABLE,
    objectives::TABLE,
    outliers::TABLE,
    pairwise::TABLE,
    ranking::TABLE,
    regression::TABLE,
    sources::TABLE,
    spectrum::TABLE,
    time_shift::TABLE,
    value_filters::TABLE,
];

/// All functions, sorted by name.
pub static FUNCTIONS: LazyLock<Vec<&'static Function>> = LazyLock::new(|| {
    let mut functions: Vec<&Function> = FAMILIES.iter().copied().flatten().collect();
    functions.sort_unstable_by_key(|function| function.name);
    functions
});

/// The function with this name.
pub(crate) fn find(name: &str) -> Result<&'static Function> {
    let found = match FUNCTIONS.binary_search_by(|function| function.name.cmp(name)) {
        Ok(place) => Some(FUNCTIONS[place]),
        Err(_) => FUNCTIONS.iter().copied().find(|function| function.aliases.contains(&name)),
    };
    found.ok_or_else(|| {
        let names = FUNCTIONS.iter().flat_map(|own| own.aliases.iter().copied().chain([own.name]));
        let meant = spelling::nearest(name, names);
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        Error::invalid(format!("Received request for unknown function: {name}{meant}"))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::column::Column;
    use crate::direct_call::call_with_values;
    use crate::function::{Computation, Evaluate, Target};
    use crate::number::Number;
    use crate::parameter::Argument;
    use crate::scope::Scope;
    use crate::series::Series;
    use crate::zone::{Moment, Zone};

    #[test]
    fn an_unknown_function_gets_a_suggestion() {
        for (name, expected) in [
            ("moveAverage", "unknown function: moveAverage; did you mean movingAverage?"),
            ("sumseries", "unknown function: sumseries; did you mean sumSeries?"),
            ("nothingAlike", "unknown function: nothingAlike"),
        ] {
            let error = find(name).err().unwrap().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_no_name_is_used_twice() {
        assert!(FUNCTIONS.is_sorted_by(|a, b| a.name < b.name));
        let names = FUNCTIONS.iter().flat_map(|f| f.aliases.iter().chain([&f.name]));
        let mut names: Vec<&&str> = names.collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for function in FUNCTIONS.iter() {
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
            async { Ok(vec![100, 102, 102, 104]) }.boxed()
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

    /// Such an event made the request fail.
    #[test]
    fn an_event_at_the_end_of_the_time_is_left_out() {
        let tag = Argument::Text("deploy".to_owned());
        answers("events", vec![tag], &[("events(\"deploy\")", &[1.0, NONE, 2.0, NONE])]);
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
