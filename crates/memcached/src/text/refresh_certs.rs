//! refresh_certs: reads certificates and keys again.

use crate::next::Next;

use super::call::{Call, Command};

/// The command `refresh_certs`.
pub(crate) struct RefreshCerts;

impl Command for RefreshCerts {
    const NAME: &'static str = "refresh_certs";
    const ABOUT: &'static str = "reads certificates and keys again";

    fn run(call: &mut Call<'_>) -> Next {
        match call.context.server.refresh_certificates() {
            Ok(()) => call.answer(b"OK"),
            Err(error) => {
                let line = format!("ERROR {error}");
                call.answer(line.as_bytes())
            }
        }
    }
}
