//! stat: reports statistics of the server.

use crate::next::Next;
use crate::stats::report;

use super::call::Call;
use super::header::Status;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let (header, prefixes) = (call.header, &call.context.server.prefixes);
    match call.key {
        b"reset" => call.context.server.reset_stats(),
        b"detail on" => prefixes.turn(true),
        b"detail off" => prefixes.turn(false),
        b"detail dump" => header.write(Status::Ok, 0, &[], b"detailed", &prefixes.dump(), call.output.tail()),
        name => {
            let Some(report) = report(call.context, name) else { return call.error(Status::NotFound) };
            for (name, value) in report.rows() {
                header.write(Status::Ok, 0, &[], name.as_bytes(), value.as_bytes(), call.output.tail());
            }
        }
    }
    // an empty packet ends the list
    header.write(Status::Ok, 0, &[], &[], &[], call.output.tail());
    Next::Done
}
