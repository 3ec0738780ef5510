//! `sandur push --metrics`: samples as text, in pieces of whole lines.
//!
//! What the server refuses of a piece is shown; the rest of it is stored. Samples without a time get the time
//! at which the command began, so that a piece that is sent again brings nothing new.

use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandur_base::{Backoff, Env};
use sandur_model::MILLISECOND_NS;

use super::inputs::Inputs;
use super::opened::{Input, Opened, open};
use crate::cli::client::{Ask, Client, Refusal};
use crate::failed_command::Failed;

/// Bytes of a piece.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes of a line.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Pauses between attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
/// The last line of a text in OpenMetrics.
const END: &[u8] = b"# EOF";

/// The formats that the option takes.
pub const FORMATS: [&str; 3] = ["auto", "prometheus", "openmetrics"];

/// What is sent, and how.
pub struct MetricsPush {
    /// The world.
    pub env: Env,
    /// The server.
    pub client: Client,
    /// Repetitions of a request.
    pub retries: u32,
    /// Labels of all series.
    pub labels: Vec<(String, String)>,
    /// One of [`FORMATS`].
    pub format: String,
}

/// What became of an input.
#[derive(Default)]
struct Tally {
    lines: u64,
    refused: bool,
}

impl MetricsPush {
    /// Sends all inputs; the exit code says whether everything was stored.
    pub async fn run(&self, arguments: &[String]) -> Result<ExitCode, Failed> {
        let inputs = Inputs::find(arguments);
        let mut is_whole = inputs.failures.is_empty();
        inputs.failures.iter().for_each(|failure| eprintln!("sandur: {failure}"));
        let now_ms = self.env.now_ns() / MILLISECOND_NS;
        let files = inputs.files.iter().map(|given| Some(given.path.clone()));
        for path in inputs.stdin.then_some(None).into_iter().chain(files) {
            let name =
                path.as_ref().map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
            let unreadable = |error: io::Error| Failed::new(format!("cannot read {name}: {error}"));
            let input: Input = match &path {
                Some(path) => Box::new(File::open(path).map_err(unreadable)?),
                None => Box::new(io::stdin()),
            };
            let input = match open(input).map_err(unreadable)? {
                Opened::Plain(input) | Opened::Compressed(input) => input,
                Opened::Binary(what) => {
                    eprintln!("sandur: {name} is no text: {what}");
                    is_whole = false;
                    continue;
                }
            };
            let tally = self.send_all(&name, input, now_ms).await?;
            is_whole &= !tally.refused;
            let lines = if tally.lines == 1 { "line" } else { "lines" };
            let refused = if tally.refused { ", some were refused" } else { "" };
            eprintln!("{name}: {} {lines} sent{refused}", tally.lines);
        }
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn send_all(&self, name: &str, input: Input, now_ms: i64) -> Result<Tally, Failed> {
        let mut pieces = Pieces { input, rest: Vec::new(), ended: false };
        let (mut tally, mut is_open_metrics) = (Tally::default(), None);
        loop {
            let piece = pieces.next().map_err(|error| Failed::new(format!("cannot read {name}: {error}")))?;
            let Some(piece) = piece else { return Ok(tally) };
            let (mut piece, had_end) = without_end(piece);
            // A text that fits one piece says itself what it is.
            let is_open_metrics = *is_open_metrics.get_or_insert(match self.format.as_str() {
                "auto" => had_end,
                format => format == "openmetrics",
            });
            tally.lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            if is_open_metrics {
                piece.extend_from_slice(END);
                piece.push(b'\n');
            }
            tally.refused |= !self.send(name, piece.into(), is_open_metrics, now_ms).await?;
        }
    }

    /// Sends a piece until the server took it; false when some of it was refused.
    async fn send(&self, name: &str, piece: Bytes, open_metrics: bool, now_ms: i64) -> Result<bool, Failed> {
        let mut pairs = vec![("timestamp", now_ms.to_string())];
        pairs.extend(self.labels.iter().map(|(label, value)| ("extra_label", format!("{label}={value}"))));
        let kind = if open_metrics { "application/openmetrics-text; version=1.0.0" } else { "text/plain" };
        let mut attempt = 0;
        loop {
            let ask = Ask {
                method: Method::POST,
                path: "/api/v1/import/prometheus",
                pairs: &pairs,
                headers: &[("content-type", kind)],
                body: piece.clone(),
            };
            let refusal = match self.client.ask(ask).await {
                Ok(_) => return Ok(true),
                Err(refusal) => refusal,
            };
            if refusal.status.is_some_and(|status| status.as_u16() == 400) {
                eprintln!("sandur: {name}: refused: {}", refusal.text.trim_end());
                return Ok(false);
            }
            if !refusal.is_retryable() || attempt >= self.retries {
                return Err(Failed::new(format!("{name}: {}", refusal.text)));
            }
            self.env.sleep(pause(&refusal, attempt, &self.env)).await;
            attempt += 1;
        }
    }
}

fn pause(refusal: &Refusal, attempt: u32, env: &Env) -> Duration {
    refusal.retry_after.unwrap_or_else(|| PAUSES.half_jitter(attempt, env))
}

/// The text without a last line `# EOF`, and whether there was one.
fn without_end(mut text: Vec<u8>) -> (Vec<u8>, bool) {
    let end = text.trim_ascii_end();
    let kept = match end.strip_suffix(END) {
        Some(kept) if kept.is_empty() || kept.ends_with(b"\n") => Some(kept.len()),
        _ => None,
    };
    if let Some(length) = kept {
        text.truncate(length);
    } else if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    (text, kept.is_some())
}

/// Pieces of whole lines.
struct Pieces {
    input: Input,
    rest: Vec<u8>,
    ended: bool,
}

impl Pieces {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let room = PIECE_BYTES + LINE_BYTES_MAX;
        while !self.ended && self.rest.len() < room {
            let wanted = (room - self.rest.len()) as u64;
            let read = (&mut self.input).take(wanted).read_to_end(&mut self.rest)?;
            self.ended = read == 0;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.ended && self.rest.len() <= PIECE_BYTES {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        let piece = &self.rest[..self.rest.len().min(PIECE_BYTES)];
        let end = piece.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.ok_or_else(|| io::Error::other(format!("a line has more than {PIECE_BYTES} bytes")))?;
        let left = self.rest.split_off(end);
        Ok(Some(std::mem::replace(&mut self.rest, left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines() {
        let line = format!("{}\n", "x".repeat(999_999));
        let text = line.repeat(9) + "last";
        let mut pieces =
            Pieces { input: Box::new(io::Cursor::new(text.clone())), rest: Vec::new(), ended: false };
        let (mut joined, mut count) = (Vec::new(), 0);
        while let Some(piece) = pieces.next().unwrap() {
            assert!(piece.len() <= PIECE_BYTES);
            assert!(piece.ends_with(b"\n") || piece.ends_with(b"last"));
            joined.extend(piece);
            count += 1;
        }
        assert_eq!((joined, count), (text.into_bytes(), 3));
        let endless = Box::new(io::repeat(b'x'));
        assert!(Pieces { input: endless, rest: Vec::new(), ended: false }.next().is_err());
    }

    #[test]
    fn the_end_of_open_metrics_is_found() {
        let cut = |text: &str| {
            let (kept, had_end) = without_end(text.as_bytes().to_vec());
            (String::from_utf8(kept).unwrap(), had_end)
        };
        assert_eq!(cut("a 1\n# EOF\n"), ("a 1\n".to_owned(), true));
        assert_eq!(cut("# EOF"), (String::new(), true));
        assert_eq!(cut("a 1"), ("a 1\n".to_owned(), false));
        assert_eq!(cut("a{b=\"# EOF"), ("a{b=\"# EOF\n".to_owned(), false));
    }
}
