//! Log queries: selectors, line filters and stages.

use super::templates::{label_format, line_format};
use super::tree::Log;
use super::words::{self, Kind, names, quoted};
use crate::random::Random;

/// Returns a log query.
pub fn log_query(random: &mut Random) -> Log {
    let (log, _) = of_kind(random);
    log
}

/// Returns a log query, and the kind of lines that its selector finds.
pub(super) fn of_kind(random: &mut Random) -> (Log, Kind) {
    let (first, kind) = words::SELECTORS[random.below(words::SELECTORS.len())];
    let mut matchers = vec![first.to_owned()];
    while random.chance(25) && matchers.len() < 4 {
        matchers.push(random.pick(words::MATCHERS).to_owned());
    }
    let mut stages = Vec::new();
    if random.chance(35) {
        stages.push(line_filter(random));
    }
    if random.chance(75) {
        stages.push(parser(random, kind));
    }
    let more = [0, 0, 1, 1, 2, 3, 5][random.below(7)];
    for _ in 0..more {
        let stage = any_stage(random, kind);
        stages.push(stage);
    }
    if random.chance(2) {
        stages.push("# a remark | json\n".to_owned());
    }
    (Log { matchers, stages }, kind)
}

fn any_stage(random: &mut Random, kind: Kind) -> String {
    match random.below(20) {
        0..=2 => line_filter(random),
        3..=4 => parser(random, kind),
        5..=11 => format!("| {}", label_filter(random, 2)),
        12..=13 => line_format(random),
        14..=15 => label_format(random),
        16 => "| decolorize".to_owned(),
        17 => format!("| drop {}", names_or_matchers(random)),
        18 => format!("| keep {}", names_or_matchers(random)),
        _ => "| __error__=\"\"".to_owned(),
    }
}

fn names_or_matchers(random: &mut Random) -> String {
    if random.chance(70) {
        return names(random);
    }
    let (name, value) = (random.pick(words::NAMES), random.pick(words::VALUES));
    let operator = random.pick(&["=", "!=", "=~", "!~"]);
    format!("{}, {name}{operator}{}", random.pick(words::NAMES), quoted(random, value))
}

fn line_filter(random: &mut Random) -> String {
    let operator = random.pick(&["|=", "|=", "|=", "!=", "!=", "|~", "|~", "!~", "|>", "!>"]);
    let mut text = format!("{operator} {}", operand(random, operator));
    while random.chance(15) {
        text += &format!(" or {}", operand(random, operator));
    }
    text
}

fn operand(random: &mut Random, operator: &str) -> String {
    match operator {
        "|=" | "!=" if random.chance(8) => format!("ip(\"{}\")", random.pick(words::ADDRESSES)),
        "|=" | "!=" => {
            let needle = random.pick(words::NEEDLES);
            quoted(random, needle)
        }
        "|~" | "!~" => {
            let pattern = random.pick(words::PATTERNS);
            quoted(random, pattern)
        }
        _ => {
            let pattern = random.pick(words::LINE_PATTERNS);
            quoted(random, pattern)
        }
    }
}

fn parser(random: &mut Random, kind: Kind) -> String {
    let kind = if random.chance(12) {
        [Kind::Logfmt, Kind::Json, Kind::Text, Kind::Access, Kind::Packed][random.below(5)]
    } else {
        kind
    };
    match kind {
        Kind::Logfmt | Kind::Counter | Kind::Metadata => logfmt(random),
        Kind::Json => json(random),
        Kind::Packed => random.pick(&["| unpack", "| unpack", "| json"]).to_owned(),
        Kind::Access => random
            .pick(&[
                "| pattern `<ip> - <user> [<_>] \"<method> <path> <_>\" <status> <bytes> <_>`",
                "| pattern \"<ip> <_> <user> [<when>] <rest>\"",
                "| pattern \"<_> - <user> \"",
                "| regexp `^(?P<ip>\\S+) - (?P<user>\\S+) .*\" (?P<status>\\d{3}) (?P<bytes>\\d+)`",
                "| regexp \"(?P<method>GET|PUT) (?P<path>\\\\S+)\"",
            ])
            .to_owned(),
        Kind::Text => random
            .pick(&[
                "| regexp `(?P<word>\\w+) (?P<msg>.*)`",
                "| regexp `^(?P<level>[A-Z]+)`",
                "| regexp \"(?P<ip>\\\\d+\\\\.\\\\d+\\\\.\\\\d+\\\\.\\\\d+)\"",
                "| regexp `(?P<word>é|ü|ß)|(?P<n>\\d+)`",
                "| pattern `<word> <msg>`",
                "| pattern `<_>[<level>] <msg>`",
            ])
            .to_owned(),
    }
}

fn logfmt(random: &mut Random) -> String {
    let flags = random.pick(&["", "", "", " --strict", " --keep-empty", " --strict --keep-empty"]);
    if random.chance(65) {
        return format!("| logfmt{flags}");
    }
    let expressions = [
        "level",
        "level=\"level\"",
        "status, method",
        "new=\"status\"",
        "user=\"msg\"",
        "app=\"app\"",
        "absent=\"nothing\", level",
        "took=\"duration\"",
        "new=\"\\\"msg\\\"\"",
        "error",
        "n=\"empty\"",
    ];
    format!("| logfmt{flags} {}", random.pick(&expressions))
}

fn json(random: &mut Random) -> String {
    if random.chance(65) {
        return "| json".to_owned();
    }
    let expressions = [
        "status",
        "level=\"level\"",
        "new=\"req.method\"",
        "method=\"req.method\", path=\"req.path\"",
        "word=\"req.headers.accept[0]\"",
        "new=\"req.headers[\\\"x-id\\\"]\"",
        "req=\"req\"",
        "n=\"list[1]\"",
        "app=\"app\"",
        "absent=\"no.such\"",
        "new=\"list\"",
        "a_b=\"a.b\"",
        "user, ip",
        "word=\"[\\\"a b\\\"]\"",
        "n, latency=\"latency_ms\"",
        "new=\"list[9]\"",
        "new=\"list[2].three\"",
        "nil",
        "ok=\"ok\"",
        "new=`esc`",
    ];
    format!("| json {}", random.pick(&expressions))
}

/// Returns a filter over labels with at most `depth` nested operators.
pub(super) fn label_filter(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.chance(25) {
        let (left, right) = (label_filter(random, depth - 1), label_filter(random, depth - 1));
        let between = random.pick(&[" and ", " or ", ", ", " ", " or ", " and "]);
        let text = format!("{left}{between}{right}");
        return if random.chance(40) { format!("({text})") } else { text };
    }
    let compare = &[">", ">=", "<", "<=", "==", "!=", "="];
    match random.below(12) {
        0..=2 => {
            let (name, number) = (random.pick(words::NUMERIC), random.pick(words::NUMBERS));
            format!("{name} {} {number}", random.pick(compare))
        }
        3 => {
            let (name, text) = (random.pick(words::TIMED), random.pick(words::DURATIONS));
            format!("{name} {} {text}", random.pick(compare))
        }
        4 => {
            let (name, text) = (random.pick(words::SIZED), random.pick(words::SIZES));
            format!("{name} {} {text}", random.pick(compare))
        }
        5 => format!("ip {} ip(\"{}\")", random.pick(&["=", "!="]), random.pick(words::ADDRESSES)),
        6 => format!("__error__{}\"{}\"", random.pick(&["=", "!="]), random.pick(&["", "JSONParserErr"])),
        7 => {
            let pattern = random.pick(words::PATTERNS);
            let (name, operator) = (random.pick(words::NAMES), random.pick(&["=~", "!~"]));
            format!("{name}{operator}{}", quoted(random, pattern))
        }
        _ => {
            let (name, value) = (random.pick(words::NAMES), random.pick(words::VALUES));
            let operator = random.pick(&["=", "=", "!=", "=~", "!~"]);
            format!("{name} {operator} {}", quoted(random, value))
        }
    }
}
