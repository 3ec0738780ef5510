//! Events as lines of logfmt.

use std::fmt::{self, Write};

use sandur_model::logfmt::Line;
use tracing::Event;
use tracing::field::{Field, Visit};

/// Start of the targets of events whose message is a complete line of logfmt. Such a target ends with the
/// name of a component.
pub const LINES_TARGET: &str = "sandur::query::";

/// Start of the targets of lines of queries that only the server's own log in its store receives.
pub const STORED_LINES_TARGET: &str = "sandur::query_stored::";

/// Whether the message of events with this target is a complete line. Returns the component then.
pub fn component_of_line(target: &str) -> Option<&str> {
    target.strip_prefix(LINES_TARGET).or_else(|| target.strip_prefix(STORED_LINES_TARGET))
}

/// A time as RFC 3339 in UTC with milliseconds.
pub(super) struct Moment(pub(super) i64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(now) => write!(f, "{now:.3}"),
            Err(_) => f.write_str("-"),
        }
    }
}

/// The event as a line of logfmt.
pub fn logfmt(event: &Event<'_>, now_ns: i64) -> String {
    let meta = event.metadata();
    let mut line = Line::default();
    line.plain("ts", Moment(now_ns));
    line.plain("level", level_of(event));
    if component_of_line(meta.target()).is_some() {
        let mut line = line.into_string();
        line.push(' ');
        line.push_str(&message(event));
        return line;
    }
    line.plain("caller", meta.target());
    let mut pairs = Pairs(line);
    event.record(&mut pairs);
    pairs.0.into_string()
}

/// The level of an event as Loki names it.
pub fn level_of(event: &Event<'_>) -> &'static str {
    match *event.metadata().level() {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warn",
        tracing::Level::INFO => "info",
        tracing::Level::DEBUG => "debug",
        tracing::Level::TRACE => "trace",
    }
}

/// Collects the fields as pairs.
struct Pairs(Line);

impl Visit for Pairs {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let name = if field.name() == "message" { "msg" } else { field.name() };
        self.0.text(name, value);
    }
}

/// The message of an event, unchanged.
pub(super) fn message(event: &Event<'_>) -> String {
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

/// Collects the message.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
