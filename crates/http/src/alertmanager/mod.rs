//! The API v2 of Alertmanager, as far as a small site needs it: silences, the alerts that fire, and how
//! receivers are told about them. `amtool` and Grafana's data source for Alertmanager use it.

mod alerts;
mod failed;
mod json;
mod silences;
mod status;

pub use alerts::{ALERTS, GROUPS};
pub use silences::{CREATE, EXPIRE, LIST, ONE};
pub use status::{RECEIVERS, STATUS};
