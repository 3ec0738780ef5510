//! Why a message is refused.

use std::fmt;

/// The reason of a refusal, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// A line does not have three fields.
    Fields,
    /// A line or a name is not UTF-8.
    Utf8,
    /// The value cannot be parsed.
    Value,
    /// The timestamp cannot be parsed, or is not a time.
    Timestamp,
    /// The value is NaN.
    NoNumber,
    /// The line is longer than [`crate::LINE_BYTES_MAX`].
    LineTooLong,
    /// The message announces more bytes than the limit.
    FrameTooLong,
    /// The pickle uses an operation that creates something other than points.
    PickleOperation,
    /// The pickle cannot be decoded, or has too many values.
    PickleMalformed,
    /// The contents of the pickle are not a list of points.
    PickleShape,
    /// The protobuf message cannot be decoded.
    ProtobufMalformed,
}

impl Reason {
    /// Every reason.
    pub const EVERY: [Self; 11] = [
        Self::Fields,
        Self::Utf8,
        Self::Value,
        Self::Timestamp,
        Self::NoNumber,
        Self::LineTooLong,
        Self::FrameTooLong,
        Self::PickleOperation,
        Self::PickleMalformed,
        Self::PickleShape,
        Self::ProtobufMalformed,
    ];

    /// Returns the name that counters use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fields => "fields",
            Self::Utf8 => "no_utf8",
            Self::Value => "value",
            Self::Timestamp => "timestamp",
            Self::NoNumber => "nan",
            Self::LineTooLong => "line_too_long",
            Self::FrameTooLong => "frame_too_long",
            Self::PickleOperation => "pickle_operation",
            Self::PickleMalformed => "pickle_malformed",
            Self::PickleShape => "pickle_shape",
            Self::ProtobufMalformed => "protobuf_malformed",
        }
    }
}

/// A refused message: the reason and a text for logs and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: Reason,
    detail: &'static str,
}

impl Refusal {
    /// A refusal with the general text of its reason.
    pub fn of(reason: Reason) -> Self {
        let detail = match reason {
            Reason::Fields => "a line must be: path value timestamp",
            Reason::Utf8 => "it is not UTF-8",
            Reason::Value => "the value is not a number",
            Reason::Timestamp => "the timestamp is not a number of seconds",
            Reason::NoNumber => "the value is NaN, which Graphite does not store",
            Reason::LineTooLong => "the line has more than 16384 bytes",
            Reason::FrameTooLong => "the message is longer than carbon.max_frame_bytes",
            Reason::PickleOperation => {
                "the pickle contains something other than texts, numbers, tuples and lists"
            }
            Reason::PickleMalformed => "the pickle cannot be decoded",
            Reason::PickleShape => "the pickle is not a list of (path, (timestamp, value))",
            Reason::ProtobufMalformed => "the protobuf message cannot be decoded",
        };
        Self { reason, detail }
    }

    /// A refusal with a more specific text.
    pub(crate) fn with(reason: Reason, detail: &'static str) -> Self {
        Self { reason, detail }
    }

    /// Returns the reason, for counters.
    pub fn reason(self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail)
    }
}
