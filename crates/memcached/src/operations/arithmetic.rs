//! incr, decr and `ma`: 64-bit numbers that are stored as decimal text.
//!
//! Invariant: as in memcached, increments wrap at 2^64 and decrements stop at 0.

use bytes::Bytes;

use super::pending::map;
use crate::command_context::CommandContext;
use crate::words::{push_number, stored_number};
use sandur_cache::Item;
use sandur_cache::{Answer, Applied, Change, Put, Stored, Updated};

/// A change of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub increment: bool,
    pub by: u64,
    /// The version number that the item must have.
    pub expected: Option<u64>,
    /// What to store when the item does not exist.
    pub create: Option<Create>,
    /// The item's new version number, if the client sets it.
    pub cas: Option<u64>,
    /// The item's new expiry.
    pub expires_at: Option<u32>,
}

/// The number and expiry of a created item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Create {
    pub initial: u64,
    pub expires_at: u32,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Changed(Changed),
    NotNumeric,
    NotFound,
    Exists,
    NoMemory,
}

/// A number that was changed or created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub value: u64,
    pub cas: u64,
    pub expired_at: u32,
    pub expires_at: u32,
    pub created: bool,
    /// The client flags, which affect the slab class.
    pub flags: u32,
}

/// Changes a number. The caller must [`count`] the outcome.
pub(crate) fn execute(context: &CommandContext<'_>, key: &[u8], delta: Delta) -> Answer<Outcome> {
    let changed = context.cache().update(key, move |present| match present {
        Some(item) => change(item, delta),
        None => match delta.create {
            None => (Change::Keep, Outcome::NotFound),
            Some(Create { initial, expires_at }) => {
                let put = Put { expires_at, cas: delta.cas, ..Put::default() };
                let changed = Changed { value: initial, expires_at, created: true, ..Changed::default() };
                (Change::Write(text(initial), put), Outcome::Changed(changed))
            }
        },
    });
    map(changed, finished)
}

fn change(item: &Item, delta: Delta) -> (Change, Outcome) {
    if item.value.is_empty() {
        return (Change::Keep, Outcome::NotNumeric);
    }
    if delta.expected.is_some_and(|cas| cas != item.cas) {
        return (Change::Keep, Outcome::Exists);
    }
    let Some(number) = stored_number(&item.value) else {
        return (Change::Keep, Outcome::NotNumeric);
    };
    let value = if delta.increment { number.wrapping_add(delta.by) } else { number.saturating_sub(delta.by) };
    let (expired_at, flags) = (item.expires_at, item.flags);
    let expires_at = delta.expires_at.unwrap_or(expired_at);
    let put = Put { flags, expires_at, cas: delta.cas, ..Put::default() };
    let changed = Changed { value, expired_at, expires_at, flags, ..Changed::default() };
    (Change::Write(text(value), put), Outcome::Changed(changed))
}

fn text(number: u64) -> Bytes {
    let mut text = Vec::with_capacity(20);
    push_number(&mut text, number);
    Bytes::from(text)
}

fn finished(updated: Updated<Outcome>) -> Outcome {
    match (updated.answer, updated.applied) {
        (Outcome::Changed(changed), Applied::Written(Stored::Done { cas })) => {
            Outcome::Changed(Changed { cas, ..changed })
        }
        (Outcome::Changed(_), _) => Outcome::NoMemory,
        (refused, _) => refused,
    }
}

/// Counts an outcome.
pub(crate) fn count(context: &CommandContext<'_>, key: &[u8], delta: &Delta, outcome: &Outcome) {
    let totals = &context.counters.totals;
    match outcome {
        Outcome::NotFound if delta.increment => totals.incr_misses.add(1),
        Outcome::NotFound => totals.decr_misses.add(1),
        Outcome::Changed(changed) if changed.created => totals.total_items.add(1),
        Outcome::Changed(changed) => {
            // the length of a number says nothing, so all numbers count in one class
            let class = context.counters.class(context.class_of(key, 1, changed.flags));
            if delta.increment { class.incr_hits.add(1) } else { class.decr_hits.add(1) }
        }
        _ => {}
    }
}
