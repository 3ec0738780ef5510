//! A real graphite-web in a separate process, with which it communicates through a pipe.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::answer::Answer;
use super::ask::Ask;
use super::series::Known;

/// The program that runs graphite-web.
const PROGRAM: &str = include_str!("oracle.py");

/// A graphite-web process.
pub struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Oracle {
    /// Starts it with a Python that has graphite-web, over the series, in an empty directory.
    pub fn start(python: &Path, directory: &Path, known: &Known) -> Result<Self> {
        let (program, series) = (directory.join("oracle.py"), directory.join("series.json"));
        fs::write(&program, PROGRAM)?;
        fs::write(&series, known.to_json().to_string())?;
        let log = directory.join("oracle.log");
        let mut command = Command::new(python);
        command.arg(&program).arg(directory).arg(&series).env("TZ", "UTC");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a process without pipes");
        };
        let mut oracle = Self { child, input, output: BufReader::new(output) };
        if oracle.line()?.trim() != "ready" {
            bail!(
                "graphite-web did not start; its output:\n{}",
                fs::read_to_string(&log).unwrap_or_default()
            );
        }
        Ok(oracle)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Sends a request. With `strict` graphite-web checks the arguments of functions.
    pub fn ask(&mut self, ask: &Ask, strict: bool) -> Result<Answer> {
        let request = json!({"params": ask.parameters(), "enforce": strict});
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        let line = self.line()?;
        let answer: Value = serde_json::from_str(&line).context("graphite-web ended")?;
        let body = answer["body"].as_str().unwrap_or_default();
        Ok(match answer["status"].as_i64() {
            Some(200) => Answer::read(body),
            Some(400) => Answer::Refused(body.chars().take(300).collect()),
            Some(0) => Answer::Failed(body.to_owned()),
            _ => Answer::Failed("an exception".to_owned()),
        })
    }
}
