//! `delete`: lists the delete requests of a tenant with their progress.

use axum::extract::State;
use axum::response::Response;
use sandur_service::DeleteShown;
use sandur_service::Writes;

use super::deletes;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/delete"],
    scope: Access::Delete,
    does: "The delete requests of the tenant, oldest first.",
    parameters: &[
        parameter("start", "with `end`: only requests that touch the time between"),
        parameter("end", "see `start`"),
        parameter("for_querytime_filtering", "`true`: only requests whose lines are hidden by queries"),
    ],
    answers: "200, `[{\"request_id\":\"..\",\"start_time\":1,\"end_time\":2,\"query\":\"..\",\
              \"status\":\"..\",\"created_at\":3,\"user_id\":\"\"}]`, times in seconds; the status is \
              `received`, `42% Complete` or `processed`.",
    fails: "400: `start` or `end`; 403: `deletion_mode` is `disabled`.",
    handler: |request, app| list.call(request, app),
    ..Route::of(Group::Deletes)
};

async fn list(State(writes): State<Writes>, call: Call) -> Result<Response, Failure> {
    let requests = deletes::of(&writes, &call.caller.tenant, sandur_model::Signal::Logs)?;
    let (params, now_ns) = (&call.params, writes.env().now_ns());
    let mut shown = requests.list(&call.caller.tenant).await?;
    if let (Some(start), Some(end)) = (params.get("start"), params.get("end")) {
        let bad = |which| {
            Failure::invalid(format!("invalid {which} time: require unix seconds or RFC3339 format\n"))
        };
        let start_ms = deletes::instant_ms(Some(start), now_ns).ok_or_else(|| bad("start"))?;
        let end_ms = deletes::instant_ms(Some(end), now_ns).ok_or_else(|| bad("end"))?;
        shown.retain(|one| one.start_ms <= end_ms && one.end_ms >= start_ms);
    }
    if params.get("for_querytime_filtering") == Some("true") {
        shown.retain(|one| one.percent < 100);
    }
    shown.sort_by_key(|one| (one.created_ms, one.id));
    Ok(reply::json(body(&shown)))
}

fn body(shown: &[DeleteShown]) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (n, one) in shown.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        json::push(&mut out, format_args!("{comma}{{\"request_id\":\"{}\",\"start_time\":", one.id));
        json::seconds(&mut out, one.start_ms);
        out.extend_from_slice(b",\"end_time\":");
        json::seconds(&mut out, one.end_ms);
        out.extend_from_slice(b",\"query\":");
        json::utf8(&mut out, &one.query);
        json::push(&mut out, format_args!(",\"status\":\"{}\",\"created_at\":", deletes::status(one)));
        json::seconds(&mut out, one.created_ms);
        out.extend_from_slice(b",\"user_id\":\"\"}");
    }
    out.extend_from_slice(b"]\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_base::Id;

    #[test]
    fn requests_have_lokis_shape() {
        assert_eq!(body(&[]), b"[]\n");
        let shown = DeleteShown {
            id: Id::from_parts(5, 7),
            start_ms: 1_591_616_227_000,
            end_ms: 1_591_619_692_500,
            created_ms: 1_591_619_700_001,
            query: "{app=\"a\"} |= \"x\"".into(),
            percent: 42,
        };
        let expected = format!(
            concat!(
                r#"[{{"request_id":"{}","start_time":1591616227,"end_time":1591619692.5,"#,
                r#""query":"{{app=\"a\"}} |= \"x\"","status":"42% Complete","created_at":1591619700.001,"#,
                r#""user_id":""}}]"#
            ),
            shown.id
        );
        assert_eq!(String::from_utf8(body(&[shown])).unwrap(), expected + "\n");
    }
}
