//! A file of the explorer: its content as it is and compressed, with the headers that it is served with.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;

/// A file that is embedded in the binary.
pub struct File {
    /// Path below `/explore/`.
    pub path: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// Entity tag of the content: `W/"..."`.
    pub tag: &'static str,
    content: &'static [u8],
    /// The content after gzip, from the first request that accepts it on: about 250 KiB for all files.
    packed: OnceLock<Bytes>,
}

/// Makes a file; the table calls this.
pub const fn file(path: &'static str, kind: &'static str, tag: &'static str, content: &'static [u8]) -> File {
    File { path, kind, tag, content, packed: OnceLock::new() }
}

impl File {
    /// The content.
    pub fn content(&self) -> Bytes {
        Bytes::from_static(self.content)
    }

    /// The content after gzip, if a request needed it before.
    pub fn known_packed(&self) -> Option<Bytes> {
        self.packed.get().cloned()
    }

    /// The content after gzip. The first call takes milliseconds of CPU time.
    pub fn packed(&self) -> Bytes {
        self.packed.get_or_init(|| Bytes::from(gzip(self.content))).clone()
    }

    /// Whether the name of the file contains a hash of its content.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let packed = Vec::with_capacity(content.len() / 2);
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::best());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    written.expect("writing to a Vec does not fail")
}
