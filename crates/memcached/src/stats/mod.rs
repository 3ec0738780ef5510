//! `stats` in all its forms, with the names that exporters and dashboards read.
//!
//! Invariants: a name that memcached has means the same here or, where there is nothing of the kind,
//! is a constant that reads as "nothing to worry about". Forms that look at every item do so at
//! most for a twentieth of the time: see [`Survey`](crate::survey::Survey).

mod connections;
mod extstore;
mod general;
mod items;
mod mrc;
mod report;
mod settings;
mod slabs;

use self::report::Report;

use super::command_context::CommandContext;

/// A form of `stats` that is a plain list.
pub(super) struct Form {
    pub name: &'static str,
    pub about: &'static str,
    pub report: fn(&CommandContext<'_>) -> Report,
}

/// Every such form.
pub(super) const FORMS: &[Form] = &[
    Form { name: "", about: "counters of the server", report: general::report },
    Form { name: "settings", about: "options in effect", report: settings::report },
    Form { name: "items", about: "items by slab class", report: items::report },
    Form { name: "slabs", about: "memory and commands by slab class", report: slabs::report },
    Form { name: "sizes", about: "items by size, with track_sizes", report: items::sizes },
    Form { name: "conns", about: "connections", report: connections::report },
    Form { name: "extstore", about: "segments of the flash tier", report: extstore::report },
    Form { name: "mrc", about: "hit ratio and misses predicted for other capacities", report: mrc::report },
];

/// The report of a form; `None` when there is none of this name.
pub(super) fn report(context: &CommandContext<'_>, name: &[u8]) -> Option<Report> {
    let form = FORMS.iter().find(|form| form.name.as_bytes() == name)?;
    Some((form.report)(context))
}
