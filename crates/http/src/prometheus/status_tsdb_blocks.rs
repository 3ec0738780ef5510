//! `status/tsdb/blocks`: the blocks of samples.

use axum::extract::State;
use axum::response::Response;
use sandur_model::Dataset;
use sandur_service::{BlockShown, Writes};

use super::reply::{BEGIN, JSON, PIECE_BYTES, Pieces, in_pieces};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/tsdb/blocks", "/prometheus/api/v1/status/tsdb/blocks"],
    scope: Access::Read,
    does: "The blocks of samples in the store, in Prometheus's format.",
    answers: "200, \
              `{\"blocks\":[{\"ulid\",\"minTime\",\"maxTime\",\"stats\",\"compaction\",\"version\"},\
                  ..]}` as `data`.",
    handler: |request, app| blocks.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn blocks(State(writes): State<Writes>, call: Call) -> Response {
    let all = writes.intake().blocks(&Dataset::metrics(call.caller.tenant.clone()));
    in_pieces(writes.env(), &call, JSON, Blocks { all: all.into_iter(), written: 0 }, |_| ()).await
}

struct Blocks {
    all: std::vec::IntoIter<BlockShown>,
    written: usize,
}

impl Pieces for Blocks {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.written == 0 {
            out.extend_from_slice(BEGIN);
            out.extend_from_slice(b"{\"blocks\":[");
        }
        while out.len() < PIECE_BYTES {
            let Some(block) = self.all.next() else {
                out.extend_from_slice(b"]}}");
                return false;
            };
            let comma = if self.written == 0 { "" } else { "," };
            let BlockShown { id, first_ms, last_ms, samples, series, pages, level } = block;
            json::push(
                out,
                format_args!(
                    "{comma}{{\"ulid\":\"{id}\",\"minTime\":{first_ms},\"maxTime\":{last_ms},\"stats\":{{\
                     \
                     \"numSamples\":{samples},\"numSeries\":{series},\"numChunks\":{pages}}},\
                       \"compaction\":{{ \"level\":{},\"sources\":[\"{id}\"]}},\"version\":1}}",
                    u32::from(level) + 1
                ),
            );
            self.written += 1;
        }
        true
    }
}
