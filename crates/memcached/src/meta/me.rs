//! me: returns all metadata of an item, but not its value.

use crate::next::Next;
use crate::operations::{KEY_BYTES_MAX, fetch, settle};
use crate::text::call::Call;
use crate::words::push_number;
use sandur_cache::Read;

use super::flags::Key;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    call.context.counters.totals.meta_cmds.add(1);
    let text = call.words.next().unwrap_or_default();
    if text.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    let Some(key) = Key::read(text, call.words.next() == Some(b"b")) else {
        return call.bad_format();
    };
    let read = Read { quiet: true, range: Some(0..0), ..Read::default() };
    let found = fetch::present(call.context.cache().get(&key, &read));
    let text: Box<[u8]> = text.into();
    settle(call.context, call.output, &key, found, move |context, key, found, out| {
        let Some(item) = found else {
            out.push(b"EN\r\n");
            return;
        };
        let bytes = context.server.classes.item_bytes(key.len(), item.length, item.flags);
        let out = out.buffer();
        out.extend_from_slice(b"ME ");
        out.extend_from_slice(&text);
        out.extend_from_slice(b" exp=");
        match item.seconds_left(context.now) {
            None => out.extend_from_slice(b"-1"),
            Some(seconds) => push_number(out, u64::from(seconds)),
        }
        out.extend_from_slice(b" la=");
        push_number(out, u64::from(context.now.saturating_sub(item.meta.accessed_at)));
        out.extend_from_slice(b" cas=");
        push_number(out, context.shown_cas(item.cas));
        out.extend_from_slice(if item.meta.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
        push_number(out, context.server.classes.class(bytes) as u64);
        out.extend_from_slice(b" size=");
        push_number(out, bytes);
        out.extend_from_slice(b"\r\n");
    })
}
