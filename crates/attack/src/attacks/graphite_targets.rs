//! Graphite's targets, patterns and times: every function nested within itself and with arguments at the
//! limits of their types, patterns whose braces and wildcards multiply, and requests for more than
//! memory can hold.

use anyhow::Result;
use sandur_graphite::{FORMATS, FUNCTIONS, Function, Kind};

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack = Attack {
    name: "graphite-targets",
    about: "targets, patterns and times whose cost grows with their size",
    run,
};

/// The largest target in bytes; a request may be somewhat longer.
const TARGET_MAX: usize = 100 << 10;
/// The short attack uses every n-th function; the tests of the language cover all.
const SHORT_STEP: usize = 62;

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1e308",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "1e-308",
    "Infinity",
    "None",
];
const LENGTHS: &[&str] =
    &["1s", "-1s", "0s", "9999999999999y", "1000000h", "1y1y1y", "-99999999999999999999d"];
/// Image parameters with numeric values.
const SIZES: &[&str] =
    &["fontSize", "margin", "lineWidth", "areaAlpha", "yMin", "yMax", "width", "height", "yUnitSystem"];
/// How an image connects points.
const LINE_MODES: &[&str] = &["slope", "staircase", "connected"];
const TIMES: &[&str] = &[
    "-1s",
    "-100y",
    "-99999999999999y",
    "0",
    "-1",
    "9223372036854775807",
    "midnight+99999999999h",
    "00:00_",
];

fn run(ground: &Ground<'_>) -> Result<()> {
    store(ground);
    for function in FUNCTIONS.iter().step_by(ground.pick(SHORT_STEP, 1)) {
        for depth in ground.pick(vec![usize::MAX], vec![2, 10, 90, 1_000, usize::MAX]) {
            render(ground, &nested(function, depth), &[]);
        }
        for (number, length) in NUMBERS.iter().zip(LENGTHS.iter().cycle()) {
            render(ground, &call(function, "attack.graphite.*", number, length), &[]);
        }
    }
    for pattern in patterns() {
        render(ground, &pattern, &[]);
        for path in ["/metrics/find", "/metrics/expand"] {
            ground.form(path, &[("query", &pattern)]);
        }
    }
    for (path, form) in repeated() {
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        std::thread::scope(|scope| {
            for _ in 0..ground.pick(1, 3) {
                scope.spawn(|| ground.form(path, &form));
            }
        });
    }
    parameters(ground);
    pictures(ground);
    Ok(())
}

/// Stores series that functions can read, with more than one point each, and names of several levels.
fn store(ground: &Ground<'_>) {
    let now = ground.env.now_ns() / 1_000_000_000;
    let line = |n: i64| format!("attack.graphite.host{}.m{} {n} {}\n", n % 20, n % 100, now - n % 7 * 60);
    let lines: String = (0..2_000).map(line).collect();
    ground.ask("POST", "/graphite/carbon", &[], lines.as_bytes());
}

fn render(ground: &Ground<'_>, target: &str, more: &[(&str, &str)]) {
    let mut form = vec![("target", target), ("format", "json"), ("from", "-1h")];
    form.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
    form.extend_from_slice(more);
    ground.form("/render", &form);
}

/// Returns a call of the function with the given series, numbers and lengths of time.
fn call(function: &Function, inner: &str, number: &str, length: &str) -> String {
    let argument = |kind: Kind| match kind {
        Kind::SeriesList | Kind::SeriesLists => inner.to_owned(),
        Kind::AggFunc | Kind::AggOrSeriesFunc => "\"sum\"".to_owned(),
        Kind::Boolean => "true".to_owned(),
        Kind::Interval | Kind::Date => format!("\"{length}\""),
        Kind::Text | Kind::Regex | Kind::Tag | Kind::Any => "\"(a|b)*.{{x}}\\\\1\"".to_owned(),
        Kind::Float | Kind::Integer | Kind::IntOrInf | Kind::IntOrInterval | Kind::Node | Kind::NodeOrTag => {
            number.to_owned()
        }
    };
    let arguments: Vec<String> = function.parameters.iter().map(|of| argument(of.kind)).collect();
    format!("{}({})", function.name, arguments.join(","))
}

/// Nests the function within itself, as deep as the length of a target permits.
fn nested(function: &Function, depth: usize) -> String {
    let mut text = "attack.graphite.*.*".to_owned();
    for _ in 0..depth {
        let deeper = call(function, &text, "2", "10min");
        if deeper.len() > TARGET_MAX || deeper.len() == text.len() {
            break;
        }
        text = deeper;
    }
    text
}

/// Returns as many alternatives with numbers as a pattern may have.
fn numbered(form: &str, between: &str) -> String {
    let all: Vec<String> = (0..3_500).map(|n| form.replace("{}", &n.to_string())).collect();
    all.join(between)
}

fn patterns() -> Vec<String> {
    let braces = |count: usize| vec!["{a,b,c,d,e,f,g,h}"; count].join("");
    vec![
        braces(3),
        braces(40),
        format!("attack.{}", vec![braces(1); 60].join(".")),
        vec![format!("*{}{}", "x".repeat(60), "{a,b}".repeat(12)); 240].join("."),
        format!("{}x{}", "{".repeat(20_000), "}".repeat(20_000)),
        format!("attack.{{{}}}", "a,".repeat(30_000)),
        "*".repeat(60_000),
        vec!["*"; 250].join("."),
        vec!["*"; 100_000].join("."),
        "**.**.**.**".to_owned(),
        "attack.*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b.*".to_owned(),
        format!("attack.[{}]", "a-z".repeat(20_000)),
        "attack.[z-a][".to_owned(),
        format!("seriesByTag({})", vec!["\"name=~(a|b|c)*x\""; 2_000].join(",")),
        "seriesByTag(\"name=~(a*)*(a*)*(a*)*b\",\"name!=~.*\")".to_owned(),
        format!("{}|sumSeries()", "attack.*|sumSeries()".repeat(2_000)),
        format!("sumSeries({})", vec!["attack.graphite.*.*"; 5_000].join(",")),
        format!("attack.{{{}}}", numbered("*m{}*", ",")),
        format!("attack.graphite.{{{}}}.*", numbered("h*o?{}*", ",")),
        format!("seriesByTag(\"name=~({})\")", numbered(".*m{}", "|")),
        format!("seriesByTag(\"name=~({})\")", numbered("at+.*[a-z]+m{}", "|")),
        format!("grep(attack.graphite.*.*,\"{}\")", numbered(".*m{}x", "|")),
        "randomWalk(\"x\")".to_owned(),
        String::new(),
        "(".repeat(100_000),
        "a(".repeat(50_000),
        "\"".repeat(50_001),
    ]
}

/// Returns requests whose texts are repeated: per series, per value, per occurrence, or by parsing them
/// again.
fn repeated() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let long = |bytes| "A".repeat(bytes);
    let all = "attack.graphite.*.*";
    let one = |bytes| format!("alias(constantLine(1),'{}')", long(bytes));
    let zeros = vec!["0"; 1_900].join(",");
    let tags: String = (0..60_000).map(|n| format!(";{n}=b")).collect();
    let render = |target: String| ("/render", vec![("target", target)]);
    let render_as = |target: String, format: &str| {
        ("/render", vec![("target", target), ("format", format.to_owned()), ("from", "-20000s".to_owned())])
    };
    let expressions = |name, count: usize| -> Vec<(&'static str, String)> {
        (0..count).map(|n| (name, format!("name=~(?:a{{1,99}}){{1,99}}z{n}"))).collect()
    };
    let by_tags = expressions("", 900).iter().map(|(_, text)| format!("'{text}'")).collect::<Vec<_>>();
    vec![
        render(format!("alias({all},'{}')", long(400_000))),
        render(format!("asPercent(scale({all},1))")),
        render(format!("divideSeries({all},{})", one(400_000))),
        render(format!("aliasByNode({},{zeros})", one(400_000))),
        render(format!("aliasByTags({},{zeros})", one(200_000))),
        render(format!("groupByNodes({},'sum',{zeros})", one(200_000))),
        render(format!("cactiStyle(group({all},{}))", one(300_000))),
        render(format!("cactiStyle({all},'si','{}')", long(70_000))),
        render(format!("aliasSub({},'(.*)','{}')", one(200_000), r"\1".repeat(30_000))),
        render(format!("aliasSub({},'x*y|A','')", one(400_000))),
        render(format!("aliasSub(constantLine(1),'(a)','{}')", r"\g<1>".repeat(60_000))),
        render(format!("grep({},'[AB]*A[AB]{{400}}[^AB]')", one(30_000))),
        render(format!("applyByNode({},0,'constantLine(1)','{}')", one(30_000), "%".repeat(20_000))),
        render(format!("timeStack({all},'1s',0,9000000000000000000)")),
        render(format!("movingAverage(group(time('b',3),time('a',6920)),{})", 999_642_923_069_520_u64)),
        render(format!("seriesByTag({})", by_tags.join(","))),
        render("template(".repeat(14) + &long(500_000)),
        render(format!("a{tags}")),
        render_as(format!("alias(time('x',1),'{}')", long(60_000)), "csv"),
        render_as("time('x',1)".to_owned(), "dygraph"),
        (
            "/render",
            vec![("target", format!("template({})", "$x".repeat(100_000))), ("template[x]", long(100_000))],
        ),
        ("/metrics/find", vec![("query", format!("attack.graphite.{{\\*{},*}}.*", long(60_000)))]),
        ("/tags/tagSeries", vec![("path", format!("a{tags}"))]),
        ("/tags/findSeries", expressions("expr", 900)),
        ("/tags/autoComplete/tags", expressions("expr", 900)),
        ("/tags/autoComplete/values", expressions("expr", 900)),
    ]
}

fn parameters(ground: &Ground<'_>) {
    for (n, time) in TIMES.iter().enumerate() {
        for name in ["from", "until"] {
            render(ground, "attack.graphite.*.m1", &[(name, time)]);
            ground.form("/metrics/find", &[("query", "attack.*"), (name, time)]);
        }
        let format = FORMATS[n % FORMATS.len()].name;
        render(ground, "constantLine(1)", &[("from", time), ("format", format)]);
    }
    for number in NUMBERS {
        for name in ["maxDataPoints", "noNullPoints", "width", "height", "cacheTimeout", "now", "tz", "jsonp"]
        {
            render(ground, "attack.graphite.*.m1", &[(name, number)]);
        }
        ground.form("/tags/autoComplete/values", &[("tag", "name"), ("limit", number)]);
    }
    let many: Vec<_> = std::iter::repeat_n(("target", "attack.graphite.*.*"), 3_000).collect();
    ground.form("/render", &many);
    let together = ground.pick(4, 32);
    std::thread::scope(|scope| {
        for _ in 0..together {
            scope.spawn(|| {
                let expensive = [("from", "-100y"), ("maxDataPoints", "100000000")];
                render(ground, "movingMedian(attack.graphite.*.*,\"100y\")", &expensive);
                render(ground, "timeStack(attack.graphite.*.*,\"1s\",0,10000)", &expensive);
            });
        }
    });
}

/// Requests images of the largest size with the most expensive lines: wide, dashed, stacked, and with
/// long names.
fn pictures(ground: &Ground<'_>) {
    let large = [("format", "png"), ("width", "8000"), ("height", "500"), ("hideLegend", "false")];
    let (title, colors) = ("W\u{feff}語".repeat(20_000), vec!["red"; 20_000].join(","));
    let wide = "lineWidth(dashed(attack.graphite.*.*,0.0001),1000)";
    let named = format!("alias(attack.graphite.*.*,\"{}\")", "M".repeat(50_000));
    for mode in ground.pick(&LINE_MODES[..1], LINE_MODES) {
        for target in [wide, &named, "drawAsInfinite(stacked(randomWalk(\"x\")))"] {
            let more =
                [("lineMode", *mode), ("areaMode", "stacked"), ("title", &title), ("colorList", &colors)];
            render(ground, target, &[&large[..], &more].concat());
        }
    }
    for (number, size) in NUMBERS.iter().zip(SIZES.iter().cycle()) {
        for format in ["png", "svg"] {
            render(ground, "attack.graphite.*.m1", &[("format", format), (size, number)]);
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..ground.pick(3, 32) {
            scope.spawn(|| render(ground, wide, &large));
        }
    });
}
