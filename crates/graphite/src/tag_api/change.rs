//! `/tags/tagSeries`, `/tags/tagMultiSeries` and `/tags/delSeries`: register series, as carbon does, and
//! delete them. The method is POST.

use sandur_query::QueryContext;

use super::{Names, Parameters};
use crate::encoding::json::quoted;
use crate::error::{Error, Result};
use crate::rendered::Rendered;
use crate::tags::{canonical_name, parse_name};

/// Computes canonical names as a job of the query.
async fn canonical(context: &QueryContext, paths: Vec<String>) -> Result<Vec<String>> {
    let is_little = paths.iter().map(String::len).sum::<usize>() < 4096;
    let canonical = |path: &String| parse_name(path).map(|tags| canonical_name(&tags));
    let job = move || Ok(paths.iter().map(canonical).collect::<Result<Vec<String>>>());
    context.compute_sized(is_little, job).await?
}

/// Registers a series and returns its canonical name.
pub async fn tag_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let path = parameters.last("path").filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| Error::invalid("no path specified"))?;
    let series = canonical(context, vec![path.to_owned()]).await?;
    names.add(context, &series).await?;
    Ok(parameters.answer(quoted(&series[0])))
}

/// Registers several series and returns their canonical names.
pub async fn tag_multi_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let series = all(context, parameters, "no paths specified").await?;
    names.add(context, &series).await?;
    parameters.list(context, series).await
}

/// Deletes series.
pub async fn delete_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let series = all(context, parameters, "no path specified").await?;
    names.remove(context, &series).await?;
    Ok(parameters.answer("true".to_owned()))
}

async fn all(context: &QueryContext, parameters: Parameters<'_>, missing: &str) -> Result<Vec<String>> {
    let paths = parameters.all("path")?;
    if paths.is_empty() {
        return Err(Error::invalid(missing));
    }
    canonical(context, paths.into_iter().map(str::to_owned).collect()).await
}
