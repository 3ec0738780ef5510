//! Refuses a file that another program wrote, before anything in it is changed.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::format::is_root;
use super::layout::ROOTS;
use super::options::FlashError;
use crate::device::{BLOCK, FilePart};

/// Bytes at the start of a device that hold its roots.
const LOOKED_AT: u64 = ROOTS[1] + BLOCK;

/// Fails if the first part exists and begins with something other than zeros or a root. The other parts have
/// no mark of their own.
pub(crate) fn refuse_foreign(parts: &[FilePart]) -> Result<(), FlashError> {
    let Some(FilePart { path, .. }) = parts.first() else { return Ok(()) };
    let begin = match start_of(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let is_ours = begin.chunks(BLOCK as usize).any(is_root);
    match is_ours || begin.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(FlashError::Foreign { path: path.display().to_string() }),
    }
}

fn start_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut begin)?;
    Ok(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flash");
        let parts = [FilePart { path: path.clone(), bytes: 64 << 20 }];
        assert!(refuse_foreign(&[]).is_ok() && refuse_foreign(&parts).is_ok(), "a missing file");
        let mut second = vec![0xff; 2 * BLOCK as usize];
        second[BLOCK as usize..][..8].copy_from_slice(b"SNDCACHE");
        for (content, is_accepted) in [
            (vec![], true),
            (vec![0; 100], true),
            (b"SNDCACHE and more".to_vec(), true),
            (second, true),
            (b"a diary".to_vec(), false),
            ([vec![0; 3 * BLOCK as usize], b"a diary".to_vec()].concat(), true),
        ] {
            std::fs::write(&path, &content).unwrap();
            let refused = refuse_foreign(&parts);
            assert_eq!(refused.is_ok(), is_accepted, "{refused:?}");
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
    }
}
