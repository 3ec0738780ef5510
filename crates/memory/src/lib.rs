//! Memory that is reserved before it is used, and the work that uses it.
//!
//! **What it is.** Budgets of bytes ([`MemoryBudget`]), measured allocations ([`account`]), and the job that
//! runs on the current thread ([`job`]), which asks its owner whether to continue and how much memory it may
//! use.
//!
//! **What it is not.** It has no clock, no tasks and no I/O, so that crates of plain computation can use it.
//! Budgets whose requests wait are in `sandur_runtime`.
//!
//! **Life of a reservation.** [`MemoryBudget::reserve`] reserves the memory of a query before the query uses
//! it; dropping the [`Reservation`] releases it. Loops over data report their work to [`job`], which stops
//! the job when its result is no longer needed, and reserve memory there ([`job::JobMemory`]).
//!
//! There is one kind of reservation, bytes of a [`MemoryBudget`]; the other types use it:
//!
//! | type | use |
//! |---|---|
//! | [`MemoryBudget`], [`Reservation`] | bytes reserved before they are used; the budget refuses at once |
//! | [`MemoryPool`] | one amount of memory for several budgets: each has a guarantee, the rest is lent |
//! | `FairBudget`, `FairReservation` of `sandur_runtime` | requests wait; fair to tenants and addresses |
//! | [`job::JobMemory`] | bytes that the running job reserves in the budget of its owner |
//! | [`account::Account`] | no reservation: measures the bytes that work allocated |
//!
//! **Example.**
//!
//! ```
//! use sandur_memory::MemoryBudget;
//!
//! let node = MemoryBudget::root("queries", 100);
//! let query = node.child("query", 60);
//! let held = query.reserve(50).expect("60 are allowed");
//! assert!(query.reserve(11).is_err(), "the budget is checked before the memory is used");
//! assert_eq!(node.used(), 50);
//! drop(held);
//! assert_eq!(node.used(), 0);
//! ```
//!
//! **Invariant.** A reservation never exceeds its budget or an ancestor of its budget, except for memory
//! that is allocated already ([`Reservation::resize_anyway`]).

pub mod account;
mod budget;
pub mod job;
mod lenders;
mod pool;
mod units_left;

pub use budget::{MemoryBudget, OverBudget, Reservation};
pub use job::Stopped;
pub use lenders::Lender;
pub use pool::MemoryPool;
