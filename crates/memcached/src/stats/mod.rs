//! `stats` in all its forms, with the names that exporters and dashboards read.
//!
//! Invariants: a name that memcached has means the same here or, where there is nothing of the kind,
//! is a constant that reads as "nothing to worry about". Forms that look at every item do so at
//! most for a twentieth of the time: see [`Survey`].

mod connections;
mod extstore;
mod general;
mod items;
mod mrc;
mod settings;
mod slabs;
mod survey;

pub(super) use survey::Survey;

use std::fmt::Display;

use super::turn::Turn;

/// Named values in order.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<(String, String)>);

impl Report {
    /// Adds a value.
    pub fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.0.push((name.into(), value.to_string()));
    }

    /// The names and values.
    pub fn rows(&self) -> &[(String, String)] {
        &self.0
    }

    /// As the text protocol writes it.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            for part in ["STAT ", name, " ", value, "\r\n"] {
                text.extend_from_slice(part.as_bytes());
            }
        }
        text.extend_from_slice(b"END\r\n");
        text
    }
}

/// A form of `stats` that is a plain list.
pub(super) struct Form {
    pub name: &'static str,
    pub about: &'static str,
    pub report: fn(&Turn<'_>) -> Report,
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
pub(super) fn report(turn: &Turn<'_>, name: &[u8]) -> Option<Report> {
    let form = FORMS.iter().find(|form| form.name.as_bytes() == name)?;
    Some((form.report)(turn))
}
