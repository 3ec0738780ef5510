//! The state file of `--resume`: the files that are stored.
//!
//! It has one line per file, which is appended when the server has acknowledged the complete file. If an
//! interruption truncates or loses a line, the file is sent again, which stores no duplicates.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use sandur_terminal::Failed;
use xxhash_rust::xxh3::Xxh3;

use super::tree::Found;

/// Start of the file, followed by the address of the server.
const HEAD: &str = "sandur import whisper 1 ";
/// Maximum length of a line; paths are shorter on every system.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The files that this and earlier imports stored.
pub struct State {
    file: Option<File>,
    known: HashSet<u128>,
}

impl State {
    /// Remembers nothing.
    pub fn none() -> Self {
        Self { file: None, known: HashSet::new() }
    }

    /// Reads the state of an import to this server. If there is no file, nothing is stored.
    pub fn load(path: &Path, server: &str) -> Result<Self, Failed> {
        let failed = |what: String| Failed::new(format!("the state file '{}': {what}", path.display()));
        let unreadable = |error: std::io::Error| failed(format!("cannot be used: {error}"));
        let file = File::options().create(true).read(true).append(true).open(path).map_err(unreadable)?;
        let busy = |_| failed("another import uses it: wait for it, or name another file".to_owned());
        file.try_lock().map_err(busy)?;
        let mut reader = BufReader::new(&file);
        let (mut line, mut known, mut is_first) = (Vec::new(), HashSet::new(), true);
        let mut ends_whole = true;
        loop {
            line.clear();
            let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            ends_whole = line.ends_with(b"\n");
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if is_first && !ends_whole && format!("{HEAD}{server}").as_bytes().starts_with(text) {
                file.set_len(0).map_err(unreadable)?;
                break;
            }
            if std::mem::take(&mut is_first) {
                let to = text.strip_prefix(HEAD.as_bytes());
                let to = to.ok_or_else(|| failed("is not one of an import of whisper".to_owned()))?;
                if to != server.as_bytes() {
                    let to = String::from_utf8_lossy(to);
                    return Err(failed(format!(
                        "belongs to an import to {to}: name another file for {server}"
                    )));
                }
            } else if ends_whole {
                known.insert(hash(text));
            }
        }
        let mut state = Self { file: Some(file), known };
        match (is_first, ends_whole) {
            (true, _) => state.append(format!("{HEAD}{server}\n").as_bytes()).map_err(unreadable)?,
            (_, false) => state.append(b"\n").map_err(unreadable)?,
            _ => {}
        }
        Ok(state)
    }

    /// Whether the file is stored and has not changed.
    pub fn has(&self, name: &str, found: &Found) -> bool {
        self.file.is_some() && self.known.contains(&hash(line(name, found).as_bytes()))
    }

    /// Remembers files that are stored.
    pub fn note<'a>(&mut self, files: impl Iterator<Item = (&'a str, &'a Found)>) -> Result<(), Failed> {
        if self.file.is_none() {
            return Ok(());
        }
        let lines: String = files.map(|(name, found)| line(name, found) + "\n").collect();
        self.append(lines.as_bytes()).map_err(|e| Failed::new(format!("cannot write the state file: {e}")))
    }

    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }
}

/// Formats size, modification time and name; the name is escaped.
fn line(name: &str, found: &Found) -> String {
    format!("{} {} {}", found.size, found.modified_ns, name.escape_default())
}

fn hash(line: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(line);
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(size: u64) -> Found {
        Found { path: "x".into(), size, modified_ns: 5 }
    }

    #[test]
    fn files_are_known_until_they_change_and_truncated_lines_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut state = State::load(&path, "http://a").unwrap();
        state.note([("a\nb", &found(1)), ("c", &found(2))].into_iter()).unwrap();
        assert!(
            State::load(&path, "http://a").is_err_and(|e| e.message().contains("another import uses it"))
        );
        drop(state);
        let state = State::load(&path, "http://a").unwrap();
        assert!(state.has("a\nb", &found(1)) && state.has("c", &found(2)));
        assert!(!state.has("c", &found(3)) && !state.has("a", &found(1)));
        drop(state);
        let text = std::fs::read(&path).unwrap();
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            if let Ok(mut state) = State::load(&path, "http://a") {
                assert!(!state.has("c", &found(2)), "{cut}");
                state.note([("d", &found(4))].into_iter()).unwrap();
                drop(state);
                assert!(State::load(&path, "http://a").unwrap().has("d", &found(4)), "{cut}");
            }
        }
        std::fs::write(&path, &text).unwrap();
        assert!(State::load(&path, "http://b").is_err_and(|e| e.message().contains("http://a")));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(State::load(&path, "http://a").is_err_and(|e| e.message().contains("not one of an import")));
    }
}
