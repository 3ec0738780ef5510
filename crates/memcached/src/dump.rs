//! `lru_crawler metadump` and `mgdump`: list every key, for warming up other servers.
//!
//! A thread scans the items and fills a buffer of bounded size. It blocks while the client does not
//! read. Only one dump runs at a time.
//!
//! Invariant: when the client disconnects, the thread of its dump ends.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use sandur_cache::{Item, Lookup, Read};

use super::next::Source;
use super::server::Server;
use super::slab_classes::SlabClasses;
use super::watch::push_uri;
use super::words::push_number;

/// The largest number of bytes that are buffered for the client.
const BUFFER_BYTES: usize = 256 << 10;

/// The format in which a key is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With its metadata.
    Metadata,
    /// As an `mg` command.
    Gets,
}

impl Form {
    /// The error if dumps are disabled.
    pub fn refusal(self) -> &'static [u8] {
        match self {
            Self::Metadata => b"ERROR metadump not allowed",
            Self::Gets => b"ERROR key dump not allowed",
        }
    }

    /// The error if other commands were pipelined before a dump.
    pub fn pipelined(self) -> &'static [u8] {
        match self {
            Self::Metadata => b"ERROR cannot pipeline other commands before metadump",
            Self::Gets => b"ERROR cannot pipeline other commands before mgdump",
        }
    }
}

/// A running dump.
pub(super) struct Dump(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    room: Condvar,
    waker: Waker,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    finished: bool,
    abandoned: bool,
}

/// The lock that permits only one dump at a time.
struct Running(Arc<Server>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dumping.store(false, Ordering::Release);
    }
}

impl Dump {
    /// Starts a dump of the classes whose bits are set, or of all. Returns `None` while another dump
    /// runs.
    pub fn start(server: Arc<Server>, classes: Option<u64>, form: Form, waker: Waker) -> Option<Self> {
        if server.dumping.swap(true, Ordering::Acquire) {
            return None;
        }
        let running = Running(server);
        let shared = Arc::new(Shared { state: Mutex::default(), room: Condvar::new(), waker });
        let walker = Arc::clone(&shared);
        // a scan of all items takes long and waits for its client, so it does not run on a worker
        let started = super::process::spawn("dump", move || {
            walker.walk(&running.0, classes, form);
        });
        started.ok().map(|_| Self(shared))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn walk(&self, server: &Server, classes: Option<u64>, form: Form) {
        let mut line = Vec::new();
        server.cache.visit(|key, item| {
            let class = server.classes.class(server.classes.item_bytes(key.len(), item.length, item.flags));
            if classes.is_some_and(|classes| classes & 1 << class == 0) {
                return true;
            }
            line.clear();
            match form {
                Form::Metadata => metadata(key, &About::of(&server.classes, key, item), &mut line),
                Form::Gets => gets(key, &mut line),
            }
            self.push(&line)
        });
        self.walk_flash(server, classes, form);
        let mut state = self.lock();
        state.bytes.extend_from_slice(match form {
            Form::Metadata => b"END\r\n",
            Form::Gets => b"EN\r\n",
        });
        state.finished = true;
        drop(state);
        self.waker.wake_by_ref();
    }

    /// Lists items that are only on flash; items in memory were listed before.
    fn walk_flash(&self, server: &Server, classes: Option<u64>, form: Form) {
        let (mut line, quiet) = (Vec::new(), Read { quiet: true, range: Some(0..0), ..Read::default() });
        server.cache.visit_flash(&mut |found| {
            let class = server.classes.class(server.classes.item_bytes(
                found.key.len(),
                found.record_bytes,
                found.flags,
            ));
            if classes.is_some_and(|classes| classes & 1 << class == 0)
                || matches!(server.cache.get(found.key, &quiet), Lookup::Hit(_))
            {
                return ControlFlow::Continue(());
            }
            line.clear();
            match form {
                Form::Gets => gets(found.key, &mut line),
                Form::Metadata => {
                    let about = About {
                        expires_at: found.expires_at,
                        accessed_at: found.written_at,
                        cas: found.cas,
                        fetched: found.is_fetched,
                        class,
                        bytes: found.record_bytes,
                        flags: found.flags,
                    };
                    metadata(found.key, &about, &mut line);
                }
            }
            if self.push(&line) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }

    /// Appends a line; waits for room. Returns `false` when the client is gone.
    fn push(&self, line: &[u8]) -> bool {
        let mut state = self.lock();
        while state.bytes.len() + line.len() > BUFFER_BYTES && !state.abandoned {
            self.waker.wake_by_ref();
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes.extend_from_slice(line);
        !state.abandoned
    }
}

impl Source for Dump {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let mut state = self.0.lock();
        out.append(&mut state.bytes);
        self.0.room.notify_one();
        !state.finished
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.room.notify_one();
    }
}

/// The metadata of an item that a line shows.
struct About {
    expires_at: u32,
    accessed_at: u32,
    cas: u64,
    fetched: bool,
    class: usize,
    bytes: u64,
    flags: u32,
}

impl About {
    fn of(classes: &SlabClasses, key: &[u8], item: &Item) -> Self {
        let bytes = classes.item_bytes(key.len(), item.length, item.flags);
        Self {
            expires_at: item.expires_at,
            accessed_at: item.meta.accessed_at,
            cas: item.cas,
            fetched: item.meta.fetched,
            class: classes.class(bytes),
            bytes,
            flags: item.flags,
        }
    }
}

fn metadata(key: &[u8], about: &About, out: &mut Vec<u8>) {
    out.extend_from_slice(b"key=");
    push_uri(out, key);
    out.extend_from_slice(b" exp=");
    match about.expires_at {
        0 => out.extend_from_slice(b"-1"),
        at => push_number(out, u64::from(at)),
    }
    let fetched = if about.fetched { "yes" } else { "no" };
    let About { accessed_at, cas, class, bytes, flags, .. } = about;
    let rest =
        format!(" la={accessed_at} cas={cas} fetch={fetched} cls={class} size={bytes} flags={flags} \n");
    out.extend_from_slice(rest.as_bytes());
}

fn gets(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"mg ");
    // a key that cannot be in a command line was given in base 64
    if key.iter().any(|byte| *byte <= b' ' || *byte == 127) {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}
