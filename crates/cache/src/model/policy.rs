//! What the simulator asks of any cache.

use super::drops::Drops;
use super::request::Request;

/// A cache under simulation.
pub trait Policy {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Whether a read finds its value.
    fn read(&mut self, request: &Request) -> bool;
    /// A write, or what a read that missed brought from the store.
    fn put(&mut self, request: &Request);
    /// What was evicted so far.
    fn drops(&self) -> Drops;
    /// Bytes written into the cache so far.
    fn written_bytes(&self) -> u64;
    /// Those of them that were in the cache already, and were written again to stay.
    fn rewritten_bytes(&self) -> u64 {
        0
    }
}
