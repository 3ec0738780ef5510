//! The short and long options: one table for parsing, the help and the documentation.

use std::path::PathBuf;

use super::draft::{Draft, Print, WrongArguments, set};
use super::{extended, listen};
use crate::settings::{Binding, Ignored};

/// Whether an option has an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    /// No argument.
    Nothing,
    /// An argument, with this name in the help.
    Value(&'static str),
}

/// Stands for the letter of an option that memcached does not have.
pub(crate) const NO_LETTER: char = '\0';

/// A short and long option.
pub(crate) struct CommandOption {
    /// The letter, or [`NO_LETTER`].
    pub short: char,
    pub long: &'static str,
    pub takes: Takes,
    pub about: &'static str,
    pub(super) apply: fn(&mut Draft, &str) -> Result<(), WrongArguments>,
}

impl CommandOption {
    /// The option as it is written in the help: `-m, --memory-limit`.
    pub fn names(&self, between: &str) -> String {
        match self.short {
            NO_LETTER => format!("--{}", self.long),
            letter => format!("-{letter}{between}--{}", self.long),
        }
    }
}

const fn flag(
    short: char,
    long: &'static str,
    about: &'static str,
    apply: fn(&mut Draft, &str) -> Result<(), WrongArguments>,
) -> CommandOption {
    CommandOption { short, long, takes: Takes::Nothing, about, apply }
}

const fn value(
    short: char,
    long: &'static str,
    name: &'static str,
    about: &'static str,
    apply: fn(&mut Draft, &str) -> Result<(), WrongArguments>,
) -> CommandOption {
    CommandOption { short, long, takes: Takes::Value(name), about, apply }
}

/// Every option: those of memcached, and those without a letter, which are our own.
pub(crate) const OPTIONS: &[CommandOption] = &[
    value('p', "port", "num", "TCP port to listen on (default: 11211; 0: off, -1: any free port)", |d, v| {
        d.tcp_given = true;
        d.settings.tcp_port = integer(v);
        Ok(())
    }),
    value('U', "udp-port", "num", "UDP port to listen on (default: 0, off)", |d, v| {
        d.udp_given = true;
        d.settings.udp_port = integer(v);
        Ok(())
    }),
    value('s', "unix-socket", "file", "Unix socket to listen on instead of the network", |d, v| {
        set(&mut d.settings.unix_socket, Some(PathBuf::from(v)))
    }),
    value('a', "unix-mask", "mask", "access mask of the Unix socket, in octal (default: 700)", |d, v| {
        set(&mut d.settings.unix_mask, u32::from_str_radix(v, 8).unwrap_or(0))
    }),
    flag('A', "enable-shutdown", "allow the command \"shutdown\"", |d, _| {
        set(&mut d.settings.shutdown_allowed, true)
    }),
    value(
        'l',
        "listen",
        "addr",
        "addresses to listen on, separated by commas (default: all), each as\n\
         [notls:|btls:|mtls:][proto[NAME]:][tag[NAME]:]HOST[:PORT]",
        listen::apply,
    ),
    flag('d', "daemon", "run in the background", |d, _| set(&mut d.settings.daemon, true)),
    flag('r', "enable-coredumps", "raise the size limit of core files", |_, _| Ok(())),
    value('u', "user", "user", "user to run as (only when started as root)", |d, v| {
        set(&mut d.settings.user, Some(v.to_owned()))
    }),
    value('m', "memory-limit", "num", "memory for items in megabytes (default: 64)", |d, v| {
        set(&mut d.settings.memory_bytes, u64::try_from(integer(v)).unwrap_or(0) << 20)
    }),
    flag('M', "disable-evictions", "refuse new items instead of evicting when memory is full", |d, _| {
        set(&mut d.settings.evict, false)
    }),
    value('c', "conn-limit", "num", "maximum number of connections (default: 1024)", |d, v| {
        set(&mut d.settings.connections_max, positive(v, "Maximum connections")?)
    }),
    flag('k', "lock-memory", "keep all memory of the process out of swap", |d, _| {
        set(&mut d.settings.lock_memory, true)
    }),
    flag('v', "verbose", "log more; may be repeated", |d, _| {
        d.settings.verbosity += 1;
        Ok(())
    }),
    flag('h', "help", "print this help", |d, _| set(&mut d.print, Some(Print::Help))),
    flag('i', "license", "print the licence", |d, _| set(&mut d.print, Some(Print::Licence))),
    flag('V', "version", "print the version", |d, _| set(&mut d.print, Some(Print::Version))),
    value('P', "pidfile", "file", "write the process id to this file", |d, v| {
        set(&mut d.settings.pid_file, Some(PathBuf::from(v)))
    }),
    value('f', "slab-growth-factor", "num", "growth of slab classes in stats (default: 1.25)", |d, v| {
        d.settings.slab_factor = v.parse().unwrap_or(0.0);
        // refuses a value that is not a number too
        if d.settings.slab_factor > 1.0 {
            return Ok(());
        }
        Err(WrongArguments::new("Factor must be greater than 1"))
    }),
    value('n', "slab-min-size", "bytes", "minimum size of slab classes in stats (default: 48)", |d, v| {
        set(&mut d.settings.slab_chunk_least, positive(v, "Chunk size")? as u64)
    }),
    flag('L', "enable-largepages", "accepted, ignored: memory is not allocated in one piece", |d, _| {
        let why = "memory is allocated as items are stored, not in one piece";
        d.settings.ignored.push(Ignored { option: "enable-largepages", why });
        Ok(())
    }),
    value(
        'D',
        "prefix-delimiter",
        "char",
        "character that ends a key's prefix in \"stats detail\"; enables \"stats detail\"",
        |d, v| {
            let Some(delimiter) = v.bytes().next() else {
                return Err(WrongArguments::new("No delimiter specified"));
            };
            d.settings.prefix_delimiter = delimiter;
            d.settings.detail = true;
            Ok(())
        },
    ),
    value('t', "threads", "num", "worker threads (default: one per processor)", |d, v| {
        set(&mut d.settings.threads, positive(v, "Number of threads")?)
    }),
    value(
        'R',
        "max-reqs-per-event",
        "num",
        "commands of one connection before others are served (default: 20)",
        |d, v| set(&mut d.settings.commands_per_turn, positive(v, "Number of requests per event")?),
    ),
    flag('C', "disable-cas", "items have no version numbers", |d, _| set(&mut d.settings.cas, false)),
    value(
        'b',
        "listen-backlog",
        "num",
        "connections that may wait to be accepted (default: 1024)",
        |d, v| set(&mut d.settings.backlog, integer(v)),
    ),
    value('B', "protocol", "name", "ascii, binary or auto (default: auto-negotiate)", |d, v| {
        d.protocol_given = true;
        d.settings.protocol = Binding::named(v).ok_or_else(|| {
            WrongArguments::usage(format!(
                "Invalid value for binding protocol: {v}\n -- should be one of auto, binary, or ascii"
            ))
        })?;
        Ok(())
    }),
    value('I', "max-item-size", "num", "maximum item size (default: 1m, from 1k to 1024m)", |d, v| {
        set(&mut d.settings.item_bytes_max, size(v))
    }),
    flag(
        'S',
        "enable-sasl",
        "clients of the binary protocol must authenticate (SASL PLAIN);\n\
         MEMCACHED_SASL_PWDB names a file of user:password lines",
        |d, _| set(&mut d.settings.sasl, true),
    ),
    flag('F', "disable-flush-all", "refuse \"flush_all\"", |d, _| set(&mut d.settings.flush_allowed, false)),
    flag(
        'X',
        "disable-dumping",
        "refuse \"stats cachedump\", \"stats detail\" and \"lru_crawler metadump\"",
        |d, _| set(&mut d.settings.dump_allowed, false),
    ),
    flag('W', "disable-watch", "refuse \"watch\"", |d, _| set(&mut d.settings.watch_allowed, false)),
    value(
        'Y',
        "auth-file",
        "file",
        "clients of the text protocol must authenticate: lines of user:password",
        |d, v| set(&mut d.settings.auth_file, Some(PathBuf::from(v))),
    ),
    value(
        'e',
        "memory-file",
        "file",
        "save the items in memory to this file and FILE.meta at a graceful stop\n\
         (SIGUSR1, \"shutdown graceful\"), and restore them at the start",
        |d, v| set(&mut d.settings.memory_file, Some(PathBuf::from(v))),
    ),
    flag('Z', "enable-ssl", "use TLS (see ssl_chain_cert, ssl_key)", |d, _| set(&mut d.tls_on, true)),
    value(
        'o',
        "extended",
        "list",
        "extended options, separated by commas; most can be turned off with no_",
        extended::apply,
    ),
    value('N', "napi-ids", "num", "accepted, ignored", |d, v| {
        d.settings.tuning.napi_ids = positive(v, "Maximum number of NAPI IDs")? as u32;
        let why = "connections are assigned to workers round-robin";
        d.settings.ignored.push(Ignored { option: "napi-ids", why });
        Ok(())
    }),
    value(
        NO_LETTER,
        "metrics-listen",
        "addr",
        "serve the cache's metrics at http://ADDR/metrics, as 127.0.0.1:9150, for\n\
         Prometheus and \"sandur cache advise\" (default: off)",
        |d, v| set(&mut d.settings.metrics_listen, Some(v.to_owned())),
    ),
];

/// Parses a number as atoi does: the digits at the start, or 0 if there are none.
fn integer(text: &str) -> i32 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: i64 = digits[..end].parse().unwrap_or(0);
    let number = if digits.len() < text.len() { -number } else { number };
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

fn positive(text: &str, what: &str) -> Result<usize, WrongArguments> {
    usize::try_from(integer(text))
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| WrongArguments::new(format!("{what} must be greater than 0")))
}

/// Parses a number of bytes with an optional `k` or `m`.
fn size(text: &str) -> u64 {
    let number = u64::try_from(integer(text)).unwrap_or(0);
    match text.chars().last() {
        Some('k' | 'K') => number << 10,
        Some('m' | 'M') => number << 20,
        _ => number,
    }
}
