//! The texts that `-h`, `-V` and `-i` print.

use std::fmt::Write;

use super::extended::EXTENDED;
use super::options::{OPTIONS, Takes};

/// The version that clients see: the version of memcached whose protocol and options are implemented,
/// because clients and test suites compare it, followed by our own.
pub(crate) const VERSION: &str = concat!("1.6.45-sandur-", env!("CARGO_PKG_VERSION"));

/// Returns the first line of the help, which is also what `-V` prints.
pub(super) fn version_line() -> String {
    format!("memcached {VERSION}\n")
}

/// Returns the help.
pub(super) fn text() -> String {
    let mut text = version_line();
    text.push_str("A cache in memory and on flash that speaks memcached's protocols.\n\n");
    for option in OPTIONS {
        let argument = match option.takes {
            Takes::Nothing => String::new(),
            Takes::Value(name) => format!("=<{name}>"),
        };
        let names = option.names(", ") + &argument;
        entry(&mut text, "", &names, option.about);
    }
    text.push_str("\nOptions of -o, --extended:\n");
    for option in EXTENDED.iter().filter(|option| option.effective) {
        entry(&mut text, "   - ", &format!("{}:", option.name), option.about);
    }
    text.push_str("\nAccepted and ignored, because there is nothing to tune:\n");
    for option in EXTENDED.iter().filter(|option| !option.effective) {
        entry(&mut text, "   - ", &format!("{}:", option.name), option.about);
    }
    text
}

fn entry(text: &mut String, indent: &str, names: &str, about: &str) {
    let width = 30 - indent.len();
    for (number, line) in about.lines().enumerate() {
        let names = if number == 0 { names } else { "" };
        // writing to a String cannot fail
        let _ = writeln!(text, "{indent}{names:<width$} {line}");
    }
}

/// Returns the licence.
pub(super) fn licence() -> String {
    format!("{}\nLicensed under the Apache License, Version 2.0.\n", version_line())
}
