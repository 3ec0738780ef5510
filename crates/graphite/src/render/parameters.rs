//! Parses the parameters of `/render`.

use super::{FORMATS, RenderRequest};
use crate::attime::parse_time;
use crate::error::{Error, Result};
use crate::number::parse_float;
use crate::picture::PictureOptions;
use crate::zone::Zone;

/// The most targets of a request.
const TARGETS_MAX: usize = 1000;

/// Converts a slice of a pie that is given as a name and a number, `name:3.5`, to a target.
fn slice_of_number(target: String) -> String {
    let number = target.split_once(':').and_then(|(name, number)| Some((name, parse_float(number)?)));
    match number {
        Some((name, number)) if number.is_finite() && !name.contains(['\'', '\\']) => {
            format!("alias(constantLine({number:?}),'{name}')")
        }
        _ => target,
    }
}

impl RenderRequest {
    /// Parses parameters; the last occurrence counts, except for `target`.
    pub fn read(pairs: &[(String, String)], clock: i64, own_zone: &Zone) -> Result<Self> {
        let last =
            |name: &str| pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let all = |name: &'static str| {
            pairs.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.clone())
        };
        let mut targets: Vec<String> = all("target").collect();
        if targets.is_empty() {
            targets = all("target[]").collect();
        }
        if targets.len() > TARGETS_MAX {
            return Err(Error::Limit(format!("more than {TARGETS_MAX} targets; ask in several requests")));
        }
        let zone = last("tz").and_then(Zone::named).unwrap_or_else(|| own_zone.clone());
        let now = match last("now") {
            Some(text) => parse_time(text, &zone, clock)?.epoch,
            None => clock,
        };
        let until =
            last("until").map_or_else(|| Ok(zone.moment(now)), |text| parse_time(text, &zone, now))?;
        let from = parse_time(last("from").unwrap_or("-1d"), &zone, now)?;
        if from.epoch == until.epoch {
            return Err(Error::invalid("Invalid empty time range"));
        }
        let (from, until) = if from.epoch < until.epoch { (from, until) } else { (until, from) };
        let name = match (last("format"), last("rawData"), last("pickle")) {
            (Some(format), _, _) => format,
            (None, Some(_), _) => "raw",
            (None, None, Some(_)) => "pickle",
            (None, None, None) => "png",
        };
        let format = FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            Error::invalid(format!("the format '{name}' is not known; known are {}", known.join(", ")))
        })?;
        let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let share = last("xFilesFactor").map_or(Some(0.0), parse_float);
        let share = share.ok_or_else(|| Error::invalid("xFilesFactor is not a number"))?;
        let places = pairs.iter().filter_map(|(name, value)| {
            let place = name.strip_prefix("template[")?.strip_suffix(']')?;
            Some((place.to_owned(), value.clone()))
        });
        let picture = format.is_picture().then(|| PictureOptions::read(pairs)).transpose()?;
        if picture.as_ref().is_some_and(|picture| picture.pie.is_some()) {
            targets = targets.into_iter().map(slice_of_number).collect();
        }
        Ok(Self {
            targets,
            picture,
            from,
            until,
            now,
            zone,
            format,
            max_data_points: last("maxDataPoints")
                .filter(digits)
                .map(|text| text.parse().unwrap_or(u64::MAX)),
            no_null_points: last("noNullPoints").is_some(),
            jsonp: last("jsonp").filter(|_| last("format").is_some()).map(str::to_owned),
            pretty: last("pretty").is_some_and(|text| !text.is_empty()),
            x_files_factor: share,
            template: places.collect(),
            path_expression: last("pathExpression").filter(|text| !text.is_empty()).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_a_pie_may_be_a_number() {
        let targets = |kind: &str| {
            let pairs = [("graphType", kind), ("target", "a b:3.5"), ("target", "a.b"), ("target", "x:y")];
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            RenderRequest::read(&pairs, 1_000, &Zone::utc()).unwrap().targets
        };
        assert_eq!(targets("pie"), ["alias(constantLine(3.5),'a b')", "a.b", "x:y"]);
        assert_eq!(targets("line"), ["a b:3.5", "a.b", "x:y"]);
    }
}
