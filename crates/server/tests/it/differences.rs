//! Goal: `/sandur/differences` compares a box of time with the rest of a range, and says what is wrong with a
//! request.
//!
//! Method: requests to the router over rows in memory; what is counted is tested in `sandur-logql`.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use sandur_model::{Labels, Level};
use sandur_query::{MemoryRow, MemorySource};

use crate::harness::Server;

const S: i64 = 1_000_000_000;

fn server() -> Server {
    let row = |second: i64, host: &str, line: &str| MemoryRow {
        labels: Arc::new(Labels::from_pairs([("app", "api"), ("host", host)])),
        timestamp: second * S,
        line: line.to_owned().into(),
        metadata: Vec::new(),
        level: Level::None,
    };
    let mut rows = Vec::new();
    for second in 1_000..1_100 {
        rows.push(row(second, "a", "code=200 path=/"));
        let is_inside = (1_050..1_060).contains(&second);
        rows.push(row(second, "b", if is_inside { "code=500 path=/" } else { "code=200 path=/" }));
    }
    Server::over(Arc::new(MemorySource::new(rows)), |_| ())
}

const QUERY: (&str, &str) = ("query", r#"{app="api"}"#);
const RANGE: [(&str, &str); 2] = [("start", "1000"), ("end", "1100")];

#[tokio::test(start_paused = true)]
async fn fields_are_ranked_by_the_difference_of_their_shares() {
    let server = server();
    let inside = [("box_start", "1050"), ("box_end", "1060")];
    let asked = [&[QUERY][..], &RANGE, &inside].concat();
    let answer = server.get("/sandur/differences", &asked).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let expected = concat!(
        r#"{"inside":20,"outside":180,"everyInside":1,"everyOutside":1,"hasMoreFields":false,"fields":["#,
        r#"{"name":"code","origin":"logfmt","score":0.500000,"number":2,"restInside":0,"restOutside":0,"#,
        r#""restScoreMax":0.000000,"valuesLeftOut":0,"values":[{"value":"200","inside":10,"outside":180},"#,
        r#"{"value":"500","inside":10,"outside":0}]},"#,
    );
    assert!(answer.body.starts_with(expected), "{}", answer.body);
    assert!(
        answer.body.contains(r#"{"name":"path","origin":"logfmt","score":0.000000,"number":1"#),
        "{}",
        answer.body
    );
    let one = [&asked[..], &[("limit", "1")]].concat();
    let answer = server.get("/sandur/differences", &one).await;
    assert!(
        answer.body.contains(r#""hasMoreFields":true"#) && !answer.body.contains("path"),
        "{}",
        answer.body
    );
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_box_or_with_another_query_are_refused() {
    let server = server();
    let refused = async |more: &[(&str, &str)], text: &str| {
        let asked = [&RANGE[..], more].concat();
        let answer = server.get("/sandur/differences", &asked).await;
        assert_eq!(answer.status, 400, "{more:?}: {}", answer.body);
        assert!(answer.body.contains(text), "{more:?}: {}", answer.body);
    };
    let inside = [("box_start", "1050"), ("box_end", "1060")];
    refused(&[QUERY], "box_start is missing").await;
    refused(&[QUERY, inside[0]], "box_end is missing").await;
    refused(&[QUERY, ("box_start", "x"), inside[1]], "invalid box_start").await;
    refused(&[QUERY, ("box_start", "1060"), ("box_end", "1060")], "the box is empty").await;
    refused(&[QUERY, ("box_start", "2000"), ("box_end", "2060")], "outside of the time range").await;
    refused(&inside, "unexpected $end").await;
    refused(&[&inside[..], &[("query", r#"rate({app="api"}[1m])"#)]].concat(), "only log selector").await;
    refused(&[&inside[..], &[("query", "{app=")]].concat(), "syntax error").await;
}
