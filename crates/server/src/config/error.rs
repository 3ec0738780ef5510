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
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// What the parser says.
        reason: String,
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

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; docs/reference/options.md lists all options".to_owned(),
    }
}
