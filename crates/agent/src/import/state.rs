//! The state file of `--resume`: the parts of an import that are stored.
//!
//! It has one line per part, for example a file, which is appended when the server has acknowledged all of
//! it. If an interruption truncates or loses a line, the part is sent again, which stores no duplicates.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use sandur_terminal::Failed;
use xxhash_rust::xxh3::Xxh3;

/// Start of the file, followed by the kind of import, a version and the address of the server.
const HEAD: &str = "sandur import ";
/// Maximum length of a line; paths are shorter on every system.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The parts that this and earlier imports stored.
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
    pub fn load(path: &Path, kind: &str, server: &str) -> Result<Self, Failed> {
        let head = format!("{HEAD}{kind} 1 ");
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
            if is_first && !ends_whole && format!("{head}{server}").as_bytes().starts_with(text) {
                file.set_len(0).map_err(unreadable)?;
                break;
            }
            if std::mem::take(&mut is_first) {
                let to = text.strip_prefix(head.as_bytes());
                let to = to.ok_or_else(|| failed(format!("is not one of an import of {kind}")))?;
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
            (true, _) => state.append(format!("{head}{server}\n").as_bytes()).map_err(unreadable)?,
            (_, false) => state.append(b"\n").map_err(unreadable)?,
            _ => {}
        }
        Ok(state)
    }

    /// Whether the part with this line is stored.
    pub fn has(&self, line: &str) -> bool {
        self.file.is_some() && self.known.contains(&hash(line.as_bytes()))
    }

    /// Remembers parts that are stored, by their lines.
    pub fn note(&mut self, parts: impl Iterator<Item = String>) -> Result<(), Failed> {
        if self.file.is_none() {
            return Ok(());
        }
        let lines: String = parts.map(|line| line + "\n").collect();
        self.append(lines.as_bytes()).map_err(|e| Failed::new(format!("cannot write the state file: {e}")))
    }

    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }
}

fn hash(line: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(line);
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_and_truncated_lines_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut state = State::load(&path, "whisper", "http://a").unwrap();
        state.note(["1 5 a".to_owned(), "2 5 c".to_owned()].into_iter()).unwrap();
        assert!(
            State::load(&path, "whisper", "http://a")
                .is_err_and(|e| e.message().contains("another import uses it"))
        );
        drop(state);
        let state = State::load(&path, "whisper", "http://a").unwrap();
        assert!(state.has("1 5 a") && state.has("2 5 c"));
        assert!(!state.has("3 5 c") && !state.has("1 5 b"));
        drop(state);
        let text = std::fs::read(&path).unwrap();
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            if let Ok(mut state) = State::load(&path, "whisper", "http://a") {
                assert!(!state.has("2 5 c"), "{cut}");
                state.note(["4 5 d".to_owned()].into_iter()).unwrap();
                drop(state);
                assert!(State::load(&path, "whisper", "http://a").unwrap().has("4 5 d"), "{cut}");
            }
        }
        std::fs::write(&path, &text).unwrap();
        assert!(State::load(&path, "whisper", "http://b").is_err_and(|e| e.message().contains("http://a")));
        let other = State::load(&path, "prometheus", "http://a");
        assert!(other.is_err_and(|e| e.message().contains("not one of an import of prometheus")));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(
            State::load(&path, "whisper", "http://a")
                .is_err_and(|e| e.message().contains("not one of an import"))
        );
    }
}
