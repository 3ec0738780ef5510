//! Writes items: set, add, replace, cas, append and prepend of all protocols.

use bytes::Bytes;

use super::pending::map;
use crate::command_context::CommandContext;
use crate::watch::{Event, Stream};
use sandur_cache::{Answer, Applied, Change, Condition, Put, Stored, Updated};
use sandur_cache::{Item, Lookup, Read};

/// The condition and kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Write unconditionally.
    Set,
    /// Write if there is no item.
    Add,
    /// Write if there is an item.
    Replace,
    /// Write if the item has this version number.
    Cas(u64),
    /// Like `Cas`, but an older version number writes too and leaves the item stale.
    CasOrStale(u64),
    /// Append to the present value.
    Append,
    /// Prepend to the present value.
    Prepend,
}

impl Verb {
    /// Returns the name that watchers see.
    fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Cas(_) | Self::CasOrStale(_) => "cas",
            Self::Append => "append",
            Self::Prepend => "prepend",
        }
    }
}

/// A write, without its value.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub verb: Verb,
    pub flags: u32,
    pub expires_at: u32,
    /// The item's new version number, if the client sets it.
    pub cas: Option<u64>,
    /// For `Append` and `Prepend`: the version number that the present item must have.
    pub expected: Option<u64>,
    /// For `Append` and `Prepend`: whether a missing item is created.
    pub create: bool,
}

impl Write {
    /// A write without further options.
    pub fn new(verb: Verb, flags: u32, expires_at: u32) -> Self {
        Self { verb, flags, expires_at, cas: None, expected: None, create: false }
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value was written; with the item's version number and the length of its complete value in
    /// bytes.
    Stored {
        cas: u64,
        length: u64,
    },
    NotStored,
    Exists,
    NotFound,
    TooLarge,
    NoMemory,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Stored { .. } => "stored",
            Self::NotStored => "not_stored",
            Self::Exists => "exists",
            Self::NotFound => "not_found",
            Self::TooLarge => "too_large",
            Self::NoMemory => "no_memory",
        }
    }
}

/// Writes an item. The caller must [`count`] the outcome. If a client stores faster than flash can
/// write, its answers are delayed for a moment; without this back-pressure the cache would drop more
/// values.
pub(crate) fn execute(
    context: &CommandContext<'_>,
    key: &[u8],
    value: Bytes,
    write: &Write,
) -> Answer<Outcome> {
    let answer = write_now(context, key, value, write);
    let backpressure = if context.may_slow_down { context.cache().backpressure() } else { None };
    let Some(backpressure) = backpressure else { return answer };
    Answer::Pending(sandur_cache::Pending::new(async move {
        let outcome = answer.wait().await;
        backpressure.await;
        outcome
    }))
}

fn write_now(context: &CommandContext<'_>, key: &[u8], value: Bytes, write: &Write) -> Answer<Outcome> {
    watch_present(context, key);
    let length = value.len() as u64;
    let condition = match write.verb {
        Verb::Set => Condition::Always,
        Verb::Add => Condition::Absent,
        Verb::Replace => Condition::Present,
        Verb::Cas(cas) => Condition::Cas(cas),
        Verb::CasOrStale(cas) => return cas_or_stale(context, key, value, cas, write.clone()),
        Verb::Append | Verb::Prepend => return extend(context, key, value, write.clone()),
    };
    let put = put(write, condition);
    let verb = write.verb;
    map(context.cache().put(key, value, &put), move |stored| outcome(verb, stored, length))
}

/// Refuses a write that is too large, before its value is received. An unconditional write removes the
/// old item, so that the value to be replaced is not read any more.
pub(crate) fn refuse(context: &CommandContext<'_>, key: &[u8], write: &Write, outcome: Outcome) {
    if write.verb == Verb::Set {
        context.cache().remove(key);
    }
    count(context, key, write, outcome);
}

/// Counts an outcome and publishes it to watchers.
pub(crate) fn count(context: &CommandContext<'_>, key: &[u8], write: &Write, outcome: Outcome) {
    let length = match outcome {
        Outcome::Stored { length, .. } => length,
        _ => 0,
    };
    let class = context.class_of(key, length, write.flags);
    let (totals, of_class) = (&context.counters.totals, context.counters.class(class));
    match outcome {
        Outcome::TooLarge => totals.store_too_large.add(1),
        Outcome::NoMemory => totals.store_no_memory.add(1),
        _ => of_class.set_cmds.add(1),
    }
    match (write.verb, outcome) {
        (Verb::Cas(_) | Verb::CasOrStale(_), Outcome::Stored { .. }) => of_class.cas_hits.add(1),
        (Verb::Cas(_) | Verb::CasOrStale(_), Outcome::Exists) => of_class.cas_badval.add(1),
        (Verb::Cas(_) | Verb::CasOrStale(_), Outcome::NotFound) => totals.cas_misses.add(1),
        _ => {}
    }
    if matches!(outcome, Outcome::Stored { .. }) {
        totals.total_items.add(1);
    }
    context.watch(Stream::Mutations, || Event::Store {
        key,
        status: outcome.name(),
        command: write.verb.name(),
        ttl: if write.expires_at == 0 { 0 } else { write.expires_at.saturating_sub(context.now) },
        class,
        descriptor: context.descriptor,
        size: length,
    });
}

/// Publishes a read of the present item, as memcached does before a write.
fn watch_present(context: &CommandContext<'_>, key: &[u8]) {
    context.watch(Stream::Fetchers, || {
        let read = Read { quiet: true, range: Some(0..0), ..Read::default() };
        let present = match context.cache().get(key, &read) {
            Lookup::Hit(item) => Some((context.class_of(key, item.length, item.flags), item.length)),
            Lookup::Miss | Lookup::Pending(_) => None,
        };
        let (class, size) = present.unwrap_or_default();
        let status = if present.is_some() { "found" } else { "not_found" };
        Event::Get { key, status, class, descriptor: context.descriptor, size }
    });
}

fn put(write: &Write, condition: Condition) -> Put {
    let (flags, expires_at, cas) = (write.flags, write.expires_at, write.cas);
    Put { flags, expires_at, cas, condition, ..Put::default() }
}

fn outcome(verb: Verb, stored: Stored, length: u64) -> Outcome {
    match (stored, verb) {
        (Stored::Done { cas }, _) => Outcome::Stored { cas, length },
        (Stored::Exists, Verb::Cas(_)) => Outcome::Exists,
        (Stored::Missing, Verb::Cas(_)) => Outcome::NotFound,
        (Stored::Exists | Stored::Missing, _) => Outcome::NotStored,
        (Stored::TooLarge { .. }, _) => Outcome::TooLarge,
        (Stored::NoMemory, _) => Outcome::NoMemory,
    }
}

/// Appends or prepends the new value to the present one.
fn extend(context: &CommandContext<'_>, key: &[u8], value: Bytes, write: Write) -> Answer<Outcome> {
    let (classes, limit) = (context.server.classes.clone(), context.settings().item_bytes_max);
    let key_length = key.len();
    let changed = context.cache().update(key, move |present| {
        let Some(item) = present else {
            if write.create {
                let length = value.len() as u64;
                return (Change::Write(value, put(&write, Condition::Always)), Ok(length));
            }
            return (Change::Keep, Err(Outcome::NotStored));
        };
        if write.expected.is_some_and(|cas| cas != item.cas) {
            return (Change::Keep, Err(Outcome::Exists));
        }
        let length = item.value.len() + value.len();
        if classes.item_bytes(key_length, length as u64, item.flags) > limit {
            return (Change::Keep, Err(Outcome::NotStored));
        }
        let mut joined = Vec::with_capacity(length);
        let (first, second) = match write.verb {
            Verb::Prepend => (&value[..], &item.value[..]),
            _ => (&item.value[..], &value[..]),
        };
        joined.extend_from_slice(first);
        joined.extend_from_slice(second);
        (Change::Write(Bytes::from(joined), keep_metadata(item, write.cas)), Ok(length as u64))
    });
    map(changed, written)
}

/// Overwrites the item if it has version `cas`. A write with an older version leaves the item stale.
fn cas_or_stale(
    context: &CommandContext<'_>,
    key: &[u8],
    value: Bytes,
    cas: u64,
    write: Write,
) -> Answer<Outcome> {
    let length = value.len() as u64;
    let changed = context.cache().update(key, move |present| {
        let Some(item) = present else { return (Change::Keep, Err(Outcome::NotFound)) };
        if cas == item.cas {
            return (Change::Write(value, put(&write, Condition::Always)), Ok(length));
        }
        if cas == 0 || cas > item.cas {
            return (Change::Keep, Err(Outcome::Exists));
        }
        // the value is replaced, the metadata stays: the item is still to be refreshed
        let (flags, won) = (write.flags, item.meta.won);
        let put = Put { flags, stale: true, won, ..keep_metadata(item, write.cas) };
        (Change::Write(value, put), Ok(length))
    });
    map(changed, written)
}

fn keep_metadata(item: &Item, cas: Option<u64>) -> Put {
    Put { flags: item.flags, expires_at: item.expires_at, cas, ..Put::default() }
}

fn written(updated: Updated<Result<u64, Outcome>>) -> Outcome {
    match (updated.answer, updated.applied) {
        (Err(outcome), _) => outcome,
        (Ok(length), Applied::Written(stored)) => outcome(Verb::Set, stored, length),
        (Ok(_), _) => Outcome::NotStored,
    }
}
