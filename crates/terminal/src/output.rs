//! Output of commands. A closed pipe (`sandur inspect ... | head`) is not a failure and causes no panic:
//! further output is dropped, and the command continues to its end and returns its usual exit code. Any
//! other error on standard output (such as a full disk with `> file`) fails the command at its end.
//!
//! The macros here replace those of the standard library with the same names, which panic. Crates with
//! commands import them with `#[macro_use]`, so that printing code needs no special handling.
//!
//! Errors of standard error are ignored, because there is no other place to report them.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::logging::stderr;

/// Whether a write to standard output has failed; further output is dropped.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The first error of standard output other than a closed pipe.
static FAILURE: Mutex<Option<String>> = Mutex::new(None);

#[macro_export]
macro_rules! println {
    () => { $crate::output::to_stdout(::std::format_args!(""), "\n") };
    ($($text:tt)*) => { $crate::output::to_stdout(::std::format_args!($($text)*), "\n") };
}

#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::to_stdout(::std::format_args!($($text)*), "") };
}

#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::to_stderr(::std::format_args!(""), "\n") };
    ($($text:tt)*) => { $crate::output::to_stderr(::std::format_args!($($text)*), "\n") };
}

#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::to_stderr(::std::format_args!($($text)*), "") };
}

/// The implementation of `print!` and `println!`.
pub fn to_stdout(text: Arguments<'_>, end: &str) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = io::stdout().lock();
    note(stdout.write_fmt(text).and_then(|()| stdout.write_all(end.as_bytes())));
}

/// The implementation of `eprint!` and `eprintln!`. A server does not wait until the text is read.
pub fn to_stderr(text: Arguments<'_>, end: &str) {
    stderr::write(format!("{text}{end}").as_bytes());
}

fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    CLOSED.store(true, Ordering::Relaxed);
    if error.kind() != ErrorKind::BrokenPipe {
        FAILURE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
    }
}

/// Flushes the output; returns the error that prevented writing.
pub fn finish() -> Result<(), String> {
    note(io::stdout().flush());
    match FAILURE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
