//! Targets from the objects of a Kubernetes cluster.
//!
//! All objects are listed at each refresh; there is no watch. A list that fails, of any namespace, fails the
//! whole look-up, so that the targets of the last one are kept.

mod api;
mod cluster;
mod endpoints;
mod labels;
mod node;
mod objects;
mod pod;
mod service;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandur_base::{BoxFuture, small_file};
use sandur_memory::MemoryBudget;
use sandur_runtime::{Env, Lane, environment};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::source::{Found, Listed, Source};
use crate::config::{Auth, KubernetesDiscovery, Role, Secret, Tls, is_namespace};
use crate::fetch::Fetch;
use api::{Api, Objects};
use cluster::{Cluster, key};
use objects::{Node, Pod, Service};

/// How often all objects are listed.
const REFRESH: Duration = Duration::from_secs(30);
/// The largest file with the name of a namespace in bytes.
const NAMESPACE_BYTES_MAX: u64 = 1 << 10;

/// Where a process finds the API of the cluster in which it runs.
#[derive(Clone, Debug)]
pub(crate) struct InCluster {
    /// Host and port.
    pub(crate) server: Option<(String, String)>,
    /// The folder with the files of the service account.
    pub(crate) folder: PathBuf,
}

impl InCluster {
    /// Reads the variables that Kubernetes sets.
    pub(crate) fn system() -> Self {
        let host = environment::variable("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty());
        let port = environment::variable("KUBERNETES_SERVICE_PORT").filter(|port| !port.is_empty());
        let folder = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount");
        Self { server: host.zip(port), folder }
    }
}

/// An entry of the configuration.
pub(super) struct Kubernetes {
    env: Env,
    fetch: Arc<dyn Fetch>,
    memory: MemoryBudget,
    entry: KubernetesDiscovery,
    cluster: InCluster,
    /// The entry as it is shown to users.
    name: String,
}

impl Kubernetes {
    pub(super) fn new(
        env: &Env,
        (fetch, memory): (&Arc<dyn Fetch>, &MemoryBudget),
        entry: &KubernetesDiscovery,
        cluster: &InCluster,
    ) -> Self {
        let of = entry.api_server.as_deref().unwrap_or("the own cluster");
        let (env, fetch, memory) = (env.clone(), Arc::clone(fetch), memory.clone());
        let name = format!("role {} of {of}", entry.role.as_str());
        Self { env, fetch, memory, entry: entry.clone(), cluster: cluster.clone(), name }
    }

    /// Returns URL, credentials and trust.
    fn access(&self) -> Result<(String, Auth, Tls), String> {
        if let Some(url) = &self.entry.api_server {
            return Ok((url.clone(), self.entry.auth.clone(), self.entry.tls.clone()));
        }
        let (host, port) = self.cluster.server.as_ref().ok_or(
            "this process does not run in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are \
             not set; set api_server",
        )?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let credentials = Secret::File(self.cluster.folder.join("token"));
        let auth = Auth::Token { kind: "Bearer".to_owned(), credentials };
        let tls = Tls { ca_file: Some(self.cluster.folder.join("ca.crt")), ..Tls::default() };
        Ok((format!("https://{host}:{port}"), auth, tls))
    }

    /// Returns the parts of paths that select the namespaces.
    async fn namespaces(&self) -> Result<Vec<String>, String> {
        let mut names = self.entry.namespaces.clone();
        if self.entry.own_namespace {
            let path = self.cluster.folder.join("namespace");
            let own = self.env.run_blocking(move || own_namespace(&path)).await?;
            if !names.contains(&own) {
                names.push(own);
            }
        }
        if names.is_empty() {
            return Ok(vec![String::new()]);
        }
        Ok(names.iter().map(|name| format!("namespaces/{name}/")).collect())
    }

    async fn look_up(&self) -> Result<Listed, String> {
        let ((server, auth, tls), namespaces) = (self.access()?, self.namespaces().await?);
        let (env, fetch, memory) = (&self.env, &self.fetch, &self.memory);
        let api = Api { env, fetch, memory, server: &server, auth: &auth, tls: &tls };
        let listing = Listing { api, entry: &self.entry, namespaces: &namespaces };
        let cluster = listing.cluster().await?;
        match self.entry.role {
            Role::Pod => self.targets(listing.all(Role::Pod).await?, cluster, pod::targets).await,
            Role::Service => self.targets(listing.all(Role::Service).await?, cluster, service::targets).await,
            Role::Node => self.targets(listing.all(Role::Node).await?, cluster, node::targets).await,
            Role::Endpoints => {
                self.targets(listing.all(Role::Endpoints).await?, cluster, endpoints::targets).await
            }
            Role::EndpointSlice => {
                let slices = listing.all(Role::EndpointSlice).await?;
                self.targets(slices, cluster, endpoints::targets_of_slice).await
            }
        }
    }

    /// Makes the targets of objects on the CPU pool.
    async fn targets<T: Send + 'static>(
        &self,
        objects: Objects<T>,
        cluster: Cluster,
        add: fn(&T, &Cluster, &mut Found),
    ) -> Result<Listed, String> {
        let mut found = Found::new(&self.memory);
        let work = move || {
            objects.all.iter().for_each(|object| add(object, &cluster, &mut found));
            found.finish()
        };
        self.env.run_cpu(Lane::Background, work).await
    }
}

/// The lists of one look-up.
struct Listing<'a> {
    api: Api<'a>,
    entry: &'a KubernetesDiscovery,
    namespaces: &'a [String],
}

impl Listing<'_> {
    /// Lists the objects of a role in all namespaces.
    async fn all<T: DeserializeOwned + Serialize + Send + 'static>(
        &self,
        role: Role,
    ) -> Result<Objects<T>, String> {
        let selector = self.entry.selectors.iter().find(|selector| selector.role == role);
        let selectors: Vec<(&str, &str)> = selector
            .map(|selector| vec![("labelSelector", &*selector.label), ("fieldSelector", &*selector.field)])
            .unwrap_or_default();
        let mut objects = Objects::default();
        let (group, kind) = match role {
            Role::Pod => ("/api/v1/", "pods"),
            Role::Service => ("/api/v1/", "services"),
            Role::Endpoints => ("/api/v1/", "endpoints"),
            Role::EndpointSlice => ("/apis/discovery.k8s.io/v1/", "endpointslices"),
            Role::Node => {
                self.api.list("/api/v1/nodes", &selectors, &mut objects).await?;
                return Ok(objects);
            }
        };
        for namespace in self.namespaces {
            self.api.list(&format!("{group}{namespace}{kind}"), &selectors, &mut objects).await?;
        }
        Ok(objects)
    }

    /// Lists the objects that give further labels to targets.
    async fn cluster(&self) -> Result<Cluster, String> {
        let mut cluster = Cluster::default();
        if self.entry.attach_node {
            let nodes = self.all::<Node>(Role::Node).await?;
            cluster.nodes = nodes.all.into_iter().map(|node| (key(&node.metadata), node)).collect();
            cluster.held.extend(nodes.held);
        }
        if matches!(self.entry.role, Role::Endpoints | Role::EndpointSlice) {
            let pods = self.all::<Pod>(Role::Pod).await?;
            cluster.pods = pods.all.into_iter().map(|pod| (key(&pod.metadata), pod)).collect();
            let services = self.all::<Service>(Role::Service).await?;
            let by_name = services.all.into_iter().map(|service| (key(&service.metadata), service));
            cluster.services = by_name.collect();
            cluster.held.extend(pods.held.into_iter().chain(services.held));
        }
        Ok(cluster)
    }
}

fn own_namespace(path: &Path) -> Result<String, String> {
    let text = small_file::read_text(path, NAMESPACE_BYTES_MAX);
    let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let name = text.trim();
    if !is_namespace(name) {
        return Err(format!("{} contains no namespace", path.display()));
    }
    Ok(name.to_owned())
}

impl Source for Kubernetes {
    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn refresh(&self) -> Duration {
        REFRESH
    }

    fn list(&self) -> BoxFuture<'_, Result<Listed, String>> {
        Box::pin(self.look_up())
    }
}
