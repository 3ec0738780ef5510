//! The memory of a relay: budgets of its queues and of its senders' connections.
//!
//! **Invariants.** What waits and what is received is reserved before it is held, each from its own budget,
//! so that neither takes the other's place.

use sandur_base::MemoryBudget;

/// Bytes of the queues of a relay that runs by itself: more than any has, whose connections are bounded each.
const QUEUES_BYTES: u64 = 1 << 40;
/// Bytes of the connections of its senders: buffers of 32 KiB for all 4,096 of them.
const SENDERS_BYTES: u64 = 128 << 20;

/// Budgets of one relay.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Of what waits for targets, and of the connections to them.
    pub queues: MemoryBudget,
    /// Of the connections that send to the relay.
    pub senders: MemoryBudget,
}

impl Memory {
    /// That of a relay that runs by itself.
    pub fn alone() -> Self {
        Self {
            queues: MemoryBudget::root("relay queues", QUEUES_BYTES),
            senders: MemoryBudget::root("relay senders", SENDERS_BYTES),
        }
    }

    /// Shares of a budget that is not the relay's alone: a fourth for queues and an eighth for senders.
    pub fn within(budget: &MemoryBudget) -> Self {
        let limit = budget.limit();
        Self {
            queues: budget.child("relay queues", limit / 4),
            senders: budget.child("relay senders", limit / 8),
        }
    }
}
