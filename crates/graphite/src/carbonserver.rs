//! What carbonserver tells beside values and nodes: what it speaks, how a series is kept, and all names.

use serde_json::json;

use crate::encoding::protobuf::{float, integer, message, text};
use crate::error::{Error, Result};
use crate::render::Rendered;
use crate::schemas::{Archive, Rule};

const NEWER: &str = "application/x-carbonapi-v3-pb";
const OLDER: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// How such an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarbonserverForm {
    /// JSON.
    Json,
    /// carbonapi's second protocol.
    Older,
    /// Its third.
    Newer,
}

impl CarbonserverForm {
    /// The form of a name, as `format` has it.
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
}

/// What carbonapi asks to choose a protocol.
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
    protocols.iter().for_each(|protocol| text(&mut body, 1, protocol));
    text(&mut body, 2, server);
    Rendered { content_type: NEWER, body }
}

/// Seconds that a message of 32 bits can say.
fn short(seconds: i64) -> i64 {
    seconds.min(i32::MAX.into())
}

/// How a series is kept, by the rules of its name.
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
            text(&mut body, 1, name);
            text(&mut body, 2, rule.method.name());
            integer(&mut body, 3, short(retention));
            float(&mut body, 4, rule.x_files_factor as f32);
            for archive in rule.archives {
                message(&mut body, 5, |out| {
                    integer(out, 1, short(archive.step));
                    integer(out, 2, short(points(archive)));
                    Ok(())
                })?;
            }
            Ok(Rendered { content_type: OLDER, body })
        }
        CarbonserverForm::Newer => Err(Error::invalid(
            "/info is answered as json or protobuf (carbonapi_v2_pb); ask for one of these",
        )),
    }
}

/// All names.
pub fn metric_list(form: CarbonserverForm, names: &[String]) -> std::result::Result<Rendered, Error> {
    let size: usize = names.iter().map(|name| 64 + 3 * name.len()).sum();
    let _held = sandur_base::job::reserve_exactly(size as u64)?;
    if form == CarbonserverForm::Json {
        return Ok(Rendered {
            content_type: JSON,
            body: json!({ "Metrics": names }).to_string().into_bytes(),
        });
    }
    let mut body = Vec::new();
    names.iter().for_each(|name| text(&mut body, 1, name));
    Ok(Rendered { content_type: OLDER, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::Method;

    #[test]
    fn carbonserver_is_answered_in_its_forms() {
        let archives = [Archive { step: 60, retention: 3600 }, Archive { step: 600, retention: i64::MAX }];
        let rule = Rule { archives: &archives, method: Method::Max, x_files_factor: 0.5 };
        let body = |form| info(form, "a.b", rule).unwrap().body;
        let json: serde_json::Value = serde_json::from_slice(&body(CarbonserverForm::Json)).unwrap();
        assert_eq!(json["retentions"][0]["numberOfPoints"], 60);
        assert!(body(CarbonserverForm::Older).starts_with(b"\x0a\x03a.b\x12\x03max\x18\xff\xff\xff\xff\x07"));
        assert!(info(CarbonserverForm::Newer, "a.b", rule).is_err());
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(metric_list(CarbonserverForm::Older, &names).unwrap().body, b"\x0a\x01a\x0a\x01b");
        assert_eq!(metric_list(CarbonserverForm::Json, &names).unwrap().body, br#"{"Metrics":["a","b"]}"#);
        assert!(capabilities(CarbonserverForm::Newer, "x").body.starts_with(b"\x0a\x0fcarbonapi_v3_pb"));
        assert!(CarbonserverForm::named("xml").unwrap_err().to_string().contains("carbonapi_v2_pb"));
    }
}
