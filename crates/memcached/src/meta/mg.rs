//! mg: reads an item. It can also touch it, create it, or elect the client that refreshes it.

use crate::command_context::CommandContext;
use crate::next::Next;
use crate::operations::{fetch, pending, settle};
use crate::output::Bytes;
use crate::text::call::Call;
use crate::words::{Words, push_number};
use sandur_cache::{Answer, Applied, Change, Pending, Put, Revision, Stored};
use sandur_cache::{Cache, Item, ItemMeta, Read, Tier, Value};

use super::flags::{Flags, Request};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let context = call.context;
    let request = match Request::read(call.words.clone(), context.now) {
        Ok(request) => request,
        Err(error) => {
            call.output.line(error);
            return Next::Done;
        }
    };
    let Request { text, key, flags } = &request;
    if flags.vivify.is_none() && flags.recache_before.is_none() {
        let range = if flags.value { None } else { Some(0..0) };
        let read = Read { range, expires_at: flags.expires_at, quiet: flags.has(b'u'), ..Read::default() };
        match fetch::present(context.cache().get(key, &read)) {
            Answer::Ready(Some(item)) if makes_a_winner(&item) => {}
            Answer::Ready(found) => {
                write(context, key, text, flags, found.map(Shown::plain), call.output.tail());
                return Next::Done;
            }
            Answer::Pending(pending) => {
                let line: Box<[u8]> = call.line.into();
                let shown = read_and_elect(context, key, flags, pending);
                settle(context, call.output, key, Answer::Pending(shown), move |context, key, shown, out| {
                    if shown.is_none() {
                        context.counters.totals.miss_from_extstore.add(1);
                    }
                    write_again(context, key, &line, shown, out);
                });
                return Next::Done;
            }
        }
    }
    let line: Box<[u8]> = call.line.into();
    let shown = Election::of(flags, context.now).hold(context.cache(), key);
    settle(context, call.output, key, shown, move |context, key, shown, out| {
        write_again(context, key, &line, shown, out);
    })
}

/// An item and what mg reports about it.
#[derive(Clone, Debug)]
struct Shown {
    item: Item,
    /// Whether this client was elected to refresh the item.
    wins: bool,
}

impl Shown {
    fn plain(item: Item) -> Self {
        Self { item, wins: false }
    }
}

/// Returns whether the client that reads the item is elected to refresh it: it is stale, and no client
/// was elected yet.
fn makes_a_winner(item: &Item) -> bool {
    item.meta.stale && !item.meta.won
}

/// Reads the item from the device. If that elects this client to refresh it, reads it again in one
/// atomic step.
fn read_and_elect(
    context: &CommandContext<'_>,
    key: &[u8],
    flags: &Flags<'_>,
    pending: Pending<Option<Item>>,
) -> Pending<Option<Shown>> {
    let (cache, key, election) = (context.cache().clone(), Box::from(key), Election::of(flags, context.now));
    Pending::new(async move {
        let key: Box<[u8]> = key;
        match pending.await? {
            item if makes_a_winner(&item) => election.hold(&cache, &key).wait().await,
            item => Some(Shown::plain(item)),
        }
    })
}

/// The flags that decide the election of the client that refreshes an item.
struct Election {
    vivify: Option<u32>,
    expires_at: Option<u32>,
    recache_before: Option<u32>,
    quiet: bool,
    cas: Option<u64>,
    now: u32,
}

impl Election {
    fn of(flags: &Flags<'_>, now: u32) -> Self {
        let Flags { vivify, expires_at, recache_before, cas, .. } = *flags;
        Self { vivify, expires_at, recache_before, quiet: flags.has(b'u'), cas, now }
    }

    /// Reads and changes the item in one atomic step.
    fn hold(self, cache: &Cache, key: &[u8]) -> Answer<Option<Shown>> {
        let updated = cache.update(key, move |present| match present {
            Some(item) => {
                let ends_soon =
                    self.recache_before.is_some_and(|at| item.expires_at != 0 && item.expires_at < at);
                let wins = !item.meta.won && (item.meta.stale || ends_soon);
                let (expires_at, won) = (self.expires_at, wins.then_some(true));
                let revision = Revision { expires_at, won, accessed: !self.quiet, ..Revision::default() };
                (Change::Revise(revision), Some(Shown { item: item.clone(), wins }))
            }
            None => match self.vivify {
                None => (Change::Keep, None),
                Some(vivify) => {
                    let expires_at = self.expires_at.unwrap_or(vivify);
                    let put = Put { expires_at, cas: self.cas, won: true, ..Put::default() };
                    let item = created(expires_at, self.now);
                    (Change::Write(bytes::Bytes::new(), put), Some(Shown { item, wins: true }))
                }
            },
        });
        pending::map(updated, |updated| {
            let mut shown = updated.answer?;
            match updated.applied {
                Applied::Written(Stored::Done { cas }) => shown.item.cas = cas,
                Applied::Written(_) => return None,
                _ => {}
            }
            Some(shown)
        })
    }
}

fn created(expires_at: u32, now: u32) -> Item {
    let meta = ItemMeta {
        accessed_at: now,
        stored_at: now,
        fetched: false,
        stale: false,
        won: false,
        tier: Tier::Ram,
        on_flash: false,
    };
    Item { value: Value::from(bytes::Bytes::new()), length: 0, flags: 0, cas: 0, expires_at, meta }
}

/// Writes the answer to a line that was stored.
fn write_again(context: &CommandContext<'_>, key: &[u8], line: &[u8], shown: Option<Shown>, out: &mut Bytes) {
    let mut words = Words::new(line);
    words.next();
    // the line was valid when it was stored
    if let Ok(request) = Request::read(words, context.now) {
        write(context, key, request.text, &request.flags, shown, out);
    }
}

fn write(
    context: &CommandContext<'_>,
    key: &[u8],
    text: &[u8],
    flags: &Flags<'_>,
    shown: Option<Shown>,
    out: &mut Bytes,
) {
    let touched = flags.expires_at.is_some();
    let Some(shown) = shown else {
        fetch::count(context, key, None, touched);
        if !flags.quiet {
            out.push(b"EN");
            flags.write_echo(text, out);
            out.push(b"\r\n");
        }
        return;
    };
    fetch::count(context, key, Some(&shown.item), touched);
    let matches = flags.compare.is_some_and(|cas| cas == shown.item.cas);
    let with_value = flags.value && !matches;
    let buffer = out.buffer();
    if with_value {
        buffer.extend_from_slice(b"VA ");
        push_number(buffer, shown.item.length);
    } else {
        buffer.extend_from_slice(b"HD");
    }
    write_flags(context, text, flags, &shown, buffer);
    buffer.extend_from_slice(b"\r\n");
    if with_value {
        out.push_value(shown.item.value);
        out.push(b"\r\n");
    }
}

fn write_flags(
    context: &CommandContext<'_>,
    text: &[u8],
    flags: &Flags<'_>,
    shown: &Shown,
    out: &mut Vec<u8>,
) {
    let item = &shown.item;
    // `t` before `T` shows the previous expiry
    let mut expires_at = item.expires_at;
    for word in flags.words() {
        let number = match word[0] {
            b'T' => {
                expires_at = flags.expires_at.unwrap_or(expires_at);
                continue;
            }
            b't' if expires_at == 0 => {
                out.extend_from_slice(b" t-1");
                continue;
            }
            b't' => u64::from(expires_at.saturating_sub(context.now)),
            b's' => item.length,
            b'c' => context.shown_cas(item.cas),
            b'f' => u64::from(item.flags),
            b'l' => u64::from(context.now.saturating_sub(item.meta.accessed_at)),
            b'h' => u64::from(item.meta.fetched),
            _ => {
                flags.write_common(word, text, out);
                continue;
            }
        };
        out.extend_from_slice(&[b' ', word[0]]);
        push_number(out, number);
    }
    if item.meta.won {
        out.extend_from_slice(b" Z");
    }
    if item.meta.stale {
        out.extend_from_slice(b" X");
    }
    if shown.wins {
        out.extend_from_slice(b" W");
    }
}
