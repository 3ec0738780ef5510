//! A bucket that is far away and has bad days, on this machine: an S3 server on loopback
//! ([`S3Server`]) behind a proxy ([`Proxy`]) that delays reads, refuses requests and counts them.

mod message;
mod proxy;
mod s3;
mod weather;

pub use proxy::Proxy;
pub use s3::{ACCESS, S3Server, SECRET};
pub use weather::{Counted, Weather};
