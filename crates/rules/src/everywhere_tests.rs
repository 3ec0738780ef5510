//! The states of groups of all processes are complete, or the answer says what is missing.
//!
//! Method: other processes that answer as the test says.

use std::sync::Mutex;

use futures_util::FutureExt as _;
use sandur_base::Id;
use sandur_model::Labels;
use sandur_service::{EndedQuery, ListedQueries, NotEnded, UsageShown};

use super::*;
use crate::alert::{Alert, State};
use crate::file::{ReadOptions, read};

const RULES: &str = "groups:\n\
    - {name: a, rules: [{record: r, expr: up}, {alert: A, expr: up}]}\n\
    - {name: b, rules: [{alert: B, expr: up}]}\n\
    - {name: c, rules: [{alert: C, expr: up}]}\n";

/// What a process answers; the most bytes that it may use decide between answers.
type Said = Box<dyn Fn(u64) -> Result<ListedStates, String> + Send + Sync>;

/// Other processes that answer as the test says, and the calls that they got.
#[derive(Default)]
struct Others {
    said: Vec<(ProcessName, Said)>,
    calls: Mutex<Vec<(String, usize, u64)>>,
}

impl Others {
    fn with(
        mut self,
        node: &str,
        said: impl Fn(u64) -> Result<ListedStates, String> + Send + Sync + 'static,
    ) -> Self {
        let process = Id(self.said.len() as u128 + 2);
        let name = ProcessName { node: node.to_owned(), process, address: String::new() };
        self.said.push((name, Box::new(said)));
        self
    }

    fn calls(&self) -> Vec<(String, usize, u64)> {
        self.calls.lock().unwrap().clone()
    }
}

impl OtherProcesses for Others {
    fn own(&self) -> ProcessName {
        ProcessName { node: "own".to_owned(), process: Id(1), address: String::new() }
    }

    fn others(&self) -> Vec<ProcessName> {
        self.said.iter().map(|(name, _)| name.clone()).collect()
    }

    fn running<'a>(
        &'a self,
        _: &'a ProcessName,
        _: Option<&'a TenantId>,
        _: u64,
    ) -> BoxFuture<'a, Result<ListedQueries, String>> {
        unreachable!("the test asks for states")
    }

    fn end<'a>(&'a self, _: &'a ProcessName, _: u64) -> BoxFuture<'a, Result<EndedQuery, NotEnded>> {
        unreachable!("the test asks for states")
    }

    fn own_usage(&self) -> UsageShown {
        unreachable!("the test asks for states")
    }

    fn usage<'a>(&'a self, _: &'a ProcessName) -> BoxFuture<'a, Result<UsageShown, String>> {
        unreachable!("the test asks for states")
    }
}

impl OtherRulers for Others {
    fn states<'a>(&'a self, process: &'a ProcessName, asked: AskedStates<'a>) -> AnsweredStates<'a> {
        let (_, said) = self.said.iter().find(|(name, _)| name == process).unwrap();
        self.calls.lock().unwrap().push((process.node.clone(), asked.groups.len(), asked.most_bytes));
        Box::pin(async move { said(asked.most_bytes) })
    }
}

/// The groups, evaluated by these nodes in order.
fn groups(evaluators: [Option<&str>; 3]) -> Vec<Arc<GroupShown>> {
    let specs = read(RULES, &"f.yml".into(), ReadOptions::default()).unwrap();
    let shown = |(spec, node): (_, Option<&str>)| {
        let (evaluator, is_elsewhere) = (node.map(str::to_owned), node != Some("own"));
        Arc::new(GroupShown { evaluator, is_elsewhere, ..GroupShown::new(Arc::new(spec)) })
    };
    specs.into_iter().zip(evaluators).map(shown).collect()
}

fn alert(name: &str, state: State) -> Alert {
    Alert {
        labels: Arc::new(Labels::from_pairs([("alertname", name)])),
        annotations: Arc::default(),
        value: 1.0,
        state,
        active_at: Instant::of_seconds(1),
        fired_at: None,
        resolved_at: None,
        keep_firing_since: None,
        last_sent_at: None,
        valid_until: None,
    }
}

/// The states of one of the groups, with an alert for each alerting rule.
fn states(number: usize) -> GroupStates {
    let group = &groups([None; 3])[number];
    let rule = |name: &str| RuleShown { alerts: vec![alert(name, State::Firing)], ..RuleShown::default() };
    GroupStates {
        file: group.spec.file.to_string(),
        name: group.spec.name.clone(),
        fingerprint: group.spec.fingerprint(),
        last_at: Some(Instant::of_seconds(9)),
        missed: 4,
        rules: group.spec.rules.iter().map(|rule_spec| rule(&rule_spec.name)).collect(),
        ..GroupStates::default()
    }
}

fn list(numbers: &[usize]) -> ListedStates {
    let groups = numbers.iter().map(|n| states(*n)).collect();
    ListedStates { groups, bytes: 1_000, ..ListedStates::default() }
}

fn completed(others: &Others, groups: Vec<Arc<GroupShown>>, budget: &MemoryBudget) -> StatesEverywhere {
    let tenant = TenantId::default_tenant();
    let asking = AskingRulers { rulers: others, budget, tenant: &tenant, without_alerts: false };
    asking.complete(groups).now_or_never().unwrap()
}

fn budget() -> MemoryBudget {
    MemoryBudget::root("query", 1 << 30)
}

/// The number of alerts of each group.
fn alerts(everywhere: &StatesEverywhere) -> Vec<usize> {
    let of = |group: &Arc<GroupShown>| group.rules.iter().map(|rule| rule.alerts.len()).sum();
    everywhere.groups.iter().map(of).collect()
}

#[test]
fn nobody_is_asked_about_own_groups() {
    let others = Others::default().with("two", |_| Ok(list(&[0, 1, 2])));
    let all = completed(&others, groups([Some("own"); 3]), &budget());
    assert_eq!((alerts(&all), all.warnings.len(), all.memory.bytes()), (vec![0; 3], 0, 0));
    assert!(others.calls().is_empty());
}

#[test]
fn only_evaluators_are_asked_and_their_states_are_shown() {
    let others = Others::default()
        .with("two", |_| Ok(list(&[0])))
        .with("three", |_| Ok(list(&[2, 1, 0])))
        .with("four", |_| Ok(list(&[1])));
    let budget = budget();
    let all = completed(&others, groups([Some("two"), Some("own"), Some("three")]), &budget);
    assert_eq!((alerts(&all), &all.warnings), (vec![1, 0, 1], &Vec::new()), "and nothing of the own group");
    let group = &all.groups[0];
    assert_eq!((group.last_at, group.missed), (Some(Instant::of_seconds(9)), 4));
    assert_eq!(group.evaluator.as_deref(), Some("two"));
    assert!(group.rules[0].alerts.is_empty(), "a recording rule has no alerts");
    let calls: Vec<_> = others.calls().into_iter().map(|(node, groups, _)| (node, groups)).collect();
    assert_eq!(calls, [("three".to_owned(), 1), ("two".to_owned(), 1)]);
    assert_eq!((budget.used(), all.memory.bytes()), (2_000, 2_000), "what was not used is released");
    drop(all);
    assert_eq!(budget.used(), 0);
}

#[test]
fn processes_that_do_not_answer_are_named_with_the_reason() {
    let others = Others::default().with("two", |_| Err("it is away".to_owned()));
    let all = completed(&others, groups([Some("two"), Some("gone"), None]), &budget());
    assert_eq!(alerts(&all), [0; 3]);
    let expected = [
        "no process evaluates 1 group now",
        "states of 1 group of the node gone are not known: no process of it is known to run",
        "states of 1 group of the node two are not known: it is away",
    ];
    assert_eq!(all.warnings, expected);
    let all = completed(&others, groups([Some("two"), Some("two"), Some("own")]), &budget());
    assert_eq!(all.warnings, ["states of 2 groups of the node two are not known: it is away"]);
    // The catalog names this node, and its ruler has not seen that yet.
    let mut of_own = groups([Some("own"); 3]);
    of_own[1] = Arc::new(GroupShown { is_elsewhere: true, ..GroupShown::clone(&of_own[1]) });
    let all = completed(&others, of_own, &budget());
    assert_eq!(all.warnings.len(), 1, "{:?}", all.warnings);
    assert!(all.warnings[0].contains("has not begun"), "{:?}", all.warnings);
}

#[test]
fn states_of_another_specification_or_of_a_former_owner_are_not_shown() {
    let other = |change: fn(&mut GroupStates)| {
        let mut list = list(&[0, 1, 2]);
        change(&mut list.groups[1]);
        Ok(list)
    };
    let changes: [fn(&mut GroupStates); 4] = [
        |group| group.fingerprint ^= 1,
        |group| group.file.push('x'),
        |group| group.name.push('x'),
        |group| group.rules.push(RuleShown::default()),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let others = Others::default().with("two", move |_| other(change));
        let all = completed(&others, groups([Some("two"); 3]), &budget());
        assert_eq!(alerts(&all), [1, 0, 1], "{n}");
        assert_eq!(all.warnings.len(), 1);
        assert!(all.warnings[0].starts_with("states of 1 group of the node two"), "{:?}", all.warnings);
        assert_eq!(all.groups[1].last_at, None);
    }
    let others = Others::default().with("two", |_| Ok(list(&[])));
    let all = completed(&others, groups([Some("two"); 3]), &budget());
    assert!(all.warnings[0].starts_with("states of 3 groups"), "{:?}", all.warnings);
}

#[test]
fn a_process_without_room_is_asked_for_more_and_what_is_left_out_is_counted() {
    let cut = |left_out| {
        let mut list = list(&[0, 1, 2]);
        list.groups[0].rules[1] = RuleShown { unlisted: Some(State::Firing), ..RuleShown::default() };
        list.alerts_left_out = left_out;
        Ok(list)
    };
    let small = SMALL.most;
    let others =
        Others::default().with("two", move |most| if most > small { Ok(list(&[0, 1, 2])) } else { cut(1) });
    let budget = budget();
    let all = completed(&others, groups([Some("two"); 3]), &budget);
    assert_eq!((alerts(&all), &all.warnings), (vec![1; 3], &Vec::new()));
    let sizes: Vec<u64> = others.calls().into_iter().map(|(_, _, most)| most).collect();
    assert_eq!(sizes, [SMALL.most, LARGE.most]);
    assert_eq!(all.memory.bytes(), 1_000);

    let others = Others::default().with("two", move |_| cut(1_000_000));
    let all = completed(&others, groups([Some("two"); 3]), &budget);
    assert_eq!(alerts(&all), [0, 1, 1]);
    assert_eq!(all.groups[0].rules[1].state(), State::Firing, "although no alert is listed");
    assert_eq!(all.warnings.len(), 1);
    assert!(all.warnings[0].starts_with("1000000 alerts of the node two left out"), "{:?}", all.warnings);

    // Without memory for a larger answer the first one is shown.
    let tight = MemoryBudget::root("query", 3 << 20);
    let others =
        Others::default().with("two", move |most| if most > small { Err("no".to_owned()) } else { cut(5) });
    let all = completed(&others, groups([Some("two"); 3]), &tight);
    assert_eq!((alerts(&all), all.warnings.len()), (vec![0, 1, 1], 1));
    assert!(tight.used() <= 1_000, "{}", tight.used());
}

#[test]
fn without_memory_nobody_is_asked_and_the_answer_says_so() {
    let others = Others::default().with("two", |_| Ok(list(&[0, 1, 2])));
    let all = completed(&others, groups([Some("two"); 3]), &MemoryBudget::root("query", 100_000));
    assert_eq!(alerts(&all), [0; 3]);
    assert_eq!(all.warnings.len(), 1);
    assert!(all.warnings[0].contains("no memory") && others.calls().is_empty(), "{:?}", all.warnings);
}

#[test]
fn the_answers_of_many_processes_share_the_memory() {
    let number = PROCESSES_MAX + 5;
    let mut others = Others::default();
    for n in 0..number {
        others = others.with(&format!("node-{n}"), |_| Ok(ListedStates { alerts_left_out: 9, ..list(&[0]) }));
    }
    let of =
        |n| GroupShown { evaluator: Some(format!("node-{n}")), ..GroupShown::clone(&groups([None; 3])[0]) };
    let all = (0..number).map(|n| Arc::new(of(n))).collect();
    let budget = budget();
    let all = completed(&others, all, &budget);
    assert_eq!(alerts(&all).into_iter().sum::<usize>(), PROCESSES_MAX);
    assert_eq!(all.warnings.len(), number, "each left something out, or was not asked");
    let reserved = others.calls().iter().map(|(_, _, most)| most * SMALL.factor).sum::<u64>();
    assert!(reserved <= 2 * (SMALL.all.max(256 * SMALL.least) + LARGE.all), "{reserved}");
}
