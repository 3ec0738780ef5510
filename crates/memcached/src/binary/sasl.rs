//! SASL: the one mechanism PLAIN, against the users of a file.

use crate::session::Next;

use super::{BinaryCommand, Call, Shape, Status};

/// Longest name of a mechanism.
const MECHANISM_BYTES_MAX: usize = 32;
/// Longest message of PLAIN: two names and a password of 255 bytes each (RFC 4616).
const MESSAGE_BYTES_MAX: usize = 1024;

pub(crate) const LIST_MECHANISMS: BinaryCommand = BinaryCommand {
    opcode: 0x20,
    quiet: None,
    name: "sasl list mechanisms",
    extras: &[0],
    shape: Shape::Bare,
    open: true,
    run: |call| {
        if !call.turn.settings().sasl {
            return call.error(Status::UnknownCommand);
        }
        call.header.write(Status::Ok, 0, &[], &[], b"PLAIN", call.output.tail());
        Next::Done
    },
};

pub(crate) const AUTH: BinaryCommand = BinaryCommand {
    opcode: 0x21,
    quiet: None,
    name: "sasl auth",
    extras: &[0],
    shape: Shape::KeyAndValue,
    open: true,
    run: |call| authenticate(call, true),
};

pub(crate) const STEP: BinaryCommand = BinaryCommand {
    opcode: 0x22,
    quiet: None,
    name: "sasl step",
    extras: &[0],
    shape: Shape::KeyAndValue,
    open: true,
    // PLAIN has one step: a second one belongs to no authentication
    run: |call| authenticate(call, false),
};

fn authenticate(call: &mut Call<'_>, first: bool) -> Next {
    let length = call.value_length();
    if !call.turn.settings().sasl {
        call.error(Status::UnknownCommand);
        return Next::Skip { length };
    }
    if call.key.len() > MECHANISM_BYTES_MAX || length > MESSAGE_BYTES_MAX {
        call.session.authenticated = false;
        call.error(Status::Invalid);
        return Next::Skip { length };
    }
    let Some(message) = call.rest.get(..length) else { return Next::NeedsInput };
    call.used = length;
    let totals = &call.turn.counters.totals;
    totals.auth_cmds.add(1);
    if first && call.key.eq_ignore_ascii_case(b"PLAIN") && call.turn.server.users.check_plain(message) {
        call.session.authenticated = true;
        call.header.write(Status::Ok, 0, &[], &[], b"Authenticated", call.output.tail());
        return Next::Done;
    }
    totals.auth_errors.add(1);
    // Who cannot show again who they are is nobody from now on.
    call.session.authenticated = false;
    call.error(Status::NotAuthenticated)
}
