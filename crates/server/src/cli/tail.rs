//! `sandur tail`: follows new lines until Ctrl-C.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use futures_util::{SinkExt, StreamExt};
use sandur_base::Env;
use serde::Deserialize;
use tokio_tungstenite::tungstenite::Message;

use super::client::{self, Client};
use super::failed::Failed;
use super::moment;
use super::paint::Paint;
use super::query::written;
use super::results::{LabelMap, OUTPUTS, Output, Printer, Stream, entries};

/// Time until the server has accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("QUERY").required(true);
    let query = query.help("A log query, like '{app=\"api\"} |= \"timeout\"'");
    let since = Arg::new("since").long("since").value_name("DURATION").default_value("1m");
    let since = since.help("Begin with the lines of this time before now; 0 for none");
    let limit = Arg::new("limit").long("limit").value_name("N").default_value("100");
    let limit = limit.value_parser(clap::value_parser!(u32)).help("Most lines from before now");
    let delay = Arg::new("delay").long("delay").value_name("SECONDS").default_value("0");
    let delay =
        delay.value_parser(clap::value_parser!(u32)).help("Hold lines back for stragglers, at most 5");
    let output = Arg::new("output").long("output").short('o').value_parser(OUTPUTS).default_value("text");
    let output = output.help("text for people, json for one object per line, raw for lines alone");
    let command = Command::new("tail").about("Follow new lines until Ctrl-C").arg(query);
    client::arguments(command.arg(since).arg(limit).arg(delay).arg(output))
}

/// One message of the server.
#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    dropped_entries: Vec<serde_json::Value>,
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let output = Output::from_word(matches.get_one::<String>("output").map_or("text", String::as_str));
    let pairs = parameters(&env, matches)?;
    let connecting = client.websocket("/loki/api/v1/tail", &pairs);
    let connected = env.timeout(CONNECT_TIMEOUT, connecting).await;
    let mut socket =
        connected.ok_or_else(|| Failed::new(format!("the server at {} did not answer", client.base())))??;
    let mut printer = Printer { out: std::io::stdout().lock(), output, paint: Paint::for_stdout() };
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            _ = tokio::signal::ctrl_c() => {
                let _ = socket.send(Message::Close(None)).await;
                return Ok(ExitCode::SUCCESS);
            }
        };
        match message {
            Some(Ok(Message::Text(text))) => {
                if let Err(error) = show(&mut printer, text.as_bytes())? {
                    return written(Err(error));
                }
            }
            Some(Ok(Message::Close(frame))) => {
                return closed(frame.map(|f| (u16::from(f.code), f.reason.to_string())));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                return Err(Failed::new(format!("the connection to {} broke: {error}", client.base())));
            }
            None => return closed(None),
        }
    }
}

fn parameters(env: &Env, matches: &ArgMatches) -> Result<[(&'static str, String); 4], Failed> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0).to_string();
    let start = env.now_ns() - moment::duration_ns(&text("since"))?;
    Ok([
        ("query", text("query")),
        ("start", start.to_string()),
        ("limit", number("limit")),
        ("delay_for", number("delay")),
    ])
}

fn show<W: Write>(printer: &mut Printer<W>, text: &[u8]) -> Result<std::io::Result<()>, Failed> {
    let frame: Frame = serde_json::from_slice(text)
        .map_err(|e| Failed::new(format!("the server's message cannot be read: {e}")))?;
    if !frame.dropped_entries.is_empty() {
        eprintln!(
            "warning: {} or more lines were left out: this reader is too slow",
            frame.dropped_entries.len()
        );
    }
    let all = entries(&frame.streams);
    let none = LabelMap::new();
    Ok(all.iter().try_for_each(|entry| printer.entry(entry, &none)).and_then(|()| printer.out.flush()))
}

fn closed(frame: Option<(u16, String)>) -> Result<ExitCode, Failed> {
    match frame {
        Some((1000, reason)) => {
            eprintln!("the server closed the connection: {reason}");
            Ok(ExitCode::SUCCESS)
        }
        Some((code, reason)) => Err(Failed::new(format!("the server ended the tail ({code}): {reason}"))),
        None => Err(Failed::new("the server went away")),
    }
}
