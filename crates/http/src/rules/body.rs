//! The bodies of answers about rules, written in pieces while the client reads.

use std::time::Duration;

use sandur_rules::alert::Alert;
use sandur_rules::data::Instant;
use sandur_rules::{GroupShown, RuleKind, RuleShown, RuleSpec, StatesEverywhere};

use super::filter::Filter;
use crate::marshal::json;
use crate::prometheus::reply::{BEGIN, PIECE_BYTES, Pieces, notes};

/// A part of the body of a list of groups, by the numbers of group, rule and alert.
#[derive(Clone, Copy)]
enum Step {
    OpenGroup(usize),
    OpenRule(usize, usize),
    Alert(usize, usize, usize),
    CloseRule(usize, usize),
    CloseGroup(usize),
}

/// Groups with their rules.
pub struct GroupList {
    states: StatesEverywhere,
    steps: std::vec::IntoIter<Step>,
    next: Option<String>,
    is_begun: bool,
    needs_comma: bool,
}

impl GroupList {
    /// The wanted rules of groups.
    pub fn new(states: StatesEverywhere, filter: &Filter, next: Option<String>) -> Self {
        let mut steps = Vec::new();
        for (g, group) in states.groups.iter().enumerate() {
            steps.push(Step::OpenGroup(g));
            for (r, (spec, shown)) in group.rules().enumerate().filter(|(_, (spec, _))| filter.wants(spec)) {
                steps.push(Step::OpenRule(g, r));
                if spec.is_alerting() && !filter.without_alerts {
                    steps.extend((0..shown.alerts.len()).map(|a| Step::Alert(g, r, a)));
                }
                steps.push(Step::CloseRule(g, r));
            }
            steps.push(Step::CloseGroup(g));
        }
        let steps = steps.into_iter();
        Self { states, steps, next, is_begun: false, needs_comma: false }
    }

    fn write(&mut self, step: Step, out: &mut Vec<u8>) {
        let opens = matches!(step, Step::OpenGroup(_) | Step::OpenRule(..) | Step::Alert(..));
        if opens && self.needs_comma {
            out.push(b',');
        }
        self.needs_comma = !matches!(step, Step::OpenGroup(_) | Step::OpenRule(..));
        let (Step::OpenGroup(g)
        | Step::OpenRule(g, _)
        | Step::Alert(g, ..)
        | Step::CloseRule(g, _)
        | Step::CloseGroup(g)) = step;
        let group = &self.states.groups[g];
        match step {
            Step::OpenGroup(_) => open_group(out, group),
            Step::OpenRule(_, r) => open_rule(out, &group.spec.rules[r], &group.rules[r]),
            Step::Alert(_, r, a) => alert(out, &group.rules[r].alerts[a]),
            Step::CloseRule(_, r) => close_rule(out, &group.spec.rules[r], &group.rules[r]),
            Step::CloseGroup(_) => {
                let limit = group.spec.limit;
                json::push(out, format_args!("],\"interval\":{}", group.spec.interval.as_secs_f64()));
                json::push(out, format_args!(",\"limit\":{limit},\"missedEvaluations\":{}", group.missed));
                let (made_up, late) = (group.made_up, group.late.as_secs_f64());
                json::push(out, format_args!(",\"madeUpEvaluations\":{made_up},\"lateness\":{late},"));
                if let Some(node) = &group.evaluator {
                    out.extend_from_slice(b"\"evaluator\":");
                    json::utf8(out, node);
                    out.push(b',');
                }
                evaluated(out, group.took, group.last_at);
                out.push(b'}');
            }
        }
    }
}

impl Pieces for GroupList {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_begun {
            out.extend_from_slice(BEGIN);
            out.extend_from_slice(b"{\"groups\":[");
            self.is_begun = true;
        }
        while out.len() < PIECE_BYTES {
            let Some(step) = self.steps.next() else {
                out.push(b']');
                if let Some(next) = &self.next {
                    out.extend_from_slice(b",\"groupNextToken\":");
                    json::utf8(out, next);
                }
                out.push(b'}');
                notes(out, "warnings", &self.states.warnings);
                out.push(b'}');
                return false;
            };
            self.write(step, out);
        }
        true
    }
}

fn open_group(out: &mut Vec<u8>, group: &GroupShown) {
    out.extend_from_slice(b"{\"name\":");
    json::utf8(out, &group.spec.name);
    out.extend_from_slice(b",\"file\":");
    json::utf8(out, &group.spec.file);
    out.extend_from_slice(b",\"rules\":[");
}

fn open_rule(out: &mut Vec<u8>, spec: &RuleSpec, shown: &RuleShown) {
    out.push(b'{');
    if let RuleKind::Alerting { hold, keep_firing, annotations } = &spec.kind {
        json::push(out, format_args!("\"state\":\"{}\",", shown.state().name()));
        json::push(out, format_args!("\"duration\":{},", hold.as_secs_f64()));
        json::push(out, format_args!("\"keepFiringFor\":{},", keep_firing.as_secs_f64()));
        out.extend_from_slice(b"\"annotations\":");
        pairs(out, annotations);
        out.push(b',');
    }
    out.extend_from_slice(b"\"name\":");
    json::utf8(out, &spec.name);
    out.extend_from_slice(b",\"query\":");
    json::utf8(out, &spec.expr);
    json::push(out, format_args!(",\"language\":\"{}\",\"labels\":", spec.language.name()));
    pairs(out, &spec.labels);
    if spec.is_alerting() {
        out.extend_from_slice(b",\"alerts\":[");
    }
}

fn close_rule(out: &mut Vec<u8>, spec: &RuleSpec, shown: &RuleShown) {
    out.extend_from_slice(if spec.is_alerting() { b"]," } else { b"," });
    let health = match (&shown.last_error, shown.last_at) {
        (Some(_), _) => "err",
        (None, Some(_)) => "ok",
        (None, None) => "unknown",
    };
    json::push(out, format_args!("\"health\":\"{health}\","));
    if let Some(error) = &shown.last_error {
        out.extend_from_slice(b"\"lastError\":");
        json::utf8(out, error);
        out.push(b',');
    }
    evaluated(out, shown.took, shown.last_at);
    let kind = if spec.is_alerting() { "alerting" } else { "recording" };
    json::push(out, format_args!(",\"type\":\"{kind}\"}}"));
}

fn evaluated(out: &mut Vec<u8>, took: Duration, at: Option<Instant>) {
    json::push(out, format_args!("\"evaluationTime\":{},\"lastEvaluation\":", took.as_secs_f64()));
    json::utf8(out, &time(at));
}

fn pairs(out: &mut Vec<u8>, pairs: &[(String, String)]) {
    json::labels(out, pairs.iter().map(|(name, value)| (&**name, &**value)));
}

fn alert(out: &mut Vec<u8>, alert: &Alert) {
    out.extend_from_slice(b"{\"labels\":");
    json::labels(out, alert.labels.iter());
    out.extend_from_slice(b",\"annotations\":");
    pairs(out, &alert.annotations);
    json::push(out, format_args!(",\"state\":\"{}\",\"activeAt\":", alert.state.name()));
    json::utf8(out, &time(Some(alert.active_at)));
    if alert.keep_firing_since.is_some() {
        out.extend_from_slice(b",\"keepFiringSince\":");
        json::utf8(out, &time(alert.keep_firing_since));
    }
    json::push(out, format_args!(",\"value\":\"{}\"}}", exponent(alert.value)));
}

/// A time in RFC 3339; Go's zero time if there is none.
fn time(at: Option<Instant>) -> String {
    let shown = |at: Instant| jiff::Timestamp::from_nanosecond(i128::from(at.ns())).ok();
    at.and_then(shown).map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| at.to_string())
}

/// A number as Go's `strconv.FormatFloat(value, 'e', -1, 64)`.
fn exponent(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value > 0.0 { "+Inf" } else { "-Inf" };
        return if value.is_nan() { "NaN" } else { sign }.to_owned();
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    match power.strip_prefix('-') {
        Some(power) => format!("{digits}e-{power:0>2}"),
        None => format!("{digits}e+{power:0>2}"),
    }
}

/// All alerts of groups.
pub struct AlertList {
    states: StatesEverywhere,
    /// The next alert: group, rule and alert.
    at: (usize, usize, usize),
    written: usize,
}

impl AlertList {
    /// The alerts of groups.
    pub fn new(states: StatesEverywhere) -> Self {
        Self { states, at: (0, 0, 0), written: 0 }
    }

    fn next_alert(&mut self) -> Option<(usize, usize, usize)> {
        loop {
            let (g, r, a) = self.at;
            let group = self.states.groups.get(g)?;
            self.at = match group.rules.get(r) {
                None => (g + 1, 0, 0),
                Some(rule) if a < rule.alerts.len() => {
                    self.at = (g, r, a + 1);
                    return Some((g, r, a));
                }
                Some(_) => (g, r + 1, 0),
            };
        }
    }
}

impl Pieces for AlertList {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.written == 0 && self.at == (0, 0, 0) {
            out.extend_from_slice(BEGIN);
            out.extend_from_slice(b"{\"alerts\":[");
        }
        while out.len() < PIECE_BYTES {
            let Some((g, r, a)) = self.next_alert() else {
                out.extend_from_slice(b"]}");
                notes(out, "warnings", &self.states.warnings);
                out.push(b'}');
                return false;
            };
            if self.written > 0 {
                out.push(b',');
            }
            self.written += 1;
            alert(out, &self.states.groups[g].rules[r].alerts[a]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_gos_form() {
        for (value, text) in
            [(1.0, "1e+00"), (0.00123, "1.23e-03"), (-2.5e20, "-2.5e+20"), (f64::NAN, "NaN"), (0.0, "0e+00")]
        {
            assert_eq!(exponent(value), text);
        }
        assert_eq!(exponent(f64::NEG_INFINITY), "-Inf");
    }
}
