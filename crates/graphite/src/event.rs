//! Events: tagged occurrences at a time, which graphite-web stores besides series.
//!
//! An event is stored as a line of JSON, so that any store of lines can hold events.
//!
//! **Invariants.** An event has at most [`EVENT_BYTES_MAX`] bytes and [`TAGS_MAX`] tags, none of them empty.

use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use sandur_query::QueryContext;
use serde_json::Value;

use crate::attime::parse_time;
use crate::encoding::json::{quoted, wrapped};
use crate::error::{Error, Result};
use crate::rendered::Rendered;
use crate::zone::Zone;

/// The most bytes of an event in its stored form.
pub const EVENT_BYTES_MAX: usize = 64 << 10;
/// The most tags of an event or a request.
const TAGS_MAX: usize = 1_000;
/// The last second that nanoseconds in 64 bits can represent.
const LAST_SECOND: i64 = i64::MAX / 1_000_000_000 - 1;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time, in seconds since 1970.
    pub when: i64,
    /// The id, which distinguishes events.
    pub id: i64,
    /// The short description.
    pub what: String,
    /// The tags.
    pub tags: Vec<String>,
    /// The long description.
    pub data: String,
}

/// A store of events.
pub trait Events: Send + Sync {
    /// The events in a time range in seconds, both bounds inclusive, in order.
    fn between<'a>(
        &'a self,
        context: &'a QueryContext,
        from: i64,
        until: i64,
    ) -> BoxFuture<'a, std::result::Result<Vec<Event>, sandur_query::Error>>;
}

impl Event {
    /// Parses an event that a client sends: an object with `what`, `tags` (a list, or a text separated by
    /// spaces), `data` and `when`.
    pub fn read(body: &[u8], now: i64, id: i64) -> Result<Self> {
        let wrong = |why: &str| Error::invalid(format!("an event is a JSON object: {why}"));
        let Ok(Value::Object(members)) = serde_json::from_slice(body) else {
            return Err(wrong(r#"{"what": "..", "tags": [".."], "data": "..", "when": SECONDS}"#));
        };
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Object(_) | Value::Array(_)) => Err(wrong(&format!("\"{name}\" is a text"))),
            Some(other) => Ok(other.to_string()),
        };
        let no_tags = || wrong("\"tags\" must be an array or space-separated string");
        let tags = match members.get("tags") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => tags_of(text),
            Some(Value::Array(list)) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                tags_of(&texts.ok_or_else(no_tags)?.join(" "))
            }
            Some(_) => return Err(no_tags()),
        };
        let when = match members.get("when") {
            None | Some(Value::Null) => now,
            Some(when) => {
                let seconds = when.as_f64().filter(|when| (0.0..=LAST_SECOND as f64).contains(when));
                seconds.ok_or_else(|| wrong("\"when\" is a number of seconds since 1970"))? as i64
            }
        };
        if members.get("what").is_none_or(Value::is_null) {
            return Err(wrong("\"what\" is missing"));
        }
        let event = Self { when, id, what: text("what")?, tags, data: text("data")? };
        let bytes = event.line().len();
        if bytes > EVENT_BYTES_MAX || event.tags.len() > TAGS_MAX {
            let tags = event.tags.len();
            return Err(Error::Limit(format!(
                "an event of {bytes} bytes and {tags} tags; it may have {EVENT_BYTES_MAX} bytes and \
                 {TAGS_MAX} tags: shorten it"
            )));
        }
        Ok(event)
    }

    /// The line that stores the event.
    pub fn line(&self) -> String {
        let tags: Vec<String> = self.tags.iter().map(|tag| quoted(tag)).collect();
        format!(
            r#"{{"what":{},"tags":[{}],"data":{},"id":{}}}"#,
            quoted(&self.what),
            tags.join(","),
            quoted(&self.data),
            self.id
        )
    }

    /// Parses a stored line; `None` if it is not an event.
    pub fn of_line(when: i64, line: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(line).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let tags: Option<Vec<String>> =
            value["tags"].as_array()?.iter().map(|tag| tag.as_str().map(str::to_owned)).collect();
        Some(Self { when, id: value["id"].as_i64()?, what: text("what")?, tags: tags?, data: text("data")? })
    }
}

fn tags_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The parameters of a request for events.
#[derive(Clone, Debug)]
pub struct EventsRequest {
    /// The first second, inclusive.
    pub from: i64,
    /// The last second, inclusive.
    pub until: i64,
    tags: Option<Vec<String>>,
    is_any: bool,
    jsonp: Option<String>,
}

impl EventsRequest {
    /// Parses parameters; the last occurrence of a parameter counts.
    pub fn read(pairs: &[(String, String)], now: i64, zone: &Zone) -> Result<Self> {
        let last =
            |name: &str| pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let time = |name: &str, preset: i64| {
            let read = last(name).map(|text| parse_time(text, zone, now)).transpose()?;
            Ok::<_, Error>(read.map_or(preset, |time| time.epoch).clamp(0, LAST_SECOND))
        };
        let tags = last("tags").map(tags_of);
        if tags.as_ref().is_some_and(|tags| tags.len() > TAGS_MAX) {
            return Err(Error::Limit(format!("more than {TAGS_MAX} tags; ask for fewer")));
        }
        Ok(Self {
            from: time("from", 0)?,
            until: time("until", now)?,
            tags,
            is_any: last("set") == Some("union"),
            jsonp: last("jsonp").filter(|name| !name.is_empty()).map(str::to_owned),
        })
    }

    fn takes(&self, event: &Event) -> bool {
        let Some(tags) = &self.tags else { return true };
        let mut has = tags.iter().map(|tag| event.tags.contains(tag));
        if self.is_any { has.any(|has| has) } else { !tags.is_empty() && has.all(|has| has) }
    }

    /// Writes the answer of `/events/get_data`.
    pub fn answer(&self, events: &[Event]) -> Rendered {
        let mut body = String::from("[");
        for event in events.iter().filter(|event| self.takes(event)) {
            let separator = if body.len() == 1 { "" } else { ", " };
            let tags: Vec<String> = event.tags.iter().map(|tag| quoted(tag)).collect();
            let (what, data) = (quoted(&event.what), quoted(&event.data));
            let (when, tags, id) = (event.when, tags.join(", "), event.id);
            let _ = write!(body, r#"{separator}{{"when": {when}, "what": {what}, "data": {data}, "#);
            let _ = write!(body, r#""tags": [{tags}], "id": {id}}}"#);
        }
        body.push(']');
        wrapped("application/json", body.into_bytes(), self.jsonp.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_being_stored() {
        for (body, expected) in [
            (r#"{"what":"x","tags":["a","b c"],"data":"d","when":7.9}"#, Some((7, "a b c", "x", "d"))),
            (r#"{"what":"x \" é","tags":"  a  b "}"#, Some((99, "a b", "x \" é", ""))),
            (r#"{"what":1,"tags":null,"data":null}"#, Some((99, "", "1", ""))),
            (r#"{"what":"x","tags":7}"#, None),
            (r#"{"waht":"x"}"#, None),
            (r#"{"what":null,"data":"d"}"#, None),
            (r#"{"what":["x"]}"#, None),
            (r#"{"when":"1"}"#, None),
            (r#"{"when":-1}"#, None),
            (r#"{"when":1e300}"#, None),
            ("[]", None),
            ("what=x", None),
        ] {
            let read = Event::read(body.as_bytes(), 99, 5);
            let Some((when, tags, what, data)) = expected else {
                assert!(read.is_err(), "{body}");
                continue;
            };
            let event = read.unwrap();
            assert_eq!((event.when, event.tags.join(" ").as_str()), (when, tags), "{body}");
            assert_eq!((event.what.as_str(), event.data.as_str()), (what, data), "{body}");
            assert_eq!(Event::of_line(when, event.line().as_bytes()), Some(event), "{body}");
        }
        let long = format!(r#"{{"what":"{}"}}"#, "x".repeat(EVENT_BYTES_MAX));
        assert!(Event::read(long.as_bytes(), 0, 0).unwrap_err().to_string().contains("65536"));
        assert!(Event::read(&vec![b'['; 1 << 20], 0, 0).is_err());
        assert_eq!(Event::of_line(1, b"another line"), None);
    }

    #[test]
    fn events_are_filtered_by_tags() {
        let event = |id: i64, tags: &str| Event {
            when: id,
            id,
            what: String::new(),
            tags: tags_of(tags),
            data: String::new(),
        };
        let all = [event(1, "a b"), event(2, "b"), event(3, "")];
        for (tags, set, expected) in [
            (None, "", vec![1, 2, 3]),
            (Some("b"), "", vec![1, 2]),
            (Some("a b"), "", vec![1]),
            (Some("a b"), "intersection", vec![1]),
            (Some("a b"), "union", vec![1, 2]),
            (Some("a none"), "", vec![]),
            (Some(""), "", vec![]),
        ] {
            let mut pairs = vec![("set".to_owned(), set.to_owned())];
            pairs.extend(tags.map(|tags| ("tags".to_owned(), tags.to_owned())));
            let request = EventsRequest::read(&pairs, 100, &Zone::utc()).unwrap();
            let answer: Value = serde_json::from_slice(&request.answer(&all).body).unwrap();
            let ids: Vec<i64> =
                answer.as_array().unwrap().iter().map(|e| e["id"].as_i64().unwrap()).collect();
            assert_eq!(ids, expected, "{tags:?} {set}");
        }
        let request = EventsRequest::read(&[("from".to_owned(), "-1h".to_owned())], 7200, &Zone::utc());
        assert_eq!(request.map(|request| (request.from, request.until)).unwrap(), (3600, 7200));
    }
}
