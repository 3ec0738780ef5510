//! A failed command: the message for the user, and the exit code for scripts.

use std::process::ExitCode;

use crate::logging;

/// Exit code of wrong usage, the same as for options that clap refuses.
pub const USAGE: u8 = 2;

/// The failure of a command: why it failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// A usage error: nothing was attempted.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same failure with another message.
    pub fn reworded(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }
}

/// Prints the failure; returns the exit code.
pub fn report(failed: &Failed) -> ExitCode {
    logging::say_failure(&format!("sandur: {}", failed.message()));
    ExitCode::from(failed.code)
}
