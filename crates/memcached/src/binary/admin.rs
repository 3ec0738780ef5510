//! noop, flush, version, stat and quit.

use crate::arguments;
use crate::session::{Ending, Next};
use crate::stats::report;
use crate::text::flush_all::flush;

use super::{BinaryCommand, Call, Shape, Status, number_32};

pub(crate) const NOOP: BinaryCommand = BinaryCommand {
    opcode: 0x0a,
    quiet: None,
    name: "noop",
    extras: &[0],
    shape: Shape::Bare,
    open: false,
    run: |call| call.done(0),
};

pub(crate) const FLUSH: BinaryCommand = BinaryCommand {
    opcode: 0x08,
    quiet: Some(0x18),
    name: "flush",
    extras: &[0, 4],
    shape: Shape::Bare,
    open: false,
    run: |call| {
        if !call.turn.settings().flush_allowed {
            return call.error(Status::NotAuthenticated);
        }
        call.turn.counters.totals.flush_cmds.add(1);
        flush(call.turn, i64::from(number_32(call.extras, 0)));
        call.done(0)
    },
};

pub(crate) const VERSION: BinaryCommand = BinaryCommand {
    opcode: 0x0b,
    quiet: None,
    name: "version",
    extras: &[0],
    shape: Shape::Bare,
    open: true,
    run: |call| {
        let version = arguments::VERSION.as_bytes();
        call.header.write(Status::Ok, 0, &[], &[], version, call.output.tail());
        Next::Done
    },
};

pub(crate) const QUIT: BinaryCommand = BinaryCommand {
    opcode: 0x07,
    quiet: Some(0x17),
    name: "quit",
    extras: &[0],
    shape: Shape::Bare,
    open: false,
    run: |call| {
        call.done(0);
        Next::End(Ending::Normal)
    },
};

pub(crate) const STAT: BinaryCommand = BinaryCommand {
    opcode: 0x10,
    quiet: None,
    name: "stat",
    extras: &[0],
    shape: Shape::MaybeKey,
    open: false,
    run: stat,
};

fn stat(call: &mut Call<'_>) -> Next {
    let (header, prefixes) = (call.header, &call.turn.server.prefixes);
    match call.key {
        b"reset" => call.turn.server.reset_stats(),
        b"detail on" => prefixes.turn(true),
        b"detail off" => prefixes.turn(false),
        b"detail dump" => header.write(Status::Ok, 0, &[], b"detailed", &prefixes.dump(), call.output.tail()),
        name => {
            let Some(report) = report(call.turn, name) else { return call.error(Status::NotFound) };
            for (name, value) in report.rows() {
                header.write(Status::Ok, 0, &[], name.as_bytes(), value.as_bytes(), call.output.tail());
            }
        }
    }
    // an empty packet ends the list
    header.write(Status::Ok, 0, &[], &[], &[], call.output.tail());
    Next::Done
}
