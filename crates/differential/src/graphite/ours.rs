//! Our implementation of Graphite's language, in this process.

use std::time::Duration;

use anyhow::Result;
use sandur_base::{Env, MemoryBudget};
use sandur_graphite::{RenderRequest, Zone, render};
use sandur_model::TenantId;
use sandur_query::QueryContext;

use super::answer::Answer;
use super::ask::Ask;
use super::series::{Known, NOW};

/// The longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory budget of a request, in bytes.
const QUERY_BYTES: u64 = 1 << 30;

/// The language over series in memory.
pub struct Ours {
    env: Env,
    known: Known,
    runtime: tokio::runtime::Runtime,
}

impl Ours {
    /// Over this data.
    pub fn over(known: Known) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { env: Env::system(1), known, runtime })
    }

    /// Evaluates a request.
    pub fn ask(&self, ask: &Ask) -> Answer {
        let pairs: Vec<(String, String)> = ask.parameters();
        let request = match RenderRequest::read(&pairs, NOW, &Zone::utc()) {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let budget = MemoryBudget::root("query", QUERY_BYTES);
        let (env, tenant) = (self.env.clone(), TenantId::default_tenant());
        let context = QueryContext::new(env, tenant, budget.clone(), PATIENCE);
        let answer = match self.runtime.block_on(render(&self.known, &context, &request)) {
            Ok(rendered) => Answer::read(&String::from_utf8_lossy(&rendered.body)),
            Err(error) => Answer::Refused(error.to_string()),
        };
        match budget.used() {
            0 => answer,
            kept => Answer::Failed(format!("{kept} bytes are still reserved")),
        }
    }
}
