//! The interface between the simulator and any cache policy.

use super::drops::Drops;
use super::request::Request;

/// A cache under simulation.
pub trait Policy {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Whether a read finds its value.
    fn read(&mut self, request: &Request) -> bool;
    /// Handles a write, or a value fetched from the store after a miss.
    fn put(&mut self, request: &Request);
    /// The evictions so far.
    fn drops(&self) -> Drops;
    /// Bytes written into the cache so far.
    fn written_bytes(&self) -> u64;
    /// Those of them that were in the cache already and were written again.
    fn rewritten_bytes(&self) -> u64 {
        0
    }
}
