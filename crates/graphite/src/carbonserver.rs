//! carbonserver's answers other than values, nodes and listings: its protocols, and the retention of a
//! series.

use sandur_protobuf::Writer as _;
use serde_json::json;

use crate::encoding::protobuf::{float, items, text};
use crate::error::{Error, Result};
use crate::rendered::Rendered;
use crate::schemas::{Archive, Rule};

const NEWER: &str = "application/x-carbonapi-v3-pb";
const OLDER: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// The encoding of such an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarbonserverForm {
    /// JSON.
    Json,
    /// carbonapi's second protobuf protocol.
    Older,
    /// carbonapi's third protobuf protocol.
    Newer,
}

impl CarbonserverForm {
    /// The encoding with this name in `format`.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "json" => Ok(Self::Json),
            "protobuf" | "protobuf3" | "carbonapi_v2_pb" => Ok(Self::Older),
            "carbonapi_v3_pb" => Ok(Self::Newer),
            other => Err(Error::invalid(format!(
                "the format '{other}' is not known; known are json, protobuf, carbonapi_v2_pb and \
                 carbonapi_v3_pb"
            ))),
        }
    }

    /// The content type of answers.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Older => OLDER,
            Self::Newer => NEWER,
        }
    }
}

/// Answers carbonapi's request for the supported protocols.
pub fn capabilities(form: CarbonserverForm, server: &str) -> Rendered {
    let protocols = ["carbonapi_v3_pb", "carbonapi_v2_pb"];
    if form == CarbonserverForm::Json {
        let body = json!({
            "supportedProtocols": protocols, "name": server, "highPrecisionTimestamps": false,
            "supportFilteringFunctions": false, "likeSplittedRequests": false, "supportStreaming": false,
        });
        return Rendered { content_type: JSON, body: body.to_string().into_bytes() };
    }
    let mut body = Vec::new();
    protocols.iter().for_each(|protocol| body.text(1, protocol));
    body.text(2, server);
    Rendered { content_type: NEWER, body }
}

/// Limits seconds to 32 bits.
fn short(seconds: i64) -> i64 {
    seconds.min(i32::MAX.into())
}

/// The most names of a request in the third protocol.
const NAMES_MAX: usize = 1_000;

/// Parses the names in a request for `info` in the third protocol.
pub fn read_info(body: &[u8]) -> std::result::Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let read = items(body, NAMES_MAX, |message, key| match key.0 {
        1 => {
            names.push(text(message)?);
            Ok(())
        }
        _ => message.skip(key.1),
    });
    let wrong = || format!("the body is not a MultiMetricsInfoRequest of at most {NAMES_MAX} names");
    read.map(|()| names).map_err(|_| Error::invalid(wrong()))
}

/// Answers a request for the retentions of several names in the third protocol.
pub fn infos<'a>(rules: impl Iterator<Item = (&'a str, Rule<'a>)>) -> std::result::Result<Rendered, Error> {
    let mut body = Vec::new();
    for (name, rule) in rules {
        body.message(1, |out| write_info(out, name, rule, |number| number));
    }
    Ok(Rendered { content_type: NEWER, body })
}

/// Writes the message with the retention of a series. `fitting` limits integers to the width of their
/// fields.
fn write_info(out: &mut Vec<u8>, name: &str, rule: Rule<'_>, fitting: fn(i64) -> i64) {
    let retention = rule.archives.last().map_or(0, |archive| archive.retention);
    out.text(1, name);
    out.text(2, rule.method.name());
    out.number(3, fitting(retention) as u64);
    float(out, 4, rule.x_files_factor as f32);
    for archive in rule.archives {
        out.message(5, |out| {
            out.number(1, fitting(archive.step) as u64);
            out.number(2, fitting(archive.retention / archive.step.max(1)) as u64);
        });
    }
}

/// Answers a request for the retention of a series, by the rules for its name.
pub fn info(form: CarbonserverForm, name: &str, rule: Rule<'_>) -> std::result::Result<Rendered, Error> {
    let retention = rule.archives.last().map_or(0, |archive| archive.retention);
    let points = |archive: &Archive| archive.retention / archive.step.max(1);
    match form {
        CarbonserverForm::Json => {
            let archive = |archive: &Archive| {
                let (step, points) = (archive.step, points(archive));
                json!({ "secondsPerPoint": step, "numberOfPoints": points })
            };
            let body = json!({
                "name": name, "aggregationMethod": rule.method.name(), "maxRetention": retention,
                "xFilesFactor": rule.x_files_factor,
                "retentions": rule.archives.iter().map(archive).collect::<Vec<_>>(),
            });
            Ok(Rendered { content_type: JSON, body: body.to_string().into_bytes() })
        }
        CarbonserverForm::Older => {
            let mut body = Vec::new();
            write_info(&mut body, name, rule, short);
            Ok(Rendered { content_type: OLDER, body })
        }
        CarbonserverForm::Newer => infos([(name, rule)].into_iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::Method;

    #[test]
    fn answers_have_each_encoding() {
        let archives = [Archive { step: 60, retention: 3600 }, Archive { step: 600, retention: i64::MAX }];
        let rule = Rule { archives: &archives, method: Method::Max, x_files_factor: 0.5 };
        let body = |form| info(form, "a.b", rule).unwrap().body;
        let json: serde_json::Value = serde_json::from_slice(&body(CarbonserverForm::Json)).unwrap();
        assert_eq!(json["retentions"][0]["numberOfPoints"], 60);
        assert!(body(CarbonserverForm::Older).starts_with(b"\x0a\x03a.b\x12\x03max\x18\xff\xff\xff\xff\x07"));
        let newer = infos(["a.b", "c"].map(|name| (name, rule)).into_iter()).unwrap().body;
        assert!(newer[2..].starts_with(b"\x0a\x03a.b\x12\x03max\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
        assert!(newer.starts_with(&body(CarbonserverForm::Newer)) && newer.len() > 60);
        assert_eq!(read_info(b"\x0a\x03a.b\x0a\x01c").unwrap(), ["a.b", "c"]);
        assert!(read_info(b"\x0a\x03a").is_err() && read_info(b"\x08\x01").is_err());
        assert!(capabilities(CarbonserverForm::Newer, "x").body.starts_with(b"\x0a\x0fcarbonapi_v3_pb"));
        assert!(CarbonserverForm::named("xml").unwrap_err().to_string().contains("carbonapi_v2_pb"));
    }
}
