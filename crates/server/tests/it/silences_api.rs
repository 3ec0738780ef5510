//! Goal: `/alertmanager/api/v2` answers about silences as Alertmanager does, keeps tenants apart, and refuses
//! what is wrong with the reason.
//!
//! Method: the router over an empty store, in this process.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use axum::http::Method;
use sandur_query::MemorySource;
use serde_json::{Value, json};

use crate::harness::{NOW, Server};

#[tokio::test(start_paused = true)]
async fn silences_have_the_api_of_alertmanager() {
    let server = Server::over(Arc::new(MemorySource::new(Vec::new())), |_| ());
    let send = async |method: Method, path: &str, tenant: &str, body: &str| {
        let path = format!("/alertmanager/api/v2/{path}");
        let answer = server.carry(method, &path, &[("x-scope-orgid", tenant)], body.to_owned()).await;
        assert!(answer.kind.starts_with("application/json"), "{}", answer.kind);
        (answer.status, answer.body)
    };
    // As `amtool silence add` sends it.
    let silence = |value: &str, from: i64, to: i64| {
        let time = |hours: i64| jiff::Timestamp::from_second(NOW + hours * 3_600).unwrap();
        json!({
            "comment": "planned work",
            "createdBy": "ops",
            "startsAt": time(from).to_string(),
            "endsAt": time(to).to_string(),
            "matchers": [{"isEqual": true, "isRegex": false, "name": "alertname", "value": value}],
        })
    };
    assert_eq!(send(Method::GET, "silences", "t", "").await, (200, "[]".to_owned()));
    let (status, body) = send(Method::POST, "silences", "t", &silence("Down", 0, 1).to_string()).await;
    assert_eq!(status, 200, "{body}");
    let id = serde_json::from_str::<Value>(&body).unwrap()["silenceID"].as_str().unwrap().to_owned();
    let (status, body) = send(Method::GET, &format!("silence/{id}"), "t", "").await;
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &shown["status"]["state"], &shown["createdBy"]),
        (200, &json!("active"), &json!("ops"))
    );
    assert_eq!(shown["matchers"], silence("Down", 0, 1)["matchers"]);
    assert_eq!(send(Method::GET, &format!("silence/{id}"), "other", "").await.0, 404);

    let later = silence("Later", 2, 3).to_string();
    assert_eq!(send(Method::POST, "silences", "t", &later).await.0, 200);
    let names = async |query: &str| {
        let (status, body) = send(Method::GET, &format!("silences{query}"), "t", "").await;
        assert_eq!(status, 200, "{body}");
        let listed: Vec<Value> = serde_json::from_str(&body).unwrap();
        let name = |silence: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            format!("{} {}", text(&silence["matchers"][0]["value"]), text(&silence["status"]["state"]))
        };
        listed.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(names("").await, "Down active, Later pending");
    assert_eq!(names("?filter=alertname%3D~%22L.*%22").await, "Later pending");
    assert_eq!(send(Method::DELETE, &format!("silence/{id}"), "t", "").await, (200, String::new()));
    assert_eq!(names("").await, "Later pending, Down expired");

    for (body, expected) in [
        (silence("", 0, 1), "at least one matcher must not match the empty string"),
        (silence("x", 1, 1), "start time must be before end time"),
        (silence("x", -2, -1), "end time can't be in the past"),
        (json!({}), "the body is not a silence: missing field `matchers`"),
        (
            json!({"matchers": [], "startsAt": "now", "endsAt": "", "createdBy": "", "comment": ""}),
            "startsAt: 'now'",
        ),
    ] {
        let (status, text) = send(Method::POST, "silences", "t", &body.to_string()).await;
        let text: String = serde_json::from_str(&text).unwrap();
        assert!(status == 400 && text.contains(expected), "{status} {text}");
    }
    let large = format!("{{\"comment\":\"{}\"}}", "x".repeat(200_000));
    assert_eq!(send(Method::POST, "silences", "t", &large).await.0, 413);
    let mut body = silence("x", 0, 1);
    body["id"] = json!("none");
    assert_eq!(send(Method::POST, "silences", "t", &body.to_string()).await.0, 404);
    assert_eq!(send(Method::DELETE, "silence/none", "t", "").await.0, 404);
    assert_eq!(send(Method::GET, "silences?filter=x", "t", "").await.0, 400);
    for path in ["alerts", "alerts/groups", "receivers"] {
        assert_eq!(send(Method::GET, path, "t", "").await, (200, "[]".to_owned()), "{path}");
    }
    assert_eq!(send(Method::GET, "alerts?active=maybe", "t", "").await.0, 400);
    let status: Value = serde_json::from_str(&send(Method::GET, "status", "t", "").await.1).unwrap();
    assert!(status["config"]["original"].as_str().unwrap().contains("group_by: [\"alertname\"]"), "{status}");
    assert_eq!(status["cluster"]["status"], "disabled");
}
