//! The header that files of both forms have.

use crate::archive::Archive;
use crate::form::Form;
use crate::method::Method;

/// The parsed header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) form: Form,
    pub(crate) method: Method,
    pub(crate) x_files_factor: f32,
    pub(crate) archives: Vec<Archive>,
    /// Bytes before the first archive.
    pub(crate) header_bytes: u64,
}
