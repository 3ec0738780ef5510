//! Evaluates a case with the code of Prometheus, in the program of `harness/`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::case::Case;
use crate::outcome::Outcome;

/// A running program.
pub struct Theirs {
    child: Child,
    cases: Option<ChildStdin>,
    outcomes: BufReader<ChildStdout>,
}

impl Theirs {
    /// Starts the program.
    #[allow(clippy::disallowed_methods)] // a tool that starts a program
    pub fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let cases = child.stdin.take();
        let outcomes = BufReader::new(child.stdout.take().context("the program has no output")?);
        Ok(Self { child, cases, outcomes })
    }

    /// Begins to evaluate a case.
    pub fn begin(&mut self, case: &Case) -> Result<()> {
        let cases = self.cases.as_mut().context("the program has no input")?;
        let mut line = serde_json::to_vec(case)?;
        line.push(b'\n');
        cases.write_all(&line)?;
        Ok(cases.flush()?)
    }

    /// The outcome of the case that was begun first.
    pub fn outcome(&mut self) -> Result<Outcome> {
        let mut line = String::new();
        if self.outcomes.read_line(&mut line)? == 0 {
            bail!("the program with the code of Prometheus ended");
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.cases.take());
        let _ = self.child.wait();
    }
}
