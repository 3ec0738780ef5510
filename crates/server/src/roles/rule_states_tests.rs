//! States of rules come back unchanged; lists that are too large, of others, or damaged are refused.

use sandur_peers::Answer;
use sandur_peers::fuzzing::decode_answer;
use sandur_rules::file::{ReadOptions, read};

use super::*;

const MOST: u64 = 32 << 20;

fn tenant() -> TenantId {
    TenantId::new("a").unwrap()
}

fn alert(number: usize, state: State) -> Alert {
    let instance = format!("host-{number:06}.example.com:9100");
    let labels = [("alertname", "Down"), ("instance", &*instance), ("job", "node"), ("severity", "page")];
    let summary = ("summary".to_owned(), format!("{instance} has been down for five minutes"));
    Alert {
        labels: Arc::new(Labels::from_pairs(labels)),
        annotations: Arc::new(vec![summary, ("empty".to_owned(), String::new())]),
        value: number as f64,
        state,
        active_at: Instant::of_seconds(1_000),
        fired_at: Some(Instant::of_seconds(1_060)),
        resolved_at: None,
        keep_firing_since: None,
        last_sent_at: Some(Instant::of_seconds(1_070)),
        valid_until: Some(Instant::of_seconds(1_310)),
    }
}

/// Groups with this many rules each, of which each has this many alerts.
fn groups(number: usize, rules: usize, alerts: usize) -> Vec<Arc<GroupShown>> {
    let rule = |n| format!("  - {{alert: A{n}, expr: up == 0, labels: {{severity: page}}}}\n");
    let rules: String = (0..rules).map(rule).collect();
    let text: String = (0..number).map(|n| format!("- name: g{n}\n  rules:\n{rules}")).collect();
    let specs = read(&format!("groups:\n{text}"), &"f.yml".into(), ReadOptions::default()).unwrap();
    let shown = |spec| {
        let mut group = GroupShown::new(Arc::new(spec));
        group.last_at = Some(Instant::of_seconds(1_080));
        (group.missed, group.made_up, group.late) = (1, 2, Duration::from_millis(3));
        for (n, rule) in group.rules.iter_mut().enumerate() {
            rule.last_error = (n % 2 == 1).then(|| "it failed".to_owned());
            rule.last_at = group.last_at;
            rule.alerts = (0..alerts).map(|n| alert(n, State::Firing)).collect();
        }
        Arc::new(group)
    };
    specs.into_iter().map(shown).collect()
}

fn sent(groups: &[Arc<GroupShown>], most: u64) -> ListedStates {
    let tenant = tenant();
    let list = peer_rules((&tenant, groups), false, most);
    assert!(list.len() as u64 <= most.max(256), "{} of {most}", list.len());
    let states = listed_states(&list, &tenant, most).unwrap();
    assert!(states.bytes <= most, "{} of {most}", states.bytes);
    states
}

#[test]
fn states_come_back_unchanged() {
    let groups = groups(2, 2, 3);
    let states = sent(&groups, MOST);
    assert_eq!((states.groups_left_out, states.alerts_left_out), (0, 0));
    for (group, states) in groups.iter().zip(&states.groups) {
        assert_eq!((&*group.spec.file, &group.spec.name), (&*states.file, &states.name));
        assert_eq!(group.spec.fingerprint(), states.fingerprint);
        let of_states = (states.last_at, states.took, states.missed, states.made_up, states.late);
        assert_eq!((group.last_at, group.took, group.missed, group.made_up, group.late), of_states);
        for (rule, states) in group.rules.iter().zip(&states.rules) {
            assert_eq!((rule.last_at, &rule.last_error), (states.last_at, &states.last_error));
            assert_eq!((&rule.alerts, states.unlisted), (&states.alerts, None));
        }
    }
}

#[test]
fn what_does_not_fit_is_counted_and_states_of_rules_are_still_right() {
    let groups = groups(10, 3, 20);
    for most in [0, 300, 5_000, 20_000, 100_000, 1 << 20] {
        let states = sent(&groups, most);
        assert_eq!(states.groups.len() as u64 + states.groups_left_out, 10, "{most}");
        let rules: Vec<&RuleShown> = states.groups.iter().flat_map(|group| &group.rules).collect();
        let listed = rules.iter().map(|rule| rule.alerts.len() as u64).sum::<u64>();
        assert_eq!(listed + states.alerts_left_out, 20 * rules.len() as u64, "{most}");
        assert!(rules.iter().all(|rule| rule.state() == State::Firing), "{most}");
        let is_complete = |rule: &RuleShown| rule.unlisted.is_none() == (rule.alerts.len() == 20);
        assert!(rules.into_iter().all(is_complete), "{most}");
    }
    assert_eq!(sent(&groups, 20_000).groups.len(), 10, "states of rules come before alerts");
    let list = peer_rules((&tenant(), &groups), true, MOST);
    let states = listed_states(&list, &tenant(), MOST).unwrap();
    assert_eq!(states.alerts_left_out, 600, "they are only counted");
    assert!(states.groups.iter().flat_map(|group| &group.rules).all(|rule| rule.state() == State::Firing));
}

#[test]
fn lists_of_another_tenant_or_in_another_order_are_refused() {
    let groups = groups(1, 1, 1);
    let other = TenantId::new("b").unwrap();
    let list = peer_rules((&other, &groups), false, MOST);
    assert!(listed_states(&list, &tenant(), MOST).unwrap_err().contains("another tenant"));
    assert!(listed_states(&PeerRules::default(), &tenant(), MOST).is_err(), "it says no tenant");
    let (group, rule) = (peer_group(&groups[0]), peer_rule(&groups[0].rules[0]));
    let alert = peer_alert(&groups[0].rules[0].alerts[0]);
    let read = |parts: &[&PeerRulesPart<'_>]| {
        let mut writer = PeerRulesWriter::new("a", MOST);
        parts.iter().for_each(|part| assert!(writer.push(part)));
        listed_states(&writer.end(0), &tenant(), MOST)
    };
    assert_eq!(read(&[&group, &rule, &alert]).unwrap().groups.len(), 1);
    assert!(read(&[&rule]).is_err() && read(&[&alert]).is_err() && read(&[&group, &alert]).is_err());
    // The tenant may change to that of others after the first groups.
    assert!(read(&[&group, &PeerRulesPart::Tenant("b"), &group]).is_err());
    assert!(read(&[&group, &PeerRulesPart::Tenant("b")]).is_err());
}

/// A peer that sends more than it may, impossible times, or a count that no list has.
#[test]
fn hostile_lists_are_bounded() {
    let many = groups(1, 1, 50_000);
    let list = peer_rules((&tenant(), &many), false, u64::MAX);
    assert!(listed_states(&list, &tenant(), 1 << 20).unwrap_err().contains("cannot be read"));
    let mut group = GroupShown::clone(&groups(1, 1, 1)[0]);
    group.rules[0].alerts[0].value = f64::NAN;
    group.rules[0].alerts[0].active_at = Instant::of_ns(i64::MIN);
    (group.took, group.missed) = (Duration::MAX, u64::MAX);
    let states = sent(&[Arc::new(group)], MOST);
    assert!(states.groups[0].rules[0].alerts[0].value.is_nan());
    let mut writer = PeerRulesWriter::new("a", MOST);
    writer.push(&PeerRulesPart::Group(PeerGroup::default()));
    for _ in 0..2 {
        writer.push(&PeerRulesPart::Rule(PeerRule { alerts: u64::MAX, ..PeerRule::default() }));
    }
    let states = listed_states(&writer.end(u64::MAX), &tenant(), MOST).unwrap();
    assert_eq!((states.alerts_left_out, states.groups_left_out), (u64::MAX, u64::MAX));
}

/// 20,000 rules with 100,000 alerts: a second answer has room for all rules and tens of thousands of alerts.
#[test]
fn large_lists_have_all_rules_and_as_many_alerts_as_fit() {
    let groups = groups(1_000, 20, 5);
    let states = sent(&groups, MOST);
    let listed = 100_000 - states.alerts_left_out;
    assert_eq!((states.groups.len(), states.groups_left_out), (1_000, 0));
    assert!(listed > 25_000, "{listed}");
}

/// Lists of which bytes were changed, cut or repeated are refused or read, within their bound.
#[test]
fn damaged_lists_cause_no_panic() {
    let whole = peer_rules((&tenant(), &groups(3, 2, 2)), false, MOST);
    let answer = sandur_peers::fuzzing::encode_answer(&Answer::Rules(whole));
    let mut random = 1u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut bytes = answer.to_vec();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            bytes[at] = below(256) as u8;
        }
        if below(4) == 0 {
            bytes.truncate(below(bytes.len()));
        }
        let list = match decode_answer(&bytes.into()) {
            Ok(Answer::Rules(list)) => list,
            _ => continue,
        };
        match listed_states(&list, &tenant(), 64 << 10) {
            Ok(states) => assert!(states.bytes <= 64 << 10),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "{refused}");
}
