//! The object names of the catalog, formatted and parsed in one place.
//!
//! Numbers have twenty digits, so that the order of names is the order of numbers.

use sandur_base::Id;

/// Prefix of all objects of the catalog.
pub(crate) const CATALOG: &str = "catalog";
/// Prefix of the checkpoints.
pub(crate) const CHECKPOINTS: &str = "catalog/checkpoints";
/// The boundary object.
pub(crate) const BOUNDARY: &str = "catalog/boundary";
/// The object outside of the log that records its length.
pub(crate) const WITNESS: &str = "witness";
/// Prefix of block objects, by tenant.
pub(crate) const BLOCKS: &str = "blocks";
/// Prefix of WAL objects, by incarnation.
pub(crate) const WAL: &str = "wal";
/// Prefix of heartbeats.
pub(crate) const MEMBERS: &str = "members";

/// The kinds of objects below `catalog/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatalogObject {
    /// Entry `number` of the log.
    Entry { number: u64 },
    /// The root of the checkpoint at `number`.
    Root { number: u64 },
    /// A part of a checkpoint at `number`.
    Part { number: u64 },
    /// The boundary.
    Boundary,
}

impl CatalogObject {
    /// Parses a path; `None` if it is not of the catalog.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        if path == BOUNDARY {
            return Some(Self::Boundary);
        }
        if let Some(name) = path.strip_prefix("catalog/checkpoints/") {
            let number = number(name.get(..20)?)?;
            return match name.get(20..)? {
                ".root" => Some(Self::Root { number }),
                rest if rest.starts_with('-') && rest.ends_with(".part") => Some(Self::Part { number }),
                _ => None,
            };
        }
        let name = path.strip_prefix("catalog/")?;
        Some(Self::Entry { number: number(name)? })
    }
}

pub(crate) fn entry(number: u64) -> String {
    format!("catalog/{number:020}")
}

pub(crate) fn root(number: u64) -> String {
    format!("catalog/checkpoints/{number:020}.root")
}

pub(crate) fn part(number: u64, checkpoint: Id, index: usize) -> String {
    format!("catalog/checkpoints/{number:020}-{checkpoint}-{index:06}.part")
}

pub(crate) fn member(incarnation: Id) -> String {
    format!("{MEMBERS}/{incarnation}")
}

pub(crate) fn wal_of(incarnation: Id) -> String {
    format!("{WAL}/{incarnation}")
}

pub(crate) fn wal_object(incarnation: Id, sequence: u64) -> String {
    format!("{WAL}/{incarnation}/{sequence:020}")
}

/// Parses the sequence number in `wal/<incarnation>/<seq:020>`.
pub(crate) fn wal_sequence(path: &str) -> Option<u64> {
    number(path.rsplit('/').next()?)
}

/// Parses a number of exactly twenty digits.
fn number(text: &str) -> Option<u64> {
    let digits = text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_names_are_parsed_back() {
        let id = Id::from_parts(3, 4);
        let cases = [
            (entry(7), Some(CatalogObject::Entry { number: 7 })),
            (entry(u64::MAX), Some(CatalogObject::Entry { number: u64::MAX })),
            (root(64), Some(CatalogObject::Root { number: 64 })),
            (part(64, id, 2), Some(CatalogObject::Part { number: 64 })),
            (BOUNDARY.to_owned(), Some(CatalogObject::Boundary)),
            ("catalog/00000000000000000007.tmp".into(), None),
            ("catalog/7".into(), None),
            ("catalog/checkpoints/7.root".into(), None),
            ("blocks/a".into(), None),
        ];
        for (path, expected) in cases {
            assert_eq!(CatalogObject::parse(&path), expected, "{path}");
        }
        assert_eq!(wal_sequence(&wal_object(id, 12)), Some(12));
        assert_eq!(wal_sequence("wal/x/12.tmp"), None);
    }
}
