//! Memory of the process: shares of the one limit, and the governor that keeps resident memory below it.
//!
//! There are three safeguards. **Reservations**: memory proportional to data is reserved from the budget
//! of its share before it is used ([`Shares`]). **Accounts**: the allocator charges the running query, so
//! a query that holds more than its budget fails even if it did not reserve (`sandur_memory::account`).
//! **The governor**: near the limit the allocator returns free pages, caches shrink, request
//! bodies block, and finally the query that holds the most memory is cancelled ([`govern`]).

mod governor;
mod shares;

pub use governor::{Governed, govern, tune_allocator};
pub use shares::{LIMIT_MIN, Shares};
