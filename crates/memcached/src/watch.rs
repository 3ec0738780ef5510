//! `watch`: sends events as lines to the clients that request them.
//!
//! Invariants: no worker waits for a watcher. Each watcher has a buffer of bounded size; lines that do
//! not fit are counted and reported as `skipped=` once there is room. Without watchers an event costs
//! one load.

use std::io::Write;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The largest number of watchers.
pub(super) const WATCHERS_MAX: usize = 20;

/// A stream of events. The value is its bit in a set of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Stream {
    Fetchers = 1,
    Mutations = 1 << 1,
    Evictions = 1 << 2,
    Deletions = 1 << 3,
    Connections = 1 << 4,
    /// Background work of the flash tier.
    System = 1 << 5,
    /// Accepted, but no event belongs to it.
    Silent = 1 << 6,
}

impl Stream {
    /// Returns the stream that an argument of `watch` names.
    pub fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"fetchers" => Self::Fetchers,
            b"mutations" => Self::Mutations,
            b"evictions" => Self::Evictions,
            b"deletions" => Self::Deletions,
            b"connevents" => Self::Connections,
            b"sysevents" => Self::System,
            b"rawcmds" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => Self::Silent,
            _ => return None,
        })
    }
}

/// An event.
pub(super) enum Event<'a> {
    Get {
        key: &'a [u8],
        status: &'a str,
        class: usize,
        descriptor: i32,
        size: u64,
    },
    Store {
        key: &'a [u8],
        status: &'a str,
        command: &'a str,
        ttl: u32,
        class: usize,
        descriptor: i32,
        size: u64,
    },
    Eviction {
        key: &'a [u8],
        fetched: bool,
        ttl: i64,
        idle: u32,
        class: usize,
        size: u64,
    },
    Deletion {
        key: &'a [u8],
        command: &'a str,
        class: usize,
        size: u64,
    },
    Opened {
        peer: &'a str,
        transport: &'a str,
        descriptor: i32,
    },
    Closed {
        peer: &'a str,
        transport: &'a str,
        reason: &'a str,
        descriptor: i32,
    },
    /// Compaction moved live records out of segments.
    Compacted {
        segments: u64,
        rescues: u64,
    },
    /// Compaction is checking: pages with fewer live bytes than this count as fragmented.
    Fragmentation {
        ratio: f64,
        bytes: u64,
    },
}

impl Event<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        // writing to a Vec cannot fail
        let _ = match self {
            Self::Get { key, status, class, descriptor, size } => {
                out.extend_from_slice(b"type=item_get key=");
                push_uri(out, key);
                write!(out, " status={status} clsid={class} cfd={descriptor} size={size}")
            }
            Self::Store { key, status, command, ttl, class, descriptor, size } => {
                out.extend_from_slice(b"type=item_store key=");
                push_uri(out, key);
                write!(
                    out,
                    " status={status} cmd={command} ttl={ttl} clsid={class} cfd={descriptor} size={size}"
                )
            }
            Self::Eviction { key, fetched, ttl, idle, class, size } => {
                out.extend_from_slice(b"type=eviction key=");
                push_uri(out, key);
                let fetched = if *fetched { "yes" } else { "no" };
                write!(out, " fetch={fetched} ttl={ttl} la={idle} clsid={class} size={size}")
            }
            Self::Deletion { key, command, class, size } => {
                out.extend_from_slice(b"type=deleted key=");
                push_uri(out, key);
                write!(out, " cmd={command} clsid={class} size={size}")
            }
            Self::Opened { peer, transport, descriptor } => {
                let (host, port) = host_and_port(peer);
                write!(out, "type=conn_new rip={host} rport={port} transport={transport} cfd={descriptor}")
            }
            Self::Closed { peer, transport, reason, descriptor } => {
                let (host, port) = host_and_port(peer);
                let _ = write!(out, "type=conn_close rip={host} rport={port} transport={transport} ");
                write!(out, "reason={reason} cfd={descriptor}")
            }
            Self::Compacted { segments, rescues } => {
                write!(out, "type=compact_end segments={segments} rescues={rescues}")
            }
            Self::Fragmentation { ratio, bytes } => {
                write!(out, "type=compact_fraginfo ratio={ratio:.2} bytes={bytes}")
            }
        };
    }
}

/// Splits `tcp:HOST:PORT`. A Unix socket has neither.
fn host_and_port(peer: &str) -> (&str, &str) {
    let rest = match peer.split_once(':') {
        Some(("unix", _)) | None => return ("unix", "0"),
        Some((_, rest)) => rest,
    };
    rest.rsplit_once(':').map_or((rest, "0"), |(host, port)| (host.trim_matches(['[', ']']), port))
}

/// Appends a key with percent-encoding, so that it contains no space and no line end.
pub(super) fn push_uri(out: &mut Vec<u8>, key: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// All watchers.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    /// The union of all watched streams.
    wanted: AtomicU16,
    watchers: Mutex<Vec<Arc<Watcher>>>,
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// One client that watches.
#[derive(Debug)]
pub(super) struct Watcher {
    streams: u16,
    bytes_max: usize,
    lines: Mutex<Lines>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    skipped: u64,
}

/// The counts of watchers that `stats` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchCounts {
    pub watchers: u64,
    pub lines: u64,
    pub sent: u64,
    pub skipped: u64,
}

impl Watchers {
    /// Returns whether a stream is watched.
    #[inline]
    pub fn wants(&self, stream: Stream) -> bool {
        self.wanted.load(Ordering::Relaxed) & stream as u16 != 0
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Watcher>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watcher of a set of streams. `waker` is woken when there are lines. Returns `None` if
    /// there are too many.
    pub fn add(&self, streams: u16, bytes_max: usize, waker: Waker) -> Option<Arc<Watcher>> {
        let mut list = self.list();
        if list.len() >= WATCHERS_MAX {
            return None;
        }
        let watcher = Arc::new(Watcher { streams, bytes_max, lines: Mutex::default(), waker });
        list.push(Arc::clone(&watcher));
        self.note(&list);
        Some(watcher)
    }

    /// Removes a watcher.
    pub fn remove(&self, watcher: &Arc<Watcher>) {
        let mut list = self.list();
        list.retain(|other| !Arc::ptr_eq(other, watcher));
        self.note(&list);
    }

    fn note(&self, list: &[Arc<Watcher>]) {
        let union = list.iter().fold(0, |union, watcher| union | watcher.streams);
        self.wanted.store(union, Ordering::Relaxed);
    }

    /// Sends an event to all watchers of a stream.
    pub fn publish(&self, stream: Stream, event: &Event<'_>, now_ns: i64) {
        let number = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let mut line = Vec::with_capacity(160);
        let (seconds, micros) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000 / 1000);
        // writing to a Vec cannot fail
        let _ = write!(line, "ts={seconds}.{micros} gid={number} ");
        event.write(&mut line);
        line.push(b'\n');
        for watcher in self.list().iter().filter(|watcher| watcher.streams & stream as u16 != 0) {
            if watcher.add(&line) {
                watcher.waker.wake_by_ref();
            } else {
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Moves a watcher's lines to `out`. Returns their number of bytes.
    pub fn take(&self, watcher: &Watcher, out: &mut Vec<u8>) -> usize {
        let mut lines = watcher.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = out.len();
        out.append(&mut lines.bytes);
        if lines.skipped > 0 {
            let _ = writeln!(out, "skipped={}", std::mem::take(&mut lines.skipped));
        }
        self.sent.fetch_add((out.len() - before) as u64, Ordering::Relaxed);
        out.len() - before
    }

    /// Returns the counts that `stats` shows.
    pub fn counts(&self) -> WatchCounts {
        WatchCounts {
            watchers: self.list().len() as u64,
            lines: self.lines.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }
}

impl Watcher {
    fn add(&self, line: &[u8]) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.bytes.len() + line.len() > self.bytes_max {
            lines.skipped += 1;
            return false;
        }
        lines.bytes.extend_from_slice(line);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(key: &[u8]) -> Event<'_> {
        Event::Get { key, status: "found", class: 1, descriptor: 7, size: 4 }
    }

    #[test]
    fn watchers_get_the_streams_they_requested() {
        let watchers = Watchers::default();
        let fetchers = watchers.add(Stream::Fetchers as u16, 1000, Waker::noop().clone()).unwrap();
        let both = watchers
            .add(Stream::Fetchers as u16 | Stream::Evictions as u16, 1000, Waker::noop().clone())
            .unwrap();
        assert!(watchers.wants(Stream::Evictions) && !watchers.wants(Stream::Mutations));
        watchers.publish(Stream::Fetchers, &get(b"a b"), 1_000_001_000);
        let mut out = Vec::new();
        watchers.take(&fetchers, &mut out);
        let line = "ts=1.1 gid=1 type=item_get key=a%20b status=found clsid=1 cfd=7 size=4\n";
        assert_eq!(String::from_utf8(out).unwrap(), line);
        watchers.remove(&both);
        assert!(!watchers.wants(Stream::Evictions));
    }

    #[test]
    fn lines_that_do_not_fit_are_skipped_and_reported() {
        let watchers = Watchers::default();
        let watcher = watchers.add(Stream::Fetchers as u16, 100, Waker::noop().clone()).unwrap();
        for _ in 0..5 {
            watchers.publish(Stream::Fetchers, &get(b"key"), 0);
        }
        let mut out = Vec::new();
        watchers.take(&watcher, &mut out);
        assert!(out.ends_with(b"skipped=4\n"), "{}", String::from_utf8_lossy(&out));
        assert_eq!(watchers.counts().skipped, 4);
        let mut more = Vec::new();
        assert_eq!(watchers.take(&watcher, &mut more), 0);
    }

    #[test]
    fn the_number_of_watchers_is_limited() {
        let watchers = Watchers::default();
        let all: Vec<_> = (0..WATCHERS_MAX + 1).map(|_| watchers.add(1, 1, Waker::noop().clone())).collect();
        assert_eq!(all.iter().flatten().count(), WATCHERS_MAX);
    }
}
