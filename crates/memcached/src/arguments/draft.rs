//! The settings while options are parsed, and the error for invalid options.

use crate::settings::{Settings, TlsSettings};

/// What an option prints instead of starting the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    Help,
    Licence,
    Version,
}

/// The command line is invalid: memcached's error text and exit code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct WrongArguments {
    /// The text for standard error.
    pub text: String,
    /// Exit code: 64 where memcached uses the code of sysexits.h, else 1.
    pub code: u8,
}

impl WrongArguments {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 1 }
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 64 }
    }
}

/// The state that is only needed while options are parsed.
#[derive(Default)]
pub(crate) struct Draft {
    pub settings: Settings,
    pub tls: TlsSettings,
    pub tls_on: bool,
    pub tcp_given: bool,
    pub udp_given: bool,
    pub protocol_given: bool,
    pub print: Option<Print>,
}

/// Sets a field, as an option does.
pub(super) fn set<T>(field: &mut T, value: T) -> Result<(), WrongArguments> {
    *field = value;
    Ok(())
}
