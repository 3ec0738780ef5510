//! Why the configuration cannot be used.

/// A configuration that cannot be used. The message says where and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file '{path}': {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The file has lost all that it said.
    #[error("'{path}' is empty and was not: write [overrides] into it if no tenant shall have any")]
    Emptied {
        /// The file.
        path: String,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// What the parser says.
        reason: String,
    },
    /// The file is YAML.
    #[error("'{path}' is YAML, and Sandur reads TOML; docs/reference/options.md lists all options{keys}")]
    Yaml {
        /// The file.
        path: String,
        /// What its keys are called here, a line each.
        keys: String,
    },
    /// Nothing here has this name, but something elsewhere.
    #[error("{place}: unknown key '{name}', here {ours}")]
    Foreign {
        /// Where it stands.
        place: String,
        /// The name.
        name: String,
        /// What it is called here.
        ours: String,
    },
    /// Nothing has this name.
    #[error("{place}: unknown key '{name}'{}", hint(.nearest))]
    Unknown {
        /// Where it stands.
        place: String,
        /// The name.
        name: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// The value is not what the option takes.
    #[error("{place}: {name}: {reason}")]
    Value {
        /// Where it stands.
        place: String,
        /// The option.
        name: String,
        /// What is accepted.
        reason: String,
    },
}

impl Error {
    /// Whether what was typed is wrong, not a file or the environment.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Value { place, .. } if place == COMMAND_LINE)
    }
}

/// The place of flags.
pub const COMMAND_LINE: &str = "command line";

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; docs/reference/options.md lists all options".to_owned(),
    }
}
