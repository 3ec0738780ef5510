//! The file of `--rejected`: lines that the server refused, unchanged, so that they can be pushed again.
//! They are synced to disk before a resume point passes them.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use sandur_terminal::Failed;

/// Writes refused lines to a file.
#[derive(Debug)]
pub struct Rejected {
    path: PathBuf,
    file: Option<File>,
}

impl Rejected {
    /// Writes to this file, which is created with the first line.
    pub fn at(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Path of the file, for messages.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Whether `path` is this file.
    pub fn is(&self, path: &std::path::Path) -> bool {
        let same = |own: PathBuf| path.canonicalize().is_ok_and(|path| path == own);
        self.path.canonicalize().is_ok_and(same)
    }

    /// Appends lines and syncs them to disk.
    pub fn keep<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), Failed> {
        let path = &self.path;
        let failed =
            |e: std::io::Error| Failed::new(format!("cannot write '{}' (--rejected): {e}", path.display()));
        if self.file.is_none() {
            let opened = File::options().create(true).append(true).open(path);
            self.file = Some(opened.map_err(failed)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = Vec::new();
        for line in lines {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        file.write_all(&text).and_then(|()| file.sync_data()).map_err(failed)
    }
}
