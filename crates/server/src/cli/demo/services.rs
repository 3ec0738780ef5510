//! Several made-up services of a shop, whose requests leave lines in each of them: an access log,
//! logfmt, JSON and plain text, with levels, trace ids, and an incident now and then.

use sandur_base::Env;
use sandur_model::Labels;

use crate::cli::push::Lines;

/// One line of one service.
struct Line {
    service: usize,
    timestamp: i64,
    text: String,
    trace: String,
}

/// Services in the order of their number.
const SERVICES: [(&str, &str); 6] = [
    ("gateway", "edge"),
    ("checkout", "shop"),
    ("payments", "shop"),
    ("inventory", "shop"),
    ("auth", "platform"),
    ("mailer", "platform"),
];
const GATEWAY: usize = 0;
const CHECKOUT: usize = 1;
const PAYMENTS: usize = 2;
const INVENTORY: usize = 3;
const AUTH: usize = 4;
const MAILER: usize = 5;

const PATHS: [&str; 6] = ["/", "/products/17", "/cart", "/checkout", "/login", "/search?q=boots"];
const AGENTS: [&str; 3] = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.9.1", "ShopApp/4.2 (Android 16)"];
const USERS: [&str; 6] = ["ada", "grace", "linus", "margaret", "edsger", "barbara"];

/// Seconds from one incident to the next, and how long it lasts.
const INCIDENT_EVERY_S: i64 = 420;
const INCIDENT_LENGTH_S: i64 = 75;

/// The services of one shop.
pub struct Shop {
    env: Env,
    labels: Vec<Labels>,
}

impl Shop {
    /// Open for business.
    pub fn new(env: Env) -> Self {
        let labels = SERVICES.iter().map(|(service, team)| {
            Labels::from_pairs([("service", *service), ("team", *team), ("env", "demo"), ("job", "demo")])
        });
        Self { env, labels: labels.collect() }
    }

    /// What the services write from `from_ns` to `to_ns`, as one stream per service.
    pub fn lines(&self, from_ns: i64, to_ns: i64, requests_per_second: u64) -> Vec<Lines> {
        let span = (to_ns - from_ns).max(0);
        let count = (span as u128 * u128::from(requests_per_second) / 1_000_000_000) as i64;
        let mut all = Vec::new();
        for n in 0..count {
            let at = from_ns + span / count * n + self.below(1_000_000) as i64;
            self.request(at, &mut all);
        }
        all.sort_by_key(|line| line.timestamp);
        let mut streams: Vec<Lines> = self.labels.iter().map(Lines::of).collect();
        for line in &all {
            let metadata = [("trace_id", line.trace.as_str())];
            let metadata = if line.trace.is_empty() { &metadata[..0] } else { &metadata[..] };
            streams[line.service].add_with_metadata(line.timestamp, line.text.as_bytes(), metadata);
        }
        streams
    }

    fn below(&self, bound: u64) -> u64 {
        self.env.random_below(bound)
    }

    fn pick<'a>(&self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// One request of a customer and the lines it leaves.
    fn request(&self, at: i64, all: &mut Vec<Line>) {
        let trace = format!("{:016x}{:016x}", self.env.random_u64(), self.env.random_u64());
        let incident = (at / 1_000_000_000).rem_euclid(INCIDENT_EVERY_S) < INCIDENT_LENGTH_S;
        let path = self.pick(&PATHS);
        let user = self.pick(&USERS);
        let mut push = |service, delay_ms: u64, text: String, traced: bool| {
            let trace = if traced { trace.clone() } else { String::new() };
            all.push(Line { service, timestamp: at + delay_ms as i64 * 1_000_000, text, trace });
        };
        let (status, took_ms) = match path {
            "/checkout" => {
                let (ok, took) = self.payment(incident, user, &trace, &mut push);
                self.inventory(&trace, &mut push);
                let outcome = if ok { "order placed" } else { "order failed" };
                let level = if ok { "info" } else { "error" };
                let items = 1 + self.below(5);
                push(
                    CHECKOUT,
                    took,
                    format!(
                        "level={level} msg=\"{outcome}\" user={user} items={items} duration={took}ms \
                         trace_id={trace}"
                    ),
                    true,
                );
                if ok {
                    push(
                        MAILER,
                        took + 40,
                        format!("queued confirmation mail for {user}@example.org"),
                        false,
                    );
                }
                (if ok { 200 } else { 502 }, took + 3)
            }
            "/login" => {
                let ok = self.below(20) > 0;
                let port = 1_024 + self.below(60_000);
                let text = match ok {
                    true => format!("Accepted password for {user} from 10.0.{}.7 port {port}", self.below(9)),
                    false => format!(
                        "WARN Failed password for {user} from 203.0.113.{} port {port}",
                        self.below(250)
                    ),
                };
                push(AUTH, 12, text, false);
                (if ok { 302 } else { 401 }, 15 + self.below(20))
            }
            _ => (if self.below(200) == 0 { 404 } else { 200 }, 2 + self.below(40)),
        };
        let client = format!("198.51.100.{}", self.below(200));
        let when = jiff::Timestamp::from_nanosecond(i128::from(at)).unwrap_or_default();
        let when = when.strftime("%d/%b/%Y:%H:%M:%S +0000");
        let (bytes, agent) = (200 + self.below(30_000), self.pick(&AGENTS));
        let method = if matches!(path, "/checkout" | "/login") { "POST" } else { "GET" };
        let text = format!(
            "{client} - {user} [{when}] \"{method} {path} HTTP/1.1\" {status} {bytes} \"-\" \
             \"{agent}\" {took_ms}"
        );
        push(GATEWAY, took_ms, text, true);
    }

    /// Whether the payment succeeded, and its time in milliseconds.
    fn payment(
        &self,
        incident: bool,
        user: &str,
        trace: &str,
        push: &mut impl FnMut(usize, u64, String, bool),
    ) -> (bool, u64) {
        let took = if incident { 800 + self.below(4_000) } else { 30 + self.below(90) };
        let ok = !(incident && self.below(3) == 0);
        let (level, message) = match (ok, took > 1_000) {
            (false, _) => ("error", "upstream bank timed out"),
            (true, true) => ("warn", "payment was slow"),
            (true, false) => ("info", "payment accepted"),
        };
        let (status, amount) = (if ok { 200 } else { 504 }, 5 + self.below(400));
        let line = format!(
            "{{\"level\":\"{level}\",\"msg\":\"{message}\",\"user\":\"{user}\",\"amount\":{amount}.{:02},\
             \"currency\":\"EUR\",\"status\":{status},\"duration_ms\":{took},\"trace_id\":\"{trace}\"}}",
            self.below(100)
        );
        push(PAYMENTS, took, line, true);
        (ok, took)
    }

    fn inventory(&self, trace: &str, push: &mut impl FnMut(usize, u64, String, bool)) {
        let (shelf, left) = (self.below(40), self.below(25));
        let level = if left < 3 { "warn" } else { "debug" };
        let line = format!(
            "level={level} component=stock msg=\"reserved item\" shelf={shelf} left={left} trace_id={trace}"
        );
        push(INVENTORY, 5, line, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_writes_and_incidents_leave_errors() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let shop = Shop::new(Env::simulated(1, 0));
            let streams = shop.lines(0, 30_000_000_000, 20);
            assert_eq!(streams.len(), SERVICES.len());
            assert!(streams.iter().all(|s| !s.is_empty()));
            let total: u64 = streams.iter().map(Lines::count).sum();
            assert!(total > 600, "{total}");
            let mut lines = Vec::new();
            (0..200).for_each(|_| shop.request(1_000_000_000, &mut lines));
            assert!(lines.iter().any(|l| l.text.contains("upstream bank timed out") && !l.trace.is_empty()));
        });
    }
}
