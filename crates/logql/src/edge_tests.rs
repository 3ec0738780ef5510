//! Goal: no number in a query, a template or a row makes the language panic.
//!
//! Method: every function of every table gets extreme numbers in each numeric argument, alone and in pairs
//! drawn by a seeded generator. Answers and errors are both accepted; overflow checks are enabled in tests.

use std::sync::Arc;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_query::{Direction, MemoryRow, MemorySource, QueryContext};
use sandur_runtime::Env;

use crate::ast::OPERATORS;
use crate::range::{self, Argument, UnwrapUse};
use crate::stage::testing;
use crate::{Kind, Request, template, vector};

/// Values in the syntax of templates.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "65535",
    "65536",
    "70000",
    "1000001",
    "1.5",
    "-0.0",
    "1e308",
    "-1e308",
    "5e-324",
    "(float64 \"NaN\")",
    "(divf 1 0)",
    "(divf -1 0)",
    "true",
    "\"\"",
    "\"x\"",
    "\"é\"",
    "\"0é\"",
    "\"0xffffffffffffffff\"",
    "\"-9223372036854775808\"",
    "\"18446744073709551616\"",
    "\"NaN\"",
    "\"+Inf\"",
    "\"1e400\"",
    "\"2562047h47m16.854775808s\"",
    "\"16EiB\"",
    "\"[1,2]\"",
    "\"2006-01-02T15:04:05.999999999Z07:00\"",
    "\"9999-12-31T23:59:59Z\"",
    "\"+99:99\"",
    "\"UTC\"",
    "\"a\\u00e9*\"",
    "(fromJson \"{\\\"a\\\":[1e308,{\\\"b\\\":null}]}\")",
    "(fromJson \"[[],[]]\")",
    "(unixToTime \"9223372036854775\")",
    "(unixToTime \"1700000000\")",
    "(toDate \"2006\" \"x\")",
    ".n",
];

const FORMATS: &[&str] = &[
    "%.70000f",
    "%.65536f",
    "%.1000000f",
    "%.1000001f",
    "%.99999999999999999999f",
    "%.70000e",
    "%.70000g",
    "%70000d",
    "%-70000s",
    "%070000d",
    "%1000001d",
    "%99999999999999999999d",
    "%*d",
    "%.*f",
    "%*.*f",
    "%-*d",
    "%+x",
    "%#x",
    "%X",
    "%o",
    "%b",
    "%c",
    "%q",
    "%.3q",
    "%.1s",
    "%v",
    "%t",
    "%T",
    "%é",
    "%",
    "%!",
];

/// Extreme instants and durations.
const TIMES: &[i64] =
    &[i64::MIN, i64::MIN + 1, -1_000_000_001, -1, 0, 1, 60_000_000_000, i64::MAX - 1, i64::MAX];

struct Draw(u64);

impl Draw {
    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &list[(self.0 >> 33) as usize % list.len()]
    }
}

fn write(template: &str) {
    println!("{template}");
    let query = format!("{{app=\"s\"}} | logfmt | line_format `{template}`");
    // An argument that is out of range marks the row; a template that is too large is refused.
    if crate::parse(&query).is_ok() {
        testing::run(&query, "n=9223372036854775807 m=x");
    }
}

#[test]
fn extreme_values_make_no_template_function_panic() {
    let mut draw = Draw(7);
    for function in template::FUNCTIONS.iter().copied().flatten() {
        let (least, most) = function.arguments;
        for count in least..=most.min(3) {
            for value in VALUES {
                write(&format!("{{{{{}{}}}}}", function.name, format!(" {value}").repeat(count)));
            }
            for _ in 0..25 {
                let arguments: String = (0..count).map(|_| format!(" {}", draw.of(VALUES))).collect();
                write(&format!("{{{{{}{arguments}}}}}", function.name));
            }
        }
    }
}

#[test]
fn extreme_widths_and_precisions_make_printf_not_panic() {
    let mut draw = Draw(11);
    for format in FORMATS {
        for value in VALUES {
            write(&format!("{{{{printf \"{format}\" {value}}}}}"));
        }
        for _ in 0..15 {
            let arguments = [draw.of(VALUES), draw.of(VALUES), draw.of(VALUES)].map(|v| (*v).to_owned());
            write(&format!("{{{{printf \"{format}\" {}}}}}", arguments.join(" ")));
        }
    }
}

#[test]
fn extreme_times_make_no_time_method_panic() {
    let times = [
        "__timestamp__",
        "(unixToTime \"-1\")",
        "(unixToTime \"9223372036854775807\")",
        "(toDate \"\" \"\")",
    ];
    let methods = [
        "Unix",
        "UnixNano",
        "UnixMilli",
        "UnixMicro",
        "Year",
        "Month",
        "Day",
        "Hour",
        "YearDay",
        "Weekday",
        "UTC",
        "IsZero",
        "Nanosecond",
        "String",
    ];
    for time in times {
        methods.iter().for_each(|method| write(&format!("{{{{{time}.{method}}}}}")));
        for layout in ["", "002 _2 .000000000 Z07:00:00 MST", ",99999999999999", "Jané"] {
            write(&format!("{{{{{time}.Format \"{layout}\"}}}}"));
            write(&format!("{{{{date \"{layout}\" {time}}}}}"));
        }
    }
}

/// Rows with extreme values of the label `n` and extreme timestamps.
fn source() -> MemorySource {
    let values = [
        "NaN",
        "+Inf",
        "-Inf",
        "1e308",
        "-1e308",
        "-0",
        "5e-324",
        "9223372036854775807",
        "1e400",
        "x",
        "",
        "2562047h47m16.854775807s",
        "-2562047h47m16.854775808s",
        "18446744073709551615B",
        "16EiB",
        "15EiB",
    ];
    let row = |(place, (value, time)): (usize, (&str, &i64))| MemoryRow {
        labels: Arc::new(Labels::from_pairs([("app", format!("a{}", place % 3))])),
        timestamp: *time,
        line: format!("n={value}").into_bytes().into(),
        metadata: Vec::new(),
        level: Level::None,
    };
    // A source has no row at the last instant, because no exclusive range end could be after it.
    let times: Vec<i64> = TIMES[1..TIMES.len() - 1].to_vec();
    MemorySource::new(values.into_iter().zip(times.iter().cycle()).enumerate().map(row).collect())
}

fn answer(source: &MemorySource, query: &str, kind: Kind, (limit, interval_ns): (u32, i64)) {
    println!("{query} {kind:?} {limit} {interval_ns}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let budget = MemoryBudget::root("query", 64 << 20);
        let env = Env::simulated(1, 0);
        let context = QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(600));
        let direction = if limit % 2 == 0 { Direction::Forward } else { Direction::Backward };
        let limits = Limits {
            max_query_length: 0,
            max_query_range: 0,
            max_entries_limit_per_query: 0,
            ..Limits::default()
        };
        let request = Request { query: query.to_owned(), kind, limit, direction, interval_ns };
        let _ = crate::query(source, &context, &limits, request.clone()).await;
        let _ = crate::query_unaligned(source, &context, &limits, request).await;
    });
}

fn kinds(draw: &mut Draw) -> [Kind; 3] {
    let (start_ns, end_ns) = (*draw.of(TIMES), *draw.of(TIMES));
    // Most steps make the range query too long, which is refused early, so a fitting step is tried too.
    let most = end_ns.saturating_sub(start_ns) / 10_000;
    let any = Kind::Range { start_ns, end_ns, step_ns: *draw.of(TIMES) };
    [Kind::Instant { time_ns: *draw.of(TIMES) }, any, Kind::Range { start_ns, end_ns, step_ns: most.max(1) }]
}

#[test]
fn extreme_times_and_numbers_make_no_metric_query_panic() {
    let source = source();
    let mut draw = Draw(13);
    let windows = ["1ms", "5m", "100y", "292y", "106751d"];
    let offsets = ["", " offset 292y", " offset -292y", " offset -2562047h47m16.854775808s", " offset 1ns"];
    let numbers = ["0", "0.5", "1e308", "9223372036854775807", "0x1p-1074", "5e-324"];
    for function in range::FUNCTIONS.iter().copied().flatten() {
        for _ in 0..3 {
            let number = match function.argument {
                Argument::Number => format!("{}, ", draw.of(&numbers)),
                Argument::Nothing => String::new(),
            };
            let unwrap = match function.unwrap {
                UnwrapUse::Forbidden => "",
                _ => draw.of(&["n", "duration(n)", "bytes(n)", "duration_seconds(n)"]),
            };
            let bar = if unwrap.is_empty() { "" } else { "| logfmt | unwrap " };
            let after = if unwrap.is_empty() { "" } else { r#" | __error__="""# };
            let (window, offset) = (draw.of(&windows), draw.of(&offsets));
            let name = function.name;
            let range = format!(r#"{name}({number}{{app=~".+"}} {bar}{unwrap}{after} [{window}]{offset})"#);
            let vector = draw.of(vector::FUNCTIONS);
            let count = if vector.takes_count { *draw.of(&["1, ", "9223372036854775807, "]) } else { "" };
            let op = draw.of(OPERATORS);
            let right = match op.op.is_set() {
                true => "vector(9223372036854775807)".to_owned(),
                false => (*draw.of(&numbers)).to_owned(),
            };
            let query = format!("{}({count}{range}) {} {right}", vector.name, op.text);
            for query in [&range, &query] {
                crate::parse(query).unwrap_or_else(|e| panic!("{query}: {e}"));
                kinds(&mut draw).into_iter().for_each(|kind| answer(&source, query, kind, (1, 0)));
            }
        }
    }
}

#[test]
fn extreme_times_and_limits_make_no_log_query_panic() {
    let source = source();
    let mut draw = Draw(17);
    let conditions = [
        "",
        "| logfmt | n > 9223372036854775807",
        "| logfmt | n < -9223372036854775808",
        "| logfmt | n >= 2562047h47m16.854775807s",
        "| logfmt | n > 16EiB",
        "| logfmt | n > 1e400",
        "| logfmt | n == 0x1p-99999",
        "| json x=\"[99999999999999999999]\"",
        "| json x=\"[9223372036854775807]\"",
    ];
    for _ in 0..10 {
        for condition in conditions {
            let query = format!(r#"{{app=~".+"}} {condition}"#);
            let asked = (*draw.of(&[0, 1, 2, u32::MAX]), *draw.of(TIMES));
            kinds(&mut draw).into_iter().for_each(|kind| answer(&source, &query, kind, asked));
        }
    }
}

#[test]
fn a_query_that_may_compile_to_much_is_not_short() {
    for plain in ["{app=~\".+\"} |= `timed out`", "sum by (app) (count_over_time({app=\"a\"} | json [1m]))"] {
        assert!(crate::is_short(plain), "{plain}");
    }
    for large in [
        r#"sum(count_over_time({app=~"(a{1,500}){1,500}"}[1m]))"#,
        r#"sum(count_over_time({app=~"(a{ 500 }){,500}"}[1m]))"#,
        r#"sum(count_over_time({app=~"\\pL\\pL\\w\\w\\w"}[1m]))"#,
        &format!("sum(count_over_time({{app=~\"{}\"}}[1m]))", "a|".repeat(200)),
    ] {
        assert!(!crate::is_short(large), "{large}");
    }
}
