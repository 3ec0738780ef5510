//! A server on the fault-injecting store in paused time: the HTTP side and the engine, without a network.

use std::net::SocketAddr;
use std::sync::Arc;

use sandur_base::units::MIB;
use sandur_config::{Settings, TenantLimits};
use sandur_engine::{Engine, Retention};
use sandur_runtime::Env;
use sandur_server::memory::Shares;
use sandur_server::roles::{Opened, open_over};
use sandur_store::fault::FaultStore;
use sandur_store::{Store, StoreOptions};

use crate::harness::{Answer, Server, ServerParts};

/// A server with its engine.
pub struct Node {
    pub server: Server<()>,
    pub engine: Arc<Engine>,
}

impl Node {
    /// Opens a server as the client with this name.
    pub async fn open(env: &Env, bucket: &FaultStore, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { memory_limit: 512 * MIB, ..Settings::default() };
        change(&mut settings);
        let store = Store::from_fault_store(bucket.clone(), env.clone(), StoreOptions::default());
        let (shares, limits) =
            (Shares::of(settings.memory_limit).unwrap(), Arc::new(TenantLimits::new(&settings)));
        let address: SocketAddr = "127.0.0.1:3100".parse().unwrap();
        let kept = (Arc::new(|_: &_| Retention::default()) as _, None);
        let opened = open_over(store, (env, &settings), &shares, (&limits, kept), address).await;
        let opened = opened.unwrap_or_else(|failed| panic!("{}", failed.message()));
        let Opened { engine, sources, intake, registry, .. } = opened;
        let parts = ServerParts { env: env.clone(), settings, sources, intake, registry };
        Self { server: Server::before(parts, ()), engine }
    }

    /// Pushes a line with this age in seconds.
    pub async fn push(&self, line: &str, age_s: i64) -> Answer {
        let at = self.server.app.env.now_ns() - age_s * 1_000_000_000;
        let body = format!(r#"{{"streams":[{{"stream":{{"app":"a"}},"values":[["{at}","{line}"]]}}]}}"#);
        self.server.push_json(&body).await
    }

    /// The response to a scrape.
    pub async fn metrics(&self) -> String {
        self.server.get("/metrics", &[]).await.body
    }

    /// Queries the lines of the last minutes.
    pub async fn query(&self) -> Answer {
        let pairs = [("query", r#"{app="a"}"#), ("since", "5m"), ("limit", "10")];
        self.server.get("/loki/api/v1/query_range", &pairs).await
    }
}
