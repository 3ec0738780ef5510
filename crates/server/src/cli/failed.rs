//! A command that failed: what the person at the terminal reads.

use std::process::ExitCode;

/// Why a command failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(String);

impl Failed {
    /// With this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl From<crate::config::Error> for Failed {
    fn from(error: crate::config::Error) -> Self {
        Self(error.to_string())
    }
}

/// Prints the failure; the code of a failed command.
pub fn report(failed: &Failed) -> ExitCode {
    eprintln!("sandur: {}", failed.message());
    ExitCode::FAILURE
}
