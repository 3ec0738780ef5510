//! The memory budgets of a relay: for its queues, for the connections of senders, and for aggregations.
//!
//! **Invariants.** Memory is reserved before it is used, from a separate budget for each of the three,
//! so that none can exhaust the others.

use sandur_memory::MemoryBudget;

/// Bytes of the queues of a stand-alone relay: no effective limit, since every queue is bounded by
/// itself.
const QUEUES_BYTES: u64 = 1 << 40;
/// Bytes of the connections of senders: buffers of 32 KiB for all 4,096 of them.
const SENDERS_BYTES: u64 = 128 << 20;
/// Bytes of aggregations: 200,000 series, each with a name of 100 bytes and one interval, use 161 MB.
const AGGREGATIONS_BYTES: u64 = 256 << 20;

/// The budgets of one relay.
#[derive(Clone, Debug)]
pub struct Memory {
    /// For lines that wait for targets, and for connections to targets.
    pub queues: MemoryBudget,
    /// For connections of senders.
    pub senders: MemoryBudget,
    /// For open intervals of aggregation rules.
    pub aggregations: MemoryBudget,
}

impl Memory {
    /// Returns the budgets of a stand-alone relay.
    pub fn alone() -> Self {
        Self {
            queues: MemoryBudget::root("relay queues", QUEUES_BYTES),
            senders: MemoryBudget::root("relay senders", SENDERS_BYTES),
            aggregations: MemoryBudget::root("relay aggregations", AGGREGATIONS_BYTES),
        }
    }

    /// Returns shares of a budget that others use too: a quarter for queues, and an eighth each for
    /// senders and aggregations. The relay thus never uses more than half.
    pub fn within(budget: &MemoryBudget) -> Self {
        let limit = budget.limit();
        Self {
            queues: budget.child("relay queues", limit / 4),
            senders: budget.child("relay senders", limit / 8),
            aggregations: budget.child("relay aggregations", limit / 8),
        }
    }
}
