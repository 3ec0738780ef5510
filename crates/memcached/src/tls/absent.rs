//! Replaces TLS in a build without it. No value of its types can exist.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::counts::TlsCounts;
use crate::error::Error;
use crate::read::Read;
use crate::settings::{TlsSettings, TlsUse};

/// The server's certificates.
pub(crate) struct Encryption(Infallible);

/// One encrypted connection.
pub(crate) struct TlsStream(Infallible);

impl Encryption {
    pub fn load(_: &TlsSettings, _: Arc<TlsCounts>) -> Result<Self, Error> {
        Err(Error::Tls { reason: "this program was built without TLS".to_owned() })
    }

    pub fn refresh(&self) -> Result<(), Error> {
        match self.0 {}
    }

    pub fn accept(&self, _: TlsUse) -> Result<TlsStream, Error> {
        match self.0 {}
    }
}

impl TlsStream {
    pub fn read(&mut self, _: BorrowedFd<'_>, _: &mut Vec<u8>) -> io::Result<Read> {
        match self.0 {}
    }

    pub fn write(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match self.0 {}
    }

    pub fn flush(&mut self, _: BorrowedFd<'_>) -> io::Result<bool> {
        match self.0 {}
    }
}
