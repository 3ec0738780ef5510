//! Locates the mistake in an invalid query, and suggests a correction.
//!
//! Error messages are Loki's and are not changed; the command line shows a diagnosis in addition. The
//! parser reports the token at which it stopped. [`advice`] knows common mistakes, [`other_languages`]
//! knows keywords of other languages, and names come from the tables of the parser.

mod advice;
mod calls;
mod other_languages;
mod scene;
mod whole;

use std::ops::Range;

use scene::{Advice, Scene};

use crate::error::ParseError;
use crate::lexer::Token;
use crate::parser::{parse, stopped};

/// The diagnosis of an invalid query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The wrong part, as a byte range of the text. Empty if something is missing; absent if the error is
    /// about the complete query.
    pub span: Option<Range<usize>>,
    /// The suggested correction.
    pub help: Option<String>,
}

/// Diagnoses an invalid query; `None` if it is valid.
pub fn diagnose(text: &str) -> Option<Diagnosis> {
    let error = parse(text).err()?;
    let Some((tokens, stopped)) = stopped(text) else {
        return Some(Diagnosis { span: None, help: None });
    };
    let scene = Scene { text, at: at_fault(&tokens, stopped, &error), tokens: &tokens };
    let is_whole = error.line == 0 && error.column == 0;
    let advice = if is_whole { whole::find(&scene, &error.message) } else { advice::find(&scene) };
    let default = (!is_whole).then(|| scene.token().span.clone());
    Some(match advice {
        Some(Advice { span, help }) => Diagnosis { span: span.or(default), help },
        None => Diagnosis { span: default, help: None },
    })
}

/// The index of the token that the error is about: the one at which parsing stopped, or the one after a
/// bar.
fn at_fault(tokens: &[Token], stopped: usize, error: &ParseError) -> usize {
    let is_it =
        |at: &usize| tokens.get(*at).is_some_and(|t| (t.line, t.column) == (error.line, error.column));
    [stopped, stopped + 1, stopped.saturating_sub(1)].into_iter().find(is_it).unwrap_or(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query with the wrong part in brackets, and the suggestion.
    fn shown(query: &str) -> (String, String) {
        let diagnosis = diagnose(query).unwrap_or_else(|| panic!("{query} is valid"));
        let marked = match diagnosis.span {
            Some(span) => {
                format!("{}⟦{}⟧{}", &query[..span.start], &query[span.clone()], &query[span.end..])
            }
            None => query.to_owned(),
        };
        (marked, diagnosis.help.unwrap_or_default())
    }

    #[test]
    fn common_mistakes_are_located_and_explained() {
        for (marked, help) in [
            (r#"⟦rat⟧({app="api"}[5m])"#, "did you mean `rate`?"),
            (r#"sum(⟦cuont_over_time⟧({app="api"}[5m]))"#, "did you mean `count_over_time`?"),
            (r#"⟦increase⟧({app="api"}[5m])"#, "`count_over_time`"),
            (r#"⟦irate⟧({app="api"}[5m])"#, "`rate`"),
            (r#"⟦whatever⟧({app="api"}[5m])"#, "docs/reference/logql.md"),
            (r#"rate({app="api"}⟦)⟧"#, "rate({…} [5m])"),
            (r#"sum(rate({app="api"} |= "x"⟦)⟧)"#, "rate({…} [5m])"),
            (r#"sum by (app) ({app="api"}⟦)⟧"#, "sum(count_over_time({…} [5m]))"),
            (r#"sum({app="api"}⟦[5m]⟧)"#, "sum(count_over_time({…} [5m]))"),
            (r#"{app="api"}⟦[5m]⟧"#, "count_over_time({…} [5m])"),
            (r#"rate({app="api"}⟦[5]⟧)"#, "a number with a unit"),
            (r#"rate({app="api"}⟦[5m:1m])⟧"#, "no subqueries"),
            (r#"rate(⟦http_requests⟧[5m])"#, "{app=\"api\"}"),
            (r#"⟦http_requests⟧{app="api"}"#, "no metric names"),
            (r#"⟦rate⟧{app="api"}[5m]"#, "rate({…} [5m])"),
            (r#"{app=⟦api⟧}"#, "\"api\""),
            (r#"{app=⟦my⟧-api-2, x="y"}"#, "\"my-api-2\""),
            (r#"{app=⟦api⟧.v1}"#, "\"api.v1\""),
            (r#"{app="api"} |= ⟦a⟧.log"#, "\"a.log\""),
            (r#"{app=⟦'api'}⟧"#, "double quotes"),
            (r#"{app="⟦⟧"#, "closing quote"),
            (r#"{app⟦:⟧ "api"}"#, "app=\"…\""),
            (r#"{app⟦==⟧"api"}"#, "`=`"),
            (r#"{app="api" ⟦env⟧="prod"}"#, "comma"),
            (r#"{app="api" ⟦and⟧ env="prod"}"#, "comma"),
            (r#"{⟦"app"⟧="api"}"#, "not quoted"),
            (r#"{status⟦>⟧500}"#, "after the selector"),
            (r#"{app="api"⟦⟧"#, "`}` is missing"),
            (r#"⟦{}⟧"#, "{service_name=~\".+\"}"),
            (r#"⟦{app=~".*"}⟧ |= "x""#, "{service_name=~\".+\"}"),
            (r#"{app="api"} ⟦=⟧ "x""#, "`|= \"x\"`"),
            (r#"{app="api"} == ⟦"x"⟧"#, "`|= \"x\"`"),
            (r#"{app="api"} ⟦"x"⟧"#, "`|= \"x\"`"),
            (r#"{app="api"} | ⟦"x"⟧"#, "`|= \"x\"`"),
            (r#"{app="api"} ⟦=~⟧ "x""#, "`|~ \"x\"`"),
            (r#"{app="api"} | ⟦=⟧ "x""#, "`|=`"),
            (r#"{app="api"} |= ⟦error⟧"#, "\"error\""),
            (r#"{app="api"} |= ⟦⟧"#, "text in quotes"),
            (r#"{app="api"} | ⟦jsn⟧"#, "did you mean `json`?"),
            (r#"{app="api"} | ⟦logfm⟧ | x="y""#, "did you mean `logfmt`?"),
            (r#"{app="api"} | ⟦grep⟧ "x""#, "`|= \"text\"`"),
            (r#"{app="api"} | ⟦limit⟧ 10"#, "--limit"),
            (r#"{app="api"} | ⟦where⟧ status > 500"#, "| status >= 500"),
            (r#"{app="api"} | ⟦something⟧"#, "| something=\"…\""),
            (r#"{app="api"} | level = ⟦error⟧"#, "\"error\""),
            (r#"{app="api"} | ⟦unwrap⟧ took"#, "sum_over_time({…} | unwrap took [5m])"),
            (r#"{app="api"} |= "a" ⟦&⟧& |= "b""#, "without an operator"),
            (r#"⟦sum_over_time⟧({app="api"} | json [5m])"#, "| unwrap LABEL"),
            (r#"⟦rate⟧({app="api"}[5m]) by (app)"#, "sum by (app) (rate(…))"),
            (r#"⟦topk⟧(rate({app="api"}[5m]))"#, "topk(10, …)"),
            (r#"⟦quantile_over_time⟧({app="api"} | unwrap x [5m])"#, "quantile_over_time(0.99, …)"),
            (r#"⟦sum⟧ by app (rate({app="api"}[5m]))"#, "by (app)"),
            (r#"sum by (⟦"app"⟧) (rate({app="api"}[5m]))"#, "not quoted"),
            (r#"sum(rate({app="api"}[5m])⟦⟧"#, "`)` is missing"),
            (r#"rate({app="api"}[5m])⟦)⟧"#, "no matching `(`"),
            (r#"{app="api"} |~ ⟦"a(?!b)"⟧"#, "look-around"),
            (r#"{app="api"} |~ ⟦"\d+"⟧"#, "`\\d+`"),
            (r#"{app="api"} | line_format ⟦"{{.x | uper}}"⟧"#, "did you mean `upper`?"),
            (r#"{app="api"} | json | ⟦res.statusCode⟧ >= 500"#, "joined with `_`: `res_statusCode`"),
            (r#"{app="api"} | json | ⟦res.status⟧="x""#, "joined with `_`: `res_status`"),
            (r#"sum(sum_over_time({app="api"} | json | unwrap ⟦res.time⟧ [5m]))"#, "`res_time`"),
            (r#"{⟦k8s.pod.name⟧="a"}"#, "`k8s_pod_name`"),
            (r#"{app="api"} | took > ⟦100mss⟧"#, "did you mean `100ms`?"),
            (r#"{app="api"} | took > ⟦3parsecs⟧"#, "units of times are"),
            (r#"⟦app="web"⟧"#, "did you mean `{app=\"web\"}`?"),
            (r#"⟦app="web", env!="a"⟧ |= "x""#, "did you mean `{app=\"web\", env!=\"a\"}`?"),
            (r#"⟦error⟧"#, "begins with a stream selector"),
            (r#"⟦"error"⟧"#, "begins with a stream selector"),
            (r#"⟦⟧"#, "begins with a stream selector"),
            (r#"⟦select⟧ * from logs"#, "begins with a stream selector"),
            (r#"⟦{app="api"}⟧ + 1"#, "count_over_time"),
        ] {
            let query: String = marked.chars().filter(|c| !matches!(c, '⟦' | '⟧')).collect();
            let (found, said) = shown(&query);
            assert_eq!(found, marked, "{said}");
            assert!(said.contains(help), "{query}: {said:?} lacks {help:?}");
        }
        assert_eq!(diagnose(r#"{app="api"}"#), None);
    }

    /// The located part is always inside the text.
    #[test]
    fn every_substring_of_a_query_can_be_diagnosed() {
        let queries = [
            r#"sum by (ä, b) (rate({app="ü", c=~`d.*`} |= "é" | json | x > 5m or y=ip("::1") [5m]))"#,
            "{a=\"b\"}\n | line_format `{{.x}}\n{{.y | printf \"%s\"}}` /* c */ | label_format a=b, c=\"d [",
            r#"topk(5, quantile_over_time(0.9, {a="b"} | unwrap duration(x) [1h]) by (y)) / on (z) 2"#,
        ];
        for query in queries {
            for (from, _) in query.char_indices() {
                for (to, _) in query[from..].char_indices() {
                    let text = &query[from..from + to];
                    if let Some(Diagnosis { span: Some(span), .. }) = diagnose(text) {
                        assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}");
                    }
                }
            }
        }
    }
}
