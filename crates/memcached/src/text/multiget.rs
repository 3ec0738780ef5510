//! The common part of get, gets, gat and gats: many keys in one command.
//!
//! Keys are looked up in groups, each with one call to the cache, so that the flash reads of one group
//! run concurrently.

use crate::command_context::CommandContext;
use crate::input::Input;
use crate::next::{Next, Step, Unfinished};
use crate::operations::{KEY_BYTES_MAX, fetch, settle};
use crate::output::{Bytes, Output, Place};
use crate::time::expires_at;
use crate::words::{Words, push_number, signed};
use sandur_cache::{Answer, Item, Lookup, Read};

use super::call::{BAD_FORMAT, Call, next_line};

/// Number of keys of one call to the cache.
const GROUP: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Whether version numbers are shown.
    pub cas: bool,
    /// The new expiry.
    pub expires_at: Option<u32>,
}

/// A get that is not finished. Its line is the first one in the input.
struct Multiget {
    shown: Shown,
    /// Offset of the next key in the line.
    position: usize,
}

/// Like [`begin`], with a new expiry before the keys.
pub(crate) fn begin_touching(call: &mut Call<'_>, shown: Shown) -> Next {
    let Some(expiry) = call.words.next().and_then(signed) else {
        return call.answer(b"CLIENT_ERROR invalid exptime argument");
    };
    begin(call, Shown { expires_at: Some(expires_at(expiry, call.context.now)), ..shown })
}

/// Answers a line whose next words are keys.
pub(crate) fn begin(call: &mut Call<'_>, shown: Shown) -> Next {
    let position = call.words.position();
    match group(call.line, position, shown, call.output, call.context) {
        Group::Finished => Next::Done,
        Group::More(position) => Next::Resume(Box::new(Multiget { shown, position })),
    }
}

impl Unfinished for Multiget {
    fn proceed(&mut self, input: &mut Input, output: &mut Output, context: &CommandContext<'_>) -> Step {
        let Some((line, length)) = next_line(input.unread()) else { return Step::Done };
        match group(line, self.position, self.shown, output, context) {
            Group::Finished => {
                input.consume(length);
                Step::Done
            }
            Group::More(position) => {
                self.position = position;
                Step::More
            }
        }
    }
}

enum Group {
    Finished,
    /// More keys follow from this offset on.
    More(usize),
}

/// Answers one group of keys.
fn group(
    line: &[u8],
    position: usize,
    shown: Shown,
    output: &mut Output,
    context: &CommandContext<'_>,
) -> Group {
    let mut words = Words::from(line, position);
    let place = output.place();
    let mut keys: [&[u8]; GROUP] = [b""; GROUP];
    let mut count = 0;
    for key in words.by_ref().take(GROUP) {
        if key.len() > KEY_BYTES_MAX {
            return refuse(place, output, context);
        }
        keys[count] = key;
        count += 1;
    }
    let keys = &keys[..count];
    let read = Read { expires_at: shown.expires_at, ..Read::default() };
    if let [key] = keys {
        let lookup = context.cache().get(key, &read);
        write(context, output, key, lookup, shown);
    } else {
        let mut lookups = Vec::with_capacity(count);
        context.cache().get_many(keys.iter().copied(), &read, &mut lookups);
        for (key, lookup) in keys.iter().zip(lookups) {
            write(context, output, key, lookup, shown);
        }
    }
    let next = words.position();
    if next == line.len() {
        output.push(b"END\r\n");
        return Group::Finished;
    }
    Group::More(next)
}

/// A key that is too long makes the whole command an error, as far as its answer was not sent yet.
fn refuse(place: Place, output: &mut Output, context: &CommandContext<'_>) -> Group {
    let given_up = output.rewind(place);
    context.counters.totals.get_aborted_extstore.add(given_up as u64);
    output.line(BAD_FORMAT);
    Group::Finished
}

#[inline]
fn write(context: &CommandContext<'_>, output: &mut Output, key: &[u8], lookup: Lookup, shown: Shown) {
    let touched = shown.expires_at.is_some();
    match lookup {
        Lookup::Hit(item) => {
            fetch::count(context, key, Some(&item), touched);
            value(context, output.tail(), key, item, shown);
        }
        Lookup::Miss => fetch::count(context, key, None, touched),
        Lookup::Pending(pending) => {
            // reads do not wait for each other
            settle(
                context,
                output,
                key,
                Answer::Pending(pending),
                move |context, key, found: Option<Item>, out| {
                    fetch::count(context, key, found.as_ref(), touched);
                    match found {
                        Some(item) => value(context, out, key, item, shown),
                        None => context.counters.totals.miss_from_extstore.add(1),
                    }
                },
            );
        }
    }
}

#[inline]
fn value(context: &CommandContext<'_>, out: &mut Bytes, key: &[u8], item: Item, shown: Shown) {
    let buffer = out.buffer();
    buffer.extend_from_slice(b"VALUE ");
    buffer.extend_from_slice(key);
    buffer.push(b' ');
    push_number(buffer, u64::from(item.flags));
    buffer.push(b' ');
    push_number(buffer, item.value.len() as u64);
    if shown.cas {
        buffer.push(b' ');
        push_number(buffer, context.shown_cas(item.cas));
    }
    buffer.extend_from_slice(b"\r\n");
    out.push_value(item.value);
    out.push(b"\r\n");
}
