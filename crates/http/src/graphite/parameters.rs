//! Reads parameters as graphite-web does: from the URL, then from a form or a JSON object. Of a parameter
//! that occurs twice, the last value counts. Other bodies are kept unparsed.
//!
//! **Invariant.** The memory of the parameters, or of the body, is reserved before it is allocated, and
//! held as long as the call. A form is therefore parsed twice, first to compute its size: a pair of a
//! form may have two bytes, and becomes two strings on the heap.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use sandur_runtime::FairReservation;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use super::jsonp::check_callback;
use crate::app::App;
use crate::call::{Call, body_of, tenant};
use crate::failed_request::Failure;
use crate::params::pair_bytes;

/// A call with its parameters in order, and its body if that is neither a form nor JSON.
pub struct GraphiteCall {
    /// The tenant and the headers.
    pub call: Call,
    /// Names and values of the parameters.
    pub pairs: Pairs,
    /// A body of another type.
    pub body: Bytes,
    /// Reservation of `pairs` and `body`.
    _memory: FairReservation,
}

/// Names and values of parameters.
pub type Pairs = Vec<(String, String)>;

/// Maximum number of parameters of a call.
const PAIRS_MAX: usize = 100_000;
/// Spare capacity for a parameter that a handler adds.
const SPARE: usize = 1;

impl GraphiteCall {
    /// The last value of a parameter.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The format that the client requests: by a parameter, or, for carbonapi, by the header `Accept`.
    pub fn format(&self) -> Option<&str> {
        let accepted = self.call.header("accept");
        let newer = accepted.contains("application/x-carbonapi-v3-pb").then_some("carbonapi_v3_pb");
        self.last("format").or(newer)
    }

    /// Adds the parameter `format` if only the headers name the format.
    pub fn settle_format(&mut self) {
        if self.last("format").is_none()
            && let Some(format) = self.format().map(str::to_owned)
        {
            self.pairs.push(("format".to_owned(), format));
        }
    }
}

impl FromRequest<App> for GraphiteCall {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (parts, body): (_, Body) = request.into_parts();
        let tenant = tenant(app, &parts.headers)?;
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let query = parts.uri.query().unwrap_or("").as_bytes();
        let received = body_of(app, &parts, body).await?;
        let (body, mut memory) = (received.bytes, received.memory);
        let written = match kind {
            kind if kind.starts_with("application/x-www-form-urlencoded") => Written::Form(&body),
            kind if kind.starts_with("application/json") && !body.is_empty() => Written::Json(&body),
            _ => Written::Otherwise,
        };
        let weight = ParameterSize::of(query, written)?;
        memory.grow(weight.bytes()).await.map_err(|short| sandur_service::Failure::from(&short))?;
        let pairs = read(query, written, weight)?;
        let is_kept = matches!(written, Written::Otherwise);
        let body = if is_kept { body } else { Bytes::new() };
        let held = weight.bytes() + if is_kept { body.len() as u64 } else { 0 };
        memory.shrink(memory.bytes().saturating_sub(held));
        let call = Self { call: Call::without_parameters(tenant, &parts)?, pairs, body, _memory: memory };
        check_callback(call.last("jsonp").unwrap_or(""))?;
        Ok(call)
    }
}

/// A body by its content type.
#[derive(Clone, Copy)]
enum Written<'a> {
    Form(&'a [u8]),
    Json(&'a [u8]),
    Otherwise,
}

/// The number of parameters and the memory that they need.
#[derive(Clone, Copy, Default)]
struct ParameterSize {
    pairs: usize,
    bytes: u64,
}

impl ParameterSize {
    fn of(query: &[u8], body: Written<'_>) -> Result<Self, Failure> {
        let mut weight = Self::default();
        each(query, body, &mut |name, value| {
            weight.pairs += 1;
            weight.bytes += pair_bytes(name, &value);
            weight.pairs <= PAIRS_MAX
        })?;
        Ok(weight)
    }

    fn bytes(self) -> u64 {
        if self.pairs == 0 {
            return 0;
        }
        self.bytes + SPARE as u64 * pair_bytes("format", "carbonapi_v3_pb")
    }
}

fn read(query: &[u8], body: Written<'_>, weight: ParameterSize) -> Result<Pairs, Failure> {
    let mut pairs = Vec::with_capacity(if weight.pairs == 0 { 0 } else { weight.pairs + SPARE });
    each(query, body, &mut |name, value| {
        pairs.push((name.to_owned(), value.into_owned()));
        true
    })?;
    Ok(pairs)
}

/// Accepts a parameter; returns false when there are too many.
type Take<'a> = &'a mut dyn FnMut(&str, Cow<'_, str>) -> bool;

/// Passes all parameters in order to `take`.
fn each(query: &[u8], body: Written<'_>, take: Take<'_>) -> Result<(), Failure> {
    let mut form = |text| {
        let mut pairs = url::form_urlencoded::parse(text);
        pairs
            .all(|(name, value)| take(&name, value))
            .then_some(())
            .ok_or_else(|| Failure::invalid(too_many()))
    };
    form(query)?;
    match body {
        Written::Otherwise => Ok(()),
        Written::Form(text) => form(text),
        Written::Json(text) => {
            let mut reader = serde_json::Deserializer::from_slice(text);
            let read = reader.deserialize_map(Members(take)).and_then(|()| reader.end());
            read.map_err(|error| Failure::invalid(format!("the body is no object of JSON: {error}")))
        }
    }
}

fn too_many() -> String {
    format!("more than {PAIRS_MAX} parameters; ask in several requests")
}

/// Members of a JSON object: strings, numbers and booleans, and lists of these for repeated parameters.
/// They are read as a stream: a tree of a list of one-digit numbers has sixteen times the bytes of its
/// text.
struct Members<'a>(Take<'a>);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Name<'_>>()? {
            members.next_value_seed(Values { name: &name.0, is_listed: false, take: &mut *self.0 })?;
        }
        Ok(())
    }
}

/// A name, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of a member, or an element of its list.
struct Values<'a> {
    name: &'a str,
    is_listed: bool,
    take: Take<'a>,
}

impl Values<'_> {
    fn add<E: serde::de::Error>(self, value: Cow<'_, str>) -> Result<(), E> {
        if (self.take)(self.name, value) { Ok(()) } else { Err(E::custom(too_many())) }
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text, a number or a list of these as '{}'", self.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<(), E> {
        self.add(Cow::Borrowed(if flag { "1" } else { "0" }))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.add(Cow::Owned(number.to_string()))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.add(Cow::Owned(number.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.add(Cow::Owned(Number::from_f64(number).map_or_else(String::new, |number| number.to_string())))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.add(Cow::Borrowed(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.is_listed {
            return Err(A::Error::custom(format!("'{}' is a list of lists", self.name)));
        }
        let Self { name, take, .. } = self;
        while list.next_element_seed(Values { name, is_listed: true, take: &mut *take })?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str, body: Written<'_>) -> Result<Pairs, String> {
        let weight = ParameterSize::of(query.as_bytes(), body).map_err(|failure| failure.message)?;
        let pairs = super::read(query.as_bytes(), body, weight).map_err(|failure| failure.message)?;
        let text = |text: &String| text.capacity() as u64;
        let texts: u64 = pairs.iter().map(|(name, value)| text(name) + text(value)).sum();
        assert!(texts + (pairs.capacity() * 48) as u64 <= weight.bytes(), "at most what was reserved");
        Ok(pairs)
    }

    fn read(body: &str) -> Result<Pairs, String> {
        pairs("", Written::Json(body.as_bytes()))
    }

    #[test]
    fn members_of_a_json_object_are_parameters() {
        let read_as = read(r#"{"target":["a","b"],"from":-3600,"noNullPoints":true,"x":null}"#).unwrap();
        let shown: Vec<String> = read_as.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["target=a", "target=b", "from=-3600", "noNullPoints=1"]);
        let others = read(r#"{"a\u0062":"\n","c":[1.5,18446744073709551615,null,false]}"#).unwrap();
        let shown: Vec<String> = others.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["ab=\n", "c=1.5", "c=18446744073709551615", "c=0"]);
        for wrong in ["[]", "{", "{}x", r#"{"a":{}}"#, r#"{"a":[[1]]}"#, &"[".repeat(100_000)] {
            assert!(read(wrong).is_err(), "{}", &wrong[..wrong.len().min(20)]);
        }
        let many = format!("{{\"target\":[{}1]}}", "1,".repeat(PAIRS_MAX));
        assert!(read(&many).unwrap_err().contains("100000"));
    }

    #[test]
    fn the_memory_of_a_form_is_computed_before_it_is_parsed() {
        let form = format!("{}%41=b+c", "a=&".repeat(1_000));
        let read = pairs("from=-1h", Written::Form(form.as_bytes())).unwrap();
        assert_eq!((read.len(), &*read[0].0, &*read[1_001].0, &*read[1_001].1), (1_002, "from", "A", "b c"));
        assert!(pairs(&"a&".repeat(PAIRS_MAX), Written::Form(b"b")).unwrap_err().contains("100000"));
    }
}
