//! Generated input and measurements.
//!
//! **What it is.** [`services`] makes up the logs of a small shop: several services in text, logfmt
//! and JSON, with levels, trace ids, structured metadata and incidents, the same for the same seed.
//! [`push_body`] turns them into pushes, [`pack`] keeps pushes in files, [`live`] streams them to a
//! server as time passes, [`distant`] is a bucket that is far away and has bad days, and [`run`] measures
//! a server, alone, beside rivals, or over that bucket.
//!
//! **What it is not.** No part of the product: the server only uses [`services`] and [`push_body`], to
//! have something to show in `sandur demo`; the rest is behind the feature `measure`, which the server
//! leaves out. It judges nothing: it prints medians and spreads, which mean something beside other figures
//! of the same machine and hour.
//!
//! **Life of a measurement.** [`run::alone`] generates a data set, starts the server on an empty
//! directory, pushes with several connections, waits until the server is quiet, asks queries, and
//! reads the server's processor time, memory and disk from the kernel. [`run::beside`] has an
//! external program do the same for several servers in turn and gathers its results.
//!
//! **Invariants.** What is generated for a second depends on seed and second alone, so neither the
//! pieces in which it is asked for nor the order matter. `services` depends on nothing but `model`.

#[cfg(feature = "measure")]
pub mod distant;
#[cfg(feature = "measure")]
pub mod http;
#[cfg(feature = "measure")]
pub mod live;
#[cfg(feature = "measure")]
pub mod pack;
pub mod push_body;
#[cfg(feature = "measure")]
pub mod run;
pub mod services;
#[cfg(feature = "measure")]
pub mod websocket;
