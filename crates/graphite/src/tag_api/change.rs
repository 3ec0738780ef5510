//! `/tags/tagSeries`, `/tags/tagMultiSeries` and `/tags/delSeries`: series that carbon announces and clients
//! forget. The method is POST.

use sandur_query::QueryContext;

use super::{Names, Parameters};
use crate::encoding::json::quoted;
use crate::error::{Error, Result};
use crate::render::Rendered;
use crate::tags::{canonical_name, parse_name};

fn canonical(path: &str) -> Result<String> {
    parse_name(path).map(|tags| canonical_name(&tags))
}

/// Makes a series known and answers its canonical name.
pub async fn tag_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let path = parameters.last("path").filter(|path| !path.is_empty());
    let series = [canonical(path.ok_or_else(|| Error::invalid("no path specified"))?)?];
    names.add(context, &series).await?;
    Ok(parameters.answer(quoted(&series[0])))
}

/// Makes several series known and answers their canonical names.
pub async fn tag_multi_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let series = all(parameters, "no paths specified")?;
    names.add(context, &series).await?;
    let parts: Vec<String> = series.iter().map(|name| quoted(name)).collect();
    Ok(parameters.answer(parameters.layout().join(('[', ']'), 0, &parts)))
}

/// Forgets series.
pub async fn delete_series(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let series = all(parameters, "no path specified")?;
    names.remove(context, &series).await?;
    Ok(parameters.answer("true".to_owned()))
}

fn all(parameters: Parameters<'_>, missing: &str) -> Result<Vec<String>> {
    let paths = parameters.all("path")?;
    if paths.is_empty() {
        return Err(Error::invalid(missing));
    }
    paths.into_iter().map(canonical).collect()
}
