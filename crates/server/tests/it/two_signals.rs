//! Goal: check and repair know blocks of every signal, and report nothing as sound that they did not
//! read.
//!
//! Method: an engine in this process writes lines and samples into a directory; the real binary checks
//! it, with damaged copies of its objects, and rebuilds its catalog.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // process tests: real time

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use sandur_engine::{Engine, EngineOptions};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, SampleBatch, TenantId};
use sandur_query::{QueryContext, SampleSelection};
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};

const SERIES: u32 = 20;
const SAMPLES: u32 = 1_000;

fn sandur(command: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sandur")).args(command).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), format!("{out}{err}"))
}

/// Runs an engine on the directory: it writes the samples of `writes` and stops; returns how many samples
/// of earlier runs it found before that.
fn live(folder: &Path, writes: Option<i64>) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::system(1);
        let url = format!("file://{}", folder.display());
        let store = Store::open(&url, env.clone(), StoreOptions::default()).await.unwrap();
        let engine = Engine::open(store, env.clone(), EngineOptions::default()).await.unwrap();
        let budget = MemoryBudget::root("a test's query", 64 << 20);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(env, tenant.clone(), budget, Duration::from_secs(3_600));
        let everything = SampleSelection::all(Vec::new(), i64::MIN, i64::MAX);
        let mut scan = engine.sources().samples.select(&context, everything).await.unwrap();
        let mut found = 0;
        while let Some(batch) = scan.next().await.unwrap() {
            found += batch.samples.iter().map(|samples| samples.values.len()).sum::<usize>();
        }
        drop(scan);
        if let Some(from_ms) = writes {
            let mut batch = SampleBatch::new(tenant);
            for series in 0..SERIES {
                let number = series.to_string();
                let labels = Labels::from_pairs([("__name__", "up"), ("instance", &number)]);
                let samples = (0..SAMPLES).map(|n| (from_ms + i64::from(n) * 1_000, f64::from(n)));
                batch.push(Arc::new(labels), samples);
            }
            engine.push(batch).await.unwrap();
        }
        engine.shutdown().await.unwrap();
        found
    })
}

fn blocks(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.join("blocks")];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        match std::fs::read_dir(&path) {
            Ok(listed) => open.extend(listed.map(|entry| entry.unwrap().path())),
            Err(_) => found.push(path),
        }
    }
    found.sort();
    found
}

fn now_ms() -> i64 {
    crate::process::now_ns() / 1_000_000
}

#[test]
fn no_damaged_block_of_samples_is_reported_as_sound() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().to_str().unwrap();
    assert_eq!(live(folder.path(), Some(now_ms() - 10_000_000)), 0);
    let (code, text) = sandur(&["check", "--store", store]);
    assert!(code == Some(0) && text.contains("sound"), "{text}");
    let all = blocks(folder.path());
    let path = all.first().expect("the stop flushed").clone();
    // A flipped bit anywhere, a missing end, the bytes of another block, bytes that are not a block.
    let sound = std::fs::read(&path).unwrap();
    let flipped = (0..40).map(|n| {
        let mut bytes = sound.clone();
        bytes[n * (sound.len() - 1) / 39] ^= 0x10;
        bytes
    });
    let cut = sound[..sound.len() / 2].to_vec();
    let other = std::fs::read(all.last().unwrap()).unwrap();
    let damaged = flipped.chain([cut, vec![7; sound.len()]]).chain((other != sound).then_some(other));
    for bytes in damaged {
        std::fs::write(&path, &bytes).unwrap();
        let (code, text) = sandur(&["check", "--store", store]);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(code == Some(1) && text.contains(name) && !text.contains("sound\n"), "{text}");
    }
}

#[test]
fn a_catalog_with_samples_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().to_str().unwrap();
    live(folder.path(), Some(now_ms() - 10_000_000));
    live(folder.path(), Some(now_ms() - 5_000_000));
    let written = (2 * SERIES * SAMPLES) as usize;
    assert_eq!(live(folder.path(), None), written);
    std::fs::remove_dir_all(folder.path().join("catalog")).unwrap();
    let (code, text) = sandur(&["check", "--store", store]);
    assert!(code == Some(1) && !text.contains("sound\n"), "{text}");
    let (code, text) = sandur(&["repair", "--store", store]);
    assert!(code == Some(0) && text.contains("repaired"), "{text}");
    assert_eq!(live(folder.path(), None), written);
}
