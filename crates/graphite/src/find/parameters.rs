//! Parses the parameters of `/metrics/find`.

use super::{FIND_FORMATS, FindRequest};
use crate::attime::parse_time;
use crate::error::{Error, Result};
use crate::number::parse_int;
use crate::zone::Zone;

impl FindRequest {
    /// Parses parameters; the last occurrence of a parameter counts.
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
}
