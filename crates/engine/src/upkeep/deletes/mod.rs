//! Deletes: lines are hidden from every answer at once and removed from blocks in the background.
//!
//! A delete request is an entry of the catalog. `rules` turns the open requests of a tenant into
//! rules. `logs::touched` decides what they do to a block, from its footer and filters alone. `logs::mask`
//! removes hidden rows from the pages that queries and followers receive. [`process`] starts requests
//! whose cancellation period is over, has their blocks rewritten, and finishes them. [`requests`] is the
//! interface for the API.
//!
//! **Invariants.** From the view that contains a request until the one that finishes it, no page, count
//! or followed row of that view shows a line of it. A request is finished only when every block of its
//! time is clean, which the catalog checks, and every row that was acknowledged before its start is in
//! such a block, which [`process`] waits for. Rewriting a block is a merge with one input. It is
//! committed under the precondition that the input is still in the catalog, so no row is lost and no
//! removed row returns.

mod process;
mod requests;

pub(crate) use process::DeleteProcessor;
pub(crate) use requests::DeleteRequests;
pub use requests::DeleteStatus;
