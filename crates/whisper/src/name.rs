//! The metric of a file's name, in the schemes of carbon and go-carbon.
//!
//! `a/b/c.wsp` is `a.b.c`. The file of a tagged metric is below `_tagged`, in two folders named by its
//! hash, with `_DOT_` for each dot: `_tagged/1ab/2cd/cpu_DOT_load;host=a.wsp` is `cpu.load;host=a`.

/// The extension of whisper's files.
const ENDING: &str = ".wsp";
/// The folder of tagged metrics.
const TAGGED: &str = "_tagged";
/// The number of characters of a hash that replaces a name.
const HASH_CHARACTERS: usize = 64;

/// Why a file's name is not that of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It does not have the extension of whisper's files.
    #[error("its name does not end with .wsp")]
    Ending,
    /// Nothing precedes the extension.
    #[error("its name is empty")]
    Empty,
    /// It is below `_tagged`, but not in the form that carbon uses.
    #[error("it is below _tagged, but not of the form _tagged/abc/def/NAME;TAG=VALUE.wsp")]
    Tagged,
    /// It is only the hash of the metric.
    #[error(
        "its name is the hash of a tagged metric (carbon's TAG_HASH_FILENAMES, go-carbon's hash-filenames), \
         from which the metric cannot be found: rename it to its metric with _DOT_ for each dot"
    )]
    Hashed,
}

/// Returns the metric of a file, from the parts of its path below the tree's root folder.
pub fn metric_of(parts: &[&str]) -> Result<String, NameError> {
    let (file, folders) = parts.split_last().ok_or(NameError::Empty)?;
    let name = file.strip_suffix(ENDING).ok_or(NameError::Ending)?;
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    match folders {
        [TAGGED, _, _] if name.contains(';') => Ok(name.replace("_DOT_", ".")),
        [TAGGED, _, _] if is_hash(name) => Err(NameError::Hashed),
        [TAGGED, ..] => Err(NameError::Tagged),
        folders => {
            let mut metric = folders.join(".");
            if !metric.is_empty() {
                metric.push('.');
            }
            metric.push_str(name);
            Ok(metric)
        }
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == HASH_CHARACTERS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_become_metrics() {
        let hash = format!("{}.wsp", "0123456789abcdef".repeat(4));
        for (path, metric) in [
            ("a/b/c.wsp", Ok("a.b.c")),
            ("single.wsp", Ok("single")),
            ("_tagged/1ab/2cd/cpu_DOT_load;host=a_DOT_b.wsp", Ok("cpu.load;host=a.b")),
            ("a/b/c.txt", Err(NameError::Ending)),
            ("a/.wsp", Err(NameError::Empty)),
            ("_tagged/1ab/cpu;host=a.wsp", Err(NameError::Tagged)),
            ("_tagged/1ab/2cd/cpu.wsp", Err(NameError::Tagged)),
            (&*format!("_tagged/012/345/{hash}"), Err(NameError::Hashed)),
        ] {
            let parts: Vec<&str> = path.split('/').collect();
            assert_eq!(metric_of(&parts), metric.map(str::to_owned), "{path}");
        }
    }
}
