//! Combines all series to one: a value for each timestamp.

use super::arithmetic::power;
use super::lines::constant;
use crate::aggregation::percentile;
use crate::call::Call;
use crate::combine::{aggregate, normalize, path_expressions, rows};
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function {
    name: "sumSeries",
    aliases: &["sum"],
    aggregates: true,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "Computes the sum of all series at each timestamp.",
    body: Body::Series(|call| combined(call, "sum")),
    ..Function::of(Group::Combine)
};

const COUNT: Function = Function {
    name: "countSeries",
    aliases: &[],
    parameters: &[optional("seriesLists", Kind::SeriesList).many()],
    doc: "Counts the series.",
    body: Body::Series(count),
    ..BASE
};

const DIFF: Function = Function {
    name: "diffSeries",
    aliases: &[],
    doc: "Subtracts all other series from the first one.",
    body: Body::Series(|call| combined(call, "diff")),
    ..BASE
};

const MULTIPLY: Function = Function {
    name: "multiplySeries",
    aliases: &[],
    doc: "Computes the product of all series at each timestamp.",
    body: Body::Series(multiply),
    ..BASE
};

const STDDEV: Function = Function {
    name: "stddevSeries",
    aliases: &[],
    doc: "Computes the standard deviation of all series at each timestamp.",
    body: Body::Series(|call| combined(call, "stddev")),
    ..BASE
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "aggregate",
        aliases: &[],
        aggregates: false,
        parameters: &[SERIES, required("func", Kind::AggFunc), optional("xFilesFactor", Kind::Float)],
        doc: "Aggregates all series to one at each timestamp.",
        body: Body::Series(by_name),
        ..BASE
    },
    Function {
        name: "averageSeries",
        aliases: &["avg"],
        doc: "Computes the average of all series at each timestamp.",
        body: Body::Series(|call| combined(call, "average")),
        ..BASE
    },
    COUNT,
    Function { name: "count", origin: Origin::Carbonapi, aggregates: false, ..COUNT },
    DIFF,
    Function { name: "diff", origin: Origin::Carbonapi, aggregates: false, ..DIFF },
    Function {
        name: "maxSeries",
        aliases: &[],
        doc: "Computes the maximum of all series at each timestamp.",
        body: Body::Series(|call| combined(call, "max")),
        ..BASE
    },
    Function {
        name: "minSeries",
        aliases: &[],
        doc: "Computes the minimum of all series at each timestamp.",
        body: Body::Series(|call| combined(call, "min")),
        ..BASE
    },
    MULTIPLY,
    Function { name: "multiply", origin: Origin::Carbonapi, aggregates: false, ..MULTIPLY },
    Function {
        name: "percentileOfSeries",
        aliases: &[],
        aggregates: false,
        parameters: &[
            SERIES,
            required("n", Kind::Float),
            optional("interpolate", Kind::Boolean).or(Preset::Flag(false)),
        ],
        doc: "Computes a percentile of all series at each timestamp.",
        body: Body::Series(percentile_of_series),
        ..BASE
    },
    Function {
        name: "powSeries",
        aliases: &[],
        parameters: &[required("seriesList", Kind::SeriesList).many()],
        doc: "Raises the first series to the power of the second, the result to the power of the third, \
              and so on.",
        body: Body::Series(powers),
        ..BASE
    },
    Function {
        name: "rangeOfSeries",
        aliases: &[],
        doc: "Computes the maximum minus the minimum of all series at each timestamp.",
        body: Body::Series(|call| combined(call, "rangeOf")),
        ..BASE
    },
    STDDEV,
    Function { name: "stddev", origin: Origin::Carbonapi, aggregates: false, ..STDDEV },
];

/// Takes the series of all lists.
pub(super) fn united(call: &mut Call) -> Result<Vec<Series>> {
    Ok(call.rest_lists()?.into_iter().flatten().collect())
}

fn combined(mut call: Call, function: &str) -> Result<Vec<Series>> {
    let mut list = united(&mut call)?;
    aggregate(&call.scope, &mut list, function, None)
}

fn by_name(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, function, share) = (call.series()?, call.text(1)?, call.maybe_float(2)?);
    aggregate(&call.scope, &mut list, &function, share)
}

fn count(mut call: Call) -> Result<Vec<Series>> {
    let lists = call.rest_lists()?;
    if lists.is_empty() {
        let mut series = constant(&call.scope, Some(0.0), "0".to_owned())?;
        series.path_expression = "countSeries()".into();
        return Ok(vec![series]);
    }
    let mut list: Vec<Series> = lists.into_iter().flatten().collect();
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let name = format!("countSeries({})", path_expressions(&list));
    let values = rows(&list, |row| Ok(Some(row.len() as f64)))?.of_integers();
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}

fn multiply(mut call: Call) -> Result<Vec<Series>> {
    let mut lists = call.rest_lists()?;
    if let [list] = lists.as_mut_slice()
        && list.len() == 1
    {
        return Ok(std::mem::take(list));
    }
    let mut list = lists.into_iter().flatten().collect::<Vec<_>>();
    aggregate(&call.scope, &mut list, "multiply", None)
}

fn percentile_of_series(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, n, interpolate) = (call.series()?, call.float(1)?, call.flag(2));
    if n <= 0.0 {
        return Err(Error::invalid("The requested percent is required to be greater than 0"));
    }
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let path = list.first().map_or("", |series| &*series.path_expression);
    let name = format!("percentileOfSeries({path},{})", general(n));
    let values = rows(&list, |row| percentile(row.iter().copied(), n, interpolate))?;
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}

fn powers(mut call: Call) -> Result<Vec<Series>> {
    let mut list = united(&mut call)?;
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let names: Vec<&str> = list.iter().map(|series| series.name.as_str()).collect();
    let name = format!("powSeries({})", names.join(","));
    let values = rows(&list, |row| {
        let mut values = row.iter().copied();
        let first = values.next().flatten();
        Ok(values.fold(first, |base, exponent| power(base?, exponent?)))
    })?;
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
