//! Calls a function with values, for tests and harnesses without a target.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Evaluate, EvaluatingCall, Target};
use crate::functions;
use crate::parameter::Argument;
use crate::scope::Scope;

/// Calls a function with values instead of the arguments of a target.
pub async fn call_with_values(
    name: &str,
    scope: Scope,
    arguments: Vec<Argument>,
    named: Vec<(String, Argument)>,
    evaluator: &dyn Evaluate,
) -> Result<Argument> {
    let function = functions::find(name)?;
    let call = Call::bind(function.callee(), scope, arguments, named)?;
    match function.body {
        Body::Series(run) => run(call).map(Argument::Series),
        Body::Lists(run) => run(call).map(Argument::Lists),
        Body::EvaluatingCall(run) => {
            let again = EvaluatingCall { call, evaluator, first: Target::First };
            run(again).await.map(Argument::Series)
        }
        Body::SeriesByTag => Err(Error::invalid("seriesByTag takes no values")),
    }
}
