//! delete: removes an item.

use crate::next::Next;
use crate::operations::delete::{Delete as Request, Outcome, count, execute};
use crate::operations::{KEY_BYTES_MAX, settle};

use super::call::Call;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    call.context.server.prefixes.delete(key);
    let silent = call.is_silent();
    let outcome = execute(call.context, key, Request::default());
    settle(call.context, call.output, key, outcome, move |context, key, outcome, out| {
        count(context, key, "delete", outcome);
        if !silent {
            let deleted = matches!(outcome, Outcome::Deleted { .. });
            out.push(if deleted { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
        }
    })
}
