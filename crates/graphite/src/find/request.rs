//! Parameters of `/metrics/find`.

use super::{FIND_FORMATS, FindFormat};
use crate::attime::parse_time;
use crate::encoding::json::Layout;
use crate::error::{Error, Result};
use crate::number::parse_int;
use crate::zone::Zone;

/// What a request asks for.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The pattern as the client wrote it.
    pub query: String,
    /// How the answer is written.
    pub format: &'static FindFormat,
    /// Only nodes with values after the first and up to the second time.
    pub times: Option<(i64, i64)>,
    /// The present.
    pub now: i64,
    /// Whether branches are left out.
    pub leaves_only: bool,
    /// Whether a node `*` is added to several.
    pub wildcards: bool,
    /// Whether commas mean alternatives without braces.
    pub automatic_variants: bool,
    /// Which node of the paths is listed, below zero from the end.
    pub position: i64,
    /// The function that JSON is wrapped in.
    pub jsonp: Option<String>,
    /// Whether JSON is written in lines.
    pub pretty: bool,
}

impl FindRequest {
    /// Reads parameters; of one that comes twice the last counts.
    pub fn read(pairs: &[(String, String)], clock: i64, own_zone: &Zone) -> Result<Self> {
        let last =
            |name: &str| pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let integer = |name: &str, instead: i64| match last(name) {
            None => Ok(instead),
            Some(text) => parse_int(text)
                .ok_or_else(|| Error::invalid(format!("Invalid int value '{text}' for param {name}"))),
        };
        let flag = |name: &str| integer(name, 0).map(|value| value != 0);
        let zone = last("tz").and_then(Zone::named).unwrap_or_else(|| own_zone.clone());
        let now = match last("now") {
            Some(text) => parse_time(text, &zone, clock)?.epoch,
            None => clock,
        };
        let time = |name: &str| match last(name) {
            None | Some("-1") => Ok(None),
            Some(text) => match parse_time(text, &zone, now) {
                Ok(time) => Ok(Some(time.epoch)),
                Err(error) => {
                    Err(Error::invalid(format!("Invalid value '{text}' for param {name}: {error}")))
                }
            },
        };
        let times = match (time("from")?, time("until")?) {
            (None, None) => None,
            (from, until) => Some((from.unwrap_or(0), until.unwrap_or(now))),
        };
        let query = last("query").ok_or_else(|| Error::invalid("Missing required parameter 'query'"))?;
        if query.is_empty() {
            return Err(Error::invalid("Required parameter 'query' is empty"));
        }
        let name = last("format").unwrap_or("treejson");
        let format = FIND_FORMATS.iter().find(|format| format.name == name);
        Ok(Self {
            query: query.to_owned(),
            format: format.ok_or_else(|| Error::invalid("Invalid value for 'format' parameter"))?,
            times,
            now,
            leaves_only: flag("leavesOnly")?,
            wildcards: flag("wildcards")?,
            automatic_variants: flag("automatic_variants")?,
            position: integer("position", -1)?,
            jsonp: last("jsonp").filter(|name| !name.is_empty()).map(str::to_owned),
            pretty: last("pretty").is_some_and(|text| !text.is_empty()),
        })
    }

    /// The pattern that is looked for: of a path that is being typed what may follow.
    pub(super) fn pattern(&self) -> String {
        if self.format.name != "completer" {
            return self.query.clone();
        }
        let mut query = self.query.replace("..", "*.");
        if !query.ends_with('*') {
            query.push('*');
        }
        if !self.automatic_variants {
            return query;
        }
        let variants = |part: &str| match part.contains(',') && !part.contains('{') {
            true => format!("{{{part}}}"),
            false => part.to_owned(),
        };
        query.split('.').map(variants).collect::<Vec<_>>().join(".")
    }

    /// How JSON is written.
    pub(super) fn style(&self) -> Layout {
        Layout::new(self.pretty)
    }

    /// The path of the branch that is looked into, with its point.
    pub(super) fn base(&self) -> &str {
        self.query.rfind('.').map_or("", |at| &self.query[..=at])
    }

    /// The time in which the nodes that were found have values, as far as the request says.
    pub(super) fn interval(&self) -> (i64, i64) {
        self.times.unwrap_or((0, self.now))
    }
}
