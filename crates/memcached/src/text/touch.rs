//! touch.

use crate::operations::{KEY_BYTES_MAX, fetch, settle};
use crate::session::Next;
use crate::time::expires_at;
use crate::words::signed;
use sandur_cache::Answer;
use sandur_cache::{Item, Lookup, Read};

use super::{Call, TextCommand};

pub(crate) const TOUCH: TextCommand = TextCommand {
    name: "touch",
    arguments: "KEY EXPIRY [noreply]",
    about: "sets a new expiry",
    words: 3,
    run,
};

fn run(call: &mut Call<'_>) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    let Some(expiry) = call.words.next().and_then(signed) else {
        return call.answer(b"CLIENT_ERROR invalid exptime argument");
    };
    let silent = call.is_silent();
    let expires_at = Some(expires_at(expiry, call.turn.now));
    let read = Read { expires_at, range: Some(0..0), ..Read::default() };
    let found = present(call.turn.cache().get(key, &read));
    settle(call.turn, call.output, key, found, move |turn, key, found, out| {
        fetch::count(turn, key, found.as_ref(), true);
        if !silent {
            out.push(if found.is_some() { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
        }
    })
}

/// A lookup as an answer.
pub(crate) fn present(lookup: Lookup) -> Answer<Option<Item>> {
    match lookup {
        Lookup::Hit(item) => Answer::Ready(Some(item)),
        Lookup::Miss => Answer::Ready(None),
        Lookup::Pending(pending) => Answer::Pending(pending),
    }
}
