//! Generated input, and measurements.
//!
//! **What it is.** [`services`] generates the logs of a small shop: several services in text, logfmt and
//! JSON, with levels, trace ids, structured metadata and incidents, reproducible by seed. [`push_body`]
//! encodes them as pushes, [`pack`] stores pushes in files, [`live`] sends them to a server in real
//! time, [`distant`] simulates a remote bucket with latency and errors, and [`run`] measures a server:
//! alone, compared with rivals, or over that bucket.
//!
//! **What it is not.** It is not part of the product: the server only uses [`services`] and
//! [`push_body`], for the data of `sandur demo`. Everything else requires the feature `measure`, which
//! the server does not enable. It does not judge: it prints medians and spreads, which can only be
//! compared with other figures of the same machine and hour.
//!
//! **Life of a measurement.** [`run::alone`] generates a data set, starts the server on an empty
//! directory, pushes over several connections, waits until the server is idle, sends queries, and reads
//! the server's CPU time, memory and disk use from the kernel. [`run::rivals`] has an external program
//! do the same for several servers one after the other, and collects its results.
//!
//! **Invariants.** The data of a second depends only on seed and second, so it does not matter in which
//! pieces and in which order it is requested. `services` depends only on `model`.

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
