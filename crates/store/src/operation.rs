//! The operations on objects.

use std::fmt;

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read an object, completely or in part.
    Get,
    /// Read size and time of an object.
    Head,
    /// Write an object, replacing an existing one.
    Put,
    /// Write an object if it does not exist.
    Create,
    /// Write an object if it has not changed.
    Update,
    /// Begin, continue, complete or abort a multipart upload.
    Upload,
    /// List objects.
    List,
    /// Delete an object.
    Delete,
    /// Append to a local file.
    Append,
    /// Open the store.
    Open,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Operation; 10] = [
        Operation::Get,
        Operation::Head,
        Operation::Put,
        Operation::Create,
        Operation::Update,
        Operation::Upload,
        Operation::List,
        Operation::Delete,
        Operation::Append,
        Operation::Open,
    ];

    /// The name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Put => "put",
            Self::Create => "create",
            Self::Update => "update",
            Self::Upload => "upload",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Append => "append",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_numbered_in_order() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }
}
