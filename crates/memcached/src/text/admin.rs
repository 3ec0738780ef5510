//! Commands for operators that answer at once.
//!
//! Those that tune memcached's slabs and LRU are checked, shown in `stats settings`, and otherwise
//! without effect: there is nothing of the kind to tune. Some of extstore's are turned.

use crate::arguments::VERSION as VERSION_TEXT;
use crate::flash_knobs;
use crate::session::{Ending, Next};
use crate::words::{fraction, signed, unsigned_32};

use super::{BAD_FORMAT, Call, ERROR, TextCommand};

/// Highest verbosity that is remembered.
const VERBOSITY_MAX: u32 = 2;
/// Number of slab classes that memcached knows of, for arguments that name one.
const SLAB_CLASSES: u32 = 64;

pub(crate) const VERSION: TextCommand = TextCommand {
    name: "version",
    arguments: "",
    about: "the server's version",
    words: 1,
    run: |call| {
        let line = format!("VERSION {VERSION_TEXT}");
        call.answer(line.as_bytes())
    },
};

pub(crate) const QUIT: TextCommand = TextCommand {
    name: "quit",
    arguments: "",
    about: "ends the connection",
    words: 1,
    run: |_| Next::End(Ending::Normal),
};

pub(crate) const VERBOSITY: TextCommand = TextCommand {
    name: "verbosity",
    arguments: "LEVEL [noreply]",
    about: "sets what is logged",
    words: 1,
    run: |call| match call.words.next().and_then(unsigned_32) {
        None => call.bad_format(),
        Some(level) => {
            call.turn.server.set_verbosity(level.min(VERBOSITY_MAX));
            call.answer(b"OK")
        }
    },
};

pub(crate) const SHUTDOWN: TextCommand = TextCommand {
    name: "shutdown",
    arguments: "[graceful]",
    about: "stops the server, if started with -A",
    words: 1,
    run: |call| {
        if !call.turn.settings().shutdown_allowed {
            return call.answer(b"SERVER_ERROR: shutdown not enabled");
        }
        match (call.words.next(), call.words.next()) {
            (None, _) => call.turn.server.stop(false),
            (Some(b"graceful"), None) => call.turn.server.stop(true),
            _ => return call.answer(b"CLIENT_ERROR invalid shutdown mode"),
        }
        Next::End(Ending::Shutdown)
    },
};

pub(crate) const CACHE_MEMLIMIT: TextCommand = TextCommand {
    name: "cache_memlimit",
    arguments: "MEGABYTES [noreply]",
    about: "moves the memory limit",
    words: 1,
    run: |call| {
        let answer: &[u8] = match call.words.next().and_then(unsigned_32) {
            None => ERROR,
            Some(..8) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            Some(1_000_000_001..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            Some(megabytes) => {
                call.turn.server.set_memory_limit(u64::from(megabytes) << 20);
                b"OK"
            }
        };
        call.answer(answer)
    },
};

pub(crate) const REFRESH_CERTS: TextCommand = TextCommand {
    name: "refresh_certs",
    arguments: "",
    about: "reads certificates and keys again",
    words: 1,
    run: |call| match call.turn.server.refresh_certificates() {
        Ok(()) => call.answer(b"OK"),
        Err(error) => {
            let line = format!("ERROR {error}");
            call.answer(line.as_bytes())
        }
    },
};

pub(crate) const LRU: TextCommand = TextCommand {
    name: "lru",
    arguments: "tune|mode|temp_ttl ...",
    about: "accepted; eviction tunes itself",
    words: 1,
    run: |call| {
        let answer = lru(call).unwrap_or(ERROR);
        call.answer(answer)
    },
};

fn lru(call: &mut Call<'_>) -> Option<&'static [u8]> {
    let mut tuning = call.turn.server.tuning();
    match call.words.next()? {
        b"tune" => {
            let (hot, warm) = (unsigned_32(call.words.next()?)?, unsigned_32(call.words.next()?)?);
            let (hot_factor, warm_factor) = (fraction(call.words.next()?)?, fraction(call.words.next()?)?);
            if hot.saturating_add(warm) > 80 {
                return Some(b"ERROR hot and warm pcts must not exceed 80");
            }
            if hot_factor <= 0.0 || warm_factor <= 0.0 {
                return Some(b"ERROR hot/warm age factors must be greater than 0");
            }
            (tuning.hot_lru_pct, tuning.warm_lru_pct) = (hot, warm);
            (tuning.hot_max_factor, tuning.warm_max_factor) = (hot_factor, warm_factor);
        }
        b"mode" if tuning.lru_maintainer => match call.words.next()? {
            b"flat" => tuning.lru_segmented = false,
            b"segmented" => tuning.lru_segmented = true,
            _ => return None,
        },
        b"temp_ttl" if tuning.lru_maintainer => {
            let ttl = signed(call.words.next()?)?;
            tuning.temp_lru = ttl >= 0;
            if let Ok(ttl) = u32::try_from(ttl) {
                tuning.temporary_ttl = ttl;
            }
        }
        _ => return None,
    }
    Some(b"OK")
}

pub(crate) const SLABS: TextCommand = TextCommand {
    name: "slabs",
    arguments: "reassign|automove ...",
    about: "accepted; there are no slabs",
    words: 1,
    run: |call| {
        let answer = match call.words.next() {
            Some(b"reassign") => reassign(call),
            Some(b"automove") => automove(call),
            _ => ERROR,
        };
        call.answer(answer)
    },
};

fn reassign(call: &mut Call<'_>) -> &'static [u8] {
    if !call.turn.server.tuning().slab_reassign {
        return b"CLIENT_ERROR slab reassignment disabled";
    }
    let (source, target) = (call.words.next().and_then(signed), call.words.next().and_then(signed));
    let classes = call.turn.server.classes.last() as i64;
    match (source, target) {
        (Some(source), Some(target)) if source == target => b"SAME src and dst class are identical",
        (Some(source), Some(target)) if source > classes || !(0..=classes).contains(&target) => {
            b"BADCLASS invalid src or dst class id"
        }
        (Some(_), Some(_)) => b"NOSPARE source class has no spare pages",
        _ => BAD_FORMAT,
    }
}

fn automove(call: &mut Call<'_>) -> &'static [u8] {
    let mut tuning = call.turn.server.tuning();
    let (Some(word), value) = (call.words.next(), call.words.next()) else { return BAD_FORMAT };
    match word {
        b"ratio" => match value.and_then(fraction) {
            Some(ratio) => tuning.slab_automove_ratio = ratio,
            None => return ERROR,
        },
        b"freeratio" => match value.and_then(fraction) {
            Some(ratio) => tuning.slab_automove_freeratio = ratio,
            None => return ERROR,
        },
        b"window" => match value.and_then(unsigned_32) {
            Some(window) => tuning.slab_automove_window = window,
            None => return BAD_FORMAT,
        },
        level => match unsigned_32(level) {
            Some(level @ 0..=2) => tuning.slab_automove = level,
            Some(_) => return ERROR,
            None => return BAD_FORMAT,
        },
    }
    b"OK"
}

pub(crate) const EXTSTORE: TextCommand = TextCommand {
    name: "extstore",
    arguments: "NAME VALUE",
    about: "turns a knob of the flash tier: recache_rate, item_age, item_size, compact_under, ...",
    words: 1,
    run: |call| {
        let answer = if extstore(call).is_some() { b"OK".as_slice() } else { ERROR };
        flash_knobs::turn(call.turn.server);
        call.answer(answer)
    },
};

fn extstore(call: &mut Call<'_>) -> Option<()> {
    let (name, value) = (call.words.next()?, call.words.next()?);
    let mut tuning = call.turn.server.tuning();
    let number = || unsigned_32(value);
    match name {
        b"free_memchunks" => {
            let class = number()?;
            unsigned_32(call.words.next()?)?;
            return (class < SLAB_CLASSES).then_some(());
        }
        b"item_size" => tuning.ext_item_size = number()?,
        b"item_age" => tuning.ext_item_age = number()?,
        b"low_ttl" => tuning.ext_low_ttl = number()?,
        b"recache_rate" => tuning.ext_recache_rate = number()?,
        b"compact_under" => tuning.ext_compact_under = number()?,
        b"drop_under" => tuning.ext_drop_under = number()?,
        b"max_sleep" => tuning.ext_max_sleep = number()?,
        b"max_frag" => tuning.ext_max_frag = fraction(value)?,
        b"drop_unread" => tuning.ext_drop_unread = number()? != 0,
        _ => return None,
    }
    Some(())
}
