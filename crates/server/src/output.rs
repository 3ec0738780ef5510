//! What commands print. A reader that went away (`sandur inspect ... | head`) is no failure and no panic:
//! what follows is dropped, the command goes on to its end, and its exit code says what it found. Any
//! other error on standard output (a full disk behind `> file`) fails the command at its end.
//!
//! The macros here take the place of the standard library's of the same names, which panic, for all modules
//! of this crate: code that prints needs to know nothing of this.
//!
//! Standard error takes what it can; there is no place left to report an error.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::logging::stderr;

/// Whether the reader of standard output has gone.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The first other error of standard output.
static FAILURE: Mutex<Option<String>> = Mutex::new(None);

macro_rules! println {
    () => { $crate::output::to_stdout(::std::format_args!(""), "\n") };
    ($($text:tt)*) => { $crate::output::to_stdout(::std::format_args!($($text)*), "\n") };
}

macro_rules! print {
    ($($text:tt)*) => { $crate::output::to_stdout(::std::format_args!($($text)*), "") };
}

macro_rules! eprintln {
    () => { $crate::output::to_stderr(::std::format_args!(""), "\n") };
    ($($text:tt)*) => { $crate::output::to_stderr(::std::format_args!($($text)*), "\n") };
}

macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::to_stderr(::std::format_args!($($text)*), "") };
}

/// What `print!` does in this crate.
pub fn to_stdout(text: Arguments<'_>, end: &str) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = io::stdout().lock();
    note(stdout.write_fmt(text).and_then(|()| stdout.write_all(end.as_bytes())));
}

/// What `eprint!` does in this crate. A server waits for no reader of it.
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

/// Writes out what is left; the error that kept something from being written.
pub fn finish() -> Result<(), String> {
    note(io::stdout().flush());
    match FAILURE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
