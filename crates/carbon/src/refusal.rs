//! Why a message is left out.

use std::fmt;

/// Why, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// A line is not three fields.
    Fields,
    /// A line, or a name, is no UTF-8.
    Utf8,
    /// The value cannot be read.
    Value,
    /// The timestamp cannot be read, or is no time.
    Timestamp,
    /// The value is NaN.
    NoNumber,
    /// The line is longer than [`crate::LINE_BYTES_MAX`].
    LineTooLong,
    /// The message announces more bytes than are allowed.
    FrameTooLong,
    /// The pickle uses an operation that makes other things than points.
    PickleOperation,
    /// The pickle cannot be read, or has too many values.
    PickleMalformed,
    /// What the pickle holds is no list of points.
    PickleShape,
    /// The protobuf message cannot be read.
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

    /// As counters name it.
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

/// A message that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: Reason,
    detail: &'static str,
}

impl Refusal {
    /// Of a reason that says all.
    pub fn of(reason: Reason) -> Self {
        let detail = match reason {
            Reason::Fields => "a line is: path value timestamp",
            Reason::Utf8 => "it is no UTF-8",
            Reason::Value => "the value is no number",
            Reason::Timestamp => "the timestamp is no number of seconds",
            Reason::NoNumber => "the value is NaN, which Graphite does not store",
            Reason::LineTooLong => "the line has more than 16384 bytes",
            Reason::FrameTooLong => "the message is longer than carbon.max_frame_bytes",
            Reason::PickleOperation => "the pickle holds other things than texts, numbers, tuples and lists",
            Reason::PickleMalformed => "the pickle cannot be read",
            Reason::PickleShape => "the pickle is no list of (path, (timestamp, value))",
            Reason::ProtobufMalformed => "the protobuf message cannot be read",
        };
        Self { reason, detail }
    }

    /// With a text that says more.
    pub(crate) fn with(reason: Reason, detail: &'static str) -> Self {
        Self { reason, detail }
    }

    /// Why, for counters.
    pub fn reason(self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail)
    }
}
