//! The target of `inspect` and `check`: a store, or one object of a store or of the file system.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use clap::{Arg, Command};
use sandur_runtime::Env;
use sandur_store::{Access, Intent, Store, StoreOptions};
use sandur_terminal::Failed;

/// Adds `--store`.
pub fn store_argument(command: Command) -> Command {
    let store = Arg::new("store").long("store").value_name("URL").default_value("./sandur-data");
    command.arg(store.help("The store: a directory, or s3://, gs:// or az:// as for serve"))
}

/// Opens a store for reading, even while a server has it open.
pub async fn open_store(url: &str, env: &Env) -> Result<Store, Failed> {
    must_be_there(url)?;
    let options = StoreOptions { access: Access::ReadOnly, probe: false, ..StoreOptions::default() };
    Store::open(url, env.clone(), options).await.map_err(|e| Failed::new(e.to_string()))
}

/// Opens a store exclusively, for a change that other processes must not see half done: a directory is
/// locked.
pub async fn open_store_alone(url: &str, env: &Env) -> Result<Store, Failed> {
    must_be_there(url)?;
    Store::open(url, env.clone(), StoreOptions::default()).await.map_err(|e| Failed::new(e.to_string()))
}

/// Fails for a directory that does not exist, which opening would create.
fn must_be_there(url: &str) -> Result<(), Failed> {
    match Store::directory_of(url).map_err(|e| Failed::new(e.to_string()))? {
        Some(path) if !path.is_dir() => {
            Err(Failed::new(format!("'{}' is not a directory: name the store with --store", path.display())))
        }
        _ => Ok(()),
    }
}

/// An object that is read in ranges.
pub struct Object {
    /// Its path, for messages.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    place: Place,
}

enum Place {
    File(File),
    Store(Store),
}

impl Object {
    /// A file of the file system.
    pub fn file(path: &str) -> Result<Self, Failed> {
        let failed = |e: std::io::Error| Failed::new(format!("cannot read '{path}': {e}"));
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_owned(), size, place: Place::File(file) })
    }

    /// An object of a store; `None` when it does not exist.
    pub async fn stored(store: &Store, path: &str) -> Result<Option<Self>, Failed> {
        let head = store.head(path, Intent::block()).await.map_err(|e| Failed::new(e.to_string()))?;
        Ok(head.map(|info| Self::known(store, path, info.size)))
    }

    /// An object of a known size.
    pub fn known(store: &Store, path: &str, size: u64) -> Self {
        Self { path: path.to_owned(), size, place: Place::Store(store.clone()) }
    }

    /// Reads a range of bytes.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, String> {
        match &self.place {
            Place::Store(store) => {
                store.get_range(&self.path, range, Intent::block()).await.map_err(|e| e.to_string())
            }
            Place::File(file) => {
                let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
                file.read_exact_at(&mut bytes, range.start).map_err(|e| format!("'{}': {e}", self.path))?;
                Ok(bytes.into())
            }
        }
    }

    /// Reads all bytes.
    pub async fn read_all(&self) -> Result<Bytes, String> {
        if self.size == 0 {
            return Ok(Bytes::new());
        }
        self.read(0..self.size).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of a `file://` URL must be decoded.
    #[test]
    fn the_directory_of_a_url_is_percent_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my data");
        let url = format!("file://{}", path.display().to_string().replace(' ', "%20"));
        assert!(must_be_there(&url).unwrap_err().message().contains("my data' is not a directory"));
        std::fs::create_dir(&path).unwrap();
        assert!(must_be_there(&url).is_ok() && must_be_there("s3://bucket").is_ok());
        let wrong = must_be_there("file:///my%2").unwrap_err();
        assert!(wrong.message().contains("broken %-escape"), "{}", wrong.message());
    }
}
