//! `weightedAverage`: computes the average of series, weighted by another series for each of them.

use super::keys::aggregation_key;
use crate::call::{Call, NodeOrTag};
use crate::combine::quotient;
use crate::combine::{Groups, aggregate, pairs};
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "weightedAverage",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesListAvg", Kind::SeriesList),
        required("seriesListWeight", Kind::SeriesList),
        optional("nodes", Kind::NodeOrTag).many(),
    ],
    doc: "Computes the average of series, weighted by another series for each of them.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
