//! A connection to a target, behind a trait, so that tests can supply their own targets.

use std::io;

use sandur_base::BoxFuture;

/// One connection.
pub trait Connection: Send {
    /// Writes all bytes.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
    /// Completes when the target has closed the connection.
    fn ended(&mut self) -> BoxFuture<'_, ()>;
    /// Tells the target that no more bytes follow.
    fn close(&mut self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
