//! The state machine: decides for each line whether it begins an entry.

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::kinds::{HEADS, Inside, has_mark};
use super::lines::{has_level, indentation, is_exception, is_request, last_of};
use super::transport::{Carried, carried};
use super::{ENTRY_BYTES_MAX, ENTRY_LINES_MAX};

/// How lines are joined.
#[derive(Clone, Debug)]
pub enum Rule {
    /// By the kinds of lines and entries.
    Kinds,
    /// An entry begins with a line that matches; all others continue it.
    StartsAt(Regex),
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins an entry.
    Starts,
    /// It continues the entry before it. The empty lines between them belong to the entry.
    Continues {
        /// Number of these empty lines.
        blanks: u32,
    },
}

/// What was learned from the lines so far. Together with the lines that follow it determines the cuts, so
/// a resume point stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// How much more often entries begin with a time or a level than not: from 0 to [`TRUST_MAX`].
    trust: u8,
    /// The entry that was cut before, whose lines may continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
}

/// An entry that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cut {
    indentation: u32,
    kind: Option<Inside>,
}

/// The highest trust. Each entry with other lines earns 1 and costs 2, so thirty successive ones are needed
/// until such lines begin entries.
const TRUST_MAX: u8 = 32;
/// What an entry with other lines costs, while each entry earns 1: they must be rarer than 1 in 2.
const TRUST_COST: u8 = 2;
/// The trust below which a line without a time and a level begins an entry.
const TRUST_MIN: u8 = 4;

impl Default for Learned {
    fn default() -> Self {
        Self { trust: 8, cut: None }
    }
}

/// Where the parts of a carried line are, and whether its message has a time.
#[derive(Clone, Copy, Debug)]
struct Place {
    source_at: usize,
    source_end: usize,
    message_at: usize,
    is_dated: bool,
}

impl Place {
    fn of(line: &[u8]) -> Option<Self> {
        let Carried { source, message } = carried(line)?;
        // The parts are of the line, and the message is its end.
        let message_at = line.len() - message.len();
        let source_at = source.as_ptr() as usize - line.as_ptr() as usize;
        let is_dated = seems_dated(message);
        Some(Self { source_at, source_end: source_at + source.len(), message_at, is_dated })
    }
}

/// The entry whose lines are joined.
#[derive(Clone, Copy, Debug)]
struct Open {
    lines: u32,
    blanks: u32,
    /// Indentation of its first line.
    indentation: usize,
    /// Whether its first line is carried by a container runtime or syslog.
    carried: Option<Place>,
    /// Whether its first line has a time or a level.
    is_headed: bool,
    /// Its kind, once a second line asks for it.
    kind: Option<Option<Inside>>,
    /// Whether a line was judged by the trust.
    is_judged: bool,
}

/// Joins the lines of one input.
#[derive(Debug)]
pub struct Joiner {
    rule: Rule,
    learned: Learned,
    open: Option<Open>,
    /// What the last step found out about its line.
    next: Known,
}

/// What is known of a line. It is found out at most once: as the next line of an entry, or as the first.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its parts, if it is carried.
    place: Option<Place>,
    /// Whether it begins with a level.
    has_level: Option<bool>,
    /// The kind that it begins.
    begins: Option<Option<Inside>>,
}

impl Joiner {
    /// Joins by `rule`, after what was learned before.
    pub fn new(rule: Rule, learned: Learned) -> Self {
        Self { rule, learned, open: None, next: Known::default() }
    }

    /// What was learned so far.
    pub fn learned(&self) -> Learned {
        self.learned
    }

    /// Notes an empty line.
    pub fn blank(&mut self) {
        if let Some(open) = &mut self.open {
            open.blanks = open.blanks.saturating_add(1);
        }
    }

    /// Begins an entry with a line. `is_dated`: the line has a time.
    pub fn start(&mut self, line: &[u8], is_dated: bool) {
        let next = std::mem::take(&mut self.next);
        let carried = next.place.or_else(|| Place::of(line));
        let (message, is_dated) = match carried {
            Some(place) => (&line[place.message_at..], place.is_dated),
            None => (line, is_dated),
        };
        let is_headed = is_dated || next.has_level.unwrap_or_else(|| has_level(message));
        if is_headed {
            self.learned.trust = (self.learned.trust + 1).min(TRUST_MAX);
        }
        let cut = self.learned.cut.take().filter(|_| !is_headed);
        let mut indentation = indentation(message);
        let mut kind = next.begins;
        if let Some(Cut { indentation: before, kind: own }) = cut {
            let belongs = |mut own: Inside| own.continues(b"", message).then_some(own);
            kind = own.and_then(belongs).map(Some).or(kind);
            indentation = indentation.min(before as usize);
        }
        self.open =
            Some(Open { lines: 1, blanks: 0, indentation, carried, is_headed, kind, is_judged: false });
    }

    /// What the next line does, after the text of the open entry. `has_time` is called only if the answer
    /// decides.
    pub fn step(&mut self, entry: &[u8], line: &[u8], has_time: impl FnOnce() -> bool) -> Step {
        self.next = Known::default();
        let Some(blanks) = self.open.map(|open| open.blanks) else { return Step::Starts };
        let continues = match &self.rule {
            Rule::StartsAt(start) => !start.is_match(line),
            Rule::Kinds => self.continues(entry, line, has_time),
        };
        let Some(open) = self.open.as_mut().filter(|_| continues) else { return Step::Starts };
        let lines = open.lines.saturating_add(1).saturating_add(blanks);
        if lines > ENTRY_LINES_MAX || entry.len() + line.len() + blanks as usize + 1 > ENTRY_BYTES_MAX {
            self.cut();
            return Step::Starts;
        }
        (open.lines, open.blanks) = (lines, 0);
        Step::Continues { blanks }
    }

    /// Ends the open entry, whose next line begins another.
    pub fn end(&mut self) {
        self.open = None;
    }

    /// Ends the open entry although lines that continue it may follow.
    pub fn cut(&mut self) {
        if let Some(open) = self.open.take() {
            let indentation = u32::try_from(open.indentation).unwrap_or(u32::MAX);
            self.learned.cut = Some(Cut { indentation, kind: open.kind.flatten() });
        }
    }

    fn continues(&mut self, entry: &[u8], line: &[u8], has_time: impl FnOnce() -> bool) -> bool {
        let Some(Open { carried: Some(first), lines, .. }) = self.open else {
            // A carried line has a time, and so begins an entry here.
            return self.continues_message(entry, line, has_time);
        };
        let Some(place) = Place::of(line) else { return false };
        self.next.place = Some(place);
        let source = &line[place.source_at..place.source_end];
        let message = &line[place.message_at..];
        if message.is_empty() || entry.get(first.source_at..first.source_end) != Some(source) {
            return false;
        }
        // All such lines have a time; what the program wrote decides.
        let has_time = || place.is_dated;
        if lines == 1 {
            return self.continues_message(&entry[first.message_at..], message, has_time);
        }
        let before = &first_of(entry)[first.message_at..];
        match memchr::memrchr(b'\n', entry) {
            None => self.continues_message(before, message, has_time),
            Some(at) => {
                let last = carried(&entry[at + 1..]).map_or(&b""[..], |last| last.message);
                let text = [before, b"\n", last].concat();
                self.continues_message(&text, message, has_time)
            }
        }
    }

    fn continues_message(&mut self, entry: &[u8], line: &[u8], has_time: impl FnOnce() -> bool) -> bool {
        let Some(open) = &mut self.open else { return false };
        let is_deeper = indentation(line) > open.indentation;
        if !is_deeper && has_time() {
            return false;
        }
        let first = if open.lines == 1 { entry } else { first_of(entry) };
        let kind = open.kind.get_or_insert_with(|| Inside::at(first));
        let has_level = !is_deeper && *self.next.has_level.insert(has_level(line));
        if has_level && kind.is_none() {
            return false;
        }
        let begins = if is_deeper { None } else { *self.next.begins.insert(Inside::at(line)) };
        let may_belong = |own: &Inside| {
            own.has_levels() || (!has_level && begins.is_none_or(|begins| begins.kind == own.kind))
        };
        if kind.as_mut().is_some_and(|own| may_belong(own) && own.continues(entry, line)) {
            *kind = begins.filter(|_| kind.is_some_and(|own| own.has_levels())).or(*kind);
            return true;
        }
        if is_deeper {
            return true;
        }
        if has_level {
            return false;
        }
        if has_mark(line) {
            return true;
        }
        if kind.is_none() && begins.is_none() {
            *kind = Inside::in_statement(first, entry, line);
            if kind.is_some() {
                return true;
            }
        }
        let is_headed = open.is_headed && !is_request(first);
        let is_new = |begins: &Inside| kind.is_none_or(|own| own.kind != begins.kind);
        let may_follow = begins.filter(is_new).is_some_and(|begins| begins.may_follow(entry, line));
        if is_headed && (may_follow || is_exception(line) || last_of(entry).ends_with(b":")) {
            *kind = begins;
            return true;
        }
        let is_object = line.starts_with(b"{\"") && first.starts_with(b"{");
        let is_head = begins.is_some() || is_object || HEADS.iter().any(|head| (head.is)(line));
        let has_ended = kind.is_some_and(|own| own.has_clear_end());
        is_headed && !is_head && !has_ended && self.is_trusted()
    }

    /// Whether entries of this input begin with a time or a level, so that a line without one continues an
    /// entry.
    fn is_trusted(&mut self) -> bool {
        let is_trusted = self.learned.trust >= TRUST_MIN;
        let is_judged = self.open.as_mut().is_some_and(|open| std::mem::replace(&mut open.is_judged, true));
        if !is_judged {
            self.learned.trust = self.learned.trust.saturating_sub(TRUST_COST);
        }
        is_trusted
    }
}

/// The first line of an entry.
fn first_of(entry: &[u8]) -> &[u8] {
    &entry[..memchr::memchr(b'\n', entry).unwrap_or(entry.len())]
}

/// Whether a message that is carried with a time of its own has another one, roughly.
fn seems_dated(message: &[u8]) -> bool {
    /// Number of bytes in which a clock is searched.
    const LOOK_BYTES: usize = 40;
    let text = &message[..message.len().min(LOOK_BYTES)];
    let is_start = text.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'[');
    let is_clock = |at: usize| {
        let after = text.get(at + 1..at + 4);
        at > 0 && text[at - 1].is_ascii_digit() && matches!(after, Some([b'0'..=b'5', b'0'..=b'9', b':']))
    };
    message.starts_with(b"{\"") || is_start && memchr::memchr_iter(b':', text).any(is_clock)
}
