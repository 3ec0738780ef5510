//! Data sets in files: packs of encoded pushes, and a manifest.
//!
//! A pack is a sequence of frames, little endian: u32 length of the body, u32 number of lines, u64 bytes
//! of their text, i64 newest timestamp in milliseconds, body. A pack has the streams of some instances
//! in order of time. Several connections send several packs.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::push_body;
use crate::services::{Services, Stream};

/// Bytes of log text in one push.
const PUSH_BYTES: u64 = 1 << 20;
/// Number of packs of a data set.
const PACKS: usize = 4;
/// The largest body in bytes that is accepted when a pack is read.
const BODY_MAX: usize = 256 << 20;

/// The options of a data set to generate.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Seed of the generated services.
    pub seed: u64,
    /// Approximate bytes of log text.
    pub bytes: u64,
    /// Number of instances of each service.
    pub instances: usize,
    /// First second, in seconds since the epoch.
    pub from: i64,
    /// The second after the last one.
    pub to: i64,
}

/// The contents of a data set.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// File names of the packs.
    pub packs: Vec<String>,
    /// Number of lines.
    pub lines: u64,
    /// Bytes of the lines' text.
    pub bytes: u64,
    /// First second, in seconds since the epoch.
    pub from: i64,
    /// The second after the last one.
    pub to: i64,
    /// A trace id that occurs in a few lines.
    pub needle: String,
}

/// One encoded push.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Number of lines in it.
    pub lines: u64,
    /// Bytes of the lines' text.
    pub bytes: u64,
    /// Newest timestamp in milliseconds since the epoch.
    pub newest_ms: i64,
    /// The encoded body.
    pub body: Vec<u8>,
}

/// Writes a data set into a directory, which is created. `progress` is called with the bytes of text so
/// far.
pub fn generate(directory: &Path, wanted: Wanted, mut progress: impl FnMut(u64)) -> io::Result<Manifest> {
    std::fs::create_dir_all(directory)?;
    let services = Services::new(wanted.seed, wanted.instances);
    let rate = rate_for(&services, wanted);
    let mut manifest = Manifest { from: wanted.from, to: wanted.to, ..Manifest::default() };
    let mut files = Vec::new();
    for n in 0..PACKS {
        let name = format!("push-{n}.pack");
        files.push((BufWriter::new(File::create(directory.join(&name))?), Vec::<Stream>::new(), 0u64));
        manifest.packs.push(name);
    }
    for second in wanted.from..wanted.to {
        for stream in services.between(second, second + 1, rate) {
            if manifest.needle.is_empty() && second >= (wanted.from + wanted.to) / 2 {
                manifest.needle = trace_of(&stream);
            }
            let pack = pack_of(&stream);
            let (_, waiting, bytes) = &mut files[pack];
            *bytes += stream.text_bytes();
            match waiting.iter_mut().find(|other| other.labels == stream.labels) {
                Some(other) => other.lines.extend(stream.lines),
                None => waiting.push(stream),
            }
        }
        for (file, waiting, bytes) in files.iter_mut().filter(|(_, _, bytes)| *bytes >= PUSH_BYTES) {
            write_frame(file, &std::mem::take(waiting), &mut manifest)?;
            *bytes = 0;
        }
        progress(manifest.bytes);
    }
    for (mut file, waiting, _) in files {
        if !waiting.is_empty() {
            write_frame(&mut file, &waiting, &mut manifest)?;
        }
        file.flush()?;
    }
    manifest.save(directory)?;
    Ok(manifest)
}

/// Returns the requests per second that give about the wanted bytes.
fn rate_for(services: &Services, wanted: Wanted) -> f64 {
    let seconds = (wanted.to - wanted.from).max(1);
    // samples from the complete time span, since traffic changes over the day
    let samples: Vec<i64> = (0..60).map(|n| wanted.from + seconds * n / 60).collect();
    let text =
        |second: i64| services.between(second, second + 1, 20.0).iter().map(Stream::text_bytes).sum::<u64>();
    let per_second = samples.iter().map(|second| text(*second)).sum::<u64>() as f64 / samples.len() as f64;
    wanted.bytes as f64 / seconds as f64 / per_second.max(1.0) * 20.0
}

/// Distributes instances over the packs, like agents over connections.
fn pack_of(stream: &Stream) -> usize {
    let pod = stream.labels.get("pod").unwrap_or_default();
    let instance = pod.rsplit('-').next().and_then(|n| n.parse::<usize>().ok());
    instance.unwrap_or(0) % PACKS
}

fn trace_of(stream: &Stream) -> String {
    let mut metadata = stream.lines.iter().flat_map(|line| &line.metadata);
    metadata.find(|(name, _)| *name == "trace_id").map(|(_, value)| value.clone()).unwrap_or_default()
}

fn write_frame(file: &mut impl Write, streams: &[Stream], manifest: &mut Manifest) -> io::Result<()> {
    let body = push_body::snappy(streams);
    let lines: u64 = streams.iter().map(|s| s.lines.len() as u64).sum();
    let bytes: u64 = streams.iter().map(Stream::text_bytes).sum();
    let newest = streams.iter().flat_map(|s| s.lines.last()).map(|line| line.timestamp).max().unwrap_or(0);
    file.write_all(&(body.len() as u32).to_le_bytes())?;
    file.write_all(&(lines as u32).to_le_bytes())?;
    file.write_all(&bytes.to_le_bytes())?;
    file.write_all(&(newest / 1_000_000).to_le_bytes())?;
    file.write_all(&body)?;
    manifest.lines += lines;
    manifest.bytes += bytes;
    Ok(())
}

impl Manifest {
    fn save(&self, directory: &Path) -> io::Result<()> {
        let json = serde_json::json!({
            "kind": "logs",
            "packs": self.packs,
            "items": self.lines,
            "raw_bytes": self.bytes,
            "start_ns": self.from * 1_000_000_000,
            "end_ns": self.to * 1_000_000_000,
            "needle": self.needle,
        });
        std::fs::write(directory.join("manifest.json"), format!("{json:#}\n"))
    }

    /// Reads the manifest of a data set: one of ours, or one of the external measuring program.
    pub fn load(directory: &Path) -> io::Result<Self> {
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(directory.join("manifest.json"))?)?;
        let packs = json["packs"].as_array().into_iter().flatten();
        let needle = json["needle"].as_str().or_else(|| json["needles"][0]["uuid"].as_str());
        Ok(Self {
            packs: packs.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            lines: json["items"].as_u64().unwrap_or(0),
            bytes: json["raw_bytes"].as_u64().unwrap_or(0),
            from: json["start_ns"].as_i64().unwrap_or(0) / 1_000_000_000,
            to: json["end_ns"].as_i64().unwrap_or(0) / 1_000_000_000,
            needle: needle.unwrap_or_default().to_owned(),
        })
    }

    /// Returns the paths of the packs of a data set in `directory`.
    pub fn paths(&self, directory: &Path) -> Vec<PathBuf> {
        self.packs.iter().map(|name| directory.join(name)).collect()
    }
}

/// Reads a pack frame by frame.
pub struct PackReader(BufReader<File>);

impl PackReader {
    /// Opens a pack.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::with_capacity(1 << 20, File::open(path)?)))
    }
}

impl Iterator for PackReader {
    type Item = io::Result<Frame>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut head = [0; 24];
        match self.0.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return None,
            Err(error) => return Some(Err(error)),
            Ok(()) => {}
        }
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let length = word(0) as u32 as usize;
        if length > BODY_MAX {
            return Some(Err(io::Error::other(format!("not a pack: it announces a push of {length} bytes"))));
        }
        let mut body = vec![0; length];
        let frame =
            Frame { lines: word(0) >> 32, bytes: word(8), newest_ms: word(16) as i64, body: Vec::new() };
        Some(self.0.read_exact(&mut body).map(|()| Frame { body, ..frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_has_about_the_wanted_size_and_is_reproducible() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let from = 1_795_176_000;
        let wanted = Wanted { seed: 5, bytes: 6 << 20, instances: 4, from, to: from + 600 };
        let made = generate(one.path(), wanted, |_| {}).unwrap();
        generate(two.path(), wanted, |_| {}).unwrap();
        assert!((4 << 20..9 << 20).contains(&made.bytes), "{}", made.bytes);
        assert_eq!(made.needle.len(), 32);
        let read = Manifest::load(one.path()).unwrap();
        assert_eq!((read.lines, read.bytes, &read.packs), (made.lines, made.bytes, &made.packs));
        assert_eq!((read.from, read.to), (from, from + 600));
        let (mut lines, mut bytes) = (0, 0);
        for (path, other) in read.paths(one.path()).iter().zip(read.paths(two.path())) {
            assert_eq!(std::fs::read(path).unwrap(), std::fs::read(other).unwrap());
            for frame in PackReader::open(path).unwrap() {
                let frame = frame.unwrap();
                lines += frame.lines;
                bytes += frame.bytes;
                assert!(frame.bytes < 2 * PUSH_BYTES && frame.newest_ms > from * 1000);
            }
        }
        assert_eq!((lines, bytes), (made.lines, made.bytes));
    }

    #[test]
    fn a_file_that_is_not_a_pack_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, [0xFF; 100]).unwrap();
        assert!(PackReader::open(&path).unwrap().next().unwrap().is_err());
        std::fs::write(&path, [1; 10]).unwrap();
        assert!(PackReader::open(&path).unwrap().next().is_none());
    }
}
