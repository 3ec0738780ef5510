//! A local file that only grows: the local WAL.
//!
//! When an append returns, its bytes are written and fdatasynced (off the I/O threads). An append whose
//! future is dropped either has not begun, or completes before the next one begins, so bytes never
//! interleave. Before an append returns, it checks that the file still has its name, because no reader
//! would find the bytes of a removed file. After any failure the file is poisoned and accepts no more
//! appends: the kernel may have dropped dirty pages and would report success for the next fsync.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_runtime::Env;
use tokio::sync::Mutex;

use crate::call::Call;
use crate::cause::Cause;
use crate::classify::{Failure, cause_of_io};
use crate::error::{Error, Place};
use crate::intent::{Class, Intent};
use crate::operation::Operation;
use crate::request::Requester;

/// A file that is open for appending.
pub struct AppendFile {
    requester: Arc<Requester>,
    path: String,
    writer: Arc<Mutex<Writer>>,
    durable: Arc<AtomicU64>,
}

struct Writer {
    file: Box<dyn Device>,
    poison: Option<String>,
}

/// The file operations that an append file needs; tests replace them by failing ones.
trait Device: Send {
    fn write_all_vectored(&mut self, pieces: &[Bytes]) -> io::Result<()>;
    fn sync_data(&mut self) -> io::Result<()>;
    /// Why the file does not have its name any more; `None` if it has.
    fn misplaced(&mut self) -> io::Result<Option<&'static str>>;
}

/// A file and the path under which it was created.
struct Named {
    file: File,
    path: PathBuf,
}

impl Device for Named {
    fn write_all_vectored(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = &mut slices[..];
        // Skips empty pieces at the beginning: a write of zero bytes would look like the end of the
        // device.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn misplaced(&mut self) -> io::Result<Option<&'static str>> {
        let ours = self.file.metadata()?;
        match std::fs::symlink_metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => Ok(None),
            Ok(_) => Ok(Some("another file is in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("it was removed")),
            Err(error) => Err(error),
        }
    }
}

impl AppendFile {
    /// Creates the file durably. It must not exist; its directories must exist.
    pub(crate) async fn begin(requester: Arc<Requester>, path: &str, file: PathBuf) -> Result<Self, Error> {
        let named = move || create_durably(&file).map(|made| Named { file: made, path: file });
        let made = requester.env.run_blocking(named).await;
        let durable = Arc::new(AtomicU64::new(0));
        let at = place(&requester, path);
        match made {
            Ok(file) => {
                let writer = Arc::new(Mutex::new(Writer { file: Box::new(file), poison: None }));
                Ok(Self { requester, path: path.to_owned(), writer, durable })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Invalid {
                reason: format!("{at} refused: the file exists already; append files need new names"),
            }),
            Err(error) => Err(failed(error).into_error(at, 1)),
        }
    }

    /// Writes the pieces in order and makes them durable. After an error the file is poisoned, and the
    /// part of this append that is in it is unknown.
    pub async fn append(&self, pieces: Vec<Bytes>) -> Result<(), Error> {
        let env: &Env = &self.requester.env;
        let started = env.monotonic();
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        if let Some(reason) = &writer.poison {
            let reason = reason.clone();
            return Err(Error::Poisoned { at: place(&self.requester, &self.path), reason });
        }
        let bytes: u64 = pieces.iter().map(|p| p.len() as u64).sum();
        let durable = Arc::clone(&self.durable);
        // The job owns the lock: dropping this future does not let another append begin.
        let requester = Arc::clone(&self.requester);
        let job = move || {
            if let Some(directory) = &requester.directory
                && !directory.reserve.is_held()
            {
                directory.reserve.hold().map_err(failed)?;
            }
            let outcome = writer.append(&pieces);
            if outcome.is_ok() {
                durable.fetch_add(bytes, Ordering::Release);
            }
            outcome
        };
        let call = append_call(&self.path, bytes);
        let sent = self.requester.meter.sent(&call);
        let outcome = env.run_blocking(job).await;
        let failure = outcome.err();
        self.requester.meter.transferred(Class::Wal, Operation::Append, bytes);
        sent.answered(env.monotonic().saturating_sub(started), failure.as_ref());
        match failure {
            None => Ok(()),
            Some(failure) => Err(failure.into_error(place(&self.requester, &self.path), 1)),
        }
    }

    /// Number of durable bytes in the file.
    pub fn len(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file's path in the store.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Writer {
    fn append(&mut self, pieces: &[Bytes]) -> Result<(), Failure> {
        // Poison first, so that a panic poisons the file too.
        self.poison = Some("it panicked".to_owned());
        let written = self.file.write_all_vectored(pieces).and_then(|()| self.file.sync_data());
        let outcome = match written.and_then(|()| self.file.misplaced()) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(Failure::new(Cause::Vanished, reason)),
            Err(error) => Err(failed(error)),
        };
        self.poison = outcome.as_ref().err().map(|failure| failure.reason.clone());
        outcome
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(cause_of_io(&error), error.to_string())
}

fn append_call(path: &str, bytes: u64) -> Call<'_> {
    static INTENT: Intent = Intent::wal();
    Call { intent: &INTENT, operation: Operation::Append, path, bytes }
}

fn place(requester: &Requester, path: &str) -> Place {
    requester.place(&append_call(path, 0))
}

fn create_durably(path: &std::path::Path) -> io::Result<File> {
    let directory = path.parent().expect("the file of an object is below the root of the store");
    let file = OpenOptions::new().append(true).create_new(true).open(path)?;
    let durable = file.sync_all().and_then(|()| File::open(directory)?.sync_all());
    if let Err(error) = durable {
        // Remove the file, since each attempt uses a new name.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::request_limits::RequestLimits;

    fn requester() -> Arc<Requester> {
        let env = Env::simulated(1, 0);
        Arc::new(Requester::new(
            Arc::new(InMemory::new()),
            env,
            "file:///test".into(),
            &RequestLimits::default(),
        ))
    }

    struct Failing(&'static str);

    impl Device for Failing {
        fn write_all_vectored(&mut self, _: &[Bytes]) -> io::Result<()> {
            if self.0 == "write" { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
        }

        fn sync_data(&mut self) -> io::Result<()> {
            if self.0 == "sync" { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }

        fn misplaced(&mut self) -> io::Result<Option<&'static str>> {
            Ok((self.0 == "name").then_some("it was removed"))
        }
    }

    fn over(device: impl Device + 'static) -> AppendFile {
        let writer = Arc::new(Mutex::new(Writer { file: Box::new(device), poison: None }));
        AppendFile { requester: requester(), path: "wal/a/0".into(), writer, durable: Arc::default() }
    }

    #[tokio::test]
    async fn pieces_are_appended_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0");
        let file = AppendFile::begin(requester(), "wal/a/0", path.clone()).await.unwrap();
        let many: Vec<Bytes> = (0..3_000u32).map(|n| Bytes::from(format!("{n};"))).collect();
        let expected: Vec<u8> = [b"ab".to_vec(), many.concat()].concat();
        file.append(vec![Bytes::new(), Bytes::from("a"), Bytes::new(), Bytes::from("b")]).await.unwrap();
        file.append(many).await.unwrap();
        file.append(Vec::new()).await.unwrap();
        assert_eq!(file.len(), expected.len() as u64);
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        let again = AppendFile::begin(requester(), "wal/a/0", path).await.err().unwrap();
        assert!(again.to_string().contains("exists already"), "{again}");
    }

    #[tokio::test]
    async fn a_failed_write_or_fsync_poisons_the_file() {
        for (device, text) in
            [("write", "no space left"), ("sync", "device error"), ("name", "it was removed")]
        {
            let file = over(Failing(device));
            let first = file.append(vec![Bytes::from("a")]).await.unwrap_err();
            assert!(first.to_string().contains(text), "{first}");
            *file.writer.lock().await = Writer { file: Box::new(Failing("")), ..take(&file).await };
            let second = file.append(vec![Bytes::from("b")]).await.unwrap_err();
            assert!(matches!(second, Error::Poisoned { .. }), "{second}");
            assert_eq!(file.len(), 0);
        }
    }

    /// Two ways to lose the name: the file was removed, or another one has its name.
    #[tokio::test]
    async fn an_append_to_a_removed_or_replaced_file_fails() {
        for replaced in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("0");
            let file = AppendFile::begin(requester(), "wal/a/0", path.clone()).await.unwrap();
            file.append(vec![Bytes::from("a")]).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            if replaced {
                std::fs::write(&path, "a").unwrap();
            }
            let error = file.append(vec![Bytes::from("b")]).await.unwrap_err();
            assert!(matches!(error, Error::Vanished { .. }), "{error}");
            assert_eq!(file.len(), 1, "the failed append does not count as durable");
            assert!(matches!(file.append(vec![Bytes::from("c")]).await, Err(Error::Poisoned { .. })));
        }
    }

    async fn take(file: &AppendFile) -> Writer {
        let mut writer = file.writer.lock().await;
        Writer { file: Box::new(Failing("")), poison: writer.poison.take() }
    }
}
