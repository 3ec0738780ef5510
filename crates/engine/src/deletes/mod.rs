//! Deletes: hiding lines from every answer at once, and removing them from blocks in the background.
//!
//! A delete request is an entry of the catalog. [`rules`] turns the open requests of a tenant into rules;
//! [`touched`] says what they do to a block, from its footer and filters alone; [`mask`] takes hidden rows
//! out of pages on their way to queries and followers. [`process`] starts requests whose time to be
//! cancelled is over, has their blocks rewritten, and finishes them. [`requests`] is what the API calls.
//!
//! **Invariants.** From the view that holds a request until the one that finishes it, no page, count or
//! followed row of that view shows a line of it. A request is finished only when every block of its time is
//! clean, which the catalog checks, and every row that was acknowledged before it was started is in such a
//! block, which [`process`] waits for. Rewriting a block is a merge with one input: committed under the
//! precondition that the input is still there, so nothing is lost and nothing comes back.

mod process;
mod requests;

pub(crate) use process::DeleteProcessor;
pub use requests::DeleteStatus;
