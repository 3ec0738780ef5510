//! Stops with a slow device: a long stop is still clean and loses nothing.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sandur_cache::device::{Device, FaultyDevice, ReadRequest};
use sandur_cache::flash::{FlashOptions, Health, Warm};
use sandur_cache::{Answer, Cache, CacheOptions, Put, Read, Stored};
use sandur_runtime::Env;

/// More items than the write buffers and the write-back queue hold together.
const ITEMS: u64 = 60_000;

/// Name of the flash tier's thread that writes records.
const WRITER: &str = "flash-write";

/// A device on which writes of records wait while its gate is closed.
struct Gated {
    device: FaultyDevice,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn over(device: FaultyDevice) -> Arc<Self> {
        Arc::new(Self { device, is_open: Mutex::new(true), opened: Condvar::new() })
    }

    fn set_open(&self, is_open: bool) {
        *self.is_open.lock().unwrap() = is_open;
        self.opened.notify_all();
    }

    fn pass(&self) {
        if std::thread::current().name() != Some(WRITER) {
            return;
        }
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

impl Device for Gated {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read_alignment(&self) -> u64 {
        self.device.read_alignment()
    }

    fn submit(&self, batch: Vec<ReadRequest>) {
        self.device.submit(batch);
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.device.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pass();
        self.device.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.device.discard(offset, length)
    }

    fn expire(&self, patience: u32) -> usize {
        self.device.expire(patience)
    }
}

fn open(device: Arc<Gated>) -> Cache {
    let flash = FlashOptions {
        warm: Warm::Clean,
        // The deadline of a write is five times this, 25 s: longer than the gate is closed.
        read_deadline: Duration::from_secs(5),
        ..FlashOptions::default()
    };
    let options = CacheOptions { memory: 32 << 20, flash: Some(flash), ..CacheOptions::default() };
    let cache = Cache::open_over(&Env::system(1), options, device).unwrap();
    while cache.is_recovering() {
        std::thread::yield_now();
    }
    cache
}

fn health(cache: &Cache) -> Health {
    cache.stats().flash.unwrap().device.health
}

fn value(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(12)
}

fn held(cache: &Cache) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let is_held = |key: &u64| {
        let found = runtime.block_on(cache.get(key.to_string().as_bytes(), &Read::default()).wait());
        found.is_some_and(|item| *item.value == value(*key))
    };
    (0..ITEMS).filter(is_held).count() as u64
}

#[test]
fn a_stop_that_waits_for_slow_writes_is_clean_and_writes_every_item() {
    let device = Gated::over(FaultyDevice::new(64 << 20, 1));
    let cache = open(Arc::clone(&device));
    for key in 0..ITEMS {
        let stored = cache.put(key.to_string().as_bytes(), Bytes::from(value(key)), &Put::default());
        assert!(matches!(stored, Answer::Ready(Stored::Done { .. })));
    }
    device.set_open(false);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| cache.close(Duration::from_secs(3600)));
        // Until the stop has offered as many items as flash accepts while its writes wait.
        while health(&cache) == Health::Ok && cache.backpressure().is_none() {
            std::thread::yield_now();
        }
        let health = health(&cache);
        device.set_open(true);
        stopping.join().unwrap();
        assert_eq!(health, Health::Ok, "no write exceeded its deadline");
    });
    drop(cache);
    let cache = open(Gated::over(device.device.after_kill(1)));
    assert_eq!(held(&cache), ITEMS, "the start recovers what the stop wrote");
}
