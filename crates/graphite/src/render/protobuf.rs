//! `carbonapi_v2_pb` and `carbonapi_v3_pb`: series in carbonserver's messages for carbonapi.
//!
//! The second protocol lists the places without a value; the third one has NaN at them.

use super::{Format, RenderRequest};
use crate::encoding::protobuf::{Field, each, float, head, integer, message, text};
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_base::job::spend;

pub(super) const OLDER: Format = Format {
    name: "carbonapi_v2_pb",
    content_type: "application/x-protobuf",
    is_json: false,
    bytes: super::with_expression,
    write: write_older,
};

/// The same format under the name that carbonapi requests.
pub(super) const PROTOBUF: Format = Format { name: "protobuf", ..OLDER };

pub(super) const NEWER: Format = Format {
    name: "carbonapi_v3_pb",
    content_type: "application/x-carbonapi-v3-pb",
    is_json: false,
    bytes: super::with_expression,
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
    let read = each(body, |number, field| {
        match (number, field) {
            (1, Field::Bytes(request)) if requests.len() < FETCHES_MAX => {
                requests.push(read_fetch(request)?);
            }
            (1, _) => return None,
            _ => {}
        }
        Some(())
    });
    let wrong = || format!("the body is not a MultiFetchRequest of at most {FETCHES_MAX} patterns");
    read.map(|()| requests).ok_or_else(|| Error::invalid(wrong()))
}

/// The messages of the series in an answer, in order.
pub fn each_series(answer: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    // The messages were written here, so they are well-formed.
    let _ = each(answer, |_, field| {
        if let Field::Bytes(series) = field {
            found.push(series);
        }
        Some(())
    });
    found
}

fn read_fetch(body: &[u8]) -> Option<FetchRequest> {
    let mut request = FetchRequest::default();
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    each(body, |number, field| {
        match (number, field) {
            (1, Field::Bytes(name)) => request.name = text(name)?,
            (2, Field::Number(time)) => request.from = time as i64,
            (3, Field::Number(time)) => request.until = time as i64,
            (5, Field::Bytes(expression)) => request.path_expression = text(expression)?,
            (7, Field::Number(most)) => request.max_data_points = most as i64,
            (1..=3 | 5 | 7, _) => return None,
            _ => {}
        }
        Some(())
    })?;
    Some(request)
}

fn write_older(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    for series in list.iter() {
        let count = series.points().len();
        spend(count.saturating_mul(2))?;
        message(out, 1, |out| {
            text(out, 1, &series.name);
            integer(out, 2, series.start);
            integer(out, 3, series.end);
            integer(out, 4, series.step);
            head(out, 5, 8 * count);
            series.points().for_each(|value| out.extend_from_slice(&value.unwrap_or(0.0).to_le_bytes()));
            head(out, 6, count);
            out.extend(series.points().map(|value| u8::from(value.is_none_or(f64::is_nan))));
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
            text(out, 1, &series.name);
            text(out, 2, request.path_expression.as_deref().unwrap_or(&series.path_expression));
            text(out, 3, series.consolidation.name());
            integer(out, 4, series.start);
            integer(out, 5, series.end);
            integer(out, 6, series.step);
            float(out, 7, series.x_files_factor as f32);
            head(out, 9, 8 * count);
            series.points().for_each(|value| out.extend_from_slice(&value.unwrap_or(f64::NAN).to_le_bytes()));
            integer(out, 11, request.from.epoch);
            integer(out, 12, request.until.epoch);
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
    fn fields(format: &Format, values: &[Option<f64>]) -> Vec<(u64, Vec<u8>)> {
        let pairs = [("from", "100"), ("until", "160")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let request = RenderRequest::read(&pairs, 200, &Zone::utc()).unwrap();
        let column = Column::collect(values.len(), values.iter().copied()).unwrap();
        let mut list = [Series::new("a.b", 120, 180, 30, column)];
        let (mut out, mut fields) = (Vec::new(), Vec::new());
        (format.write)(&request, &mut list, &mut out).unwrap();
        each(&out, |number, field| {
            let Field::Bytes(series) = field else { return None };
            assert_eq!(number, 1);
            each(series, |number, field| {
                fields.push(match field {
                    Field::Number(value) => (number, value.to_le_bytes().to_vec()),
                    Field::Bytes(bytes) => (number, bytes.to_vec()),
                    Field::Other => (number, Vec::new()),
                });
                Some(())
            })
        })
        .unwrap();
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
            message(out, 1, |out| {
                text(out, 1, name);
                integer(out, 2, 100);
                integer(out, 3, 160);
                text(out, 5, "a.*");
                integer(out, 7, 500);
                Ok(())
            })
            .unwrap();
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
