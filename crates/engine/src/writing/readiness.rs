//! Whether this process can acknowledge pushes.
//!
//! Nothing can be acknowledged when the WAL cannot acknowledge ([`crate::writing::wal::Status`]), or when
//! the catalog is lost. An idle process learns from its heartbeats that a bucket accepts no writes. The
//! state is computed from times when it is read, so that it is correct without a running task.

use crate::error::Error;
use crate::writing::writer::Writer;

impl Writer {
    /// Fails when a push would be refused at once.
    pub(crate) fn admits_pushes(&self) -> Result<(), Error> {
        self.node.expect_catalog()?;
        let (wal, now) = (self.wal(), self.node.env.monotonic());
        let admitted = wal.status().admits(now, self.membership.heartbeats_fail_since());
        admitted.map_err(|error| wal.explained(error))
    }

    /// Fails while nothing can be acknowledged.
    pub(crate) fn acknowledges(&self) -> Result<(), Error> {
        self.node.expect_catalog()?;
        let (wal, now) = (self.wal(), self.node.env.monotonic());
        let able = wal.status().acknowledges(now, self.membership.heartbeats_fail_since());
        able.map_err(|error| wal.explained(error))
    }
}
