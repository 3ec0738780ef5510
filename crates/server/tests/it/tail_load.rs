//! Goal: followers under load lose nothing silently: what each received and what it was told that it lost add
//! up to what was pushed, or it was closed.
//!
//! Method: the real binary, twenty followers of which some do not read until all is pushed, and pushes as
//! fast as the server takes them. `sandur-bench tail` is the same at full size.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use crate::process::Setup;
use sandur_base::Env;
use sandur_bench::run::{TailLoad, tail};

#[test]
fn twenty_followers_lose_nothing_silently() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path());
    let server = setup.with(&["--limits-max-concurrent-tail-requests", "25"]).start();
    let load = TailLoad {
        address: server.address.to_string(),
        readers: 17,
        sleepers: 3,
        bytes_per_second: 0,
        bytes: 8_000_000,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let report = runtime.block_on(tail(&Env::system(1), &load)).unwrap();
    assert_eq!(report.followers.len(), 20);
    assert_eq!(report.lines, 20_000);
    assert!(report.silent_losses().is_empty(), "{}", report.text());
    let whole = report.followers.iter().filter(|f| f.received > 0).count();
    assert!(whole >= 17, "{}", report.text());
    assert_eq!(server.terminate(), Some(0));
}
