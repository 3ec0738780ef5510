//! delete: removes an item.

use crate::next::Next;
use crate::operations::{delete, settle};

use super::call::{Call, write_outcome};
use super::header::Status;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let (context, header, quiet) = (call.context, call.header, call.quiet);
    context.server.prefixes.delete(call.key);
    let expected = (header.cas != 0).then_some(header.cas);
    let delete = delete::Delete { expected, ..delete::Delete::default() };
    let outcome = delete::execute(context, call.key, delete);
    settle(context, call.output, call.key, outcome, move |context, key, outcome, out| {
        delete::count(context, key, "delete", outcome);
        let outcome = match outcome {
            delete::Outcome::Deleted { .. } | delete::Outcome::Marked => Ok(0),
            delete::Outcome::NotFound => Err(Status::NotFound),
            delete::Outcome::Exists => Err(Status::Exists),
            delete::Outcome::NoMemory => Err(Status::NoMemory),
        };
        write_outcome(&header, quiet, outcome, out);
    })
}
