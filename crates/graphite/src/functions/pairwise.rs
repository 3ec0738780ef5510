//! Combines the series of two lists in pairs.

use super::arithmetic::power;
use super::keys::aggregation_key;
use crate::call::{Call, NodeOrTag};
use crate::combine::{Grid, Groups, aggregate, normalize, pairs, quotient};
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::parameter::{Kind, Parameter, optional, required};
use crate::series::Series;

const BASE: Function = Function {
    name: "sumSeriesLists",
    aggregates: true,
    parameters: &[FIRST, SECOND],
    doc: "Adds the series of two lists in pairs.",
    body: Body::Series(|mut call| combine_lists(&mut call, "sum", None)),
    ..Function::of(Group::Combine)
};

const FIRST: Parameter = required("seriesListFirstPos", Kind::SeriesList);
const SECOND: Parameter = required("seriesListSecondPos", Kind::SeriesList);
const DIVIDEND: Parameter = required("dividendSeriesList", Kind::SeriesList);

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "aggregateSeriesLists",
        aggregates: false,
        parameters: &[FIRST, SECOND, required("func", Kind::AggFunc), optional("xFilesFactor", Kind::Float)],
        doc: "Aggregates the series of two lists in pairs.",
        body: Body::Series(aggregate_series_lists),
        ..BASE
    },
    BASE.named(
        "diffSeriesLists",
        "Subtracts the series of the second list from those of the first, in pairs.",
        |mut call| combine_lists(&mut call, "diff", None),
    ),
    Function {
        name: "divideSeries",
        aggregates: false,
        parameters: &[DIVIDEND, required("divisorSeries", Kind::SeriesList)],
        doc: "Divides each series by one divisor series.",
        body: Body::Series(divide_series),
        ..BASE
    },
    Function {
        name: "divideSeriesLists",
        aggregates: false,
        parameters: &[DIVIDEND, required("divisorSeriesList", Kind::SeriesList)],
        doc: "Divides the series of the first list by those of the second, in pairs.",
        body: Body::Series(divide_series_lists),
        ..BASE
    },
    BASE.named("multiplySeriesLists", "Multiplies the series of two lists in pairs.", |mut call| {
        combine_lists(&mut call, "multiply", None)
    }),
    Function {
        name: "powSeriesLists",
        origin: Origin::Carbonapi,
        aggregates: false,
        parameters: &[
            required("sourceSeriesList", Kind::SeriesList),
            required("factorSeriesList", Kind::SeriesList),
        ],
        doc: "Raises the series of the first list to the power of those of the second, in pairs.",
        body: Body::Series(pow_series_lists),
        ..BASE
    },
    Function {
        name: "weightedAverage",
        aggregates: false,
        parameters: &[
            required("seriesListAvg", Kind::SeriesList),
            required("seriesListWeight", Kind::SeriesList),
            optional("nodes", Kind::NodeOrTag).many(),
        ],
        doc: "Computes the average of series, weighted by another series for each of them.",
        body: Body::Series(weighted_average),
        ..BASE
    },
];

fn aggregate_series_lists(mut call: Call) -> Result<Vec<Series>> {
    let (function, share) = (call.text(2)?, call.maybe_float(3)?);
    combine_lists(&mut call, &function, share)
}

fn divide_series(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, mut divisors) = (call.list(0)?, call.list(1)?);
    let divisor = match divisors.as_mut_slice() {
        [] => {
            for series in &mut list {
                series.rename(format!("divideSeries({},MISSING)", series.name));
                series.values.map(|_| None)?;
            }
            return Ok(list);
        }
        [divisor] => divisor,
        more => {
            let count = more.len();
            let message =
                format!("divideSeries second argument must reference exactly 1 series (got {count})");
            return Err(Error::invalid(message));
        }
    };
    let share = call.scope.x_files_factor();
    list.iter_mut().map(|series| divided(series, divisor, share)).collect()
}

/// Divides one series by another.
fn divided(dividend: &mut Series, divisor: &mut Series, share: f64) -> Result<Series> {
    let name = format!("divideSeries({},{})", dividend.name, divisor.name);
    let grid = normalize([&mut *dividend, &mut *divisor])?;
    let (start, end, step) = grid.map(Grid::times).unwrap_or_default();
    let values = pairs(dividend, divisor, quotient)?;
    Ok(Series::new(name, start, end, step, values).with_share(share))
}

fn divide_series_lists(mut call: Call) -> Result<Vec<Series>> {
    let share = call.scope.x_files_factor();
    let both = same_length(&mut call)?;
    both.map(|(mut first, mut second)| divided(&mut first, &mut second, share)).collect()
}

fn pow_series_lists(mut call: Call) -> Result<Vec<Series>> {
    let mut results = Vec::new();
    for (mut base, mut exponent) in same_length(&mut call)? {
        let Some(grid) = normalize([&mut base, &mut exponent])? else { continue };
        let values = pairs(&base, &exponent, |base, exponent| power(base?, exponent?))?;
        let name = format!("powSeries({},{})", base.name, exponent.name);
        let series = Series::tagged(name, base.tags, grid.times(), values);
        results.push(series.with_share(call.scope.x_files_factor()));
    }
    Ok(results)
}

fn weighted_average(mut call: Call) -> Result<Vec<Series>> {
    let (averages, weights, nodes) = (call.list(0)?, call.list(1)?, call.nodes()?);
    if averages.len() != weights.len() {
        let (a, b) = (averages.len(), weights.len());
        return Err(Error::invalid(format!(
            "weightedAverage needs as many weights as series, not {b} for {a}"
        )));
    }
    let share = call.scope.x_files_factor();
    let paths = |list: &[Series]| {
        let paths: std::collections::BTreeSet<&str> = list.iter().map(|s| &*s.path_expression).collect();
        paths.into_iter().collect::<Vec<_>>().join(",")
    };
    let shown: Vec<String> = nodes.iter().map(NodeOrTag::text).collect();
    let name = format!("weightedAverage({}, {}, {})", paths(&averages), paths(&weights), shown.join(","));
    let mut places = Groups::<(Option<usize>, Option<usize>)>::new();
    for (place, (average, weight)) in averages.iter().zip(&weights).enumerate() {
        places.of(&aggregation_key(average, &nodes)?).0 = Some(place);
        places.of(&aggregation_key(weight, &nodes)?).1 = Some(place);
    }
    let mut products = Vec::new();
    for (_, both) in places.into_groups() {
        let (Some(average), Some(weight)) = both else { continue };
        let (average, weight) = (&averages[average], &weights[weight]);
        let values = pairs(average, weight, |a, b| Some(a? * b?))?;
        let name = format!("product({},{})", weight.name, average.name);
        products.push(Series::new(name, average.start, average.end, average.step, values).with_share(share));
    }
    let mut weights = weights;
    let products = aggregate(&call.scope, &mut products, "sum", None)?;
    let weights = aggregate(&call.scope, &mut weights, "sum", None)?;
    let ([products], [weights]) = (products.as_slice(), weights.as_slice()) else { return Ok(Vec::new()) };
    let values = pairs(products, weights, quotient)?;
    Ok(vec![Series::new(name, products.start, products.end, products.step, values).with_share(share)])
}

/// Pairs of series from two lists, which must have the same length.
fn same_length(call: &mut Call) -> Result<impl Iterator<Item = (Series, Series)> + use<>> {
    let (first, second) = (call.list(0)?, call.list(1)?);
    if first.len() != second.len() {
        let (a, b) = (first.len(), second.len());
        return Err(Error::invalid(format!("both lists must have as many series, but have {a} and {b}")));
    }
    Ok(first.into_iter().zip(second))
}

/// Applies a function to each pair of series.
fn combine_lists(call: &mut Call, function: &str, share: Option<f64>) -> Result<Vec<Series>> {
    let mut results = Vec::new();
    for (first, second) in same_length(call)? {
        let names = format!("Series({},{})", first.name, second.name);
        for mut series in aggregate(&call.scope, &mut [first, second], function, share)? {
            let head = series.name.find("Series(").unwrap_or(series.name.len());
            series.name.replace_range(head.., &names);
            results.push(series);
        }
    }
    Ok(results)
}
