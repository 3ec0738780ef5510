//! A simulated remote bucket on this machine: an S3 server on loopback ([`sandur_s3_server::S3Server`])
//! and a proxy ([`Proxy`]) that delays reads, refuses requests and counts them.

mod message;
mod proxy;
mod weather;

pub use proxy::Proxy;
pub use weather::{Counted, Weather};
