//! slabs: tunes memcached's slabs.
//!
//! The arguments are checked and shown in `stats settings`. They have no other effect, because there are
//! no slabs.

use crate::next::Next;
use crate::words::{fraction, signed, unsigned_32};

use super::call::{BAD_FORMAT, Call, ERROR};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let answer = match call.words.next() {
        Some(b"reassign") => reassign(call),
        Some(b"automove") => automove(call),
        _ => ERROR,
    };
    call.answer(answer)
}

fn reassign(call: &mut Call<'_>) -> &'static [u8] {
    if !call.context.server.tuning().slab_reassign {
        return b"CLIENT_ERROR slab reassignment disabled";
    }
    let (source, target) = (call.words.next().and_then(signed), call.words.next().and_then(signed));
    let classes = call.context.server.classes.last() as i64;
    match (source, target) {
        (Some(source), Some(target)) if source == target => b"SAME src and dst class are identical",
        (Some(source), Some(target)) if source > classes || !(0..=classes).contains(&target) => {
            b"BADCLASS invalid src or dst class id"
        }
        (Some(_), Some(_)) => b"NOSPARE source class has no spare pages",
        _ => BAD_FORMAT,
    }
}

fn automove(call: &mut Call<'_>) -> &'static [u8] {
    let mut tuning = call.context.server.tuning();
    let (Some(word), value) = (call.words.next(), call.words.next()) else { return BAD_FORMAT };
    match word {
        b"ratio" => match value.and_then(fraction) {
            Some(ratio) => tuning.slab_automove_ratio = ratio,
            None => return ERROR,
        },
        b"freeratio" => match value.and_then(fraction) {
            Some(ratio) => tuning.slab_automove_freeratio = ratio,
            None => return ERROR,
        },
        b"window" => match value.and_then(unsigned_32) {
            Some(window) => tuning.slab_automove_window = window,
            None => return BAD_FORMAT,
        },
        level => match unsigned_32(level) {
            Some(level @ 0..=2) => tuning.slab_automove = level,
            Some(_) => return ERROR,
            None => return BAD_FORMAT,
        },
    }
    b"OK"
}
