//! Every command of every protocol: the tables in which requests are looked up and from which the
//! reference page is made.

use crate::arguments::VERSION;
use crate::binary::call::{Does, Entry as Packet, Run, Shape};
use crate::binary::retrieval::{self, Shown as Parts};
use crate::binary::{self, sasl};
use crate::meta::{ma, md, me, mg, ms};
use crate::next::{Ending, Next};
use crate::operations::store::Verb;
use crate::text::call::{Entry as Line, line, meta};
use crate::text::multiget::{self, Shown};
use crate::text::{self, control, storage};

/// A command that stores the value that follows its line.
const fn store(name: &'static str, arguments: &'static str, about: &'static str) -> Line {
    line(name, arguments, about, storage::begin).words(5).then(storage::finish)
}

/// The words of the commands that store a value.
const ITEM: &str = "KEY FLAGS EXPIRY BYTES [noreply]";

/// The commands of the text protocol, including meta commands. They are searched in this order, so the
/// most frequent ones come first.
pub(crate) const TEXT: &[Line] = &[
    line("get", "KEY...", "returns values", |call| multiget::begin(call, Shown::default())).words(2),
    line("gets", "KEY...", "returns values with version numbers", |call| {
        multiget::begin(call, Shown { cas: true, ..Shown::default() })
    })
    .words(2),
    meta("mg", "KEY [FLAG...]", "reads an item; b C E N O R T and c f h k l q s t u v", mg::run).words(2),
    store("set", ITEM, "stores a value"),
    meta("ms", "KEY BYTES [FLAG...]", "writes an item; b C E F I M N O T and c k q s", ms::run)
        .words(3)
        .then(ms::finish),
    meta("mn", "", "does nothing; its answer marks the end of a series of quiet commands", |call| {
        call.output.line(b"MN");
        Next::Done
    }),
    meta("md", "KEY [FLAG...]", "removes an item or marks it as stale; b C E F I O T x and k q", md::run)
        .words(2),
    meta("ma", "KEY [FLAG...]", "changes a number; b C D E J M N O T and c k q t v", ma::run).words(2),
    store("add", ITEM, "stores a value if the key has none"),
    store(
        "cas",
        "KEY FLAGS EXPIRY BYTES CAS [noreply]",
        "stores a value if the item still has this version number",
    ),
    store("replace", ITEM, "stores a value if the key has one"),
    store("append", ITEM, "adds to the end of a value"),
    store("prepend", ITEM, "adds to the start of a value"),
    line("delete", "KEY [noreply]", "removes an item", text::delete::run).words(2),
    line("touch", "KEY EXPIRY [noreply]", "sets a new expiry", text::touch::run).words(3),
    line("gat", "EXPIRY KEY...", "returns values and sets a new expiry", |call| {
        multiget::begin_touching(call, Shown::default())
    })
    .words(3),
    line("gats", "EXPIRY KEY...", "returns values with version numbers and sets a new expiry", |call| {
        multiget::begin_touching(call, Shown { cas: true, ..Shown::default() })
    })
    .words(3),
    line("incr", "KEY NUMBER [noreply]", "adds to a number; wraps at 2^64", |call| {
        text::arithmetic::run(call, true)
    })
    .words(3),
    line("decr", "KEY NUMBER [noreply]", "subtracts from a number; stops at 0", |call| {
        text::arithmetic::run(call, false)
    })
    .words(3),
    meta("me", "KEY [b]", "returns the metadata of an item, without its value", me::run).words(2),
    line("stats", "[FORM]", "returns statistics; forms are listed below", text::stats::run),
    line("version", "", "returns the server's version", |call| {
        call.answer(format!("VERSION {VERSION}").as_bytes())
    }),
    line(
        "flush_all",
        "[DELAY] [noreply]",
        "invalidates all items, now or after DELAY seconds",
        control::flush_all,
    ),
    line("quit", "", "ends the connection", |_| Next::End(Ending::Normal)),
    line("verbosity", "LEVEL [noreply]", "sets the level of the log", control::verbosity),
    line("shutdown", "[graceful]", "stops the server, if started with -A", control::shutdown),
    line("cache_memlimit", "MEGABYTES [noreply]", "changes the memory limit", control::cache_memlimit),
    line(
        "watch",
        "[fetchers|mutations|evictions|deletions|connevents|sysevents ...]",
        "sends events as log lines over this connection",
        text::watch::run,
    ),
    line(
        "lru_crawler",
        "metadump|mgdump CLASSES, enable, disable, crawl, tocrawl, sleep",
        "lists keys with their metadata; the other forms have no effect",
        text::lru_crawler::run,
    ),
    line(
        "lru",
        "tune|mode|temp_ttl ...",
        "accepted without effect; eviction needs no tuning",
        text::lru::run,
    ),
    line("slabs", "reassign|automove ...", "accepted without effect; there are no slabs", text::slabs::run),
    line(
        "extstore",
        "NAME VALUE",
        "changes an option of the flash tier: recache_rate, item_age, item_size, compact_under, ...",
        text::extstore::run,
    ),
    line("refresh_certs", "", "reads certificates and keys again", control::refresh_certs),
    line("debugtime", "SECONDS", "moves the server's clock forward (tests only)", control::debugtime),
    line("misbehave", "", "ends the connection (tests only)", control::misbehave),
];

/// A command without quiet form, key or value, whose answer is empty.
const NOOP: Packet = Packet {
    opcode: 0x0a,
    quiet: None,
    name: "noop",
    extras: &[0],
    shape: Shape::Bare,
    open: false,
    does: Does::Run(|call| call.done(0)),
};

/// A command that stores a value.
const fn write(opcode: u8, quiet: u8, name: &'static str, extras: &'static [u8], verb: Verb) -> Packet {
    let (quiet, shape, does) = (Some(quiet), Shape::KeyAndValue, Does::Store(verb));
    Packet { opcode, quiet, name, extras, shape, open: false, does }
}

/// A command that reads or changes an item.
const fn key(opcode: u8, quiet: Option<u8>, name: &'static str, extras: &'static [u8], run: Run) -> Packet {
    Packet { opcode, quiet, name, extras, shape: Shape::Key, open: false, does: Does::Run(run) }
}

/// The commands of the binary protocol.
pub(crate) const BINARY: &[Packet] = &[
    key(0x00, Some(0x09), "get", &[0], |call| retrieval::run(call, Parts::default())),
    key(0x0c, Some(0x0d), "getk", &[0], |call| retrieval::run(call, Parts { key: true, ..Parts::default() })),
    write(0x01, 0x11, "set", &[8], Verb::Set),
    write(0x02, 0x12, "add", &[8], Verb::Add),
    write(0x03, 0x13, "replace", &[8], Verb::Replace),
    write(0x0e, 0x19, "append", &[0], Verb::Append),
    write(0x0f, 0x1a, "prepend", &[0], Verb::Prepend),
    key(0x04, Some(0x14), "delete", &[0], binary::delete::run),
    key(0x1c, None, "touch", &[4], |call| {
        retrieval::run(call, Parts { touches: true, bare: true, ..Parts::default() })
    }),
    key(0x1d, Some(0x1e), "gat", &[4], |call| {
        retrieval::run(call, Parts { touches: true, ..Parts::default() })
    }),
    key(0x23, Some(0x24), "gatk", &[4], |call| {
        retrieval::run(call, Parts { touches: true, key: true, ..Parts::default() })
    }),
    key(0x05, Some(0x15), "increment", &[20], |call| binary::arithmetic::run(call, true)),
    key(0x06, Some(0x16), "decrement", &[20], |call| binary::arithmetic::run(call, false)),
    NOOP,
    Packet {
        opcode: 0x08,
        quiet: Some(0x18),
        name: "flush",
        extras: &[0, 4],
        does: Does::Run(binary::flush::run),
        ..NOOP
    },
    Packet {
        opcode: 0x0b,
        name: "version",
        open: true,
        does: Does::Run(|call| call.value(VERSION.as_bytes())),
        ..NOOP
    },
    Packet { opcode: 0x10, name: "stat", shape: Shape::MaybeKey, does: Does::Run(binary::stat::run), ..NOOP },
    Packet {
        opcode: 0x07,
        quiet: Some(0x17),
        name: "quit",
        does: Does::Run(|call| {
            call.done(0);
            Next::End(Ending::Normal)
        }),
        ..NOOP
    },
    Packet {
        opcode: 0x20,
        name: "sasl list mechanisms",
        open: true,
        does: Does::Run(sasl::list_mechanisms),
        ..NOOP
    },
    Packet {
        opcode: 0x21,
        name: "sasl auth",
        does: Does::Run(|call| sasl::authenticate(call, true)),
        ..SASL_STEP
    },
    SASL_STEP,
];

/// PLAIN has one step, so a second one belongs to no authentication.
const SASL_STEP: Packet = Packet {
    opcode: 0x22,
    name: "sasl step",
    shape: Shape::KeyAndValue,
    open: true,
    does: Does::Run(|call| sasl::authenticate(call, false)),
    ..NOOP
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_opcodes_are_unique() {
        let names: BTreeSet<_> = TEXT.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), TEXT.len());
        let opcodes = || BINARY.iter().flat_map(|entry| [Some(entry.opcode), entry.quiet]).flatten();
        assert_eq!(opcodes().collect::<BTreeSet<_>>().len(), opcodes().count());
    }
}
