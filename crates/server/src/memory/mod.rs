//! Memory of the process: shares of the one limit, and the governor that keeps resident memory below it.
//!
//! Three nets, one beneath the other. **Reservations**: what is proportional to data is taken from the budget
//! of its share before it is used ([`Shares`]). **Accounts**: the allocator charges the query that runs, so a
//! query that holds more than its budget fails although it was not reserved (`sandur_base::account`). **The
//! governor**: near the limit the allocator gives free pages back, the step cache is emptied, bodies wait,
//! and in the end the query that holds most is ended ([`govern`]).

mod governor;
mod shares;

pub use governor::{Governed, govern, tune_allocator};
pub use shares::{BODY_PATIENCE, LIMIT_MIN, RATE_WINDOW, Shares};
