//! The contract of every store, tested over memory, a local directory, the fault-injecting twin, and a
//! real S3 server if `SANDUR_TEST_S3` names one:
//!
//! `SANDUR_TEST_S3=s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1` with
//! `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` in the environment.

#![allow(clippy::unwrap_used, reason = "a failed expectation should end a test")]

mod faults;
mod local;
mod probe;
mod request_limits;
mod suite;

use sandur_runtime::{Env, environment};
use sandur_store::{Store, StoreOptions};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(url: &str) -> Store {
    Store::open(url, Env::system(1), StoreOptions::default()).await.unwrap()
}

#[test]
fn memory_keeps_the_contract() {
    runtime().block_on(async { suite::run(&open("memory://").await).await });
}

#[test]
fn a_local_directory_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/made/on/the/way", dir.path().display());
    runtime().block_on(async { suite::run(&open(&url).await).await });
}

#[test]
fn an_s3_server_keeps_the_contract() {
    let Some(url) = environment::variable("SANDUR_TEST_S3") else {
        eprintln!(
            "skipped: SANDUR_TEST_S3 is not set, so the contract was NOT checked over a real S3 server"
        );
        return;
    };
    runtime().block_on(async { suite::run(&open(&url).await).await });
}
