//! `sandur/dashboards`: the dashboards that the operator provides in a folder, for the explorer.
//!
//! Invariant: the memory of a file and of an answer is reserved before it is used.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_memory::Reservation;
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Call;
use crate::dashboard_folder::{Entry, FILE_BYTES_MAX, FolderError, Kind};
use crate::failed_request::Failure;
use crate::operations::query_list::{self, Listed};
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Parameter, Route, parameter};

const NAME: &[Parameter] =
    &[parameter("{name}", "part of the path: the name in the list, `NAME` or `FOLDER/NAME`")];
/// Bytes of the list while it is read: a file and its title, and names, titles and errors of 1,000 files.
const LISTING_BYTES: u64 = 2 * FILE_BYTES_MAX + (4 << 20);

/// The row of the list in the table of routes.
pub static LIST: Route = Route {
    methods: GET,
    paths: &["/sandur/dashboards"],
    scope: Access::Read,
    does: "The dashboards of the folder `dashboards`, the same for all tenants: the name (the path of the \
           file below the folder, without `.json`), title, kind (`sandur` or `grafana`), bytes and time of \
           the last change; for a file that cannot be used the reason instead of title and kind \
           ([explorer.md](../explorer.md#dashboards-of-the-server)).",
    answers: "200, JSON: `{\"dashboards\": [{\"name\", \"title\", \"kind\", \"bytes\", \"modified_ms\", \
              \"error\"}], \"configured\", \"notes\"}`; `notes` says what concerns the folder as a whole.",
    fails: "503 when the folder cannot be read, or when there is no memory for the answer.",
    several_tenants: true,
    handler: |request, app| list.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of a dashboard in the table of routes.
pub static ONE: Route = Route {
    paths: &["/sandur/dashboards/{*name}"],
    does: "A dashboard of the folder `dashboards`: the file as it is.",
    parameters: NAME,
    answers: "200, the JSON of the file.",
    fails: "400 when the name is not one of a dashboard, 404 when there is no such file or no folder, 422 \
            when the file cannot be used (the text says why), 503 when the folder cannot be read, or when \
            there is no memory for the answer.",
    handler: |request, app| one.call(request, app),
    ..LIST
};

async fn list(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let is_configured = app.dashboards.is_given();
    let listing = match is_configured {
        true => {
            let turn = app.dashboards.turn().await;
            app.dashboards.list(&app.env, (turn, memory(&app, LISTING_BYTES)?)).await?
        }
        false => Default::default(),
    };
    let more = [("configured", json!(is_configured)), ("notes", json!(listing.notes))];
    query_list::answer_with(&app.queries, &call, listing.entries, &more).await
}

async fn one(State(app): State<App>, Path(name): Path<String>, call: Call) -> Result<Response, Failure> {
    let turn = app.dashboards.turn().await;
    let held = (turn, memory(&app, 2 * FILE_BYTES_MAX)?);
    let (bytes, memory) = app.dashboards.read(&app.env, name, held).await?;
    Ok(reply::large_json(&app.env, &call, bytes, Some(memory)).await)
}

fn memory(app: &App, bytes: u64) -> Result<Reservation, Failure> {
    let memory = app.queries.memory().reserve(bytes);
    memory.map_err(|short| Failure::new(ErrorKind::Busy, format!("no memory for the answer: {short}")))
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let text = format!("{error}\n");
        match error {
            FolderError::None | FolderError::Absent(_) => Self::new(ErrorKind::NotFound, text),
            FolderError::Name(_) => Self::invalid(text),
            FolderError::Folder { .. } => Self::new(ErrorKind::Unavailable, text),
            FolderError::Unusable { .. } => Self::invalid(text).with_status(StatusCode::UNPROCESSABLE_ENTITY),
        }
    }
}

impl Listed for Entry {
    const LIST: &str = "dashboards";
    const BYTES: usize = 256;

    fn text_bytes(&self) -> usize {
        self.name.len() + self.head.as_ref().map_or_else(String::len, |head| head.title.len())
    }

    fn shown(&self) -> Value {
        let (name, bytes, modified_ms) = (&self.name, self.bytes, self.modified_ms);
        match &self.head {
            Err(error) => {
                json!({ "name": name, "bytes": bytes, "modified_ms": modified_ms, "error": error })
            }
            Ok(head) => {
                let kind = match head.kind {
                    Kind::Sandur => "sandur",
                    Kind::Grafana => "grafana",
                };
                json!({
                    "name": name,
                    "title": head.title,
                    "kind": kind,
                    "bytes": bytes,
                    "modified_ms": modified_ms,
                })
            }
        }
    }
}
