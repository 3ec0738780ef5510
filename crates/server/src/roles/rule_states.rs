//! States of rules as processes send them to each other.
//!
//! **Bounds.** A list has at most the bytes that its caller allows. Groups and rules come before alerts: all
//! alerts share what the states of groups leave. A rule says how many alerts it has and their highest state,
//! so that a reader knows what is left out.
//!
//! **Invariant.** A list of another tenant is refused.

use std::sync::Arc;
use std::time::Duration;

use sandur_model::{Labels, TenantId};
use sandur_peers::{
    PeerAlert, PeerAlertState, PeerAlertTimes, PeerGroup, PeerRule, PeerRules, PeerRulesPart, PeerRulesWriter,
};
use sandur_rules::alert::{Alert, State};
use sandur_rules::data::Instant;
use sandur_rules::{GroupShown, GroupStates, ListedStates, Pairs, RuleShown};

/// The states of groups of a tenant, in at most `most` bytes.
pub fn peer_rules(
    (tenant, groups): (&TenantId, &[Arc<GroupShown>]),
    without_alerts: bool,
    most: u64,
) -> PeerRules {
    let mut writer = PeerRulesWriter::new(tenant.as_str(), most);
    let mut for_alerts = writer.left();
    let mut number = 0;
    while let Some(group) = groups.get(number)
        && let Some(left) = for_alerts.checked_sub(bytes_without_alerts(group))
    {
        (for_alerts, number) = (left, number + 1);
    }
    for group in &groups[..number] {
        writer.push(&peer_group(group));
        for rule in &group.rules {
            writer.push(&peer_rule(rule));
            for alert in rule.alerts.iter().filter(|_| !without_alerts) {
                let part = peer_alert(alert);
                if let Some(left) = for_alerts.checked_sub(part.bytes())
                    && writer.push(&part)
                {
                    for_alerts = left;
                }
            }
        }
    }
    writer.end((groups.len() - number) as u64)
}

/// The states in a list about a tenant, which may take at most `most` bytes.
pub fn listed_states(list: &PeerRules, tenant: &TenantId, most: u64) -> Result<ListedStates, String> {
    let (mut parts, mut is_of_tenant) = (list.parts(most), false);
    let mut reading = Reading::default();
    let failed = |error: &dyn std::fmt::Display| format!("its answer cannot be read: {error}");
    while let Some(part) = parts.read().map_err(|error| failed(&error))? {
        reading.states.bytes += part.bytes();
        match part {
            PeerRulesPart::Tenant(name) if name == tenant.as_str() => is_of_tenant = true,
            PeerRulesPart::Tenant(_) => return Err("its answer is about another tenant".to_owned()),
            PeerRulesPart::LeftOut(groups) => reading.states.groups_left_out = groups,
            _ if !is_of_tenant => return Err("its answer is about another tenant".to_owned()),
            PeerRulesPart::Group(group) => reading.begin_group(group),
            PeerRulesPart::Rule(rule) => reading.begin_rule(&rule).map_err(|error| failed(&error))?,
            PeerRulesPart::Alert(alert) => reading.add(&alert).map_err(|error| failed(&error))?,
        }
    }
    match is_of_tenant {
        true => Ok(reading.end()),
        false => Err("its answer is about another tenant".to_owned()),
    }
}

/// What has been read of a list.
#[derive(Default)]
struct Reading {
    states: ListedStates,
    /// What the last rule says about all its alerts: their number and highest state.
    all: (u64, Option<State>),
}

impl Reading {
    fn begin_group(&mut self, group: PeerGroup<'_>) {
        self.end_rule();
        self.states.groups.push(GroupStates {
            file: group.file.to_owned(),
            name: group.name.to_owned(),
            fingerprint: group.fingerprint,
            last_at: group.last_ns.map(Instant::of_ns),
            took: Duration::from_micros(group.took_us),
            missed: group.missed,
            made_up: group.made_up,
            late: Duration::from_micros(group.late_us),
            rules: Vec::new(),
        });
    }

    fn begin_rule(&mut self, rule: &PeerRule<'_>) -> Result<(), &'static str> {
        self.end_rule();
        let group = self.states.groups.last_mut().ok_or("a rule is in no group")?;
        group.rules.push(RuleShown {
            last_at: rule.last_ns.map(Instant::of_ns),
            took: Duration::from_micros(rule.took_us),
            last_error: rule.error.map(str::to_owned),
            alerts: Vec::new(),
            unlisted: None,
        });
        self.all = (rule.alerts, Some(state_of(rule.state)));
        Ok(())
    }

    fn add(&mut self, alert: &PeerAlert<'_>) -> Result<(), &'static str> {
        let rule = self.states.groups.last_mut().and_then(|group| group.rules.last_mut());
        let rule = rule.ok_or("an alert is of no rule")?;
        let state = state_of(alert.state);
        // Alerts that ended are not shown, and no process sends them.
        if state != State::Inactive {
            rule.alerts.push(shown_alert(alert, state));
        }
        Ok(())
    }

    /// Notes which alerts of the last rule are not in the list.
    fn end_rule(&mut self) {
        let (number, state) = std::mem::take(&mut self.all);
        let rule = self.states.groups.last_mut().and_then(|group| group.rules.last_mut());
        if let Some(rule) = rule
            && let left_out @ 1.. = number.saturating_sub(rule.alerts.len() as u64)
        {
            rule.unlisted = state;
            self.states.alerts_left_out = self.states.alerts_left_out.saturating_add(left_out);
        }
    }

    fn end(mut self) -> ListedStates {
        self.end_rule();
        self.states
    }
}

fn bytes_without_alerts(group: &GroupShown) -> u64 {
    peer_group(group).bytes() + group.rules.iter().map(|rule| peer_rule(rule).bytes()).sum::<u64>()
}

fn peer_group(group: &GroupShown) -> PeerRulesPart<'_> {
    PeerRulesPart::Group(PeerGroup {
        file: &group.spec.file,
        name: &group.spec.name,
        fingerprint: group.spec.fingerprint(),
        last_ns: group.last_at.map(Instant::ns),
        took_us: micros(group.took),
        missed: group.missed,
        made_up: group.made_up,
        late_us: micros(group.late),
    })
}

fn peer_rule(rule: &RuleShown) -> PeerRulesPart<'_> {
    PeerRulesPart::Rule(PeerRule {
        last_ns: rule.last_at.map(Instant::ns),
        took_us: micros(rule.took),
        error: rule.last_error.as_deref(),
        alerts: rule.alerts.len() as u64,
        state: peer_state(rule.state()),
    })
}

fn peer_alert(alert: &Alert) -> PeerRulesPart<'_> {
    PeerRulesPart::Alert(PeerAlert {
        labels: alert.labels.iter().collect(),
        annotations: alert.annotations.iter().map(|(name, value)| (&**name, &**value)).collect(),
        value: alert.value,
        state: peer_state(alert.state),
        times: PeerAlertTimes {
            active_ns: alert.active_at.ns(),
            fired_ns: alert.fired_at.map(Instant::ns),
            keep_firing_since_ns: alert.keep_firing_since.map(Instant::ns),
            sent_ns: alert.last_sent_at.map(Instant::ns),
            valid_until_ns: alert.valid_until.map(Instant::ns),
        },
    })
}

fn shown_alert(alert: &PeerAlert<'_>, state: State) -> Alert {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let PeerAlertTimes { active_ns, fired_ns, keep_firing_since_ns, sent_ns, valid_until_ns } = alert.times;
    Alert {
        labels: Arc::new(Labels::from_pairs(alert.labels.iter().copied())),
        annotations: Arc::new(alert.annotations.iter().map(owned).collect::<Pairs>()),
        value: alert.value,
        state,
        active_at: Instant::of_ns(active_ns),
        fired_at: fired_ns.map(Instant::of_ns),
        resolved_at: None,
        keep_firing_since: keep_firing_since_ns.map(Instant::of_ns),
        last_sent_at: sent_ns.map(Instant::of_ns),
        valid_until: valid_until_ns.map(Instant::of_ns),
    }
}

fn peer_state(state: State) -> PeerAlertState {
    match state {
        State::Inactive => PeerAlertState::Inactive,
        State::Pending => PeerAlertState::Pending,
        State::Firing => PeerAlertState::Firing,
    }
}

fn state_of(state: PeerAlertState) -> State {
    match state {
        PeerAlertState::Inactive => State::Inactive,
        PeerAlertState::Pending => State::Pending,
        PeerAlertState::Firing => State::Firing,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "rule_states_tests.rs"]
mod tests;
