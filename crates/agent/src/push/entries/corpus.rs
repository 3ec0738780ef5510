//! Generates log files whose entries are known: those of the table of kinds, mixed with single lines, in
//! the styles of many programs, of one writer or of two.

/// A small generator of random numbers: the seed determines the file.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    pub fn text(&mut self) -> String {
        const WORDS: [&str; 24] = [
            "request",
            "finished",
            "in",
            "12 ms",
            "user",
            "order 4711",
            "cache",
            "miss",
            "for",
            "key",
            "at least",
            "3 retries",
            "left",
            "connection",
            "to",
            "db-1",
            "closed",
            "from",
            "10.0.0.7:5432",
            "and",
            "started",
            "worker",
            "with",
            "size",
        ];
        let words = 2 + self.below(7);
        (0..words).map(|_| self.one_of(&WORDS)).collect::<Vec<_>>().join(" ")
    }
}

/// How a program writes the first line of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Log4j,
    Logfmt,
    Levels,
    JsonLines,
    Container,
    Syslog,
    Plain,
    Klog,
    JavaLogging,
    Access,
    Ruby,
}

pub const STYLES: [Style; 11] = [
    Style::Log4j,
    Style::Logfmt,
    Style::Levels,
    Style::JsonLines,
    Style::Container,
    Style::Syslog,
    Style::Plain,
    Style::Klog,
    Style::JavaLogging,
    Style::Access,
    Style::Ruby,
];

/// Kinds of entries.
pub const KIND_NAMES: [&str; 19] = [
    "single",
    "java",
    "python",
    "go panic",
    "goroutines",
    "ruby",
    "rails",
    "node",
    "node uncaught",
    "dotnet",
    "thread dump",
    "json",
    "yaml",
    "sql",
    "php",
    "rust",
    "list",
    "java undated",
    "message",
];

/// A writer of entries.
pub struct Writer {
    style: Style,
    second: u64,
}

impl Writer {
    pub fn new(style: Style, random: &mut Random) -> Self {
        Self { style, second: random.below(3_000) }
    }

    fn head(&mut self, random: &mut Random, level: &str, text: &str) -> String {
        self.second += random.below(3);
        let (m, s, ms) = (self.second / 60 % 60, self.second % 60, random.below(1_000));
        match self.style {
            Style::Log4j => format!("2026-01-14 06:{m:02}:{s:02},{ms:03} {level:5} [main] c.e.App - {text}"),
            Style::Logfmt => {
                format!("ts=2026-01-14T06:{m:02}:{s:02}.{ms:03}Z level={} msg={text:?}", level.to_lowercase())
            }
            Style::Levels => format!("{level}: {text}"),
            Style::JsonLines => {
                format!("{{\"time\":\"2026-01-14T06:{m:02}:{s:02}Z\",\"level\":{level:?},\"msg\":{text:?}}}")
            }
            Style::Container | Style::Syslog => format!("{level} {text}"),
            Style::Plain => text.to_owned(),
            Style::Klog => format!("{}0114 06:{m:02}:{s:02}.{ms:03}000    12 a.go:7] {text}", &level[..1]),
            Style::JavaLogging => {
                format!(
                    "Jan 14, 2026 6:{m:02}:{s:02} AM com.example.App run\n{}: {text}",
                    level.replace("ERROR", "SEVERE")
                )
            }
            Style::Access => {
                format!("10.0.0.1 - - [14/Jan/2026:06:{m:02}:{s:02} +0000] \"GET /{ms} HTTP/1.1\" 200 5")
            }
            Style::Ruby => {
                let first = &level[..1];
                format!("{first}, [2026-01-14T06:{m:02}:{s:02}.{ms:03}000 #9] {level:>5} -- : {text}")
            }
        }
    }

    /// The line as it is in the file, with what the transport adds.
    fn carried(&mut self, entry: &str) -> String {
        let (m, s) = (self.second / 60 % 60, self.second % 60);
        let prefix = match self.style {
            Style::Container => format!("2026-01-14T06:{m:02}:{s:02}.123456789Z stderr F "),
            Style::Syslog => format!("Jan 14 06:{m:02}:{s:02} web app[12]: "),
            _ => return entry.to_owned(),
        };
        let lines = entry.lines().filter(|line| !line.is_empty());
        lines.map(|line| format!("{prefix}{line}")).collect::<Vec<_>>().join("\n")
    }

    /// An entry of a kind.
    pub fn entry(&mut self, random: &mut Random, kind: &str) -> String {
        let text = random.text();
        let level = random.one_of(&["INFO", "INFO", "DEBUG", "WARN"]);
        // Programs that write only access logs or plain text have no header before a trace.
        let is_bare = matches!(self.style, Style::Access | Style::Plain);
        let error = if is_bare { String::new() } else { self.head(random, "ERROR", &text) + "\n" };
        let entry = match kind {
            "java" if is_bare => format!("Exception in thread \"main\" {}", java(random)),
            "java" => error + &java(random),
            "java undated" => format!("Exception in thread \"pool-1\" {}", java(random)),
            "python" => error + &python(random),
            "go panic" => go_panic(random),
            "goroutines" if !is_bare => error + &goroutines(random),
            "ruby" => ruby(random),
            "rails" if !is_bare => error + &rails(random),
            "node" if !is_bare => error + &node(random),
            "node uncaught" => node_uncaught(random),
            "dotnet" => format!("{error}{}", dotnet(random, is_bare)),
            "thread dump" => thread_dump(random),
            "json" => json(random),
            "yaml" => yaml(random),
            "sql" if self.style == Style::Plain => sql(random),
            "sql" if !is_bare => {
                let statement = format!("statement: {}", sql(random));
                self.head(random, "DEBUG", &statement)
            }
            "php" => php(random),
            "rust" => rust(random),
            "message" if !is_bare => {
                let head = self.head(random, "INFO", &text);
                format!("{head}\n{}", repeated(random, 1, 3, Random::text))
            }
            "list" if !is_bare => list(&self.head(random, "INFO", "configuration:"), random),
            _ => self.head(random, level, &text),
        };
        self.carried(&entry)
    }
}

fn repeated(random: &mut Random, least: u64, most: u64, line: impl Fn(&mut Random) -> String) -> String {
    let count = least + random.below(most - least + 1);
    (0..count).map(|_| line(random)).collect::<Vec<_>>().join("\n")
}

fn java(random: &mut Random) -> String {
    let name =
        random.one_of(&["java.lang.IllegalStateException", "java.io.IOException", "com.example.AppError"]);
    let frame = |r: &mut Random| format!("\tat com.example.A{}.run(A.java:{})", r.below(9), r.below(900));
    let mut text = format!("{name}: {}\n{}", random.text(), repeated(random, 2, 30, frame));
    for _ in 0..random.below(3) {
        let cause = random.text();
        let frames = repeated(random, 1, 9, frame);
        text += &format!(
            "\nCaused by: java.net.SocketException: {cause}\n{frames}\n\t... {} more",
            random.below(40)
        );
    }
    text
}

fn python(random: &mut Random) -> String {
    let frame =
        |r: &mut Random| format!("  File \"/app/a.py\", line {}, in run\n    self.call()", r.below(900));
    let trace = |r: &mut Random| {
        let frames = repeated(r, 1, 9, frame);
        format!("Traceback (most recent call last):\n{frames}\nValueError: {}", r.text())
    };
    let first = trace(random);
    match random.below(3) {
        0 => {
            let second = trace(random);
            format!(
                "{first}\n\nDuring handling of the above exception, another exception occurred:\n\n{second}"
            )
        }
        _ => first,
    }
}

fn go_panic(random: &mut Random) -> String {
    let what = random.one_of(&[
        "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: \
         segmentation violation code=0x1 addr=0x0 pc=0x48]",
        "panic: boom",
        "fatal error: all goroutines are asleep - deadlock!",
    ]);
    format!("{what}\n\n{}\nexit status 2", goroutines(random))
}

fn goroutines(random: &mut Random) -> String {
    let frame = |r: &mut Random| {
        format!("main.(*Server).run(0xc0000b6000, {{0x1, 0x2}})\n\t/app/main.go:{} +0x1b", r.below(900))
    };
    let mut all = Vec::new();
    for n in 0..1 + random.below(4) {
        let frames = repeated(random, 1, 6, frame);
        all.push(format!(
            "goroutine {} [chan receive, 5 minutes]:\n{frames}\ncreated by main.main in goroutine \
             1\n\t/app/main.go:9 +0x2",
            n + 1
        ));
    }
    all.join("\n\n")
}

fn ruby(random: &mut Random) -> String {
    let frames = repeated(random, 1, 9, |r| format!("\tfrom app.rb:{}:in 'block in call'", r.below(900)));
    format!("app.rb:3:in 'call': {} (RuntimeError)\n{frames}", random.text())
}

fn rails(random: &mut Random) -> String {
    let frames = repeated(random, 1, 9, |r| format!("app/models/user.rb:{}:in `save'", r.below(900)));
    format!("ActiveRecord::RecordInvalidError: {}\n\n{frames}", random.text())
}

fn node(random: &mut Random) -> String {
    let frames = repeated(random, 1, 9, |r| format!("    at Object.run (/app/index.js:{}:9)", r.below(900)));
    let more = random.one_of(&["", " {\n  code: 'ECONNREFUSED',\n  port: 5432\n}"]);
    format!("TypeError: {}\n{frames}{more}", random.text())
}

fn node_uncaught(random: &mut Random) -> String {
    format!(
        "/app/index.js:{}\n    throw new Error('x');\n    ^\n\n{}\n\nNode.js v22.1.0",
        random.below(99),
        node(random)
    )
}

fn dotnet(random: &mut Random, is_first: bool) -> String {
    let frames = |r: &mut Random| {
        repeated(r, 1, 9, |r| format!("   at App.Program.Run() in /app/P.cs:line {}", r.below(99)))
    };
    let start = if is_first { "Unhandled exception. " } else { "" };
    let (first, second) = (frames(random), frames(random));
    format!(
        "{start}System.InvalidOperationException: {}\n ---> System.IO.IOException: inner\n{first}\n   --- \
         End of inner exception stack trace ---\n{second}\n--- End of stack trace from previous location \
         ---\n   at App.Main()",
        random.text()
    )
}

fn thread_dump(random: &mut Random) -> String {
    let thread = |r: &mut Random| {
        let frames =
            repeated(r, 1, 9, |r| format!("\tat java.lang.Object.wait(Object.java:{})", r.below(99)));
        format!(
            "\"worker-{}\" #7 prio=5 os_prio=0 tid=0x1 nid=0x2 waiting\n   java.lang.Thread.State: \
             WAITING\n{frames}\n",
            r.below(99)
        )
    };
    let start = random.one_of(&["2026-01-14 06:30:00\n", ""]);
    let threads = repeated(random, 2, 12, thread);
    format!(
        "{start}Full thread dump OpenJDK 64-Bit Server VM (21.0.1 mixed mode):\n\n{threads}\nJNI global \
         refs: 15, weak refs: 0"
    )
}

fn json(random: &mut Random) -> String {
    let level = random.one_of(&["info", "error"]);
    format!(
        "{{\n  \"time\": \"2026-01-14T06:30:00Z\",\n  \"level\": \"{level}\",\n  \"tags\": \
         [\n    \"a\",\n    \"b}}\"\n  ],\n  \"nested\": {{\n    \"text\": \"{} {{[\\\"\"\n  }}\n}}",
        random.text()
    )
}

fn yaml(random: &mut Random) -> String {
    let items =
        repeated(random, 1, 5, |r| format!("  - name: item-{}\n    size: {}", r.below(9), r.below(99)));
    format!("---\napiVersion: v1\nkind: List\nmetadata:\n  name: {}\nitems:\n{items}", random.text())
}

fn sql(random: &mut Random) -> String {
    let columns = repeated(random, 1, 4, |r| format!("       c{},", r.below(9)));
    let end = random.one_of(&[";", ""]);
    format!(
        "SELECT id,\n{columns}\n       name\nFROM users\nLEFT JOIN orders ON orders.user_id = \
         users.id\nWHERE age > {}\n  AND active\nORDER BY name\nLIMIT 10{end}",
        random.below(99)
    )
}

fn php(random: &mut Random) -> String {
    let frames = repeated(random, 1, 5, |r| format!("#{0} /app/a.php({0}): run()", r.below(9)));
    format!(
        "PHP Fatal error:  Uncaught Exception: {} in /app/a.php:3\nStack trace:\n{frames}\n#9 {{main}}\n  \
         thrown in /app/a.php on line 3",
        random.text()
    )
}

fn rust(random: &mut Random) -> String {
    let frames =
        repeated(random, 1, 5, |r| format!("   {}: app::run\n             at ./src/main.rs:7:5", r.below(9)));
    format!(
        "thread 'main' panicked at src/main.rs:2:5:\n{}\nstack backtrace:\n{frames}\nnote: Some details are \
         omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
        random.text()
    )
}

fn list(head: &str, random: &mut Random) -> String {
    let items = repeated(random, 1, 5, |r| format!("  key{}: {}", r.below(9), r.below(99)));
    format!("{head}\n{items}")
}

/// A file and its entries.
pub struct File {
    pub writers: Vec<Style>,
    pub entries: Vec<Entry>,
}

/// An entry.
pub struct Entry {
    pub kind: &'static str,
    pub style: Style,
    pub text: String,
    /// Whether nobody could know where it begins or ends: two programs write to the file, and text without
    /// a time and a level stands after an entry with one.
    pub is_unknowable: bool,
}

impl Entry {
    fn is_plain(&self) -> bool {
        let is_text =
            !["go panic", "java", "java undated", "ruby", "node uncaught", "dotnet", "thread dump", "json"]
                .contains(&self.kind)
                && !["yaml", "php", "rust"].contains(&self.kind);
        let is_bare_trace = self.style == Style::Access && self.kind == "python";
        (self.style == Style::Plain && is_text) || is_bare_trace
    }
}

/// The file of a seed: of one writer, or of two whose entries alternate at random.
pub fn file(seed: u64) -> File {
    let mut random = Random::new(seed);
    let count = 1 + random.below(4).min(1);
    let mut writers: Vec<Writer> = Vec::new();
    for _ in 0..count {
        let style = STYLES[random.below(STYLES.len() as u64) as usize];
        writers.push(Writer::new(style, &mut random));
    }
    // Half of the files have mostly single lines; a file has a few kinds, since one program wrote it.
    let singles = [2, 8][random.below(2) as usize];
    let few: Vec<usize> = (0..3).map(|_| random.below(KIND_NAMES.len() as u64) as usize).collect();
    let mut entries = Vec::new();
    for _ in 0..10 + random.below(60) {
        let kind = match random.below(10) < singles {
            true => "single",
            false => KIND_NAMES[few[random.below(3) as usize]],
        };
        let writer = random.below(writers.len() as u64) as usize;
        let (style, text) = (writers[writer].style, writers[writer].entry(&mut random, kind));
        entries.push(Entry { kind, style, text, is_unknowable: false });
    }
    let writers: Vec<Style> = writers.iter().map(|writer| writer.style).collect();
    if writers.iter().any(|style| *style != writers[0]) {
        for n in 1..entries.len() {
            // Text after such text may be another line of the same message.
            let before = &entries[n - 1];
            let is_plain = entries[n].is_plain() && (!before.is_plain() || before.is_unknowable);
            entries[n].is_unknowable |= is_plain;
            entries[n - 1].is_unknowable |= is_plain;
        }
        let has_plain = writers.contains(&Style::Plain);
        // What was learned from the other program.
        entries.iter_mut().for_each(|entry| entry.is_unknowable |= has_plain && entry.kind == "message");
    }
    File { writers, entries }
}
