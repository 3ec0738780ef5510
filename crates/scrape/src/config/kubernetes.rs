//! Reads `kubernetes_sd_configs`.

use sandur_yaml::{ConfigError, Keys, Node};

use super::auth::{self, Auth, Tls};

/// The largest number of namespaces of one entry.
const NAMESPACES_MAX: usize = 1_000;

/// Keys of Prometheus that are not honoured.
const FOREIGN: &[&str] = &[
    "oauth2",
    "proxy_url",
    "no_proxy",
    "proxy_from_environment",
    "proxy_connect_header",
    "follow_redirects",
    "enable_http2",
    "http_headers",
];

/// The objects that are targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Ports of containers.
    Pod,
    /// Addresses of endpoints.
    Endpoints,
    /// Addresses of slices of endpoints.
    EndpointSlice,
    /// Ports of services.
    Service,
    /// Kubelets.
    Node,
}

impl Role {
    /// Returns Prometheus's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslice",
            Self::Service => "service",
            Self::Node => "node",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Pod, Self::Endpoints, Self::EndpointSlice, Self::Service, Self::Node];
        all.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether an entry of this role may select objects of another role.
    fn may_select(self, other: Self, attaches_nodes: bool) -> bool {
        let is_by_endpoints = matches!(self, Self::Endpoints | Self::EndpointSlice);
        self == other
            || (is_by_endpoints && matches!(other, Self::Pod | Self::Service))
            || (attaches_nodes && other == Self::Node)
    }
}

/// A restriction of the objects of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The role.
    pub role: Role,
    /// A selector of labels; empty for none.
    pub label: String,
    /// A selector of fields; empty for none.
    pub field: String,
}

/// Objects of a Kubernetes cluster that are targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesDiscovery {
    /// The role.
    pub role: Role,
    /// The URL of the API; `None`: that of the cluster in which the process runs, with the credentials of its
    /// service account.
    pub api_server: Option<String>,
    /// The credentials.
    pub auth: Auth,
    /// How the certificate of the API is verified.
    pub tls: Tls,
    /// The namespaces; all if the list is empty and `own_namespace` is not set.
    pub namespaces: Vec<String>,
    /// Whether the namespace in which the process runs is searched too.
    pub own_namespace: bool,
    /// Restrictions of objects.
    pub selectors: Vec<Selector>,
    /// Whether targets have the labels of their nodes.
    pub attach_node: bool,
}

pub(super) fn read(
    keys: &mut Keys<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<KubernetesDiscovery>, ConfigError> {
    let mut found = Vec::new();
    for node in keys.list("kubernetes_sd_configs")? {
        found.extend(entry(node, warnings)?);
    }
    Ok(found)
}

/// Reads an entry; `None` with a warning if it cannot be honoured.
fn entry(node: &Node, warnings: &mut Vec<String>) -> Result<Option<KubernetesDiscovery>, ConfigError> {
    let mut keys = Keys::of(node)?;
    let line = keys.line;
    let wrong = |what: String| ConfigError::at(line, what);
    let role =
        keys.text("role")?.ok_or_else(|| wrong("kubernetes_sd_configs: role is missing".to_owned()))?;
    if role == "ingress" || keys.text("kubeconfig_file")?.is_some_and(|file| !file.is_empty()) {
        let what = "kubernetes_sd_configs with role ingress or kubeconfig_file is not honoured";
        warnings.push(format!("line {line}: {what}"));
        return Ok(None);
    }
    let role = Role::parse(&role).ok_or_else(|| {
        wrong(format!("role: '{role}' is not one of pod, endpoints, endpointslice, service and node"))
    })?;
    let api_server = keys.text("api_server")?.filter(|url| !url.is_empty());
    let api_server = api_server.map(|url| address(&url).map_err(wrong)).transpose()?;
    let auth = auth::auth(&mut keys, warnings)?;
    let tls = auth::tls(&mut keys, warnings)?;
    if api_server.is_none() && (auth != Auth::None || tls != Tls::default()) {
        return Err(wrong("api_server is missing: it is required with credentials or tls_config".to_owned()));
    }
    let (namespaces, own_namespace) = namespaces(&mut keys, warnings)?;
    if api_server.is_some() && own_namespace {
        return Err(wrong("own_namespace cannot be used with api_server".to_owned()));
    }
    let attach_node = match keys.take("attach_metadata") {
        Some(node) => {
            let mut attach = Keys::of(node)?;
            let is_on = attach.switch("node", false)?;
            attach.finish(&["namespace"], warnings)?;
            is_on
        }
        None => false,
    };
    let selectors = keys.list("selectors")?.iter().map(|node| selector(node, role, attach_node));
    let selectors = selectors.collect::<Result<Vec<_>, _>>()?;
    keys.finish(FOREIGN, warnings)?;
    for (at, selector) in selectors.iter().enumerate() {
        if selectors[..at].iter().any(|other| other.role == selector.role) {
            return Err(wrong(format!("selectors: role {} occurs twice", selector.role.as_str())));
        }
    }
    let entry = KubernetesDiscovery {
        role,
        api_server,
        auth,
        tls,
        namespaces,
        own_namespace,
        selectors,
        attach_node: attach_node && !matches!(role, Role::Service | Role::Node),
    };
    Ok(Some(entry))
}

/// Returns the URL of an API without a slash at its end.
fn address(text: &str) -> Result<String, String> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match url::Url::parse(&text) {
        // It is shown to users.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("api_server: a URL with a user or a password is not accepted; use basic_auth".to_owned())
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.query().is_none() => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("api_server: '{text}' is not a URL such as https://10.0.0.1:6443")),
    }
}

/// Whether a text may be the name of a namespace, which is a part of paths.
pub(crate) fn is_namespace(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn namespaces(keys: &mut Keys<'_>, warnings: &mut Vec<String>) -> Result<(Vec<String>, bool), ConfigError> {
    let Some(node) = keys.take("namespaces") else { return Ok((Vec::new(), false)) };
    let mut keys = Keys::of(node)?;
    let (own, names) = (keys.switch("own_namespace", false)?, keys.texts("names")?);
    keys.finish(&[], warnings)?;
    if names.len() > NAMESPACES_MAX {
        let what = format!("namespaces: there are {}, at most {NAMESPACES_MAX} are allowed", names.len());
        return Err(ConfigError::at(node.line, what));
    }
    for name in &names {
        if !is_namespace(name) {
            return Err(ConfigError::at(node.line, format!("namespaces: '{name}' is not a namespace")));
        }
    }
    Ok((names, own))
}

fn selector(node: &Node, role: Role, attaches_nodes: bool) -> Result<Selector, ConfigError> {
    let mut keys = Keys::of(node)?;
    let line = keys.line;
    let name = keys.text("role")?.unwrap_or_default();
    let label = keys.text("label")?.unwrap_or_default();
    let field = keys.text("field")?.unwrap_or_default();
    keys.finish(&[], &mut Vec::new())?;
    match Role::parse(&name).filter(|other| role.may_select(*other, attaches_nodes)) {
        Some(role) => Ok(Selector { role, label, field }),
        None => {
            let what = format!("selectors: role {} has no selectors of role '{name}'", role.as_str());
            Err(ConfigError::at(line, what))
        }
    }
}
