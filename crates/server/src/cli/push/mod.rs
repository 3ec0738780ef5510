//! `sandur push`: ships files or stdin to a server.
//!
//! A file counts as shipped as far as the server acknowledged it. With `--resume FILE` that is
//! remembered, so that an interrupted push goes on where it stopped.

mod reader;
mod request;
mod resume;
mod sender;
mod timestamps;

use std::fs::File;
use std::io::{BufReader, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_base::units::ByteSize;
use sandur_base::{BoxFuture, Env};
use sandur_model::Labels;

use super::client::{self, Client, Refusal};
use super::failed::Failed;
use reader::LineReader;
use request::push_body;
pub use resume::{Position, Positions};
pub use sender::{Sender, Sent};
pub use timestamps::Recogniser;

/// Requests that wait for their acknowledgement at the same time.
const IN_FLIGHT: usize = 4;

/// The command.
pub fn command() -> Command {
    let files = Arg::new("files").value_name("FILE").action(ArgAction::Append).required(true);
    let files = files.help("Files or quoted patterns ('/var/log/*.log'); - is stdin");
    let label = Arg::new("label").long("label").short('l').value_name("NAME=VALUE").action(ArgAction::Append);
    let label = label.help("Label of all lines; may be given often. A file's lines also have filename=PATH");
    let times = Arg::new("timestamps").long("timestamps").value_parser(["auto", "now"]).default_value("auto");
    let times = times.help("auto reads the time of each line where it can; now dates all lines by arrival");
    let resume = Arg::new("resume").long("resume").value_name("STATE-FILE");
    let resume =
        resume.help("Remember in this file how far each file was acknowledged, and go on from there");
    let retries = Arg::new("retries").long("retries").value_name("N").default_value("10");
    let retries = retries
        .value_parser(clap::value_parser!(u32))
        .help("Repetitions of a request that may succeed later");
    let command = Command::new("push")
        .about("Ship files or stdin to a server")
        .after_help(
            "Example: sandur push --label app=api --resume api.state '/var/log/api/*.log'\n\
             Exit codes: 0 everything acknowledged, 1 something failed or was refused, 2 wrong usage.",
        )
        .arg(files);
    client::arguments(command.arg(label).arg(times).arg(resume).arg(retries))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let retries = matches.get_one::<u32>("retries").copied().unwrap_or(10);
    let positions = match matches.get_one::<String>("resume") {
        Some(path) => Positions::load(path)?,
        None => Positions::none(),
    };
    let labels = labels(matches.get_many::<String>("label").into_iter().flatten())?;
    let auto = matches.get_one::<String>("timestamps").is_none_or(|t| t == "auto");
    let inputs = inputs(matches.get_many::<String>("files").into_iter().flatten())?;
    let sender = Sender { env: env.clone(), client, retries };
    let mut shipper = Shipper::new(sender, positions, auto);
    for input in inputs {
        shipper.ship(&input, &labels).await?;
    }
    Ok(shipper.finish())
}

fn labels<'a>(given: impl Iterator<Item = &'a String>) -> Result<Vec<(String, String)>, Failed> {
    let mut pairs = Vec::new();
    for text in given {
        let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
        let (name, value) =
            pair.ok_or_else(|| Failed::new(format!("'{text}' is no label: write --label app=api")))?;
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Where lines come from.
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

fn inputs<'a>(given: impl Iterator<Item = &'a String>) -> Result<Vec<Input>, Failed> {
    let mut all = Vec::new();
    for text in given {
        if text == "-" {
            all.push(Input::Stdin);
            continue;
        }
        let plain = PathBuf::from(text);
        if plain.is_file() {
            all.push(Input::File(plain));
            continue;
        }
        let found = glob::glob(text).map_err(|e| Failed::new(format!("'{text}' is no pattern: {e}")))?;
        let before = all.len();
        all.extend(found.flatten().filter(|p| p.is_file()).map(Input::File));
        if all.len() == before {
            return Err(Failed::new(format!("'{text}': no such file, and no file matches it as a pattern")));
        }
    }
    Ok(all)
}

/// Ships inputs one after another and keeps the score.
pub struct Shipper {
    sender: Sender,
    positions: Positions,
    auto: bool,
    bar: ProgressBar,
    began: Duration,
    lines: u64,
    bytes: u64,
    refused: u64,
}

type Pending = BoxFuture<'static, (Result<Sent, Refusal>, Position, u64, u64)>;

impl Shipper {
    /// Ships through `sender`; `auto` reads timestamps from lines.
    pub fn new(sender: Sender, positions: Positions, auto: bool) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let began = sender.env.monotonic();
        Self { sender, positions, auto, bar, began, lines: 0, bytes: 0, refused: 0 }
    }

    /// Ships one input.
    pub async fn ship(&mut self, input: &Input, labels: &[(String, String)]) -> Result<(), Failed> {
        match input {
            Input::Stdin => {
                self.bar.set_message("stdin");
                let stdin: Box<dyn Read + Send> = Box::new(std::io::stdin());
                self.ship_from(stdin, "-", 0, 0, Labels::from_pairs(labels.iter().cloned())).await
            }
            Input::File(path) => self.ship_file(path, labels).await,
        }
    }

    async fn ship_file(&mut self, path: &PathBuf, labels: &[(String, String)]) -> Result<(), Failed> {
        let name = path.to_string_lossy().into_owned();
        let failed = |e: std::io::Error| Failed::new(format!("cannot read '{name}': {e}"));
        let mut file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let start = self.positions.start_of(&name, metadata.ino(), metadata.len());
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        self.bar.set_message(name.clone());
        self.bar.set_length(self.bar.position() + metadata.len() - start);
        let pairs = labels.iter().cloned().chain([("filename".to_owned(), name.clone())]);
        self.ship_from(Box::new(file), &name, metadata.ino(), start, Labels::from_pairs(pairs)).await
    }

    async fn ship_from(
        &mut self,
        input: Box<dyn Read + Send>,
        name: &str,
        inode: u64,
        start: u64,
        labels: Labels,
    ) -> Result<(), Failed> {
        let env = self.sender.env.clone();
        let recogniser = self.auto.then(|| Recogniser::local(env.now_ns()));
        let mut reader =
            LineReader::new(BufReader::with_capacity(256 << 10, input), labels, recogniser, start);
        let mut pending: FuturesOrdered<Pending> = FuturesOrdered::new();
        loop {
            let now_ns = env.now_ns();
            // Reading may block: a pipe has data when it likes.
            let (back, batch) = env
                .run_blocking(move || {
                    let batch = reader.next(now_ns);
                    (reader, batch)
                })
                .await;
            reader = back;
            let batch = batch.map_err(|e| Failed::new(format!("cannot read '{name}': {e}")))?;
            let Some(batch) = batch else { break };
            let (sender, position) = (self.sender.clone(), Position { inode, offset: batch.end });
            let (lines, bytes) = (batch.lines.count(), batch.lines.line_bytes());
            let body = push_body(std::slice::from_ref(&batch.lines));
            pending.push_back(Box::pin(async move { (sender.send(body).await, position, lines, bytes) }));
            while pending.len() >= IN_FLIGHT {
                self.acknowledge(&mut pending, name).await?;
            }
        }
        while !pending.is_empty() {
            self.acknowledge(&mut pending, name).await?;
        }
        Ok(())
    }

    /// Waits for the oldest request; requests of one input are acknowledged in order.
    async fn acknowledge(&mut self, pending: &mut FuturesOrdered<Pending>, name: &str) -> Result<(), Failed> {
        let Some((outcome, position, lines, bytes)) = pending.next().await else { return Ok(()) };
        match outcome {
            Ok(Sent::Whole) => {}
            Ok(Sent::Partly(text)) => {
                self.refused += 1;
                self.bar.suspend(|| eprintln!("{name}: the server left lines out: {text}"));
            }
            Err(refusal) => {
                let so_far = format!("{} lines of all files were acknowledged before", self.lines);
                let text = Failed::from(refusal);
                return Err(Failed::new(format!("{name}: {}; {so_far}", text.message())));
            }
        }
        self.lines += lines;
        self.bytes += bytes;
        self.bar.inc(bytes + lines); // with the line breaks
        self.positions.note(name, position)
    }

    /// Says what was done; the code of the process.
    pub fn finish(self) -> ExitCode {
        self.bar.finish_and_clear();
        let took = self.sender.env.monotonic().saturating_sub(self.began).as_secs_f64();
        let rate = ByteSize((self.bytes as f64 / took.max(0.001)) as u64);
        eprintln!("acknowledged {} lines, {} in {took:.1} s ({rate}/s)", self.lines, ByteSize(self.bytes));
        match self.refused {
            0 => ExitCode::SUCCESS,
            n => {
                eprintln!("in {n} requests the server left lines out; the reasons stand above");
                ExitCode::FAILURE
            }
        }
    }

    /// Lines and bytes acknowledged so far.
    pub fn score(&self) -> (u64, u64) {
        (self.lines, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_files_are_read_or_explained() {
        let given = ["app=api".to_owned(), "env=a=b".to_owned()];
        let pairs = labels(given.iter()).unwrap();
        assert_eq!(pairs[1], ("env".to_owned(), "a=b".to_owned()));
        assert!(labels(["app".to_owned()].iter()).unwrap_err().message().contains("--label app=api"));
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.log"), "x").unwrap();
        let pattern = format!("{}/*.log", directory.path().display());
        assert_eq!(inputs([pattern].iter()).unwrap().len(), 1);
        assert!(inputs(["/nowhere/x".to_owned()].iter()).is_err());
    }
}
