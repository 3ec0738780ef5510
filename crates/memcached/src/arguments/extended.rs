//! The options of `-o`: one table for parsing, the help and the documentation.
//!
//! Most of memcached's options tune what this server tunes by itself. They are validated and shown in
//! `stats settings` as in memcached, and have no other effect.

use std::path::PathBuf;
use std::str::FromStr;

use super::draft::{Draft, WrongArguments, set};
use crate::settings::{FlashPath, Ignored, Warm};

type Apply = fn(&mut Draft, Given<'_>) -> Result<(), WrongArguments>;

/// One extended option.
pub(crate) struct Extended {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether it has an effect here.
    pub effective: bool,
    apply: Apply,
}

const fn works(name: &'static str, about: &'static str, apply: Apply) -> Extended {
    Extended { name, about, effective: true, apply }
}

const fn shown(name: &'static str, about: &'static str, apply: Apply) -> Extended {
    Extended { name, about, effective: false, apply }
}

/// Every extended option of memcached, and our own `ext_warm`.
pub(crate) const EXTENDED: &[Extended] = &[
    works(
        "ext_path",
        "file for the flash tier, FILE:SIZE[:BUCKET], with the units m, g, t and p; may be repeated",
        |d, v| {
            let text = v.value.ok_or_else(|| {
                WrongArguments::new("missing argument to ext_path, ie: ext_path=/d/file:5G")
            })?;
            let path = flash_path(text).ok_or_else(|| {
                WrongArguments::new(
                    "failed to parse ext_path argument: it is FILE:SIZE, ie: ext_path=/d/file:5G, with the \
                     units m, g, t and p",
                )
            })?;
            d.settings.flash.push(path);
            Ok(())
        },
    ),
    works(
        "ext_warm",
        "when data on flash is reused after a restart: off (never), clean (after a clean stop, the default) \
         or crash (always)",
        |d, v| {
            d.settings.warm = match v.value {
                Some("off") => Warm::Off,
                Some("clean") => Warm::Clean,
                Some("crash") => Warm::Crash,
                _ => return Err(WrongArguments::new("ext_warm must be off, clean or crash")),
            };
            Ok(())
        },
    ),
    works("maxconns_fast", "answer connections beyond the limit with an error (default)", |d, _| {
        set(&mut d.settings.refuse_fast, true)
    }),
    works("no_maxconns_fast", "let connections beyond the limit wait", |d, _| {
        set(&mut d.settings.refuse_fast, false)
    }),
    works("idle_timeout", "seconds until a silent connection is closed (default: 0, never)", |d, v| {
        v.number(&mut d.settings.idle_timeout_s)
    }),
    works("watcher_logbuf_size", "buffer of one watcher in kilobytes (default: 256)", |d, v| {
        d.settings.watcher_bytes = v.parsed::<usize>()?.clamp(1, 1 << 20) << 10;
        Ok(())
    }),
    works("track_sizes", "count item sizes for \"stats sizes\"", |d, _| {
        set(&mut d.settings.track_sizes, true)
    }),
    works("slab_chunk_max", "largest slab class in stats, in kilobytes (default: 512)", |d, v| {
        let kilobytes: u64 = v.parsed()?;
        check(kilobytes > 0, "slab_chunk_max must be >= 0")?;
        check(kilobytes <= 1 << 10, "slab_chunk_max must be specified in kilobytes.")?;
        d.settings.tuning.slab_chunk_max = kilobytes << 10;
        Ok(())
    }),
    works("ssl_chain_cert", "file with the certificate chain", |d, v| set(&mut d.tls.chain, v.path()?)),
    works("ssl_key", "file with the key", |d, v| set(&mut d.tls.key, v.path()?)),
    works(
        "ssl_verify_mode",
        "clients' certificates: 0 none (default), 1 optional, 2 required, 3 required once",
        |d, v| {
            d.tls.verify_mode = v.parsed()?;
            check(d.tls.verify_mode <= 3, "Invalid ssl_verify_mode. Use help to see valid options.")
        },
    ),
    works("ssl_ca_cert", "file with the authorities that sign clients' certificates", |d, v| {
        set(&mut d.tls.authorities, Some(v.path()?))
    }),
    works(
        "ssl_min_version",
        "minimum version: 0 to 3 for TLS 1.0 to 1.3; below 1.2 means 1.2 (default: 2)",
        |d, v| {
            d.tls.least_version = v.parsed()?;
            check(d.tls.least_version <= 3, "Invalid ssl_min_version. Use help to see valid options.")
        },
    ),
    works("ssl_session_cache", "allow clients to resume TLS sessions", |d, _| {
        set(&mut d.tls.session_cache, true)
    }),
    shown("ssl_keyformat", "the format of the key is detected", |d, v| {
        v.number(&mut d.settings.tuning.ssl_keyformat)
    }),
    shown("ssl_ciphers", "the TLS library chooses the ciphers", |d, v| {
        set(&mut d.tls.ciphers, Some(v.text()?.to_owned()))
    }),
    shown("ssl_wbuf_size", "in kilobytes; not used", |d, v| {
        set(&mut d.settings.tuning.ssl_wbuf_size, v.parsed::<u64>()? << 10)
    }),
    shown("ssl_kernel_tls", "kernel TLS is not used", |d, _| {
        set(&mut d.settings.tuning.ssl_kernel_tls, true)
    }),
    works("modern", "the default", |_, _| Ok(())),
    shown("no_modern", "shows the defaults of memcached 1.4", |d, _| {
        let tuning = &mut d.settings.tuning;
        tuning.slab_chunk_max = 1 << 20;
        (tuning.slab_reassign, tuning.slab_automove) = (false, 0);
        (tuning.lru_segmented, tuning.lru_crawler, tuning.lru_maintainer) = (false, false, false);
        "jenkins".clone_into(&mut tuning.hash_algorithm);
        d.settings.refuse_fast = false;
        Ok(())
    }),
    works("relaxed_privileges", "enable debugtime and misbehave for memcached's test suite", |d, _| {
        set(&mut d.settings.test_commands, true)
    }),
    works(
        "read_buf_mem_limit",
        "memory for incomplete commands in megabytes, divided equally among the threads; beyond it a \
         connection is closed with \"SERVER_ERROR out of memory reading request\" (default: no limit)",
        |d, v| {
            d.settings.buffer_bytes_max = v.parsed::<u64>()?.min(1 << 24) << 20;
            Ok(())
        },
    ),
    shown("hashpower", "the index grows automatically", |d, v| {
        let power = v.parsed()?;
        check(power >= 12, format!("Initial hashtable multiplier of {power} is too low"))?;
        check(power <= 32, format!("Initial hashtable multiplier of {power} is too high"))?;
        d.settings.tuning.hashpower = power;
        Ok(())
    }),
    shown("no_hashexpand", "the index grows automatically", |_, _| Ok(())),
    shown("hash_algorithm", "jenkins, murmur3 or xxh3; keys are always hashed with XXH3", |d, v| {
        let name = v.text()?;
        let known = matches!(name, "jenkins" | "murmur3" | "xxh3");
        check(known, "Unknown hash_algorithm option (jenkins, murmur3, xxh3)")?;
        name.clone_into(&mut d.settings.tuning.hash_algorithm);
        Ok(())
    }),
    shown("slab_reassign", "there are no slabs", |d, _| set(&mut d.settings.tuning.slab_reassign, true)),
    shown("no_slab_reassign", "there are no slabs", |d, _| set(&mut d.settings.tuning.slab_reassign, false)),
    shown("slab_automove", "there are no slabs", |d, v| {
        d.settings.tuning.slab_automove = match v.value {
            None => 1,
            Some(_) => v.parsed()?,
        };
        check(d.settings.tuning.slab_automove <= 2, "slab_automove must be between 0 and 2")
    }),
    shown("no_slab_automove", "there are no slabs", |d, _| set(&mut d.settings.tuning.slab_automove, 0)),
    shown("slab_automove_ratio", "there are no slabs", |d, v| {
        d.settings.tuning.slab_automove_ratio = v.parsed()?;
        check(
            (0.0..=1.0).contains(&d.settings.tuning.slab_automove_ratio),
            "slab_automove_ratio must be > 0 and < 1",
        )
    }),
    shown("slab_automove_window", "there are no slabs", |d, v| {
        d.settings.tuning.slab_automove_window = v.parsed()?;
        check(d.settings.tuning.slab_automove_window >= 3, "slab_automove_window must be > 2")
    }),
    shown("slab_automove_freeratio", "there are no slabs", |d, v| {
        v.number(&mut d.settings.tuning.slab_automove_freeratio)
    }),
    shown("slab_sizes", "there are no slabs", |_, v| v.text().map(|_| ())),
    shown("no_chunked_items", "there are no slabs", |d, _| {
        set(&mut d.settings.tuning.slab_chunk_max, 1 << 20)
    }),
    shown("tail_repair_time", "references to items cannot leak", |d, v| {
        d.settings.tuning.tail_repair_time = v.parsed()?;
        check(d.settings.tuning.tail_repair_time >= 10, "Cannot set tail_repair_time to less than 10 seconds")
    }),
    shown("lru_crawler", "expired items are removed without a crawler", |d, _| {
        set(&mut d.settings.tuning.lru_crawler, true)
    }),
    shown("no_lru_crawler", "expired items are removed without a crawler", |d, _| {
        set(&mut d.settings.tuning.lru_crawler, false)
    }),
    shown("lru_crawler_sleep", "in microseconds; there is no LRU crawler", |d, v| {
        d.settings.tuning.lru_crawler_sleep = v.parsed()?;
        check(
            d.settings.tuning.lru_crawler_sleep <= 1_000_000,
            "LRU crawler sleep must be between 0 and 1 second",
        )
    }),
    shown("lru_crawler_tocrawl", "number of items; there is no LRU crawler", |d, v| {
        v.number(&mut d.settings.tuning.lru_crawler_tocrawl)
    }),
    shown("lru_maintainer", "eviction is S3-FIFO", |d, _| {
        (d.settings.tuning.lru_maintainer, d.settings.tuning.lru_segmented) = (true, true);
        Ok(())
    }),
    shown("no_lru_maintainer", "eviction is S3-FIFO", |d, _| {
        (d.settings.tuning.lru_maintainer, d.settings.tuning.lru_segmented) = (false, false);
        Ok(())
    }),
    shown("hot_lru_pct", "eviction is S3-FIFO", |d, v| set(&mut d.settings.tuning.hot_lru_pct, v.percent()?)),
    shown("warm_lru_pct", "eviction is S3-FIFO", |d, v| {
        set(&mut d.settings.tuning.warm_lru_pct, v.percent()?)
    }),
    shown("hot_max_factor", "eviction is S3-FIFO", |d, v| {
        set(&mut d.settings.tuning.hot_max_factor, v.factor()?)
    }),
    shown("warm_max_factor", "eviction is S3-FIFO", |d, v| {
        set(&mut d.settings.tuning.warm_max_factor, v.factor()?)
    }),
    shown("temporary_ttl", "eviction is S3-FIFO", |d, v| {
        d.settings.tuning.temporary_ttl = v.parsed()?;
        d.settings.tuning.temp_lru = true;
        Ok(())
    }),
    shown("worker_logbuf_size", "in kilobytes; not used", |d, v| {
        set(&mut d.settings.tuning.worker_logbuf, v.parsed::<u64>()? << 10)
    }),
    shown("inline_ascii_resp", "obsolete", |_, _| Ok(())),
    shown("no_inline_ascii_resp", "obsolete", |_, _| Ok(())),
    shown("resp_obj_mem_limit", "obsolete, see read_buf_mem_limit", |_, _| Ok(())),
    shown("drop_privileges", "not used", |d, _| set(&mut d.settings.tuning.drop_privileges, true)),
    shown("no_drop_privileges", "the default", |d, _| set(&mut d.settings.tuning.drop_privileges, false)),
    shown("sock_cookie_id", "not used", |_, _| Ok(())),
    works(
        "ext_page_size",
        "unit of ext_compact_under and ext_drop_under in megabytes (default: 64); segment sizes are chosen \
         automatically",
        |d, v| set(&mut d.settings.tuning.ext_page_size, v.parsed::<u64>()? << 20),
    ),
    shown("ext_wbuf_size", "write buffers are sized automatically", |d, v| {
        set(&mut d.settings.tuning.ext_wbuf_size, v.parsed::<u64>()? << 20)
    }),
    shown("ext_threads", "the number of parallel reads adapts to the device", |d, v| {
        v.number(&mut d.settings.tuning.ext_threads)
    }),
    shown("ext_io_depth", "the number of parallel reads adapts to the device", |_, v| {
        v.parsed::<u32>().map(|_| ())
    }),
    works(
        "ext_item_size",
        "minimum size in bytes of items that ext_item_age moves to flash (default: 512)",
        |d, v| v.number(&mut d.settings.tuning.ext_item_size),
    ),
    works(
        "ext_item_age",
        "seconds after which an idle item moves from memory to flash even if memory has room (default: \
         never)",
        |d, v| v.number(&mut d.settings.tuning.ext_item_age),
    ),
    shown("ext_low_ttl", "short-lived items have their own segments", |d, v| {
        v.number(&mut d.settings.tuning.ext_low_ttl)
    }),
    works(
        "ext_recache_rate",
        "0: items read from flash never return to memory, 1: always, other values: if it is worthwhile",
        |d, v| v.number(&mut d.settings.tuning.ext_recache_rate),
    ),
    works(
        "ext_compact_under",
        "compact while fewer pages of ext_page_size are free (default: never)",
        |d, v| v.number(&mut d.settings.tuning.ext_compact_under),
    ),
    works("ext_drop_under", "ext_drop_unread applies while fewer pages are free (default: never)", |d, v| {
        v.number(&mut d.settings.tuning.ext_drop_under)
    }),
    shown("ext_max_sleep", "writers are woken, they do not sleep", |d, v| {
        v.number(&mut d.settings.tuning.ext_max_sleep)
    }),
    works(
        "ext_max_frag",
        "compact pages whose live share is below this (default: 0.8); 0: reclaim pages in the order of \
         writing",
        |d, v| v.number(&mut d.settings.tuning.ext_max_frag),
    ),
    works("ext_drop_unread", "compaction may drop items that were never read", |d, _| {
        set(&mut d.settings.tuning.ext_drop_unread, true)
    }),
];

/// Parses a list of extended options.
pub(super) fn apply(draft: &mut Draft, list: &str) -> Result<(), WrongArguments> {
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        let Some(option) = EXTENDED.iter().find(|option| option.name == name) else {
            return Err(WrongArguments::new(format!("Illegal suboption \"{part}\"")));
        };
        (option.apply)(draft, Given { name: option.name, value })?;
        if !option.effective {
            draft.settings.ignored.push(Ignored { option: option.name, why: option.about });
        }
    }
    Ok(())
}

/// An option as it was given.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'static str,
    value: Option<&'a str>,
}

impl<'a> Given<'a> {
    fn text(self) -> Result<&'a str, WrongArguments> {
        self.value.ok_or_else(|| WrongArguments::new(format!("Missing {} argument", self.name)))
    }

    fn path(self) -> Result<PathBuf, WrongArguments> {
        self.text().map(PathBuf::from)
    }

    fn parsed<T: FromStr>(self) -> Result<T, WrongArguments> {
        let wrong = |_| WrongArguments::new(format!("could not parse argument to {}", self.name));
        self.text()?.parse().map_err(wrong)
    }

    fn number<T: FromStr>(self, field: &mut T) -> Result<(), WrongArguments> {
        set(field, self.parsed()?)
    }

    fn percent(self) -> Result<u32, WrongArguments> {
        let percent = self.parsed()?;
        check((1..80).contains(&percent), format!("{} must be > 1 and < 80", self.name))?;
        Ok(percent)
    }

    fn factor(self) -> Result<f64, WrongArguments> {
        let factor = self.parsed()?;
        check(factor > 0.0, format!("{} must be > 0", self.name))?;
        Ok(factor)
    }
}

fn check(valid: bool, otherwise: impl Into<String>) -> Result<(), WrongArguments> {
    if valid { Ok(()) } else { Err(WrongArguments::new(otherwise)) }
}

/// Parses `FILE:SIZE[:BUCKET]`.
fn flash_path(text: &str) -> Option<FlashPath> {
    let mut parts = text.split(':');
    let (path, size) = (parts.next()?, parts.next()?);
    let (digits, unit) = size.split_at_checked(size.len().checked_sub(1)?)?;
    let shift = match unit {
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        "p" | "P" => 50,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    let kept = match parts.next() {
        None | Some("default" | "lowttl" | "chunked") => false,
        Some("compact" | "coldcompact" | "old") => true,
        Some(_) => return None,
    };
    (!path.is_empty() && bytes > 0).then(|| FlashPath { path: PathBuf::from(path), bytes, kept })
}
