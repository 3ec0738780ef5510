//! Errors of the configuration.

/// A configuration that cannot be used. The message says where the error is and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file '{path}': {reason}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// The error of the system.
        reason: String,
    },
    /// The file of overrides became empty.
    #[error("'{path}' is empty but was not before: write [overrides] into it if no tenant should have any")]
    Emptied {
        /// Path of the file.
        path: String,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// The error of the parser.
        reason: String,
    },
    /// The file is YAML.
    #[error("'{path}' is YAML, but Sandur reads TOML; docs/reference/options.md lists all options{keys}")]
    Yaml {
        /// Path of the file.
        path: String,
        /// Our names of its keys, one per line.
        keys: String,
    },
    /// The key is known from another program.
    #[error("{place}: unknown key '{name}'; in Sandur: {ours}")]
    Foreign {
        /// File and line.
        place: String,
        /// The name.
        name: String,
        /// Our name, or why there is none.
        ours: String,
    },
    /// The key is unknown.
    #[error("{place}: unknown key '{name}'{}", hint(.nearest))]
    Unknown {
        /// File and line.
        place: String,
        /// The name.
        name: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// A file has several errors: their messages, in the order of their lines.
    #[error("{}", .0.join("\n"))]
    Several(Vec<String>),
    /// The value is invalid.
    #[error("{place}: {name}: {reason}")]
    Value {
        /// File and line, `environment` or `command line`.
        place: String,
        /// The option.
        name: String,
        /// What is accepted.
        reason: String,
    },
}

impl Error {
    /// Whether the error is in the command line, not in a file or the environment.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Value { place, .. } if place == COMMAND_LINE)
    }
}

/// The place of errors in flags.
pub const COMMAND_LINE: &str = "command line";

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; docs/reference/options.md lists all options".to_owned(),
    }
}

impl From<Error> for sandur_terminal::Failed {
    fn from(error: Error) -> Self {
        if error.is_usage() { Self::usage(error.to_string()) } else { Self::new(error.to_string()) }
    }
}
