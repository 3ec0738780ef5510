//! Functions that call other functions by name.

use super::find;
use crate::call::Call;
use crate::combine::aggregate;
use crate::error::{Error, Result};
use crate::function::Body;
use crate::parameter::Argument;
use crate::scope::Scope;
use crate::series::Series;

/// Calls a function that needs nothing but its arguments.
pub(super) fn call_plain(name: &str, scope: &Scope, arguments: Vec<Argument>) -> Result<Vec<Series>> {
    let function = find(name)?;
    match function.body {
        Body::Series(run) => run(Call::bind(function, scope.clone(), arguments, Vec::new())?),
        _ => Err(Error::invalid(format!("the function \"{name}\" cannot be called for groups of series"))),
    }
}

/// One series of a group, by a function or an aggregation.
pub(super) fn with_callback(scope: &Scope, mut list: Vec<Series>, callback: &str) -> Result<Series> {
    let results = match find(callback) {
        Ok(function) if function.aggregates => call_plain(callback, scope, vec![Argument::Series(list)])?,
        _ => aggregate(scope, &mut list, callback, None)?,
    };
    let first = results.into_iter().next();
    first.ok_or_else(|| Error::invalid(format!("\"{callback}\" makes no series of a group")))
}
