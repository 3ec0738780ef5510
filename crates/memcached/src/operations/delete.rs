//! Removes or invalidates an item: delete and `md`.

use super::pending::map;
use crate::command_context::CommandContext;
use crate::watch::{Event, Stream};
use sandur_cache::{Answer, Applied, Change, Put, Stored};

/// How to delete an item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delete {
    /// The version number that the item must have.
    pub expected: Option<u64>,
    /// Whether to keep the item and mark it as stale.
    pub mark_stale: bool,
    /// Whether to keep the item and clear its value.
    pub empty: bool,
    /// The new expiry of an item that is kept; `flags` and `cas` are its new client flags and version
    /// number.
    pub expires_at: Option<u32>,
    pub flags: u32,
    pub cas: Option<u64>,
}

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The item is removed; with its value's length and client flags if they are known.
    Deleted {
        seen: Option<(u64, u32)>,
    },
    /// The item is kept and changed.
    Marked,
    NotFound,
    Exists,
    NoMemory,
}

/// Deletes an item. The caller must [`count`] the outcome.
pub(crate) fn execute(context: &CommandContext<'_>, key: &[u8], delete: Delete) -> Answer<Outcome> {
    let unconditional = delete.expected.is_none() && !delete.mark_stale && !delete.empty;
    // A plain removal does not need the present item; on flash it would have to be read.
    if unconditional
        && !context.settings().flash.is_empty()
        && !context.server.watchers.wants(Stream::Deletions)
    {
        let removed = context.cache().remove(key);
        return Answer::Ready(if removed { Outcome::Deleted { seen: None } } else { Outcome::NotFound });
    }
    let updated = context.cache().update(key, move |present| {
        let Some(item) = present else { return (Change::Keep, Outcome::NotFound) };
        if delete.expected.is_some_and(|cas| cas != item.cas) {
            return (Change::Keep, Outcome::Exists);
        }
        let seen = Some((item.length, item.flags));
        if delete.empty {
            let put = Put {
                flags: delete.flags,
                expires_at: delete.expires_at.unwrap_or(0),
                stale: delete.mark_stale,
                cas: delete.cas,
                ..Put::default()
            };
            let outcome = if delete.mark_stale { Outcome::Marked } else { Outcome::Deleted { seen } };
            return (Change::Write(bytes::Bytes::new(), put), outcome);
        }
        if delete.mark_stale {
            // the mark is a new version: a client that read the item before it must not overwrite what
            // the winner of the refresh stores
            let put = Put {
                flags: item.flags,
                expires_at: delete.expires_at.unwrap_or(item.expires_at),
                stale: true,
                cas: delete.cas,
                ..Put::default()
            };
            return (Change::Write(item.value.clone().into_bytes(), put), Outcome::Marked);
        }
        (Change::Remove, Outcome::Deleted { seen })
    });
    map(updated, |updated| match updated.applied {
        Applied::Written(Stored::NoMemory | Stored::TooLarge { .. }) => Outcome::NoMemory,
        _ => updated.answer,
    })
}

/// Counts an outcome and publishes it to watchers; `command` is the name that they see.
pub(crate) fn count(context: &CommandContext<'_>, key: &[u8], command: &'static str, outcome: Outcome) {
    match outcome {
        Outcome::Deleted { seen } => {
            let (length, flags) = seen.unwrap_or_default();
            let class = context.class_of(key, length, flags);
            context.counters.class(class).delete_hits.add(1);
            context.watch(Stream::Deletions, || Event::Deletion { key, command, class, size: length });
        }
        Outcome::NotFound | Outcome::Exists => context.counters.totals.delete_misses.add(1),
        Outcome::Marked | Outcome::NoMemory => {}
    }
}
