//! `/metrics/index.json`: the paths of all series.

use sandur_memory::job::reserve_exactly;
use sandur_query::QueryContext;

use crate::encoding::json::{Layout, quoted, wrapped};
use crate::error::Error;
use crate::rendered::Rendered;
use crate::tag_api::Names;

/// The most paths of an answer; a larger tree has to be requested by patterns.
const PATHS_MAX: usize = 1_000_000;

/// Writes the paths of all series.
pub async fn index(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> std::result::Result<Rendered, Error> {
    let last = |name: &str| pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let paths = names.paths(context, PATHS_MAX + 1).await?;
    if paths.len() > PATHS_MAX {
        let message = format!("there are more than {PATHS_MAX} paths; request parts of the tree by patterns");
        return Err(Error::Limit(message));
    }
    let (jsonp, is_pretty) = (last("jsonp"), last("pretty").is_some_and(|text| !text.is_empty()));
    let job = move || {
        let _held = reserve_exactly(paths.iter().map(|path| 64 + 3 * path.len()).sum::<usize>() as u64)?;
        let quoted: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        let body = Layout::new(is_pretty).join(('[', ']'), 0, &quoted);
        Ok(wrapped("application/json", body.into_bytes(), jsonp.as_deref()))
    };
    context.compute(move || Ok(job())).await?
}
