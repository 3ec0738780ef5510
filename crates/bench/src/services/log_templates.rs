//! The formats of the services' lines: one function per kind of line.

use std::fmt::Write;

use super::random::Random;
use super::request::Request;

/// Method and path of requests, by decreasing frequency; `#` becomes a number.
pub(crate) const ROUTES: [(&str, &str); 9] = [
    ("GET", "/api/products/#"),
    ("GET", "/"),
    ("GET", "/static/app.#.js"),
    ("GET", "/api/search?q=boots&page=#"),
    ("POST", "/api/checkout"),
    ("POST", "/api/login"),
    ("GET", "/api/cart/#"),
    ("GET", "/api/products/#/reviews"),
    ("PUT", "/api/cart/#"),
];

/// Customers, by decreasing activity.
pub(crate) const USERS: [&str; 16] = [
    "ada",
    "grace",
    "linus",
    "margaret",
    "edsger",
    "barbara",
    "dennis",
    "radia",
    "ken",
    "frances",
    "alan",
    "katherine",
    "tim",
    "hedy",
    "john",
    "lynn",
];

const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15",
    "ShopApp/4.2 (Android 16; Pixel 9)",
    "curl/8.9.1",
    "crawler/2.1 (+https://crawler.example/about)",
];

/// A time in the format that a service uses.
fn time(request: &Request, after_ms: u64, format: &str) -> String {
    let at = i128::from(request.start) + i128::from(after_ms.min(400)) * 1_000_000;
    let at = jiff::Timestamp::from_nanosecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime(format).to_string()
}

/// Apache's combined log format with the duration.
pub(crate) fn access_line(dice: &mut Random, request: &Request, status: u16, took_ms: u64) -> String {
    let when = time(request, took_ms, "%d/%b/%Y:%H:%M:%S +0000");
    let Request { client, user, method, path, .. } = request;
    let bytes = if status == 304 { 0 } else { dice.between(180, 48_000) };
    let agent = dice.favour(&AGENTS);
    format!(
        "{client} - {user} [{when}] \"{method} {path} HTTP/1.1\" {status} {bytes} \"-\" \"{agent}\" {took_ms}"
    )
}

/// nginx' error log.
pub(crate) fn gateway_error(dice: &mut Random, request: &Request, status: u16, took_ms: u64) -> String {
    let when = time(request, took_ms, "%Y/%m/%d %H:%M:%S");
    let Request { client, method, path, .. } = request;
    let what =
        if took_ms > 1_000 { "upstream timed out (110: Connection timed out)" } else { "upstream failed" };
    let connection = dice.between(1_000, 90_000);
    format!(
        "{when} [error] 31#31: *{connection} {what} while reading response header from upstream, client: \
         {client}, request: \"{method} {path} HTTP/1.1\", status: {status}"
    )
}

/// logfmt in the style of Go programs.
pub(crate) fn auth_line(dice: &mut Random, request: &Request, accepted: bool, guessing: bool) -> String {
    let when = time(request, 10, "%Y-%m-%dT%H:%M:%S%.3fZ");
    let Request { client, user, trace, .. } = request;
    if accepted {
        let session = dice.next();
        return format!(
            "ts={when} level=info caller=login.go:88 msg=\"login accepted\" user={user} client={client} \
             session={session:016x} trace_id={trace}"
        );
    }
    let user = if guessing { *dice.pick(&["admin", "root", "test", "oracle"]) } else { user };
    let attempt = dice.between(1, 6);
    format!(
        "ts={when} level=warn caller=login.go:93 msg=\"wrong password\" user={user} client={client} \
         attempt={attempt} trace_id={trace}"
    )
}

/// Log4j's pattern.
pub(crate) fn catalog_line(dice: &mut Random, request: &Request, took_ms: u64, missing: bool) -> String {
    let when = time(request, took_ms, "%Y-%m-%d %H:%M:%S,%3f");
    let worker = dice.between(1, 17);
    let path = &request.path;
    if missing {
        return format!("{when} WARN  [worker-{worker}] shop.catalog.Lookup - nothing found for {path}");
    }
    if took_ms > 800 {
        return format!(
            "{when} WARN  [worker-{worker}] shop.catalog.Query - slow query for {path}: {took_ms} ms"
        );
    }
    let hits = dice.below(40);
    let level = if dice.percent(35.0) { "DEBUG" } else { "INFO " };
    format!("{when} {level} [worker-{worker}] shop.catalog.Query - {path} gave {hits} items in {took_ms} ms")
}

/// A Java exception with its stack.
pub(crate) fn catalog_failure(dice: &mut Random, request: &Request) -> String {
    let when = time(request, 30, "%Y-%m-%d %H:%M:%S,%3f");
    let line = dice.between(40, 400);
    let Request { path, trace, .. } = request;
    let mut text = format!(
        "{when} ERROR [worker-{}] shop.catalog.Query - cannot answer {path} (trace {trace})\n\
         java.lang.IllegalStateException: price list {} is not loaded",
        dice.between(1, 17),
        dice.below(12)
    );
    for (class, method) in [("Prices", "of"), ("Query", "decorate"), ("Query", "run"), ("Worker", "loop")] {
        let _ = write!(text, "\n\tat shop.catalog.{class}.{method}({class}.java:{})", line + dice.below(60));
    }
    text
}

/// The line of a Java program that runs out of memory.
pub(crate) fn crash_line(dice: &mut Random, request: &Request) -> String {
    let when = time(request, 2, "%Y-%m-%d %H:%M:%S,%3f");
    format!(
        "{when} FATAL [worker-{}] shop.Main - java.lang.OutOfMemoryError: Java heap space",
        dice.between(1, 17)
    )
}

/// The line of its restart.
pub(crate) fn restart_line(dice: &mut Random, request: &Request) -> String {
    let when = time(request, 350, "%Y-%m-%d %H:%M:%S,%3f");
    format!("{when} INFO  [main] shop.Main - started in {} ms, 16 workers", dice.between(900, 4_000))
}

/// JSON with nested objects.
pub(crate) fn payment_line(dice: &mut Random, request: &Request, failed: bool, took_ms: u64) -> String {
    let when = time(request, took_ms, "%Y-%m-%dT%H:%M:%S%.6fZ");
    let Request { user, trace, .. } = request;
    let (level, message, status) = match (failed, took_ms > 1_000) {
        (true, _) => ("error", "bank did not answer", 504),
        (false, true) => ("warn", "payment was slow", 200),
        (false, false) => ("info", "payment accepted", 200),
    };
    let (euros, cents) = (dice.between(4, 480), dice.below(100));
    let (bank, attempt) = (dice.favour(&["north", "south", "union"]), if failed { 3 } else { 1 });
    format!(
        "{{\"ts\":\"{when}\",\"level\":\"{level}\",\"msg\":\"{message}\",\"trace_id\":\"{trace}\",\
         \"status\":{status},\"duration_ms\":{took_ms},\"attempt\":{attempt},\"user\":{{\"name\":\"{user}\",\
         \"country\":\"{}\"}},\"order\":{{\"amount\":{euros}.{cents:02},\"currency\":\"EUR\"}},\
         \"bank\":\"{bank}\"}}",
        dice.favour(&["DE", "SE", "IS", "FR", "US"])
    )
}

/// Flat JSON.
pub(crate) fn checkout_line(dice: &mut Random, request: &Request, failed: bool, took_ms: u64) -> String {
    let Request { user, trace, .. } = request;
    let order = dice.between(100_000, 999_999);
    let items = dice.between(1, 7);
    let (level, message) = if failed { ("error", "order not placed") } else { ("info", "order placed") };
    format!(
        "{{\"level\":\"{level}\",\"message\":\"{message}\",\"order\":{order},\"items\":{items},\
         \"user\":\"{user}\",\"took\":\"{took_ms}ms\",\"trace_id\":\"{trace}\"}}"
    )
}

/// logfmt without a time.
pub(crate) fn inventory_line(dice: &mut Random, request: &Request) -> String {
    let (shelf, left) = (dice.between(1, 64), dice.below(40));
    let trace = &request.trace;
    let level = match left {
        0 => "error",
        1..=3 => "warn",
        _ => "debug",
    };
    let message = if left == 0 { "shelf is empty" } else { "item reserved" };
    let sku = dice.between(10_000, 99_999);
    format!("level={level} msg=\"{message}\" shelf={shelf} left={left} sku={sku} trace_id={trace}")
}

/// Python's logging, sometimes with a traceback.
pub(crate) fn mailer_line(dice: &mut Random, request: &Request) -> String {
    let when = time(request, 40, "%Y-%m-%d %H:%M:%S,%3f");
    let user = request.user;
    if dice.percent(2.0) {
        return format!(
            "{when} mailer.queue ERROR cannot deliver to {user}@example.org\nTraceback (most recent call \
             last):\n  File \"/srv/mailer/queue.py\", line 71, in deliver\n    relay.send(message)\n\
             ConnectionRefusedError: [Errno 111] Connection refused"
        );
    }
    let id = dice.next() >> 24;
    format!("{when} mailer.queue INFO queued message {id:010x} for {user}@example.org")
}

/// PostgreSQL's log.
pub(crate) fn postgres_line(dice: &mut Random, request: &Request, waited_ms: u64) -> String {
    let when = time(request, waited_ms, "%Y-%m-%d %H:%M:%S.%3f UTC");
    let pid = dice.between(400, 900);
    let row = dice.between(1, 90_000);
    if waited_ms > 0 {
        return format!(
            "{when} [{pid}] LOG:  process {pid} acquired ShareLock on transaction {row} after \
             {waited_ms}.{:03} ms",
            dice.below(1_000)
        );
    }
    if dice.percent(3.0) {
        return format!(
            "{when} [{pid}] ERROR:  duplicate key value violates unique constraint \"orders_pkey\""
        );
    }
    format!(
        "{when} [{pid}] LOG:  duration: {}.{:03} ms  statement: SELECT * FROM products WHERE id = {row}",
        dice.latency_ms(3),
        dice.below(1_000)
    )
}

/// The log of the machines.
pub(crate) fn kernel_line(dice: &mut Random, request: &Request) -> String {
    let when = time(request, 0, "%b %e %H:%M:%S");
    let host = dice.between(1, 9);
    let (pid, port) = (dice.between(300, 60_000), dice.between(1_024, 65_000));
    match dice.below(4) {
        0 => format!(
            "{when} node-{host} systemd[1]: Started session-{pid}.scope - Session {pid} of User deploy."
        ),
        1 => format!(
            "{when} node-{host} kubelet[812]: probe of pod catalog-{pid} succeeded in {} ms",
            port % 90
        ),
        2 => format!(
            "{when} node-{host} kernel: eth0: received packet with own address as source, port {port}"
        ),
        _ => format!("{when} node-{host} CRON[{pid}]: (root) CMD (/usr/sbin/logrotate --quiet)"),
    }
}

/// The kernel's line about a process that it killed because of its memory.
pub(crate) fn killed_line(request: &Request, pid: u64) -> String {
    let when = time(request, 1, "%b %e %H:%M:%S");
    format!(
        "{when} node-1 kernel: Out of memory: Killed process {pid} (java) total-vm:8123456kB, \
         anon-rss:4012345kB"
    )
}
