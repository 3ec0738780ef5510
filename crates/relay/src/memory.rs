//! The memory of a relay: budgets of its queues, of its senders' connections and of its aggregations.
//!
//! **Invariants.** What waits, what is received and what is computed is reserved before it is held, each from
//! its own budget, so that none of the three takes the others' place.

use sandur_base::MemoryBudget;

/// Bytes of the queues of a relay that runs by itself: more than any has, whose connections are bounded each.
const QUEUES_BYTES: u64 = 1 << 40;
/// Bytes of the connections of its senders: buffers of 32 KiB for all 4,096 of them.
const SENDERS_BYTES: u64 = 128 << 20;
/// Bytes of its aggregations: 200,000 series with 100 bytes of a name and an interval each take 161 MB.
const AGGREGATIONS_BYTES: u64 = 256 << 20;

/// Budgets of one relay.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Of what waits for targets, and of the connections to them.
    pub queues: MemoryBudget,
    /// Of the connections that send to the relay.
    pub senders: MemoryBudget,
    /// Of open intervals.
    pub aggregations: MemoryBudget,
}

impl Memory {
    /// That of a relay that runs by itself.
    pub fn alone() -> Self {
        Self {
            queues: MemoryBudget::root("relay queues", QUEUES_BYTES),
            senders: MemoryBudget::root("relay senders", SENDERS_BYTES),
            aggregations: MemoryBudget::root("relay aggregations", AGGREGATIONS_BYTES),
        }
    }

    /// Shares of a budget that is not the relay's alone: a fourth for queues, an eighth each for senders and
    /// aggregations, so that half of it is never the relay's.
    pub fn within(budget: &MemoryBudget) -> Self {
        let limit = budget.limit();
        Self {
            queues: budget.child("relay queues", limit / 4),
            senders: budget.child("relay senders", limit / 8),
            aggregations: budget.child("relay aggregations", limit / 8),
        }
    }
}
