//! The server in separate processes that are stopped and killed. It is one binary, so that only one is
//! linked.

mod clean_stops;
mod kills;
mod served;
mod stops;
