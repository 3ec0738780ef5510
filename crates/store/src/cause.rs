//! Why one attempt of a request failed.

use std::time::Duration;

/// Why one attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    NotFound,
    /// "Already exists" or a failed precondition. For a create it means that the outcome is unknown.
    Conflict,
    Throttled,
    /// Not sent: the queue of the lane is full, or the tenant's rate is exhausted.
    Busy,
    Unavailable,
    /// The bucket does not exist; a retry does not help.
    NoBucket,
    Timeout(Duration),
    Denied,
    Full,
    /// The process or the machine has no file descriptors or memory left at the moment.
    Short,
    ReadOnly,
    Invalid,
    Length {
        expected: u64,
        found: u64,
    },
    Device,
    /// A file that is being written does not have its name any more.
    Vanished,
    /// The store's directory was replaced by another one.
    Replaced,
    Internal,
}
