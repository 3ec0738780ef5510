//! `carbonapi_v2_pb` and `carbonapi_v3_pb`: series in carbonserver's messages for carbonapi.
//!
//! The second protocol lists the places without a value; the third one has NaN at them.

use sandur_memory::job::spend;
use sandur_protobuf::{Malformed, Reader, Wire, Writer as _};

use super::request::{Format, RenderRequest};
use crate::encoding::protobuf::{float, items, message, text};
use crate::error::{Error, Result};
use crate::series::Series;

pub(super) const OLDER: Format = Format {
    name: "carbonapi_v2_pb",
    content_type: "application/x-protobuf",
    is_json: false,
    bytes: super::request::with_expression,
    write: write_older,
};

/// The same format under the name that carbonapi requests.
pub(super) const PROTOBUF: Format = Format { name: "protobuf", ..OLDER };

pub(super) const NEWER: Format = Format {
    name: "carbonapi_v3_pb",
    content_type: "application/x-carbonapi-v3-pb",
    is_json: false,
    bytes: super::request::with_expression,
    write: write_newer,
};

/// The most patterns of one request of carbonapi.
const FETCHES_MAX: usize = 1000;

/// A request of carbonapi for series, in the third protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// The pattern of the paths.
    pub name: String,
    /// Values after this time, exclusive, in seconds since 1970.
    pub from: i64,
    /// Values up to this time, inclusive, in seconds since 1970.
    pub until: i64,
    /// The expression by which carbonapi identifies the series.
    pub path_expression: String,
    /// The most points of a series; 0 is no limit.
    pub max_data_points: i64,
}

/// Parses a request in the third protocol.
pub fn read_fetches(body: &[u8]) -> std::result::Result<Vec<FetchRequest>, Error> {
    let mut requests = Vec::new();
    let read = items(body, FETCHES_MAX, |message, key| match key.0 {
        1 => {
            requests.push(read_fetch(message.message()?)?);
            Ok(())
        }
        _ => message.skip(key.1),
    });
    let wrong = || format!("the body is not a MultiFetchRequest of at most {FETCHES_MAX} patterns");
    read.map(|()| requests).map_err(|_| Error::invalid(wrong()))
}

/// The messages of the series in an answer, in order.
pub fn each_series(answer: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut messages) = (Vec::new(), Reader::new(answer));
    // The messages were written here, so they are well-formed.
    while let Ok(Some(_)) = messages.key() {
        found.extend(messages.bytes());
    }
    found
}

fn read_fetch(mut fields: Reader<'_>) -> std::result::Result<FetchRequest, Malformed> {
    let mut request = FetchRequest::default();
    while let Some(key) = fields.key()? {
        match key {
            (1, Wire::Bytes) => request.name = text(&mut fields)?,
            (2, Wire::Varint) => request.from = fields.varint()? as i64,
            (3, Wire::Varint) => request.until = fields.varint()? as i64,
            (5, Wire::Bytes) => request.path_expression = text(&mut fields)?,
            (7, Wire::Varint) => request.max_data_points = fields.varint()? as i64,
            (1..=3 | 5 | 7, _) => return Err(fields.malformed("a field has another type")),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(request)
}

fn write_older(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    for series in list.iter() {
        let count = series.points().len();
        spend(count.saturating_mul(2))?;
        message(out, 1, |out| {
            out.text(1, &series.name);
            out.number(2, series.start as u64);
            out.number(3, series.end as u64);
            out.number(4, series.step as u64);
            out.doubles(5, series.points().map(|value| value.unwrap_or(0.0)));
            out.packed(6, series.points().map(|value| value.is_none_or(f64::is_nan).into()));
            Ok(())
        })?;
    }
    Ok(())
}

fn write_newer(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    for series in list.iter() {
        let count = series.points().len();
        spend(count)?;
        message(out, 1, |out| {
            out.text(1, &series.name);
            out.text(2, request.path_expression.as_deref().unwrap_or(&series.path_expression));
            out.text(3, series.consolidation.name());
            out.number(4, series.start as u64);
            out.number(5, series.end as u64);
            out.number(6, series.step as u64);
            float(out, 7, series.x_files_factor as f32);
            out.doubles(9, series.points().map(|value| value.unwrap_or(f64::NAN)));
            out.number(11, request.from.epoch as u64);
            out.number(12, request.until.epoch as u64);
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::zone::Zone;

    /// The numbers and contents of the fields of the only series.
    fn fields(format: &Format, values: &[Option<f64>]) -> Vec<(u32, Vec<u8>)> {
        let pairs = [("from", "100"), ("until", "160")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let request = RenderRequest::read(&pairs, 200, &Zone::utc()).unwrap();
        let column = Column::collect(values.len(), values.iter().copied()).unwrap();
        let mut list = [Series::new("a.b", 120, 180, 30, column)];
        let (mut out, mut fields) = (Vec::new(), Vec::new());
        (format.write)(&request, &mut list, &mut out).unwrap();
        let mut answer = Reader::new(&out);
        assert_eq!(answer.key(), Ok(Some((1, Wire::Bytes))));
        let mut series = answer.message().unwrap();
        while let Some((number, wire)) = series.key().unwrap() {
            fields.push((
                number,
                match wire {
                    Wire::Varint => series.varint().unwrap().to_le_bytes().to_vec(),
                    _ => series.bytes().unwrap().to_vec(),
                },
            ));
        }
        assert!(answer.is_at_end());
        fields
    }

    #[test]
    fn series_include_the_expression_of_the_request() {
        let pairs = [("from", "100"), ("until", "160"), ("pathExpression", "a.*")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = RenderRequest::read(&pairs, 200, &Zone::utc()).unwrap();
        let (mut list, mut out) = ([Series::new("a.b", 120, 180, 30, Column::default())], Vec::new());
        write_newer(&request, &mut list, &mut out).unwrap();
        assert!(out[2..].starts_with(b"\x0a\x03a.b\x12\x03a.*"));
    }

    #[test]
    fn requests_of_carbonapi_are_parsed_and_bounded() {
        let fetch = |out: &mut Vec<u8>, name: &str| {
            out.message(1, |out| {
                out.text(1, name);
                out.number(2, 100);
                out.number(3, 160);
                out.text(5, "a.*");
                out.number(7, 500);
            });
        };
        let mut body = Vec::new();
        fetch(&mut body, "a.b");
        let (name, path_expression) = ("a.b".to_owned(), "a.*".to_owned());
        let expected = FetchRequest { name, from: 100, until: 160, path_expression, max_data_points: 500 };
        assert_eq!(read_fetches(&body).unwrap(), [expected]);
        assert!((1..body.len()).all(|end| read_fetches(&body[..end]).is_err()));
        let mut many = Vec::new();
        (0..=FETCHES_MAX).for_each(|_| fetch(&mut many, "a"));
        assert!(read_fetches(&many).unwrap_err().to_string().contains("1000"));
        // A number in place of a text.
        assert!(read_fetches(&[0x0a, 2, 0x08, 1]).is_err());
    }

    #[test]
    fn missing_values_have_the_form_of_each_protocol() {
        let values = [Some(1.5), None];
        let number = |value: i64| value.to_le_bytes().to_vec();
        let doubles = |values: [f64; 2]| values.map(f64::to_le_bytes).concat();
        let older = [
            (1, b"a.b".to_vec()),
            (2, number(120)),
            (3, number(180)),
            (4, number(30)),
            (5, doubles([1.5, 0.0])),
            (6, vec![0, 1]),
        ];
        assert_eq!(fields(&OLDER, &values), older);
        let newer = [
            (1, b"a.b".to_vec()),
            (2, b"a.b".to_vec()),
            (3, b"average".to_vec()),
            (4, number(120)),
            (5, number(180)),
            (6, number(30)),
            (9, doubles([1.5, f64::NAN])),
            (11, number(100)),
            (12, number(160)),
        ];
        assert_eq!(fields(&NEWER, &values), newer);
    }
}
