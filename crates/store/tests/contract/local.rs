//! Behaviour of local directories only: locking, append files, durability of names, read-only use.

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_runtime::Env;
use sandur_store::{Access, Created, Error, Intent, Store, StoreKind, StoreOptions};

use crate::{open, runtime};

fn read_only() -> StoreOptions {
    StoreOptions { access: Access::ReadOnly, ..StoreOptions::default() }
}

#[test]
fn a_directory_is_held_by_one_store_and_read_by_many() {
    let dir = tempfile::tempdir().unwrap();
    let url = dir.path().join("data").display().to_string();
    runtime().block_on(async {
        let missing = Store::open(&url, Env::system(1), read_only()).await.unwrap_err();
        assert!(missing.to_string().contains("does not exist"), "{missing}");
        let store = open(&url).await;
        assert_eq!(store.url(), format!("file://{url}"));
        assert_eq!(*store.kind(), StoreKind::Local { root: url.clone().into() });
        assert_eq!(store.list("", Intent::gc()).await.unwrap(), vec![], "no lock file, no probe");
        let refusal = Store::open(&url, Env::system(1), StoreOptions::default()).await.unwrap_err();
        assert!(matches!(&refusal, Error::InUse { .. }), "{refusal}");
        store.put("blocks/a", Bytes::from("x"), Intent::block()).await.unwrap();
        let reader = Store::open(&url, Env::system(1), read_only()).await.unwrap();
        assert_eq!(reader.get("blocks/a", Intent::block()).await.unwrap(), "x");
        let refusal = reader.delete("blocks/a", Intent::gc()).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Denied);
        drop(store);
        open(&url).await;
    });
}

#[test]
fn append_files_are_objects_too() {
    let dir = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(&dir.path().display().to_string()).await;
        let file = store.append_file("wal/01A/00000000000000000000").await.unwrap();
        file.append(vec![Bytes::from("frame "), Bytes::from("one ")]).await.unwrap();
        let read = || store.get("wal/01A/00000000000000000000", Intent::wal());
        assert_eq!(read().await.unwrap(), "frame one ");
        file.append(vec![Bytes::from("two")]).await.unwrap();
        assert_eq!((read().await.unwrap(), file.len()), (Bytes::from("frame one two"), 13));
        assert_eq!(store.list_prefixes("wal", Intent::wal()).await.unwrap(), ["01A"]);
        let range = store.get_range("wal/01A/00000000000000000000", 6..9, Intent::wal()).await;
        assert_eq!(range.unwrap(), "one");
        let memory = open("memory://").await;
        let refusal = memory.append_file("wal/x/0").await.err().unwrap();
        assert!(refusal.to_string().contains("only local directories"), "{refusal}");
    });
}

#[test]
fn a_dropped_append_does_not_interleave_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(&dir.path().display().to_string()).await;
        let file = store.append_file("wal/01A/0").await.unwrap();
        for n in 0..50u8 {
            let frame = Bytes::from(vec![n; 64 * 1024]);
            tokio::select! {
                biased;
                _ = file.append(vec![frame]) => {}
                () = tokio::task::yield_now() => {}
            }
        }
        file.append(vec![Bytes::from(vec![50; 64 * 1024])]).await.unwrap();
        let bytes = store.get("wal/01A/0", Intent::wal()).await.unwrap();
        assert_eq!(bytes.len() as u64, file.len());
        let frames: Vec<u8> = bytes
            .chunks(64 * 1024)
            .map(|frame| {
                assert!(frame.iter().all(|b| *b == frame[0]), "a torn frame");
                frame[0]
            })
            .collect();
        assert!(frames.is_sorted() && frames.last() == Some(&50), "{frames:?}");
    });
}

#[test]
fn concurrent_deletes_and_creates_do_not_lose_directories() {
    let dir = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let (store, env) = (open(&dir.path().display().to_string()).await, Env::system(1));
        let tasks = (0..8).map(|n| {
            let store = store.clone();
            env.spawn("churn", async move {
                for round in 0..60 {
                    let path = format!("blocks/t/day/{n}-{round}");
                    if n % 4 == 0 {
                        store.append_file(&path).await.unwrap();
                    } else {
                        let created = store.create(&path, Bytes::from("x"), Intent::block()).await.unwrap();
                        assert_eq!(created, Created::New);
                    }
                    store.delete(&path, Intent::gc()).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.join().await.unwrap();
        }
        assert_eq!(store.list_prefixes("blocks", Intent::gc()).await.unwrap(), Vec::<String>::new());
    });
}
