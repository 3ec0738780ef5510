//! Measurements of a server: [`alone`] with our own client, [`rivals`] of it and other servers with an
//! external program, [`cold`] over a remote bucket and then in a [`storm`], [`acks`] with a bucket and their
//! price, [`wide`] queries over very many series, [`churn`] of series over a day, [`dash`]boards under
//! viewers, Graphite's [`paths()`], [`needles`] in much data, [`imports()`] of blocks of Prometheus,
//! [`rules()`] over many series.

mod acks;
mod alone;
mod churn;
mod cold;
mod dash;
mod imports;
mod needles;
mod paths;
mod report;
mod rivals;
mod rules;
mod scrape;
mod series_client;
mod server;
mod storm;
mod tail;
mod wide;

pub use acks::{Acks, acks};
pub use alone::{Alone, alone};
pub use churn::{Churn, ChurnRow, LastHour, churn, churn_table};
pub use cold::{Cold, ColdReport, Measured, cold};
pub use dash::{Dash, DashReport, Dialect, dash};
pub use imports::{ImportRow, Imports, imports, imports_table};
pub use needles::{NeedleReport, NeedleSearch, needles};
pub use paths::{Paths, PathsReport, paths};
pub use report::{Column, Row, median, table};
pub use rivals::{Rivals, rivals};
pub use rules::{Rules, RulesReport, rule_file, rules};
pub use server::{Place, Process, disk_bytes};
pub use storm::{Storm, StormReport, storm};
pub use tail::{FollowerReport, TailLoad, TailReport, tail};
pub use wide::{Wide, WideRow, wide, wide_table};
