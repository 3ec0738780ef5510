//! delete.

use crate::operations::delete::{Delete, Outcome, count, execute};
use crate::operations::{KEY_BYTES_MAX, settle};
use crate::session::Next;

use super::{Call, TextCommand};

pub(crate) const DELETE: TextCommand =
    TextCommand { name: "delete", arguments: "KEY [noreply]", about: "removes an item", words: 2, run };

fn run(call: &mut Call<'_>) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    call.turn.server.prefixes.delete(key);
    let silent = call.is_silent();
    let outcome = execute(call.turn, key, Delete::default());
    settle(call.turn, call.output, key, outcome, move |turn, key, outcome, out| {
        count(turn, key, "delete", outcome);
        if !silent {
            let deleted = matches!(outcome, Outcome::Deleted { .. });
            out.push(if deleted { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
        }
    })
}
