//! touch: sets a new expiry.

use crate::next::Next;
use crate::operations::{KEY_BYTES_MAX, fetch, settle};
use crate::time::expires_at;
use crate::words::signed;
use sandur_cache::Read;

use super::call::Call;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    let Some(expiry) = call.words.next().and_then(signed) else {
        return call.answer(b"CLIENT_ERROR invalid exptime argument");
    };
    let silent = call.is_silent();
    let expires_at = Some(expires_at(expiry, call.context.now));
    let read = Read { expires_at, range: Some(0..0), ..Read::default() };
    let found = fetch::present(call.context.cache().get(key, &read));
    settle(call.context, call.output, key, found, move |context, key, found, out| {
        fetch::count(context, key, found.as_ref(), true);
        if !silent {
            out.push(if found.is_some() { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
        }
    })
}
