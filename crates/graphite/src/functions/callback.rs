//! Calls functions by name for other functions.

use super::find;
use crate::call::Call;
use crate::combine::aggregate;
use crate::error::{Error, Result};
use crate::function::Body;
use crate::parameter::Argument;
use crate::scope::Scope;
use crate::series::Series;

/// Calls a function that depends only on its arguments.
pub(super) fn call_plain(name: &str, scope: &Scope, arguments: Vec<Argument>) -> Result<Vec<Series>> {
    let function = find(name)?;
    match function.body {
        Body::Series(run) => run(Call::bind(function, scope.clone(), arguments, Vec::new())?),
        _ => Err(Error::invalid(format!("the function \"{name}\" cannot be called for groups of series"))),
    }
}

/// Reduces a group to one series, by a function or an aggregation.
pub(super) fn with_callback(scope: &Scope, mut list: Vec<Series>, callback: &str) -> Result<Series> {
    let results = match find(callback) {
        Ok(function) if function.aggregates => call_plain(callback, scope, vec![Argument::Series(list)])?,
        _ => aggregate(scope, &mut list, callback, None)?,
    };
    let first = results.into_iter().next();
    first.ok_or_else(|| Error::invalid(format!("\"{callback}\" returns no series for a group")))
}
