//! The file operations of a spool, behind a trait, so that tests can use a disk that is full or damaged.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A directory of files that are appended to. Calls block.
pub trait Disk: Send + Sync {
    /// Returns the names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Appends bytes to a file, which is created if it does not exist. After an error, any part of the
    /// bytes may have been appended. If another process removed the open file, the error is `NotFound`.
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Reads from an offset until the buffer is full or the file ends. Returns the number of bytes.
    fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Truncates a file to a length.
    fn truncate(&self, name: &str, length: u64) -> io::Result<()>;
    /// Makes appended bytes durable against a loss of power.
    fn sync(&self, name: &str) -> io::Result<()>;
    /// Replaces the contents of a small file atomically.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A directory of the file system.
pub struct Directory {
    path: PathBuf,
    /// Open files, by name.
    open: Mutex<HashMap<String, File>>,
}

impl Directory {
    /// Opens a directory, which is created if it does not exist.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&path)?;
        Ok(Self { path, open: Mutex::default() })
    }

    /// Creates a file. If the directory is missing, because another process removed it, it is created
    /// again.
    fn in_directory<T>(&self, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&self.path)?;
                make()
            }
            outcome => outcome,
        }
    }

    fn with<T>(
        &self,
        name: &str,
        makes: bool,
        call: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.contains_key(name) {
            let options = OpenOptions::new().read(true).append(true).create(makes).clone();
            let opened = || options.open(self.path.join(name));
            let file = if makes { self.in_directory(opened)? } else { opened()? };
            open.insert(name.to_owned(), file);
        }
        match open.get_mut(name) {
            Some(file) => call(file),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.with(name, true, |file| {
            // A file that was unlinked disappears with the process, and with it everything written to
            // it.
            match file.metadata()?.nlink() {
                0 => Err(io::Error::new(io::ErrorKind::NotFound, format!("'{name}' was removed"))),
                _ => file.write_all(bytes),
            }
        })
    }

    fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(name, false, |file| {
            file.seek(SeekFrom::Start(offset))?;
            let mut filled = 0;
            while filled < buffer.len() {
                match file.read(&mut buffer[filled..]) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        })
    }

    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        self.with(name, false, |file| file.set_len(length))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.with(name, false, |file| file.sync_data())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.path.join(format!("{name}.new"));
        self.in_directory(|| std::fs::write(&temporary, bytes))?;
        std::fs::rename(temporary, self.path.join(name))?;
        // The cached handle refers to the file that was replaced.
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        std::fs::remove_file(self.path.join(name))
    }
}
