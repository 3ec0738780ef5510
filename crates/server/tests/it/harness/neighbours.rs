//! Other processes of the store that exist only in the test: each answers as the test says.

use std::sync::Mutex;

use sandur_base::{BoxFuture, Id};
use sandur_model::TenantId;
use sandur_rules::{AnsweredStates, AskedStates, ListedStates, OtherRulers};
use sandur_service::{
    EndedQuery, ListedQueries, NotEnded, OtherProcesses, ProcessName, RunningQuery, UsageShown,
};

/// The id of the process under test.
pub const OWN: Id = Id(1);

/// The begin of a reason because of which the process is not asked.
pub const NOT_ASKED: &str = "not asked: ";

/// What a process answers: its queries, or why it does not answer.
pub type Said = Result<ListedQueries, String>;

/// The other processes, and the calls to end queries.
#[derive(Default)]
pub struct Neighbours {
    pub all: Mutex<Vec<(ProcessName, Said)>>,
    pub ends: Mutex<Vec<(Id, u64)>>,
}

impl Neighbours {
    pub fn add(&self, number: u128, said: Said) {
        let node = format!("node-{number}");
        let name = ProcessName { node, process: Id(number), address: String::new() };
        self.all.lock().unwrap().push((name, said));
    }

    fn said(&self, process: Id) -> Said {
        let all = self.all.lock().unwrap();
        all.iter().find(|(name, _)| name.process == process).unwrap().1.clone()
    }
}

/// A query of a tenant that has run for some seconds.
pub fn query(number: u64, tenant: &str, seconds: u64) -> RunningQuery {
    RunningQuery {
        number,
        tenant: sandur_model::TenantId::new(tenant).unwrap(),
        text: format!("query {number} of {tenant}"),
        query_type: "metric".to_owned(),
        signal: "metrics".to_owned(),
        user_agent: String::new(),
        start_ns: 0,
        end_ns: 0,
        elapsed: std::time::Duration::from_secs(seconds),
        queue: Default::default(),
        store: Default::default(),
        execution: Default::default(),
        memory_bytes: 0,
        read_bytes: 0,
        read_rows: 0,
    }
}

impl OtherProcesses for Neighbours {
    fn own(&self) -> ProcessName {
        ProcessName { node: "own".to_owned(), process: OWN, address: String::new() }
    }

    fn others(&self) -> Vec<ProcessName> {
        self.all.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Answers with the queries of all tenants, as a process that does not filter would.
    fn running<'a>(
        &'a self,
        name: &'a ProcessName,
        _: Option<&'a TenantId>,
        _: u64,
    ) -> BoxFuture<'a, Result<ListedQueries, String>> {
        let said = self.said(name.process);
        Box::pin(async move { said })
    }

    fn end<'a>(&'a self, name: &'a ProcessName, query: u64) -> BoxFuture<'a, Result<EndedQuery, NotEnded>> {
        self.ends.lock().unwrap().push((name.process, query));
        let said = self.said(name.process);
        Box::pin(async move {
            let all = said.map_err(|reason| match reason.strip_prefix(NOT_ASKED) {
                Some(reason) => NotEnded::NotAsked(reason.to_owned()),
                None => NotEnded::Unknown(reason),
            })?;
            let found = all.queries.into_iter().find(|one| one.number == query).ok_or(NotEnded::Gone)?;
            Ok(EndedQuery { tenant: found.tenant.to_string(), text: found.text })
        })
    }

    fn own_usage(&self) -> UsageShown {
        UsageShown { requests: 7, dollars: 0.5, dollars_per_month: 30.0 }
    }

    fn usage<'a>(&'a self, name: &'a ProcessName) -> BoxFuture<'a, Result<UsageShown, String>> {
        let said = self.said(name.process).map(|_| UsageShown { requests: 3, ..UsageShown::default() });
        Box::pin(async move { said })
    }
}

impl OtherRulers for Neighbours {
    /// Evaluates no rules.
    fn states<'a>(&'a self, name: &'a ProcessName, _: AskedStates<'a>) -> AnsweredStates<'a> {
        let said = self.said(name.process).map(|_| ListedStates::default());
        Box::pin(async move { said })
    }
}
