//! The settings while options are read, and what is said when they are wrong.

use crate::settings::{Settings, TlsSettings};

/// What an option prints instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    Help,
    Licence,
    Version,
}

/// The command line is wrong: what memcached says, and its exit code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct WrongArguments {
    /// For standard error.
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

/// What is only needed while options are read.
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
