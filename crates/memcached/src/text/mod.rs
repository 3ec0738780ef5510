//! The text protocol: the classic commands here, meta commands in [`super::meta`].
//!
//! Each command is one entry of [`COMMANDS`], which also makes the documentation; a file holds the
//! commands that share their syntax.
//!
//! Invariants: a line ends with LF, CR before it is dropped. Answers have memcached's exact words.
//! `noreply` as the last word keeps a classic command silent, errors included.

pub(super) mod admin;
pub(super) mod arithmetic;
pub(super) mod authenticate;
pub(super) mod crawler;
pub(super) mod delete;
pub(super) mod flush_all;
pub(super) mod get;
pub(super) mod stats;
pub(super) mod store;
pub(super) mod testing;
pub(super) mod touch;
pub(super) mod watch;

use super::input::Input;
use super::meta;
use super::output::Output;
use super::session::{Ending, Next};
use super::turn::Turn;
use super::words::Words;

/// Bytes without a line end after which only a multiget may go on.
const LINE_BYTES_MAX: usize = 2048;

/// Answers.
pub(super) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
pub(super) const ERROR: &[u8] = b"ERROR";

/// One command of the text protocol.
pub(super) struct TextCommand {
    pub name: &'static str,
    pub arguments: &'static str,
    pub about: &'static str,
    /// Fewest words, the name included; with fewer the line is malformed.
    pub words: usize,
    pub run: fn(&mut Call<'_>) -> Next,
}

/// Every command, the most frequent ones first: they are looked for in this order.
pub(super) const COMMANDS: &[TextCommand] = &[
    get::GET,
    get::GETS,
    meta::get::MG,
    store::SET,
    meta::set::MS,
    meta::MN,
    meta::delete::MD,
    meta::arithmetic::MA,
    store::ADD,
    store::CAS,
    store::REPLACE,
    store::APPEND,
    store::PREPEND,
    delete::DELETE,
    touch::TOUCH,
    get::GAT,
    get::GATS,
    arithmetic::INCR,
    arithmetic::DECR,
    meta::ME,
    stats::STATS,
    admin::VERSION,
    flush_all::FLUSH_ALL,
    admin::QUIT,
    admin::VERBOSITY,
    admin::SHUTDOWN,
    admin::CACHE_MEMLIMIT,
    watch::WATCH,
    crawler::LRU_CRAWLER,
    admin::LRU,
    admin::SLABS,
    admin::EXTSTORE,
    admin::REFRESH_CERTS,
    testing::DEBUGTIME,
    testing::MISBEHAVE,
];

/// One command line while it is answered.
pub(super) struct Call<'a> {
    pub turn: &'a Turn<'a>,
    pub output: &'a mut Output,
    /// The line without its end.
    pub line: &'a [u8],
    /// The words after the name.
    pub words: Words<'a>,
    /// What follows the line in the input.
    pub rest: &'a [u8],
    /// How many bytes of `rest` the command has used.
    pub used: usize,
    /// Where in the output the answer begins, and whether something stood there already.
    pub first_in_output: bool,
}

impl Call<'_> {
    /// Whether the last word keeps the command silent.
    pub fn is_silent(&self) -> bool {
        is_silent(self.line)
    }

    /// Answers with a line, unless the client wants none.
    pub fn answer(&mut self, line: &[u8]) -> Next {
        if !self.is_silent() {
            self.output.line(line);
        }
        Next::Done
    }

    /// Answers that the line is malformed.
    pub fn bad_format(&mut self) -> Next {
        self.answer(BAD_FORMAT)
    }
}

/// Whether the last word of a line is `noreply`.
pub(super) fn is_silent(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.ends_with(b" noreply")
}

/// The next line without its end, and how many bytes it takes.
pub(super) fn line(unread: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', unread)?;
    let line = &unread[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// Answers one command; `None` when its line has not come whole.
pub(super) fn command(input: &mut Input, output: &mut Output, turn: &Turn<'_>) -> Option<Next> {
    let Some((line, length)) = line(input.unread()) else {
        return is_hopeless(input.unread()).then_some(Next::End(Ending::Error));
    };
    let rest = &input.unread()[length..];
    let first_in_output = output.is_empty();
    let words = Words::new(line);
    let mut call = Call { turn, output, line, words, rest, used: 0, first_in_output };
    let next = dispatch(&mut call, length);
    let used = call.used;
    if let Next::Multiget(_) = next {
        return Some(next); // the line stays in the input until its last key
    }
    input.consume(length + used);
    Some(next)
}

/// Whether what has come without a line end can be no command: only multigets are that long.
fn is_hopeless(unread: &[u8]) -> bool {
    if unread.len() <= LINE_BYTES_MAX {
        return false;
    }
    let start = unread.iter().take_while(|byte| **byte == b' ').count();
    start > 100 || !(unread[start..].starts_with(b"get ") || unread[start..].starts_with(b"gets "))
}

#[inline]
fn dispatch(call: &mut Call<'_>, length: usize) -> Next {
    if length < 4 {
        return call.bad_format(); // memcached's shortest command has two letters and CR LF
    }
    let Some(name) = call.words.next() else { return call.answer(ERROR) };
    let Some(command) = COMMANDS.iter().find(|command| command.name.as_bytes() == name) else {
        return unknown(call);
    };
    if command.words > 1 && call.words.clone().take(command.words - 1).count() < command.words - 1 {
        return call.bad_format();
    }
    (command.run)(call)
}

fn unknown(call: &mut Call<'_>) -> Next {
    // a browser or a probe that takes us for an HTTP server shall not wait for more
    if call.words.clone().last().is_some_and(|word| word.starts_with(b"HTTP/")) {
        return Next::End(Ending::Error);
    }
    call.answer(ERROR)
}
