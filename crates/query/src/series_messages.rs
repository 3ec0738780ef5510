//! Requests for labels between processes: the bytes of [`SeriesRequest`], [`TextRequest`] and
//! [`StreamsRequest`] ([`crate::wire`]). The part is in the context of the process that answers.
//!
//! **Invariant.** The bytes of a request are bounded, and so is the number of its matchers, because each may
//! be a compiled regular expression.

use sandur_model::{MatchOp, Matcher, TimeRange};
use sandur_protobuf::Writer as _;

use crate::error::Error;
use crate::joined_values::JoinedLabels;
use crate::series_index::{SeriesRequest, TextRequest, WantedTexts};
use crate::source::StreamsRequest;
use crate::wire::{Fields, Put as _, begin, malformed};

/// The most matchers of a request.
const MATCHERS_MAX: usize = 1_000;

/// The most bytes of a request.
pub(crate) const REQUEST_BYTES_MAX: usize = 4 << 20;

const OPS: [MatchOp; 4] = [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex];

impl SeriesRequest {
    /// The request for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_signed(2, self.range.start);
        out.put_signed(3, self.range.end);
        for matchers in &self.any_of {
            out.message(4, |out| {
                for matcher in matchers {
                    out.message(1, |out| {
                        let op = OPS.iter().position(|op| *op == matcher.op()).unwrap_or_default();
                        out.bytes(1, matcher.name().as_bytes());
                        out.varint(2, op as u64);
                        out.bytes(3, matcher.value().as_bytes());
                    });
                }
            });
        }
    }

    /// The request that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut read = Read::default();
        let mut fields = Fields::of_request(bytes, REQUEST_BYTES_MAX)?;
        while let Some(field) = fields.field()? {
            if !read.field(field, &mut fields)? {
                fields.skip()?;
            }
        }
        read.finish()
    }
}

impl TextRequest {
    /// The request for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        self.of.write(&mut out);
        match &self.wanted {
            WantedTexts::Names => out.varint(5, 1),
            WantedTexts::Values(name) => out.bytes(6, name.as_bytes()),
            WantedTexts::Joined(joined) => out.message(7, |out| {
                joined.labels.iter().for_each(|label| out.bytes(1, label.as_bytes()));
                out.varint(2, u64::from(u32::from(joined.separator)));
                out.varint(3, joined.limit as u64);
            }),
        }
        out
    }

    /// The request that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let (mut read, mut wanted) = (Read::default(), None);
        let mut fields = Fields::of_request(bytes, REQUEST_BYTES_MAX)?;
        while let Some(field) = fields.field()? {
            match field {
                5 => wanted = (fields.number()? == 1).then_some(WantedTexts::Names),
                6 => wanted = Some(WantedTexts::Values(fields.text()?.to_owned())),
                7 => wanted = Some(WantedTexts::Joined(joined(&mut fields.message()?)?)),
                field => {
                    if !read.field(field, &mut fields)? {
                        fields.skip()?;
                    }
                }
            }
        }
        let wanted = wanted.ok_or_else(|| malformed("a request that wants no texts"))?;
        Ok(read.finish()?.texts(wanted))
    }
}

impl StreamsRequest {
    /// The request for another process: that for the series, which has one list of matchers.
    pub fn to_bytes(&self) -> Vec<u8> {
        SeriesRequest::new(self.matchers.clone(), self.range).to_bytes()
    }

    /// The request that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let SeriesRequest { any_of, range } = SeriesRequest::from_bytes(bytes)?;
        match <[Vec<Matcher>; 1]>::try_from(any_of) {
            Ok([matchers]) => Ok(Self { matchers, range }),
            Err(_) => Err(malformed("a request for volumes has one list of matchers")),
        }
    }
}

fn joined(fields: &mut Fields<'_>) -> Result<JoinedLabels, Error> {
    let mut joined = JoinedLabels { labels: Vec::new(), separator: ' ', limit: 0 };
    while let Some(field) = fields.field()? {
        match field {
            1 if joined.labels.len() == MATCHERS_MAX => return Err(too_many("labels")),
            1 => joined.labels.push(fields.text()?.to_owned()),
            2 => {
                let code = u32::try_from(fields.number()?).ok();
                let separator = code.and_then(char::from_u32);
                joined.separator = separator.ok_or_else(|| malformed("a separator is no character"))?;
            }
            3 => joined.limit = usize::try_from(fields.number()?).unwrap_or(usize::MAX),
            _ => fields.skip()?,
        }
    }
    Ok(joined)
}

fn too_many(what: &str) -> Error {
    Error::Limit(format!("a request for labels has more than {MATCHERS_MAX} {what}"))
}

/// A request while it is read.
#[derive(Default)]
struct Read {
    times: [i64; 2],
    any_of: Vec<Vec<Matcher>>,
    matchers: usize,
}

impl Read {
    /// Reads a field of the request; returns whether it is one.
    fn field(&mut self, field: u32, fields: &mut Fields<'_>) -> Result<bool, Error> {
        match field {
            2 | 3 => self.times[field as usize - 2] = fields.signed()?,
            4 => {
                let (mut list, mut matchers) = (Vec::new(), fields.message()?);
                self.matchers += 1;
                if self.matchers > MATCHERS_MAX {
                    return Err(too_many("matchers"));
                }
                while let Some(field) = matchers.field()? {
                    match field {
                        1 => list.push(matcher(&mut matchers.message()?)?),
                        _ => matchers.skip()?,
                    }
                    self.matchers += 1;
                    if self.matchers > MATCHERS_MAX {
                        return Err(too_many("matchers"));
                    }
                }
                self.any_of.push(list);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<SeriesRequest, Error> {
        let [start, end] = self.times;
        match self.any_of.is_empty() {
            true => Err(malformed("a request that selects no series")),
            false => Ok(SeriesRequest { any_of: self.any_of, range: TimeRange::new(start, end) }),
        }
    }
}

fn matcher(fields: &mut Fields<'_>) -> Result<Matcher, Error> {
    let (mut name, mut op, mut value) = ("", None, "");
    while let Some(field) = fields.field()? {
        match field {
            1 => name = fields.text()?,
            2 => op = usize::try_from(fields.number()?).ok().and_then(|op| OPS.get(op)),
            3 => value = fields.text()?,
            _ => fields.skip()?,
        }
    }
    let op = op.ok_or_else(|| malformed("a matcher of an unknown kind"))?;
    Matcher::new(name, *op, value).map_err(|error| Error::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SeriesRequest {
        let matcher = |name: &str, op, value: &str| Matcher::new(name, op, value).unwrap();
        let first = vec![matcher("a", MatchOp::Equal, ""), matcher("b", MatchOp::NotRegex, "x.*|y")];
        let second = vec![matcher("c", MatchOp::NotEqual, "1"), matcher("c", MatchOp::Regex, "[0-9]+")];
        SeriesRequest::any_of(vec![first, second, Vec::new()], TimeRange::new(-5, 1 << 60))
    }

    fn text_requests() -> [TextRequest; 3] {
        let labels = vec!["a".to_owned(), String::new()];
        let joined = JoinedLabels { labels, separator: '\u{1F600}', limit: 7 };
        [request().names(), request().values("job"), request().joined(joined)]
    }

    #[test]
    fn requests_are_read_back_unchanged() {
        let read = SeriesRequest::from_bytes(&request().to_bytes()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", request()));
        let asked = StreamsRequest { matchers: request().any_of.remove(0), range: request().range };
        let read = StreamsRequest::from_bytes(&asked.to_bytes()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{asked:?}"));
        assert!(StreamsRequest::from_bytes(&request().to_bytes()).is_err(), "it has three lists");
        for asked in text_requests() {
            let read = TextRequest::from_bytes(&asked.to_bytes()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{asked:?}"));
        }
    }

    #[test]
    fn damaged_and_large_requests_are_refused() {
        for bytes in text_requests().map(|asked| asked.to_bytes()) {
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                let _ = (TextRequest::from_bytes(&damaged), SeriesRequest::from_bytes(&bytes[..at]));
            }
        }
        let many = vec![Matcher::new("a", MatchOp::Equal, "b").unwrap(); MATCHERS_MAX];
        let refused = SeriesRequest::from_bytes(&SeriesRequest::new(many, TimeRange::ALL).to_bytes());
        assert!(matches!(refused, Err(Error::Limit(text)) if text.contains("more than 1000 matchers")));
        let lists = SeriesRequest { any_of: vec![Vec::new(); MATCHERS_MAX + 1], range: TimeRange::ALL };
        assert!(SeriesRequest::from_bytes(&lists.to_bytes()).is_err());
        let none = SeriesRequest { any_of: Vec::new(), range: TimeRange::ALL };
        assert!(SeriesRequest::from_bytes(&none.to_bytes()).is_err());
        let long = vec![0; REQUEST_BYTES_MAX + 1];
        assert!(matches!(SeriesRequest::from_bytes(&long), Err(Error::Limit(_))));
        assert!(matches!(TextRequest::from_bytes(&long), Err(Error::Limit(_))));
        assert!(TextRequest::from_bytes(&request().to_bytes()).is_err(), "it does not say which texts");
    }
}
