//! Generators of lines, one function per kind.
//!
//! Values repeat and collide on purpose: a field of a line has the name of a label of some stream, a
//! number is sometimes not a number, and quoting is sometimes wrong.

use crate::random::Random;

/// A line and its metadata.
pub(super) struct Made {
    pub(super) line: String,
    pub(super) metadata: Vec<(String, String)>,
    /// Whether the time is truncated to the minute, at which there are other entries too.
    pub(super) on_the_second: bool,
}

fn made(line: String) -> Made {
    Made { line, metadata: Vec::new(), on_the_second: false }
}

fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

const LEVELS: &[&str] = &["debug", "info", "info", "info", "warn", "error", "ERROR", "crit"];
const METHODS: &[&str] = &["GET", "GET", "POST", "PUT", "DELETE"];
const PATHS: &[&str] =
    &["/api/v1/users", "/api/v1/orders", "/", "/health", "/search?q=a%20b&x=1", "/ünïcode"];
const USERS: &[&str] = &["alice", "bob", "José", "\"quoted\"", "", "老王", "eve smith"];
const DURATIONS: &[&str] = &["12ms", "1.5s", "250us", "1m30s", "0s", "3h", "17.25ms", "abc", "301", "2m"];
const SIZES: &[&str] = &["512", "1KB", "12KiB", "3.5MB", "0B", "7 KB", "x", "1GB"];
const ADDRESSES: &[&str] = &["10.0.0.5", "192.168.1.7", "172.16.4.1", "::1", "2001:db8::8a2e", "10.0.0.300"];
const MESSAGES: &[&str] = &[
    "request completed",
    "connection refused",
    "failed to connect: timeout",
    "user logged in",
    "cache miss for key=abc",
    "<html>&amp;</html>",
    "retry in 5s",
    "Exception in thread main",
];

/// `key=value` lines, with correct and wrong quoting.
pub(super) fn logfmt(random: &mut Random, index: usize) -> Made {
    let mut line = format!(
        "ts=2026-01-05T09:{:02}:{:02}Z level={} method={} path={} status={}",
        index % 60,
        random.below(60),
        random.pick(LEVELS),
        random.pick(METHODS),
        random.pick(PATHS),
        random.pick(&["200", "200", "201", "301", "404", "500", "503"]),
    );
    line += &format!(" duration={} bytes={}", random.pick(DURATIONS), random.pick(SIZES).replace(' ', ""));
    line += &format!(" latency={:.3} ip={}", random.below(5000) as f64 / 7.0, random.pick(ADDRESSES));
    line += &format!(" user={:?} msg={:?}", random.pick(USERS), random.pick(MESSAGES));
    match random.below(14) {
        0 => line += " app=shadow cluster=shadow",
        1 => line += " error=\"boom: \\\"inner\\\"\" stack=\"a\\nb\\tc\"",
        2 => line += " flag empty= dotted.key=1 dash-key=2 0digit=3",
        3 => line += " broken=\"no end",
        4 => line += " =novalue \"quoted key\"=1 ünï=ja",
        5 => line += " level=second duplicate=1 duplicate=2",
        6 => line += " __error__=fake __line__=fake",
        7 => line.insert_str(0, "prefix text without keys "),
        _ => {}
    }
    made(line)
}

/// JSON objects: nested, unusual, sometimes invalid.
pub(super) fn json(random: &mut Random, index: usize) -> Made {
    let level = random.pick(LEVELS);
    let message = random.pick(MESSAGES);
    let latency = random.below(90_000) as f64 / 13.0;
    let status = random.pick(&["200", "404", "500", "\"503\"", "null"]);
    let mut line = format!(
        r#"{{"level":"{level}","msg":"{message}","status":{status},"latency_ms":{latency:.4},"n":{index}"#
    );
    line += &format!(r#","dur":"{}","size":"{}""#, random.pick(DURATIONS), random.pick(SIZES));
    line += &format!(r#","ip":"{}","user":{:?}"#, random.pick(ADDRESSES), random.pick(USERS));
    line += &format!(
        r#","req":{{"method":"{}","path":"{}","headers":{{"x-id":"{}","accept":["a","b"]}}}}"#,
        random.pick(METHODS),
        random.pick(PATHS),
        random.below(9)
    );
    match random.below(14) {
        0 => line += r#","app":"shadow","env":{"name":"nested"}"#,
        1 => line += r#","ok":true,"off":false,"nil":null,"list":[1,"two",{"three":3}],"none":[]"#,
        2 => line += r#","esc":"tab\t nl\n \u00fc \ud83d\ude00 \/ \"","empty":"","dotted.key":"d""#,
        3 => line += r#","big":123456789012345678901234567890,"exp":1.5e3,"neg":-0.5,"huge":1e400"#,
        4 => line += r#","level":"second","0digit":1,"a b":2,"ünï":3,"":4"#,
        5 => return made(line),
        6 => return made(line + "} trailing"),
        7 => return made(format!("[{line}}}]")),
        8 => return made(r#""just a string""#.to_owned()),
        9 => line += r#","a":{"b":{"c":{"d":"deep"}}},"a_b":"clash""#,
        _ => {}
    }
    made(line + "}")
}

/// Free text: empty, coloured, in other scripts.
pub(super) fn text(random: &mut Random, index: usize) -> Made {
    made(match random.below(16) {
        0 => String::new(),
        1 => " ".to_owned(),
        2 => format!("\u{1b}[31mERROR\u{1b}[0m failed at step {index}"),
        3 => "\u{1b}[1;32minfo\u{1b}[0m: done \u{1b}[4munderlined\u{1b}[24m".to_owned(),
        4 => "Ünïcödé straße ΣΑΣ İstanbul 日本語 \u{1F600}".to_owned(),
        5 => format!("tab\tseparated\tline {index}"),
        6 => "multi\nline\nentry".to_owned(),
        7 => "quotes \" and ' and ` and \\ backslash".to_owned(),
        8 => "a.b*c+d?e(f)g[h]i{j}k^l$m|n".to_owned(),
        9 => format!("WARN [thread-{}] com.example.Main - slow call took {}ms", index % 4, random.below(900)),
        10 => format!("level=error from {} to {}", random.pick(ADDRESSES), random.pick(ADDRESSES)),
        11 => "control \u{1} \u{7f} nbsp\u{a0}sep\u{2028}end".to_owned(),
        12 => "CRITICAL: disk full".to_owned(),
        _ => format!("{} {} #{index}", random.pick(MESSAGES), random.pick(USERS)),
    })
}

/// Access logs of a web server.
pub(super) fn access(random: &mut Random, index: usize) -> Made {
    made(format!(
        "{} - {} [05/Jan/2026:09:{:02}:{:02} +0000] \"{} {} HTTP/1.1\" {} {} \"-\" \"curl/7.{}\"",
        random.pick(ADDRESSES),
        random.pick(&["-", "alice", "bob"]),
        index % 60,
        random.below(60),
        random.pick(METHODS),
        random.pick(PATHS),
        random.pick(&["200", "304", "404", "499", "502"]),
        random.below(100_000),
        random.below(90),
    ))
}

/// Output of Promtail's `pack` stage.
pub(super) fn packed(random: &mut Random, index: usize) -> Made {
    made(match random.below(8) {
        0 => format!(r#"{{"_entry":"level=info n={index}","pod":"p-{}","app":"inner"}}"#, random.below(3)),
        1 => r#"{"pod":"p-1","number":3}"#.to_owned(),
        2 => "not packed".to_owned(),
        3 => r#"{"_entry":"","container":"c"}"#.to_owned(),
        4 => r#"{"_entry":"x","nested":{"a":1}}"#.to_owned(),
        5 => r#"["a","b"]"#.to_owned(),
        _ => format!(
            r#"{{"_entry":"{} #{index}","pod":"p-{}","container":"{}"}}"#,
            random.pick(MESSAGES),
            random.below(3),
            random.pick(&["main", "sidecar"])
        ),
    })
}

/// Lines whose values are in structured metadata.
pub(super) fn metadata(random: &mut Random, index: usize) -> Made {
    let mut made =
        made(format!("{} trace={:04x} level={}", random.pick(MESSAGES), index % 7, random.pick(LEVELS)));
    made.metadata.push(pair("trace_id", format!("{:04x}", index % 7)));
    if random.chance(60) {
        made.metadata.push(pair("user", random.pick(USERS)));
    }
    match random.below(8) {
        0 => made.metadata.push(pair("app", "shadow")),
        1 => made.metadata.push(pair("level", random.pick(LEVELS))),
        2 => made.metadata.push(pair("http.status", random.pick(&["200", "500"]))),
        3 => made.metadata.push(pair("took", random.pick(DURATIONS))),
        4 => made.metadata.push(pair("severity", random.pick(&["WARNING", "fatal", "Trace"]))),
        _ => {}
    }
    made
}

/// Counters that grow and are reset, and values that look like numbers.
pub(super) fn counter(random: &mut Random, index: usize) -> Made {
    let total = (index % 60) * 7 + random.below(5);
    let odd = random.pick(&["1", "-2.5", "1e3", "NaN", "+Inf", "0x10", "1_000", "", "-0", ".5", "5."]);
    made(format!(
        "total={total} gauge={:.2} odd={odd} took={}ms",
        random.below(10_000) as f64 / 99.0,
        total * 3
    ))
}

/// Several entries of one stream at the same time.
pub(super) fn ties(random: &mut Random, index: usize) -> Made {
    let line = format!("tie n={index} value={}", random.below(4));
    Made { line, metadata: Vec::new(), on_the_second: true }
}

/// Lines of up to 200 KB.
pub(super) fn huge(random: &mut Random, index: usize) -> Made {
    let words = random.pick(MESSAGES).to_owned() + " ";
    made(format!("level=info n={index} end={}", words.repeat(200_000 / words.len() / (1 + index % 3))))
}
