//! The server in processes of its own that are stopped and killed. One binary, so that one is linked.

mod clean_stops;
mod kills;
mod served;
mod stops;
