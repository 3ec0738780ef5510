//! A command that failed: what the person at the terminal reads, and the code that scripts see.

use std::process::ExitCode;

use crate::logging;

/// Exit code of wrong usage, as of options that clap refuses.
pub const USAGE: u8 = 2;

/// Why a command failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    /// With this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// Because of what was typed: nothing was tried.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same failure in other words.
    pub fn reworded(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }
}

impl From<crate::config::Error> for Failed {
    fn from(error: crate::config::Error) -> Self {
        let is_usage = error.is_usage();
        if is_usage { Self::usage(error.to_string()) } else { Self::new(error.to_string()) }
    }
}

/// Prints the failure; the code of a failed command.
pub fn report(failed: &Failed) -> ExitCode {
    logging::say_failure(&format!("sandur: {}", failed.message()));
    ExitCode::from(failed.code)
}
