//! Reads the line of an `eval`: its form, its times, its query.

use sandur_logql::{Kind, Request};
use sandur_query::Direction;

use super::time::{EPOCH_NS, duration};

/// The form of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An instant query.
    Instant,
    /// A range query whose steps begin at the start.
    Range,
    /// A range query whose steps are multiples of the step.
    Aligned,
    /// A log query.
    Logs,
}

/// Reads the line of an `eval`.
pub fn request(head: &str) -> Result<(Request, Form), String> {
    let mut words = Words(head.strip_prefix("eval").unwrap_or(head).trim_start());
    let form = match words.next() {
        "instant" => Form::Instant,
        "range" => Form::Range,
        "aligned" => Form::Aligned,
        "logs" => Form::Logs,
        other => return Err(format!("unknown form '{other}' of eval")),
    };
    let kind = if form == Form::Instant {
        Kind::Instant { time_ns: words.time("at")? }
    } else {
        let (start_ns, end_ns) = (words.time("from")?, words.time("to")?);
        let step_ns = if form == Form::Logs { 0 } else { words.after("step")? };
        Kind::Range { start_ns, end_ns, step_ns }
    };
    let mut request =
        Request { query: String::new(), kind, limit: 100, direction: Direction::Backward, interval_ns: 0 };
    if form == Form::Logs {
        words.options(&mut request)?;
    }
    request.query = words.0.to_owned();
    if request.query.is_empty() {
        return Err("no query".to_owned());
    }
    Ok((request, form))
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        let (word, rest) = self.0.split_once(char::is_whitespace).unwrap_or((self.0, ""));
        self.0 = rest.trim_start();
        word
    }

    /// Reads the word `expected`, then a duration in nanoseconds.
    fn after(&mut self, expected: &str) -> Result<i64, String> {
        let word = self.next();
        if word != expected {
            return Err(format!("'{word}' instead of '{expected}'"));
        }
        duration(self.next())
    }

    fn time(&mut self, expected: &str) -> Result<i64, String> {
        Ok(EPOCH_NS + self.after(expected)?)
    }

    fn options(&mut self, request: &mut Request) -> Result<(), String> {
        loop {
            let ahead = self.0.split_whitespace().next().unwrap_or_default();
            match ahead {
                "forward" | "backward" => {
                    let is_forward = self.next() == "forward";
                    request.direction = if is_forward { Direction::Forward } else { Direction::Backward };
                }
                "limit" => {
                    self.next();
                    let limit = self.next();
                    request.limit = limit.parse().map_err(|_| format!("'{limit}' is not a limit"))?;
                }
                "interval" => request.interval_ns = self.after("interval")?,
                _ => return Ok(()),
            }
        }
    }
}
