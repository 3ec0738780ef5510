//! What requests cost at a provider, in dollars.
//!
//! The defaults are S3 Standard's list prices in us-east-1 (2026): writes and listings $5.00 and reads
//! $0.40 per million requests, deletes free, and no charge for bytes that stay within the region. Bytes
//! stored are not request costs and are not counted.

use sandur_base::units::GIB;

use crate::operation::Operation;

/// A price table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Dollars for a million writes or listings ("class A").
    pub writes_per_million: f64,
    /// Dollars for a million reads ("class B").
    pub reads_per_million: f64,
    /// Dollars for a million deletes.
    pub deletes_per_million: f64,
    /// Dollars for a GiB that is read.
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
    /// Nothing costs anything: a directory.
    pub const FREE: Self = Self {
        writes_per_million: 0.0,
        reads_per_million: 0.0,
        deletes_per_million: 0.0,
        egress_per_gib: 0.0,
    };

    /// Dollars for one request.
    pub fn of_request(&self, operation: Operation) -> f64 {
        let per_million = match operation {
            Operation::Get | Operation::Head => self.reads_per_million,
            Operation::Put | Operation::Create | Operation::Update => self.writes_per_million,
            Operation::Upload | Operation::List => self.writes_per_million,
            Operation::Delete => self.deletes_per_million,
            // Of local directories.
            Operation::Append | Operation::Open => 0.0,
        };
        per_million / 1e6
    }

    /// Dollars for moving bytes: what is sent to the store is free everywhere.
    pub fn of_bytes(&self, operation: Operation, bytes: u64) -> f64 {
        match operation {
            Operation::Get => self.egress_per_gib * bytes as f64 / GIB as f64,
            _ => 0.0,
        }
    }
}
