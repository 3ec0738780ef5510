//! What a process is: one role so far, the server that does everything.

mod engine;
mod listen;
mod scrape;
mod self_logs_shipper;
mod serve;
mod signals;

pub use serve::{Server, environment, serve};
pub use signals::watch as watch_signals;
