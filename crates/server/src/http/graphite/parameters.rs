//! Parameters of a call as graphite-web takes them: from the URL, then from a form or from an object of JSON;
//! of one that comes twice the last counts. Other bodies stay as they are.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use serde_json::Value;

use super::jsonp::check_callback;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call::{Call, body_of, tenant};

/// A call, its parameters in order, and its body where that is neither form nor JSON.
pub struct GraphiteCall {
    /// Whose data it is about, and what the client says of itself.
    pub call: Call,
    /// Names and values.
    pub pairs: Vec<(String, String)>,
    /// A body of another kind.
    pub body: Bytes,
}

/// Most parameters of a call.
const PAIRS_MAX: usize = 100_000;

impl GraphiteCall {
    /// The last value of a parameter.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The form of the answer that carbonapi asks for: by a parameter or by what it accepts.
    pub fn format(&self) -> Option<&str> {
        let accepted = self.call.header("accept");
        let newer = accepted.contains("application/x-carbonapi-v3-pb").then_some("carbonapi_v3_pb");
        self.last("format").or(newer)
    }
}

impl FromRequest<App> for GraphiteCall {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (parts, body): (_, Body) = request.into_parts();
        let tenant = tenant(app, &parts.headers)?;
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let query = parts.uri.query().unwrap_or("").as_bytes();
        let mut pairs = Vec::new();
        add_form(&mut pairs, query)?;
        let received = body_of(app, &parts, body).await?;
        let mut rest = Bytes::new();
        if kind.starts_with("application/x-www-form-urlencoded") {
            add_form(&mut pairs, &received.bytes)?;
        } else if kind.starts_with("application/json") && !received.bytes.is_empty() {
            add_json(&mut pairs, &received.bytes)?;
        } else {
            rest = Bytes::copy_from_slice(&received.bytes);
        }
        let call = Self { call: Call::without_parameters(tenant, &parts), pairs, body: rest };
        check_callback(call.last("jsonp").unwrap_or(""))?;
        Ok(call)
    }
}

fn add_form(pairs: &mut Vec<(String, String)>, text: &[u8]) -> Result<(), Failure> {
    for (name, value) in url::form_urlencoded::parse(text) {
        add(pairs, &name, value.into_owned())?;
    }
    Ok(())
}

/// Members of an object: texts, numbers and flags, and lists of these for what comes several times.
fn add_json(pairs: &mut Vec<(String, String)>, body: &[u8]) -> Result<(), Failure> {
    let wrong = |why: String| Failure::invalid(format!("the body is no object of JSON: {why}"));
    let Value::Object(members) = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?
    else {
        return Err(wrong("it is another value".to_owned()));
    };
    for (name, value) in members {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => u8::from(flag).to_string(),
                _ => return Err(wrong(format!("'{name}' is neither a text nor a number nor a list"))),
            };
            add(pairs, &name, text)?;
        }
    }
    Ok(())
}

fn add(pairs: &mut Vec<(String, String)>, name: &str, value: String) -> Result<(), Failure> {
    if pairs.len() >= PAIRS_MAX {
        return Err(Failure::invalid(format!("more than {PAIRS_MAX} parameters; ask in several requests")));
    }
    pairs.push((name.to_owned(), value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(String, String)>, String> {
        let mut pairs = Vec::new();
        add_json(&mut pairs, body.as_bytes()).map_err(|failure| failure.message)?;
        Ok(pairs)
    }

    #[test]
    fn an_object_of_json_is_parameters() {
        let read_as = read(r#"{"target":["a","b"],"from":-3600,"noNullPoints":true,"x":null}"#).unwrap();
        let shown: Vec<String> = read_as.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["from=-3600", "noNullPoints=1", "target=a", "target=b"]);
        for wrong in ["[]", "{", r#"{"a":{}}"#, r#"{"a":[[1]]}"#, &"[".repeat(100_000)] {
            assert!(read(wrong).is_err());
        }
        let many = format!("{{\"target\":[{}1]}}", "1,".repeat(PAIRS_MAX));
        assert!(read(&many).unwrap_err().contains("100000"));
    }
}
