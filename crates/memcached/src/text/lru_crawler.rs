//! lru_crawler: lists keys, and accepts the settings of memcached's crawler, which does not exist here.

use std::sync::Arc;

use crate::dump::{Dump, Form};
use crate::next::Next;
use crate::words::{unsigned, unsigned_32};

use super::call::{BAD_FORMAT, Call, ERROR};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let (name, argument) = (call.words.next(), call.words.next());
    let answer: &[u8] = match (name, argument) {
        (Some(b"metadump"), Some(classes)) => return dump(call, classes, Form::Metadata),
        (Some(b"mgdump"), Some(classes)) => return dump(call, classes, Form::Gets),
        (Some(b"crawl"), Some(classes)) => crawl(call, classes),
        (Some(b"tocrawl"), Some(number)) => match unsigned_32(number) {
            None => BAD_FORMAT,
            Some(number) => {
                call.context.server.tuning().lru_crawler_tocrawl = number;
                b"OK"
            }
        },
        (Some(b"sleep"), Some(number)) => match unsigned_32(number) {
            None => BAD_FORMAT,
            Some(1_000_001..) => b"CLIENT_ERROR sleep must be one second or less",
            Some(number) => {
                call.context.server.tuning().lru_crawler_sleep = number;
                b"OK"
            }
        },
        (Some(b"enable"), None) => {
            call.context.server.tuning().lru_crawler = true;
            b"OK"
        }
        (Some(b"disable"), None) => {
            call.context.server.tuning().lru_crawler = false;
            b"OK"
        }
        _ => ERROR,
    };
    call.answer(answer)
}

/// Returns the classes that an argument names; `None` is all of them.
fn classes(call: &Call<'_>, argument: &[u8]) -> Result<Option<u64>, &'static [u8]> {
    if matches!(argument, b"all" | b"hash") {
        return Ok(None);
    }
    argument.split(|byte| *byte == b',').try_fold(Some(0u64), |classes, word| {
        let class =
            unsigned(word).filter(|class| (1..=call.context.server.classes.last() as u64).contains(class));
        let class = class.ok_or(b"BADCLASS invalid class id".as_slice())?;
        Ok(classes.map(|classes| classes | 1 << class))
    })
}

/// Expired items are removed when the scan reaches them.
fn crawl(call: &Call<'_>, argument: &[u8]) -> &'static [u8] {
    if !call.context.server.tuning().lru_crawler {
        return b"CLIENT_ERROR lru crawler disabled";
    }
    match classes(call, argument) {
        Err(error) => error,
        Ok(_) => {
            let cache = call.context.cache();
            (0..cache.shards()).for_each(|shard| {
                cache.sweep(shard);
            });
            b"OK"
        }
    }
}

fn dump(call: &mut Call<'_>, argument: &[u8], form: Form) -> Next {
    if !call.context.server.tuning().lru_crawler {
        return call.answer(b"CLIENT_ERROR lru crawler disabled");
    }
    if !call.context.settings().dump_allowed {
        return call.answer(form.refusal());
    }
    if !call.first_in_output {
        return call.answer(form.pipelined());
    }
    match classes(call, argument) {
        Err(error) => call.answer(error),
        Ok(classes) => {
            match Dump::start(Arc::clone(call.context.server), classes, form, call.context.waker.clone()) {
                Some(dump) => Next::Stream(Box::new(dump)),
                None => call.answer(b"BUSY currently processing crawler request"),
            }
        }
    }
}
