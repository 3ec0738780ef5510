//! Parses memcached's command line.
//!
//! As with getopt, short options may be joined (`-vv`, `-m64`), and long options may be abbreviated
//! (`--extend`) and written with `=`. `-o` has a comma-separated list. Every option of memcached is
//! accepted. Those for things that this server tunes by itself are recorded in [`Settings::ignored`].
//!
//! Invariants: an argument that memcached refuses at its start is refused here with the same text.
//! Parsing has no side effects.

mod draft;
mod extended;
mod help;
mod listen;
mod options;

use self::draft::{Draft, Print};
use super::settings::{Binding, Settings};
pub use draft::WrongArguments;
pub(super) use extended::EXTENDED;
pub(super) use help::VERSION;
use options::NO_LETTER;
pub(super) use options::{OPTIONS, Takes};

/// The result of parsing a command line.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Start the server.
    Serve(Box<Settings>),
    /// Print this text and exit.
    Print(String),
}

/// Parses the arguments after the program's name.
pub(super) fn parse(arguments: &[String]) -> Result<Parsed, WrongArguments> {
    let mut draft = Draft::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        if let Some(long) = argument.strip_prefix("--") {
            long_option(&mut draft, long, &mut rest)?;
        } else if let Some(short) = argument.strip_prefix('-').filter(|s| !s.is_empty()) {
            short_options(&mut draft, short, &mut rest)?;
        }
        // memcached ignores words that are not options
        if let Some(print) = draft.print {
            return Ok(Parsed::Print(match print {
                Print::Help => help::text(),
                Print::Licence => help::licence(),
                Print::Version => help::version_line(),
            }));
        }
    }
    finish(draft).map(|settings| Parsed::Serve(Box::new(settings)))
}

fn long_option<'a>(
    draft: &mut Draft,
    text: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(), WrongArguments> {
    let (name, inline) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let exact = OPTIONS.iter().find(|option| option.long == name);
    // As with memcached, whose options have letters.
    let mut shortened =
        OPTIONS.iter().filter(|option| option.short != NO_LETTER && option.long.starts_with(name));
    let option = match (exact, shortened.next(), shortened.next()) {
        (Some(option), ..) | (None, Some(option), None) => option,
        _ => {
            return Err(WrongArguments::new(format!(
                "unrecognized option '--{name}'\nIllegal argument \"?\""
            )));
        }
    };
    let value = match option.takes {
        Takes::Nothing => inline.unwrap_or_default(),
        Takes::Value(_) => match inline.or_else(|| rest.next()) {
            Some(value) => value,
            None => return Err(missing(option.long)),
        },
    };
    (option.apply)(draft, value.trim_start())
}

fn short_options<'a>(
    draft: &mut Draft,
    mut text: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(), WrongArguments> {
    while let Some(letter) = text.chars().next() {
        text = &text[letter.len_utf8()..];
        let Some(option) = OPTIONS.iter().find(|option| option.short == letter && letter != NO_LETTER) else {
            return Err(WrongArguments::new(format!("invalid option -- '{letter}'\nIllegal argument \"?\"")));
        };
        if matches!(option.takes, Takes::Nothing) {
            (option.apply)(draft, "")?;
            continue;
        }
        let value = if text.is_empty() { rest.next() } else { Some(text) };
        let Some(value) = value else { return Err(missing(&letter.to_string())) };
        return (option.apply)(draft, value.trim_start());
    }
    Ok(())
}

fn missing(name: &str) -> WrongArguments {
    WrongArguments::new(format!("option requires an argument -- '{name}'\nIllegal argument \"?\""))
}

/// Checks and completes the settings once all options are parsed.
fn finish(draft: Draft) -> Result<Settings, WrongArguments> {
    let Draft { mut settings, tls, tls_on, tcp_given, udp_given, protocol_given, .. } = draft;
    check_sizes(&mut settings)?;
    if settings.sasl {
        if !protocol_given {
            settings.protocol = Binding::Binary;
        } else if settings.protocol != Binding::Binary {
            return Err(WrongArguments::usage(
                "ERROR: You cannot allow the ASCII protocol while using SASL.",
            ));
        }
        if settings.udp_port != 0 {
            let text = "ERROR: Cannot enable UDP while using binary SASL authentication.";
            return Err(WrongArguments::usage(text));
        }
    }
    if settings.auth_file.is_some() {
        if !protocol_given {
            settings.protocol = Binding::Ascii;
        } else if settings.protocol != Binding::Ascii {
            let text = "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.";
            return Err(WrongArguments::usage(text));
        }
        if settings.udp_port != 0 {
            let text = "Cannot use UDP with ascii authentication enabled (-U 0 to disable)";
            return Err(WrongArguments::usage(text));
        }
    }
    if udp_given && settings.udp_port != 0 && !tcp_given {
        settings.tcp_port = settings.udp_port;
    }
    if settings.tcp_port > 65535 {
        return Err(WrongArguments::usage(format!("ERROR: Invalid port number {}.", settings.tcp_port)));
    }
    if tls_on {
        if settings.tcp_port == 0 {
            return Err(WrongArguments::usage("ERROR: You cannot enable SSL without a TCP port."));
        }
        if tls.chain.as_os_str().is_empty() || tls.key.as_os_str().is_empty() {
            let text = "ERROR: You must specify ssl_chain_cert and ssl_key with -o to enable SSL.";
            return Err(WrongArguments::usage(text));
        }
        settings.tls = Some(tls);
    }
    Ok(settings)
}

fn check_sizes(settings: &mut Settings) -> Result<(), WrongArguments> {
    if settings.item_bytes_max < 1024 {
        return Err(WrongArguments::usage("Item max size cannot be less than 1024 bytes."));
    }
    if settings.item_bytes_max > settings.memory_bytes / 2 {
        return Err(WrongArguments::usage("Cannot set item size limit higher than 1/2 of memory max."));
    }
    if settings.item_bytes_max > 1 << 30 {
        return Err(WrongArguments::usage("Cannot set item size limit higher than a gigabyte."));
    }
    // memcached requires operators to change both; here it only affects the names of classes
    settings.tuning.slab_chunk_max = settings.tuning.slab_chunk_max.min(settings.item_bytes_max);
    if settings.tuning.hot_lru_pct + settings.tuning.warm_lru_pct > 80 {
        let text = "hot_lru_pct + warm_lru_pct cannot be more than 80% combined";
        return Err(WrongArguments::usage(text));
    }
    if settings.tuning.temp_lru && !settings.tuning.lru_maintainer {
        return Err(WrongArguments::usage("temporary_ttl requires lru_maintainer to be enabled"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{FlashPath, Ignored, Warm};

    fn settings(line: &str) -> Settings {
        match parse(&words(line)) {
            Ok(Parsed::Serve(settings)) => *settings,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> WrongArguments {
        match parse(&words(line)) {
            Err(error) => error,
            Ok(other) => panic!("{line}: {other:?}"),
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_of_the_loki_chart_is_accepted() {
        let line = "-m 4096 --extended=modern,track_sizes,ext_path=/data/file:9G,ext_wbuf_size=16 \
                    -I 5m -c 16384 -v -u 11211";
        let settings = settings(line);
        assert_eq!(settings.memory_bytes, 4096 << 20);
        assert_eq!(settings.flash, [FlashPath { path: "/data/file".into(), bytes: 9 << 30, kept: false }]);
        assert_eq!((settings.item_bytes_max, settings.connections_max), (5 << 20, 16384));
        assert_eq!((settings.verbosity, settings.user.as_deref()), (1, Some("11211")));
        assert!(settings.track_sizes);
        let why = "write buffers are sized automatically";
        assert_eq!(settings.ignored, [Ignored { option: "ext_wbuf_size", why }]);
    }

    #[test]
    fn the_command_line_of_the_tuning_guides_is_accepted() {
        let line = "-m 6000 -I 2m -o ext_path=/a:500G,ext_path=/b:1T:old,ext_wbuf_size=32,ext_threads=10,\
                    ext_max_sleep=10000,slab_automove_freeratio=0.10,ext_recache_rate=0 -o ext_warm=crash";
        let settings = settings(line);
        let parts: Vec<_> = settings.flash.iter().map(|f| (f.bytes, f.kept)).collect();
        assert_eq!(parts, [(500 << 30, false), (1 << 40, true)]);
        assert_eq!((settings.warm, settings.tuning.ext_threads), (Warm::Crash, 10));
        assert_eq!(settings.tuning.slab_automove_freeratio, 0.10);
    }

    #[test]
    fn options_are_parsed_as_by_getopt() {
        let settings = settings("-vvv -m64 -p 1 --conn-limit 7 --max-item=1024 -Ct3 word");
        assert_eq!((settings.verbosity, settings.tcp_port, settings.connections_max), (3, 1, 7));
        assert_eq!((settings.item_bytes_max, settings.cas, settings.threads), (1024, false, 3));
    }

    /// Our own options have no letter.
    #[test]
    fn an_option_without_a_letter_is_only_known_by_its_whole_name() {
        let settings = settings("--metrics-listen=127.0.0.1:9150 --memory-l 64");
        assert_eq!(settings.metrics_listen.as_deref(), Some("127.0.0.1:9150"));
        assert_eq!(settings.memory_bytes, 64 << 20);
        assert!(parse(&["--met".to_owned(), "a".to_owned()]).is_err());
        assert!(parse(&["-\0".to_owned(), "a".to_owned()]).is_err());
        assert!(help::text().contains("\n--metrics-listen=<addr>"));
    }

    #[test]
    fn the_tcp_port_defaults_to_a_given_udp_port() {
        for (line, ports) in [("", (11211, 0)), ("-U 5", (5, 5)), ("-p -1 -U 5", (-1, 5)), ("-p 0", (0, 0))] {
            let settings = settings(line);
            assert_eq!((settings.tcp_port, settings.udp_port), ports, "{line}");
        }
    }

    #[test]
    fn arguments_that_memcached_refuses_are_refused() {
        for (line, word) in [
            ("-B http", "Invalid value for binding protocol"),
            ("-c 0", "greater than 0"),
            ("-c -1", "greater than 0"),
            ("-t 0", "greater than 0"),
            ("-I 1000", "1024 bytes"),
            ("-I 256m", "1/2 of memory"),
            ("-S -B auto", "SASL"),
            ("-S -B ascii", "SASL"),
            ("-Y f -B binary", "BINARY"),
            ("-o hashpower=9", "too low"),
            ("-o ext_path=/x", "ext_path"),
            ("-o nonsense", "Illegal suboption"),
            ("-o temporary_ttl=3,no_lru_maintainer", "lru_maintainer"),
            ("-Z", "ssl_chain_cert"),
            ("-?", "Illegal argument"),
            ("--nonsense", "unrecognized"),
            ("--s", "unrecognized"),
            ("-p", "requires an argument"),
            ("-f 1.0", "Factor"),
        ] {
            assert!(refused(line).text.contains(word), "{line}: {}", refused(line).text);
        }
    }

    #[test]
    fn the_help_contains_every_option_and_what_test_suites_look_for() {
        let Ok(Parsed::Print(help)) = parse(&words("-h")) else { panic!("help prints") };
        for word in ["ext_path", "enable-ssl", "unix-socket", "asl", "memcached "] {
            assert!(help.contains(word), "{word}");
        }
        for option in OPTIONS {
            assert!(help.contains(&format!("--{}", option.long)), "--{}", option.long);
        }
        for option in EXTENDED {
            assert!(help.contains(option.name), "{}", option.name);
        }
    }
}
