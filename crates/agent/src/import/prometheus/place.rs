//! Where blocks are: a folder, or a bucket.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sandur_tsdb::{Error, ReadAt};

use super::pieces::{Bucket, Object, Pending, Pieces};

/// Largest file that is read at once: `meta.json` of a block that was compacted from thousands of others.
pub const SMALL_BYTES_MAX: u64 = 64 << 20;
/// Depth of folders in which blocks are searched: tenants of Mimir have a folder each.
pub const DEPTH_MAX: usize = 4;
/// Most blocks of an import.
pub const BLOCKS_MAX: usize = 100_000;

/// The file that marks a block for deletion.
pub const DELETION_MARK: &str = "deletion-mark.json";
/// The file that describes a block.
pub const META: &str = "meta.json";

/// A block that was found.
pub struct Found {
    /// Its folder, for messages.
    pub name: String,
    /// Whether Thanos or Mimir marked it for deletion.
    pub is_marked: bool,
    /// Its files.
    pub files: Files,
}

/// The files of a block.
pub enum Files {
    /// Those below a folder.
    Folder(PathBuf),
    /// Those of a bucket.
    Bucket(Objects),
}

/// The objects of a block.
pub struct Objects {
    /// The bucket.
    pub bucket: Bucket,
    /// The prefix of its objects: empty, or with a slash at the end.
    pub prefix: String,
    /// Names below the prefix, and sizes.
    pub sizes: Vec<(String, u64)>,
    /// The pieces that are in memory.
    pub pieces: Arc<Mutex<Pieces>>,
}

/// A file that is being read.
pub enum Reading {
    /// It was read, or it cannot be read.
    Done(Result<Vec<u8>, String>),
    /// It was requested.
    Requested(Pending),
}

impl Reading {
    /// Waits for the contents.
    pub fn wait(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Done(read) => read,
            Self::Requested(request) => request.wait().map(Vec::from),
        }
    }
}

impl Files {
    /// Begins to read a small file.
    pub fn begin(&self, name: &str) -> Reading {
        let too_large = |size| format!("has {size} bytes, the limit is {SMALL_BYTES_MAX}");
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                let size = match fs::metadata(&path) {
                    Ok(metadata) => metadata.len(),
                    Err(error) => return Reading::Done(Err(error.to_string())),
                };
                if size > SMALL_BYTES_MAX {
                    return Reading::Done(Err(too_large(size)));
                }
                Reading::Done(fs::read(path).map_err(|error| error.to_string()))
            }
            Self::Bucket(objects) => match objects.size(name) {
                None => Reading::Done(Err("is missing".to_owned())),
                Some(size) if size > SMALL_BYTES_MAX => Reading::Done(Err(too_large(size))),
                Some(0) => Reading::Done(Ok(Vec::new())),
                Some(size) => {
                    let path = format!("{}{name}", objects.prefix);
                    Reading::Requested(objects.bucket.begin(&path, 0..size))
                }
            },
        }
    }

    /// The size of a small file, or the largest if it is not known.
    pub fn size_at_most(&self, name: &str) -> u64 {
        match self {
            Self::Folder(_) => SMALL_BYTES_MAX,
            Self::Bucket(objects) => objects.size(name).unwrap_or_default(),
        }
    }

    /// Opens a file, which must exist.
    pub fn open(&self, name: &str) -> Result<BlockFile, String> {
        self.open_if_any(name)?.ok_or_else(|| format!("{name} is missing"))
    }

    /// Opens a file; `None` if it does not exist.
    pub fn open_if_any(&self, name: &str) -> Result<Option<BlockFile>, String> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                match File::open(&path) {
                    Ok(file) => Ok(Some(BlockFile::File(file))),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(format!("{}: {error}", path.display())),
                }
            }
            Self::Bucket(objects) => Ok(objects.open(name).map(BlockFile::Object)),
        }
    }

    /// The names of the files of chunks, in their order.
    pub fn chunks(&self) -> Result<Vec<String>, String> {
        let mut names = match self {
            Self::Folder(folder) => names_in(&folder.join("chunks"))?,
            Self::Bucket(objects) => {
                let names = objects.sizes.iter().filter_map(|(name, _)| name.strip_prefix("chunks/"));
                names.map(str::to_owned).collect()
            }
        };
        names.retain(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()));
        names.sort_unstable();
        // A chunk is referred to by the position of its file. Without one of them, chunks of other series
        // would be read.
        for (name, expected) in names.iter().zip(1u64..) {
            if name.parse() != Ok(expected) {
                return Err(format!("the file of chunks {expected:06} is missing"));
            }
        }
        Ok(names.into_iter().map(|name| format!("chunks/{name}")).collect())
    }

    /// Whether the bucket can no longer be read.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Bucket(objects) if objects.bucket.is_lost())
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("chunks: {error}");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

impl Objects {
    fn size(&self, name: &str) -> Option<u64> {
        self.sizes.iter().find(|(known, _)| known == name).map(|(_, size)| *size)
    }

    fn open(&self, name: &str) -> Option<BlockObject> {
        let file = self.sizes.iter().position(|(known, _)| known == name)?;
        Some(BlockObject {
            bucket: self.bucket.clone(),
            path: format!("{}{name}", self.prefix),
            size: self.sizes[file].1,
            file,
            pieces: Arc::clone(&self.pieces),
        })
    }
}

/// An open file of a block.
pub enum BlockFile {
    /// Of a folder.
    File(File),
    /// Of a bucket.
    Object(BlockObject),
}

/// An object of a block.
pub struct BlockObject {
    bucket: Bucket,
    path: String,
    size: u64,
    file: usize,
    pieces: Arc<Mutex<Pieces>>,
}

impl ReadAt for BlockFile {
    fn size(&self) -> Result<u64, Error> {
        match self {
            Self::File(file) => file.size(),
            Self::Object(object) => Ok(object.size),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        match self {
            Self::File(file) => ReadAt::read_exact_at(file, buffer, offset),
            Self::Object(BlockObject { bucket, path, size, file, pieces }) => {
                // One thread reads, so nothing waits here.
                let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
                Object { bucket, path, size: *size, file: *file }.read(&mut pieces, buffer, offset)
            }
        }
    }
}
