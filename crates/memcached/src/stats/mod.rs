//! All forms of `stats`, with the names that exporters and dashboards read.
//!
//! Invariants: a name of memcached has the same meaning here, or, if this server has no equivalent, a
//! constant value that signals no problem. Forms that scan all items use at most a twentieth of the time
//! for it: see [`Survey`](crate::survey::Survey).

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

/// A form of `stats` that is a list of names and values.
pub(super) struct Form {
    pub name: &'static str,
    pub about: &'static str,
    pub report: fn(&CommandContext<'_>) -> Report,
}

/// Every form that is a list.
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

/// Returns the report of a form, or `None` if there is no form with this name.
pub(super) fn report(context: &CommandContext<'_>, name: &[u8]) -> Option<Report> {
    let form = FORMS.iter().find(|form| form.name.as_bytes() == name)?;
    Some((form.report)(context))
}
