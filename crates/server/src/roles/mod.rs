//! What a process is: one role so far, the server that does everything.

mod listen;
mod serve;
mod signals;

pub use serve::{Server, environment, serve};
pub use signals::watch as watch_signals;
