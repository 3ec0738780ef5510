//! `stats detail`: counts commands by the prefix of their key.
//!
//! Invariants: when turned off, it costs one load per command. At most [`PREFIXES_MAX`] prefixes are
//! counted and later ones are ignored, so that random keys cannot fill memory.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of distinct prefixes.
const PREFIXES_MAX: usize = 16 << 10;

/// The counts of each prefix.
#[derive(Debug)]
pub(super) struct Prefixes {
    on: AtomicBool,
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<[u8]>, Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

impl Prefixes {
    pub fn new(on: bool, delimiter: u8) -> Self {
        Self { on: AtomicBool::new(on), delimiter, counts: Mutex::default() }
    }

    /// Returns whether commands are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Turns counting on or off; existing counts are kept.
    pub fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Removes all counts.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Counts a get.
    #[inline]
    pub fn get(&self, key: &[u8], hit: bool) {
        self.count(key, |counts| {
            counts.gets += 1;
            counts.hits += u64::from(hit);
        });
    }

    /// Counts a set.
    #[inline]
    pub fn set(&self, key: &[u8]) {
        self.count(key, |counts| counts.sets += 1);
    }

    /// Counts a delete.
    #[inline]
    pub fn delete(&self, key: &[u8]) {
        self.count(key, |counts| counts.deletes += 1);
    }

    #[inline]
    fn count(&self, key: &[u8], change: impl FnOnce(&mut Counts)) {
        if !self.is_on() {
            return;
        }
        let Some(length) = memchr::memchr(self.delimiter, key) else { return };
        let (prefix, mut counts) = (&key[..length], self.lock());
        if let Some(found) = counts.get_mut(prefix) {
            change(found);
        } else if counts.len() < PREFIXES_MAX {
            change(counts.entry(prefix.into()).or_default());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line per prefix.
    pub fn dump(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (prefix, Counts { gets, hits, sets, deletes }) in self.lock().iter() {
            text.extend_from_slice(b"PREFIX ");
            text.extend_from_slice(prefix);
            // writing to a Vec cannot fail
            let _ = write!(text, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
        text.extend_from_slice(b"END\r\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_prefix_while_it_is_on() {
        let prefixes = Prefixes::new(false, b':');
        prefixes.set(b"a:1");
        assert_eq!(prefixes.dump(), b"END\r\n");
        prefixes.turn(true);
        prefixes.set(b"a:1");
        prefixes.get(b"a:2", true);
        prefixes.get(b"a:3", false);
        prefixes.delete(b"a:3");
        prefixes.get(b"noprefix", true);
        assert_eq!(prefixes.dump(), b"PREFIX a get 2 hit 1 set 1 del 1\r\nEND\r\n");
        prefixes.clear();
        assert_eq!(prefixes.dump(), b"END\r\n");
    }

    #[test]
    fn prefixes_are_bounded() {
        let prefixes = Prefixes::new(true, b':');
        for n in 0..PREFIXES_MAX + 10 {
            prefixes.set(format!("{n}:k").as_bytes());
        }
        assert_eq!(prefixes.lock().len(), PREFIXES_MAX);
    }
}
