//! Colors on a terminal; none in a pipe or when `NO_COLOR` is set.

use std::io::IsTerminal;

use sandur_runtime::environment;

/// Whether to print colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

/// The role of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Less important.
    Dim,
    /// A name.
    Name,
    /// Good: success, or a hint.
    Good,
    /// A warning.
    Warn,
    /// An error.
    Bad,
    /// A heading.
    Strong,
    /// A match of a filter.
    Match,
}

impl Paint {
    /// Colours if stdout is a terminal.
    pub fn for_stdout() -> Self {
        Self { on: std::io::stdout().is_terminal() && wanted() }
    }

    /// Colours if stderr is a terminal.
    pub fn for_stderr() -> Self {
        Self { on: std::io::stderr().is_terminal() && wanted() }
    }

    /// Whether colors are on.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// With colors, whatever stdout is.
    #[cfg(test)]
    pub fn always() -> Self {
        Self { on: true }
    }

    /// Without colors.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { on: false }
    }

    /// The text in the color of its role.
    pub fn ink(&self, ink: Ink, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Dim => "2",
            Ink::Name => "36",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "31",
            Ink::Strong => "1",
            Ink::Match => "30;43",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The text in the color of a series of a chart; after the last color the first one follows.
    pub fn series(&self, n: usize, text: &str) -> String {
        const CODES: [&str; 8] = ["32", "33", "36", "35", "34", "31", "92", "94"];
        match self.on {
            true => format!("\x1b[{}m{text}\x1b[0m", CODES[n % CODES.len()]),
            false => text.to_owned(),
        }
    }

    /// The role of a log level.
    pub fn of_level(level: &str) -> Option<Ink> {
        match level {
            "error" | "critical" | "fatal" => Some(Ink::Bad),
            "warn" => Some(Ink::Warn),
            "debug" | "trace" => Some(Ink::Dim),
            _ => None,
        }
    }
}

fn wanted() -> bool {
    environment::variable("NO_COLOR").is_none_or(|v| v.is_empty())
}
