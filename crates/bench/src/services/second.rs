//! One second of the shop: its requests, and the lines that the services write for them.

use sandur_model::{MILLISECOND_NS, SECOND_NS};

use super::incident::Incident;
use super::log_templates;
use super::random::Random;
use super::request::Request;
use super::service::{Line, Service};

/// The lines of one request are within this many milliseconds, so that they are within the second.
const REQUEST_MAX_MS: u64 = 400;

/// A second that is being generated.
pub(crate) struct Second {
    dice: Random,
    second: i64,
    incident: Option<Incident>,
    lines: Vec<(Service, u64, Line)>,
}

impl Second {
    /// An empty second.
    pub(crate) fn new(seed: u64, second: i64, incident: Option<Incident>) -> Self {
        Self { dice: Random::of(&[seed, second as u64]), second, incident, lines: Vec::new() }
    }

    /// Generates about this many requests, more by day than by night.
    pub(crate) fn pass(&mut self, requests_per_second: f64) {
        let hour = self.second.rem_euclid(86_400) as f64 / 3_600.0;
        let day = 1.0 + 0.4 * ((hour - 9.0) / 24.0 * std::f64::consts::TAU).sin();
        let wanted = requests_per_second * day * (0.7 + 0.6 * self.dice.below(1000) as f64 / 1000.0);
        let count = wanted as u64 + u64::from(self.dice.percent(wanted.fract() * 100.0));
        for _ in 0..count {
            self.request();
        }
        self.background();
    }

    /// Returns the lines with service and instance, oldest first.
    pub(crate) fn into_lines(mut self) -> Vec<(Service, u64, Line)> {
        self.lines.sort_by_key(|(_, _, line)| line.timestamp);
        self.lines
    }

    fn write(&mut self, service: Service, request: &Request, after_ms: u64, text: String) {
        self.write_with(service, request, after_ms, text, Vec::new());
    }

    fn write_with(
        &mut self,
        service: Service,
        request: &Request,
        after_ms: u64,
        text: String,
        metadata: Vec<(&'static str, String)>,
    ) {
        let after = after_ms.min(REQUEST_MAX_MS) as i64 * MILLISECOND_NS + self.dice.below(1_000_000) as i64;
        self.lines.push((
            service,
            request.instance,
            Line { timestamp: request.start + after, text, metadata },
        ));
    }

    fn request(&mut self) {
        let dice = &mut self.dice;
        let start = self.second * SECOND_NS + dice.below(590) as i64 * MILLISECOND_NS;
        let (method, path) = *dice.favour(&log_templates::ROUTES);
        let request = Request {
            start,
            trace: format!("{:016x}{:016x}", dice.next(), dice.next()),
            user: dice.favour::<&'static str>(&log_templates::USERS),
            client: format!("203.0.{}.{}", dice.below(4), dice.below(250)),
            path: path.replace('#', &dice.between(1, 900).to_string()),
            method,
            instance: dice.below(1 << 32),
        };
        let (status, took_ms) = match path {
            "/api/checkout" => self.checkout(&request),
            "/api/login" => self.login(&request),
            "/" | "/static/app.#.js" => {
                (if self.dice.percent(30.0) { 304 } else { 200 }, self.dice.latency_ms(2))
            }
            _ => self.browse(&request),
        };
        let text = log_templates::access_line(&mut self.dice, &request, status, took_ms);
        self.write(Service::Gateway, &request, took_ms, text);
        if status >= 500 {
            let text = log_templates::gateway_error(&mut self.dice, &request, status, took_ms);
            self.write(Service::Gateway, &request, took_ms, text);
        }
    }

    fn browse(&mut self, request: &Request) -> (u16, u64) {
        let slow = self.query(request);
        let took = self.dice.latency_ms(14) + slow;
        let missing = self.dice.percent(2.0);
        let text = log_templates::catalog_line(&mut self.dice, request, took, missing);
        let metadata = vec![("trace_id", request.trace.clone())];
        self.write_with(Service::Catalog, request, took, text, metadata);
        if self.dice.percent(0.3) {
            let text = log_templates::catalog_failure(&mut self.dice, request);
            self.write(Service::Catalog, request, took, text);
            return (500, took);
        }
        (if missing { 404 } else { 200 }, took)
    }

    /// Simulates a database query. Returns by how many milliseconds a lock delayed it.
    fn query(&mut self, request: &Request) -> u64 {
        let locked = self.incident == Some(Incident::DatabaseLock) && self.dice.percent(70.0);
        let waited = if locked { self.dice.between(900, 5_000) } else { 0 };
        if locked || self.dice.percent(8.0) {
            let text = log_templates::postgres_line(&mut self.dice, request, waited);
            self.write(Service::Postgres, request, waited, text);
        }
        waited
    }

    fn login(&mut self, request: &Request) -> (u16, u64) {
        let guessing = self.incident == Some(Incident::PasswordGuessing) && self.dice.percent(80.0);
        let accepted = !guessing && !self.dice.percent(4.0);
        let tries = if guessing { self.dice.between(2, 6) } else { 1 };
        let took = self.dice.latency_ms(60);
        for n in 0..tries {
            let text = log_templates::auth_line(&mut self.dice, request, accepted, guessing);
            self.write(Service::Auth, request, took / 2 + n, text);
        }
        (if accepted { 200 } else { 401 }, took)
    }

    fn checkout(&mut self, request: &Request) -> (u16, u64) {
        let stock = log_templates::inventory_line(&mut self.dice, request);
        self.write(Service::Inventory, request, 3, stock);
        let slow = self.query(request);
        let bank = self.incident == Some(Incident::BankTimeouts);
        let failed = self.dice.percent(if bank { 35.0 } else { 0.5 });
        let took = slow + if bank { self.dice.between(1_500, 9_000) } else { self.dice.latency_ms(90) };
        let span = format!("{:016x}", self.dice.next());
        let metadata = vec![("trace_id", request.trace.clone()), ("span_id", span)];
        let payment = log_templates::payment_line(&mut self.dice, request, failed, took);
        self.write_with(Service::Payments, request, took, payment, metadata);
        let order = log_templates::checkout_line(&mut self.dice, request, failed, took);
        self.write(Service::Checkout, request, took + 2, order);
        if !failed {
            let mail = log_templates::mailer_line(&mut self.dice, request);
            self.write(Service::Mailer, request, took + 40, mail);
        }
        (if failed { 502 } else { 201 }, took + 4)
    }

    /// Writes lines that belong to no request: of the machines, and of a service that is killed.
    fn background(&mut self) {
        let nobody = Request {
            start: self.second * SECOND_NS + self.dice.below(500) as i64 * MILLISECOND_NS,
            trace: String::new(),
            user: "root",
            client: String::new(),
            path: String::new(),
            method: "",
            instance: self.dice.below(1 << 32),
        };
        if self.dice.percent(20.0) {
            let text = log_templates::kernel_line(&mut self.dice, &nobody);
            self.write(Service::Kernel, &nobody, 0, text);
        }
        if self.incident == Some(Incident::OutOfMemory) && self.dice.percent(6.0) {
            let pid = self.dice.between(2_000, 60_000);
            self.write(Service::Kernel, &nobody, 1, log_templates::killed_line(&nobody, pid));
            let crash = log_templates::crash_line(&mut self.dice, &nobody);
            self.write(Service::Catalog, &nobody, 2, crash);
            let start = log_templates::restart_line(&mut self.dice, &nobody);
            self.write(Service::Catalog, &nobody, 350, start);
        }
    }
}
