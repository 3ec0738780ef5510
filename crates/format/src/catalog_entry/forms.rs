//! Versions of blocks and of edits: those that a process reads, and those that processes may write.
//!
//! A registered writer states the versions that it reads at the end of its host name, because programs from
//! before they were stated read every text there, and no further field. What the edits are comes first,
//! because programs from before look for the versions of blocks at the very end.

use std::fmt;

/// A version of the blocks of each signal. A program that reads a version reads all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockForms {
    /// The version of blocks of logs.
    pub logs: u16,
    /// The version of blocks of samples.
    pub samples: u16,
}

/// The version of edits that writers read that state none: the edits 1 to 15.
pub const EDITS_UNSTATED: u16 = 1;
/// The version since which a node describes itself by edit 16.
pub const EDITS_OF_NODES: u16 = 2;
/// The version since which a process owns shards of rules by edit 17.
pub const EDITS_OF_RULES: u16 = 3;
/// The version of edits that this program reads.
pub const EDITS_NEWEST: u16 = EDITS_OF_RULES;

/// The text of a host name that states a version of edits.
pub(super) fn with_edits(host: &str, edits: u16) -> String {
    match edits {
        EDITS_UNSTATED => host.to_owned(),
        _ => format!("{host} [catalog {edits}]"),
    }
}

/// Splits a text into a host name and the version of edits that it states. A text that [`with_edits`] does
/// not write is a host name.
pub(super) fn split_edits(text: &str) -> (&str, u16) {
    let stated = || {
        let (host, edits) = text.strip_suffix(']')?.rsplit_once(" [catalog ")?;
        let edits = edits.parse().ok()?;
        (edits != EDITS_UNSTATED && with_edits(host, edits) == text).then_some((host, edits))
    };
    stated().unwrap_or((text, EDITS_UNSTATED))
}

impl BlockForms {
    /// What writers read that state nothing.
    pub const UNSTATED: Self = Self { logs: 5, samples: 7 };

    /// Whether a process that reads these versions reads `others` too.
    pub fn include(self, others: Self) -> bool {
        self.logs >= others.logs && self.samples >= others.samples
    }

    /// The later version of each signal.
    pub fn or_later(self, others: Self) -> Self {
        Self { logs: self.logs.max(others.logs), samples: self.samples.max(others.samples) }
    }

    /// The text of a host name that states these versions.
    pub(super) fn at_end_of(self, host: &str) -> String {
        format!("{host} [{self}]")
    }

    /// Splits a text into a host name and the versions that it states. A text that [`Self::at_end_of`] does
    /// not write is a host name.
    pub(super) fn split(text: &str) -> (&str, Option<Self>) {
        let stated = || {
            let (host, stated) = text.strip_suffix(']')?.rsplit_once(" [log blocks ")?;
            let (logs, samples) = stated.split_once(", sample blocks ")?;
            let forms = Self { logs: logs.parse().ok()?, samples: samples.parse().ok()? };
            (forms.at_end_of(host) == text).then_some((host, Some(forms)))
        };
        stated().unwrap_or((text, None))
    }
}

impl fmt::Display for BlockForms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log blocks {}, sample blocks {}", self.logs, self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_keeps_its_bytes_whatever_it_ends_with() {
        let forms = BlockForms { logs: 6, samples: 7 };
        assert_eq!(forms.at_end_of("web-1"), "web-1 [log blocks 6, sample blocks 7]");
        let texts = [
            "",
            "web-1",
            "web-1 [log blocks 6, sample blocks 7]",
            " [log blocks 65535, sample blocks 0]",
            "a [log blocks 6, sample blocks 7] [log blocks 8, sample blocks 9]",
            "web-1 [log blocks 06, sample blocks 7]",
            "web-1 [log blocks +6, sample blocks 7]",
            "web-1 [log blocks 65536, sample blocks 7]",
            "web-1 [log blocks 6, sample blocks 7, others 1]",
            "[log blocks 6, sample blocks 7]",
            "\u{e9} [log blocks 6, sample blocks 7]]",
        ];
        let mut stated = 0;
        for text in texts {
            let (host, forms) = BlockForms::split(text);
            assert_eq!(forms.map_or(host.to_owned(), |forms| forms.at_end_of(host)), text);
            stated += usize::from(forms.is_some());
        }
        assert_eq!(stated, 3);
        assert_eq!(BlockForms::split("web-1 [log blocks 6, sample blocks 7]"), ("web-1", Some(forms)));
    }

    #[test]
    fn a_version_of_edits_comes_before_those_of_blocks() {
        let forms = BlockForms { logs: 6, samples: 7 };
        let text = forms.at_end_of(&with_edits("web-1", 2));
        assert_eq!(text, "web-1 [catalog 2] [log blocks 6, sample blocks 7]");
        let (rest, blocks) = BlockForms::split(&text);
        assert_eq!((split_edits(rest), blocks), (("web-1", 2), Some(forms)));
        for text in
            ["web-1", "web-1 [catalog 1]", "web-1 [catalog 02]", "web-1 [catalog 70000]", "[catalog 2]"]
        {
            assert_eq!(split_edits(text), (text, EDITS_UNSTATED));
        }
    }

    #[test]
    fn versions_are_compared_signal_by_signal() {
        let newer = BlockForms { logs: 6, samples: 7 };
        assert!(newer.include(BlockForms::UNSTATED) && !BlockForms::UNSTATED.include(newer));
        let mixed = BlockForms { logs: 5, samples: 8 };
        assert!(!mixed.include(newer) && !newer.include(mixed));
        assert_eq!(mixed.or_later(newer), BlockForms { logs: 6, samples: 8 });
    }
}
