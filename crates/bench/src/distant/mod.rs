//! A simulated remote bucket on this machine: an S3 server on loopback ([`sandur_s3_server::S3Server`])
//! and a proxy ([`Proxy`]) that delays reads, refuses requests and counts them.

mod faults;
mod message;
mod proxy;

pub use faults::{Counted, ProxyFaults};
pub use proxy::Proxy;
