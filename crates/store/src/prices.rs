//! The prices of requests, in dollars.
//!
//! The defaults are the list prices of S3 Standard in us-east-1 (2026): per million requests $5.00 for
//! writes and listings and $0.40 for reads; deletes are free, and so are transfers within the region.
//! Stored bytes are not part of the cost of requests and are not counted.

use sandur_base::units::GIB;

use crate::operation::Operation;

/// A price table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Dollars per million writes and listings ("class A").
    pub writes_per_million: f64,
    /// Dollars per million reads ("class B").
    pub reads_per_million: f64,
    /// Dollars per million deletes.
    pub deletes_per_million: f64,
    /// Dollars per GiB read.
    pub egress_per_gib: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            writes_per_million: 5.0,
            reads_per_million: 0.4,
            deletes_per_million: 0.0,
            egress_per_gib: 0.0,
        }
    }
}

impl Prices {
    /// The prices of a directory: everything is free.
    pub const FREE: Self = Self {
        writes_per_million: 0.0,
        reads_per_million: 0.0,
        deletes_per_million: 0.0,
        egress_per_gib: 0.0,
    };

    /// Dollars per request.
    pub fn of_request(&self, operation: Operation) -> f64 {
        let per_million = match operation {
            Operation::Get | Operation::Head => self.reads_per_million,
            Operation::Put | Operation::Create | Operation::Update => self.writes_per_million,
            Operation::Upload | Operation::List => self.writes_per_million,
            Operation::Delete => self.deletes_per_million,
            // Only local directories have these.
            Operation::Append | Operation::Open => 0.0,
        };
        per_million / 1e6
    }

    /// Dollars for a transfer. Sending data to the store is free at all providers.
    pub fn of_bytes(&self, operation: Operation, bytes: u64) -> f64 {
        match operation {
            Operation::Get => self.egress_per_gib * bytes as f64 / GIB as f64,
            _ => 0.0,
        }
    }
}
