//! A local file that only grows: the local WAL.
//!
//! An append has happened when it returns: written and fdatasynced, off the I/O threads. A dropped
//! append has either not begun or is completed before the next one begins, so bytes never
//! interleave. After any failure the file is poisoned: the kernel may have dropped dirty pages and
//! would report success next time, so nothing may follow.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_base::Env;
use tokio::sync::Mutex;

use crate::classify::{Failure, cause_of_io};
use crate::error::{Error, Place};
use crate::intent::{Class, Intent};
use crate::operation::Operation;
use crate::request::{Call, Requester};

/// A file that is being appended to.
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

/// What an append file needs from a file; tests put a failing one here.
trait Device: Send {
    fn write_all_vectored(&mut self, pieces: &[Bytes]) -> io::Result<()>;
    fn sync_data(&mut self) -> io::Result<()>;
}

impl Device for File {
    fn write_all_vectored(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = &mut slices[..];
        // Skips leading empty pieces: a write of nothing would look like the end of the device.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }
}

impl AppendFile {
    /// Makes the file, which must not exist, durably; its directories are there.
    pub(crate) async fn begin(requester: Arc<Requester>, path: &str, file: PathBuf) -> Result<Self, Error> {
        let made = requester.env.run_blocking(move || create_durably(&file)).await;
        let durable = Arc::new(AtomicU64::new(0));
        let at = place(&requester, path);
        match made {
            Ok(file) => {
                let writer = Arc::new(Mutex::new(Writer { file: Box::new(file), poison: None }));
                Ok(Self { requester, path: path.to_owned(), writer, durable })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Invalid {
                reason: format!("{at} refused: it exists already; append files have new names"),
            }),
            Err(error) => Err(Failure::new(cause_of_io(&error), error.to_string()).into_error(at, 1)),
        }
    }

    /// Writes the pieces one after the other and makes them durable. After an error the file is
    /// poisoned and takes no more; how much of the last append is in it is unknown.
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
        // The lock goes with the job: whoever drops this future cannot let another one in between.
        let job = move || {
            let outcome = writer.append(&pieces);
            if outcome.is_ok() {
                durable.fetch_add(bytes, Ordering::Release);
            }
            outcome
        };
        let call = append_call(&self.path, bytes);
        let sent = self.requester.meter.sent(&call);
        let outcome = env.run_blocking(job).await;
        let failure = outcome.err().map(|e| Failure::new(cause_of_io(&e), e.to_string()));
        self.requester.meter.transferred(Class::Wal, Operation::Append, bytes);
        sent.answered(env.monotonic().saturating_sub(started), failure.as_ref());
        match failure {
            None => Ok(()),
            Some(failure) => Err(failure.into_error(place(&self.requester, &self.path), 1)),
        }
    }

    /// Durable bytes in the file.
    pub fn len(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file's path in the store.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Writer {
    fn append(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        // Set first: a panic on the way must poison too.
        self.poison = Some("it panicked".to_owned());
        let outcome = self.file.write_all_vectored(pieces).and_then(|()| self.file.sync_data());
        self.poison = outcome.as_ref().err().map(ToString::to_string);
        outcome
    }
}

fn append_call(path: &str, bytes: u64) -> Call<'_> {
    static INTENT: Intent = Intent::wal();
    Call { intent: &INTENT, operation: Operation::Append, path, bytes }
}

fn place(requester: &Requester, path: &str) -> Place {
    requester.place(&append_call(path, 0))
}

fn create_durably(path: &std::path::Path) -> io::Result<File> {
    let directory = path.parent().expect("an object's file is below the store's root");
    let file = OpenOptions::new().append(true).create_new(true).open(path)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::manners::Manners;

    fn requester() -> Arc<Requester> {
        let env = Env::simulated(1, 0);
        Arc::new(Requester::new(Arc::new(InMemory::new()), env, "file:///test".into(), &Manners::default()))
    }

    struct Failing(&'static str);

    impl Device for Failing {
        fn write_all_vectored(&mut self, _: &[Bytes]) -> io::Result<()> {
            if self.0 == "write" { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
        }

        fn sync_data(&mut self) -> io::Result<()> {
            if self.0 == "sync" { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }
    }

    fn over(device: impl Device + 'static) -> AppendFile {
        let writer = Arc::new(Mutex::new(Writer { file: Box::new(device), poison: None }));
        AppendFile { requester: requester(), path: "wal/a/0".into(), writer, durable: Arc::default() }
    }

    #[tokio::test]
    async fn pieces_are_in_the_file_in_order() {
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
        for (device, text) in [("write", "no space left"), ("sync", "device error")] {
            let file = over(Failing(device));
            let first = file.append(vec![Bytes::from("a")]).await.unwrap_err();
            assert!(first.to_string().contains(text), "{first}");
            *file.writer.lock().await = Writer { file: Box::new(Failing("")), ..take(&file).await };
            let second = file.append(vec![Bytes::from("b")]).await.unwrap_err();
            assert!(matches!(second, Error::Poisoned { .. }), "{second}");
            assert_eq!(file.len(), 0);
        }
    }

    async fn take(file: &AppendFile) -> Writer {
        let mut writer = file.writer.lock().await;
        Writer { file: Box::new(Failing("")), poison: writer.poison.take() }
    }
}
