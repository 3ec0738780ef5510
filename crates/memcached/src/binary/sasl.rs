//! The common part of the SASL commands. The only mechanism is PLAIN, against the users of a file.

use crate::next::Next;

use super::call::Call;
use super::header::Status;

/// The longest name of a mechanism in bytes.
const MECHANISM_BYTES_MAX: usize = 32;
/// The longest message of PLAIN in bytes: two names and a password of 255 bytes each (RFC 4616).
const MESSAGE_BYTES_MAX: usize = 1024;

/// Answers a message of the client: the `first` of an authentication, or a later one.
pub(crate) fn authenticate(call: &mut Call<'_>, first: bool) -> Next {
    let length = call.value_length();
    if !call.context.settings().sasl {
        call.error(Status::UnknownCommand);
        return Next::Skip { length };
    }
    if call.key.len() > MECHANISM_BYTES_MAX || length > MESSAGE_BYTES_MAX {
        *call.authenticated = false;
        call.error(Status::Invalid);
        return Next::Skip { length };
    }
    let Some(message) = call.rest.get(..length) else { return Next::NeedsInput };
    call.used = length;
    let totals = &call.context.counters.totals;
    totals.auth_cmds.add(1);
    if first && call.key.eq_ignore_ascii_case(b"PLAIN") && call.context.server.users.check_plain(message) {
        *call.authenticated = true;
        call.header.write(Status::Ok, 0, &[], &[], b"Authenticated", call.output.tail());
        return Next::Done;
    }
    totals.auth_errors.add(1);
    // A client whose repeated authentication fails loses its rights.
    *call.authenticated = false;
    call.error(Status::NotAuthenticated)
}

/// Answers with the mechanisms.
pub(crate) fn list_mechanisms(call: &mut Call<'_>) -> Next {
    if !call.context.settings().sasl {
        return call.error(Status::UnknownCommand);
    }
    call.value(b"PLAIN")
}
