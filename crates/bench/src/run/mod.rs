//! Measuring a server: [`alone`] with a client of our own, [`beside`] rivals with an external program.

mod alone;
mod beside;
mod report;
mod server;
mod tail;

pub use alone::{Alone, alone};
pub use beside::{Beside, beside};
pub use report::{Column, Row, median, table};
pub use server::{Place, Process, disk_bytes};
pub use tail::{FollowerReport, TailLoad, TailReport, tail};
