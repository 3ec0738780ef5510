//! The control file of the package: its name, version, architecture and dependencies.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::output;

/// What is known of a program that is packaged.
#[derive(Debug, PartialEq, Eq)]
pub struct Control {
    version: String,
    architecture: String,
    /// The newest version of the C library whose symbols the program needs.
    c_library: (u32, u32),
}

impl Control {
    /// Reads a program.
    pub fn of(program: &Path) -> Result<Self> {
        let printed = output(Command::new(program).arg("--version"))?;
        let version = version_of(&printed).with_context(|| format!("'{printed}' has no version"))?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
        let bytes = fs::read(program).with_context(|| program.display().to_string())?;
        let Some(c_library) = c_library_of(&bytes) else {
            bail!("{} is not linked with the GNU C library", program.display());
        };
        Ok(Self { version, architecture, c_library })
    }

    /// The name of the package's file without its ending.
    pub fn name(&self) -> String {
        format!("sandur_{}_{}", self.version, self.architecture)
    }

    /// The control file. `kibibytes` is the installed size.
    pub fn text(&self, kibibytes: u64) -> String {
        let Self { version, architecture, c_library: (major, minor) } = self;
        format!(
            "Package: sandur\n\
             Version: {version}\n\
             Architecture: {architecture}\n\
             Maintainer: The maintainers of Sandur <sandur@localhost>\n\
             Installed-Size: {kibibytes}\n\
             Depends: libc6 (>= {major}.{minor}), libgcc-s1\n\
             Recommends: ca-certificates\n\
             Section: database\n\
             Priority: optional\n\
             Description: database for logs, Prometheus metrics and Graphite metrics\n \
             One program that stores logs and metrics in a bucket or a local directory. It\n \
             understands the protocols of Loki, Prometheus, Graphite, OpenTelemetry and\n \
             memcached, and answers every query in bounded memory.\n"
        )
    }
}

/// The version in the output of `--version`, such as `sandur 0.1.0 (...)`.
fn version_of(printed: &str) -> Option<String> {
    let version = printed.split_whitespace().nth(1)?;
    let is_version = version.starts_with(|first: char| first.is_ascii_digit());
    is_version.then(|| version.to_owned())
}

/// The newest `GLIBC_X.Y` in the bytes of a program: the names of versions of symbols are plain text in it.
fn c_library_of(program: &[u8]) -> Option<(u32, u32)> {
    const NAME: &[u8] = b"GLIBC_";
    let starts = program.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let versions = starts.filter_map(|(at, _)| {
        let rest = &program[at + NAME.len()..];
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (major, minor) = std::str::from_utf8(&rest[..end.min(16)]).ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_is_needed() {
        let program = b"\x7fELF\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.3.4\0GLIBC_PRIVATE\0GLIBC_2.28\0x";
        assert_eq!(c_library_of(program), Some((2, 34)));
        assert_eq!(c_library_of(b"\x7fELF static"), None);
    }

    #[test]
    fn the_control_file_has_the_fields_that_dpkg_requires() {
        assert_eq!(version_of("sandur 0.1.0 (abc)\n").as_deref(), Some("0.1.0"));
        assert_eq!(version_of("sandur\n"), None);
        let architecture = "amd64".to_owned();
        let control = Control { version: "0.1.0".to_owned(), architecture, c_library: (2, 34) };
        assert_eq!(control.name(), "sandur_0.1.0_amd64");
        let text = control.text(7);
        for line in
            ["Package: sandur", "Version: 0.1.0", "Depends: libc6 (>= 2.34), libgcc-s1", "Installed-Size: 7"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(
            text.lines()
                .skip_while(|line| !line.starts_with("Description"))
                .skip(1)
                .all(|l| l.starts_with(' '))
        );
    }
}
