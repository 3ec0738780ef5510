//! Our implementation of Graphite's language, in this process.

use anyhow::Result;
use sandur_graphite::{RenderRequest, Zone, render};

use super::answer::Answer;
use super::ask::Ask;
use super::series::{Known, NOW};
use crate::in_process::InProcess;

/// The language over series in memory.
pub struct Ours {
    process: InProcess,
    known: Known,
}

impl Ours {
    /// Over this data.
    pub fn over(known: Known) -> Result<Self> {
        Ok(Self { process: InProcess::new()?, known })
    }

    /// Evaluates a request.
    pub fn ask(&self, ask: &Ask) -> Answer {
        let pairs: Vec<(String, String)> = ask.parameters();
        let request = match RenderRequest::read(&pairs, NOW, &Zone::utc()) {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let context = self.process.context();
        let answer = match self.process.run(render(&self.known, &context, &request)) {
            Ok(rendered) => Answer::read(&String::from_utf8_lossy(&rendered.body)),
            Err(error) => Answer::Refused(error.to_string()),
        };
        match context.budget().used() {
            0 => answer,
            kept => Answer::Failed(format!("{kept} bytes are still reserved")),
        }
    }
}
