//! Goal: each role has the targets and labels that Prometheus documents, and hostile answers are errors.
//!
//! Method: an API that answers from files in the form of the API reference, page by page, and a hostile one.

use std::sync::Mutex;

use url::Url;

use super::*;
use crate::config::ScrapeFile;
use crate::fetch::{FetchRequest, Fetched};

const PODS: &str = include_str!("../../../fixtures/kubernetes/pods.json");
const SERVICES: &str = include_str!("../../../fixtures/kubernetes/services.json");
const ENDPOINTS: &str = include_str!("../../../fixtures/kubernetes/endpoints.json");
const SLICES: &str = include_str!("../../../fixtures/kubernetes/endpointslices.json");
const NODES: &str = include_str!("../../../fixtures/kubernetes/nodes.json");

type Answer = Box<dyn Fn(&Url) -> Result<String, String> + Send + Sync>;

/// An API; it records the requests with their credentials.
struct Served {
    answer: Answer,
    requests: Mutex<Vec<String>>,
}

impl Fetch for Served {
    fn fetch<'a>(&'a self, request: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>> {
        let url = Url::parse(request.url).unwrap();
        self.requests.lock().unwrap().push(format!("{url} {:?} {:?}", request.auth, request.tls.ca_file));
        Box::pin(async move {
            let body = (self.answer)(&url)?.into_bytes();
            let memory = request.memory.reserve(body.len() as u64).map_err(|error| error.to_string())?;
            Ok(Fetched { content_type: request.accept.to_owned(), body, memory })
        })
    }
}

/// Returns one object per page of the file that belongs to a path.
fn recorded(url: &Url) -> Result<String, String> {
    let text = match url.path().rsplit('/').next() {
        Some("pods") => PODS,
        Some("services") => SERVICES,
        Some("endpoints") => ENDPOINTS,
        Some("endpointslices") => SLICES,
        Some("nodes") => NODES,
        _ => return Err("server returned HTTP status 404 Not Found".to_owned()),
    };
    let mut list: serde_json::Value = serde_json::from_str(text).unwrap();
    let token = url.query_pairs().find(|(name, _)| name == "continue").map(|(_, token)| token.into_owned());
    let at: usize = token.map_or(0, |token| token.trim_start_matches("page&").parse().unwrap());
    let items = list["items"].as_array().unwrap().clone();
    list["items"] = serde_json::json!([items[at]]);
    if at + 1 < items.len() {
        list["metadata"]["continue"] = format!("page&{}", at + 1).into();
    }
    Ok(list.to_string())
}

fn source(entry: &str, answer: Answer, memory: &MemoryBudget) -> (Kubernetes, Arc<Served>) {
    let text = format!("scrape_configs:\n- job_name: j\n  kubernetes_sd_configs: [{entry}]\n");
    let file = ScrapeFile::parse(&text).unwrap();
    let served = Arc::new(Served { answer, requests: Mutex::default() });
    let fetch: Arc<dyn Fetch> = Arc::<Served>::clone(&served);
    let cluster = InCluster { server: None, folder: PathBuf::from("/nowhere") };
    let env = Env::simulated(1, 1_700_000_000_000_000_000);
    (Kubernetes::new(&env, (&fetch, memory), &file.jobs[0].kubernetes[0], &cluster), served)
}

/// Returns the targets of an entry as text: the address, and the labels without their common prefix.
async fn targets(entry: &str) -> Vec<String> {
    let memory = MemoryBudget::root("scrapes", 64 << 20);
    let (source, _) = source(entry, Box::new(recorded), &memory);
    let listed = source.list().await.unwrap();
    let shown = listed.groups.iter().map(|group| {
        let label = |(name, value): (&String, &String)| {
            format!("{}={value}", name.strip_prefix("__meta_kubernetes_").unwrap_or(name))
        };
        let labels: Vec<String> = group.labels.iter().map(label).collect();
        format!("{} {}", group.targets.join(","), labels.join(" "))
    });
    let shown = shown.collect();
    drop(listed);
    assert_eq!(memory.used(), 0, "only the targets were kept");
    shown
}

const WEB: &str = "pod_annotation_prometheus_io_scrape=true pod_annotationpresent_prometheus_io_scrape=true";
const WEB_POD: &str = "pod_controller_kind=ReplicaSet pod_controller_name=web-7d4b9 pod_host_ip=192.168.0.1 \
                       pod_ip=10.1.0.5 pod_label_app=web pod_label_app_kubernetes_io_part_of=shop \
                       pod_labelpresent_app=true pod_labelpresent_app_kubernetes_io_part_of=true \
                       pod_name=web-7d4b9-x1 pod_node_name=node-a pod_phase=Running pod_ready=true \
                       pod_uid=uid-web-7d4b9-x1";

fn container(name: &str, id: &str, image: &str, is_init: bool, port: &str) -> String {
    let id = if id.is_empty() { String::new() } else { format!("pod_container_id={id} ") };
    format!("{id}pod_container_image={image} pod_container_init={is_init} pod_container_name={name} {port}")
}

fn port(name: &str, number: u16) -> String {
    let name = if name.is_empty() { String::new() } else { format!("pod_container_port_name={name} ") };
    format!("{name}pod_container_port_number={number} pod_container_port_protocol=TCP ")
}

#[tokio::test(start_paused = true)]
async fn ports_of_containers_are_targets() {
    let found = targets("{role: pod, api_server: 'https://k8s:6443'}").await;
    let web =
        |address: &str, container: String| format!("{address} namespace=shop {WEB} {container}{WEB_POD}");
    let id = "containerd://aaa";
    assert_eq!(
        found,
        [
            web("10.1.0.5:8080", container("web", id, "shop/web:3", false, &port("http", 8080))),
            web("10.1.0.5:9090", container("web", id, "shop/web:3", false, &port("metrics", 9090))),
            web("10.1.0.5", container("sidecar", "", "shop/sidecar:1", false, "")),
            web("10.1.0.5", container("setup", "containerd://bbb", "busybox:1", true, "")),
            format!(
                "[fd00::7]:5432 namespace=shop {}pod_host_ip=192.168.0.2 pod_ip=fd00::7 pod_label_app=db \
                 pod_labelpresent_app=true pod_name=db-0 pod_node_name=node-b pod_phase=Running \
                 pod_ready=false pod_uid=uid-db-0",
                container("db", "", "db:1", false, &port("", 5432))
            ),
        ]
    );
    let with_nodes =
        targets("{role: pod, api_server: 'https://k8s:6443', attach_metadata: {node: true}}").await;
    assert!(with_nodes[0].contains(" node_label_topology_kubernetes_io_zone=z1 "), "{with_nodes:?}");
    assert!(with_nodes[4].contains(" node_name=node-b "), "{with_nodes:?}");
}

#[tokio::test(start_paused = true)]
async fn ports_of_services_are_targets() {
    assert_eq!(
        targets("{role: service, api_server: 'https://k8s:6443'}").await,
        [
            "web.shop.svc:80 namespace=shop service_annotation_note=x service_annotationpresent_note=true \
             service_cluster_ip=10.0.0.9 service_label_team=a service_labelpresent_team=true \
             service_loadbalancer_ip=203.0.113.4 service_name=web service_port_name=http \
             service_port_number=80 service_port_protocol=TCP service_type=LoadBalancer",
            "outside.shop.svc:5432 namespace=shop service_external_name=db.example.org service_name=outside \
             service_port_number=5432 service_port_protocol=TCP service_type=ExternalName",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn kubelets_are_targets() {
    assert_eq!(
        targets("{role: node, api_server: 'https://k8s:6443'}").await,
        ["192.168.0.1:10250 node_address_ExternalIP=203.0.113.1 node_address_Hostname=node-a.local \
          node_address_InternalIP=192.168.0.1 node_annotation_node_alpha_ttl=0 \
          node_annotationpresent_node_alpha_ttl=true node_label_topology_kubernetes_io_zone=z1 \
          node_labelpresent_topology_kubernetes_io_zone=true node_name=node-a \
          node_provider_id=cloud:///1 instance=node-a"]
    );
}

const SERVICE: &str = "service_annotation_note=x service_annotationpresent_note=true service_label_team=a \
                       service_labelpresent_team=true service_name=web";

#[tokio::test(start_paused = true)]
async fn addresses_of_endpoints_are_targets() {
    let endpoints = "endpoints_label_team=a endpoints_labelpresent_team=true endpoints_name=web";
    let web = |port: String| container("web", "containerd://aaa", "shop/web:3", false, &port);
    assert_eq!(
        targets("{role: endpoints, api_server: 'https://k8s:6443'}").await,
        [
            format!(
                "10.1.0.5:8080 endpoint_address_target_kind=Pod endpoint_address_target_name=web-7d4b9-x1 \
                 endpoint_node_name=node-a endpoint_port_name=http endpoint_port_protocol=TCP \
                 endpoint_ready=true {endpoints} namespace=shop {WEB} {}{WEB_POD} {SERVICE}",
                web(port("http", 8080))
            ),
            format!(
                "10.1.0.99:8080 endpoint_hostname=h endpoint_port_name=http endpoint_port_protocol=TCP \
                 endpoint_ready=false {endpoints} namespace=shop {SERVICE}"
            ),
            format!(
                "10.1.0.5:9090 {endpoints} namespace=shop {WEB} {}{WEB_POD} {SERVICE}",
                web(port("metrics", 9090))
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn addresses_of_slices_are_targets() {
    let entry = "{role: endpointslice, api_server: 'https://k8s:6443', attach_metadata: {node: true}}";
    let found = targets(entry).await;
    let slice = "endpointslice_label_kubernetes_io_service_name=web \
                 endpointslice_labelpresent_kubernetes_io_service_name=true endpointslice_name=web-abc";
    let port_of_slice = "endpointslice_port=8080 endpointslice_port_app_protocol=http \
                         endpointslice_port_name=http endpointslice_port_protocol=TCP";
    let web = container("web", "containerd://aaa", "shop/web:3", false, &port("http", 8080));
    assert_eq!(
        found[0],
        format!(
            "10.1.0.5:8080 endpointslice_address_target_kind=Pod \
             endpointslice_address_target_name=web-7d4b9-x1 endpointslice_address_type=IPv4 \
             endpointslice_endpoint_conditions_ready=true endpointslice_endpoint_conditions_serving=true \
             endpointslice_endpoint_conditions_terminating=false endpointslice_endpoint_node_name=node-a \
             endpointslice_endpoint_topology_kubernetes_io_hostname=node-a \
             endpointslice_endpoint_topology_present_kubernetes_io_hostname=true \
             endpointslice_endpoint_zone=z1 {slice} {port_of_slice} namespace=shop \
             node_label_topology_kubernetes_io_zone=z1 node_labelpresent_topology_kubernetes_io_zone=true \
             node_name=node-a {WEB} {web}{WEB_POD} {SERVICE}"
        )
    );
    assert_eq!(
        found[1],
        format!(
            "10.1.0.99:8080 endpointslice_address_type=IPv4 endpointslice_endpoint_hostname=h {slice} \
             {port_of_slice} namespace=shop {SERVICE}"
        )
    );
    assert!(found.len() == 3 && found[2].starts_with("10.1.0.5:9090 "), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn namespaces_selectors_and_credentials_are_those_of_the_entry() {
    let memory = MemoryBudget::root("scrapes", 64 << 20);
    let entry = "{role: endpoints, api_server: 'https://k8s:6443/', bearer_token_file: /t, \
                 tls_config: {ca_file: /ca}, namespaces: {names: [shop]}, \
                 selectors: [{role: pod, label: 'app=web', field: 'spec.nodeName=a b'}]}";
    let (of_entry, served) = source(entry, Box::new(recorded), &memory);
    of_entry.list().await.unwrap();
    let requests = served.requests.lock().unwrap().clone();
    let with = r#"Token { kind: "Bearer", credentials: <secret in /t> } Some("/ca")"#;
    let base = "https://k8s:6443/api/v1/namespaces/shop";
    let selector = "labelSelector=app%3Dweb&fieldSelector=spec.nodeName%3Da+b";
    assert_eq!(requests[0], format!("{base}/pods?limit=100&{selector} {with}"));
    assert_eq!(requests[1], format!("{base}/pods?limit=100&{selector}&continue=page%261 {with}"));
    assert!(requests.iter().any(|request| request.starts_with(&format!("{base}/endpoints?limit=100 "))));

    let folder = tempfile::tempdir().unwrap();
    let (mut own, served) =
        source("{role: pod, namespaces: {own_namespace: true}}", Box::new(recorded), &memory);
    assert!(own.list().await.err().unwrap().contains("set api_server"));
    own.cluster = InCluster {
        server: Some(("fd00::1".to_owned(), "6443".to_owned())),
        folder: folder.path().to_owned(),
    };
    assert!(own.list().await.err().unwrap().contains("cannot read"));
    std::fs::write(folder.path().join("namespace"), "../x").unwrap();
    assert!(own.list().await.err().unwrap().contains("contains no namespace"));
    std::fs::write(folder.path().join("namespace"), "shop\n").unwrap();
    own.list().await.unwrap();
    let (at, request) = (folder.path().display(), served.requests.lock().unwrap()[0].clone());
    let with =
        format!(r#"Token {{ kind: "Bearer", credentials: <secret in {at}/token> }} Some("{at}/ca.crt")"#);
    assert_eq!(request, format!("https://[fd00::1]:6443/api/v1/namespaces/shop/pods?limit=100 {with}"));
}

/// Returns the error of a look-up of pods.
async fn error_of(answer: Answer, memory: u64) -> String {
    let memory = MemoryBudget::root("scrapes", memory);
    let (source, _) = source("{role: pod, api_server: 'https://k8s'}", answer, &memory);
    let error = source.list().await.err().expect("the look-up fails");
    assert_eq!(memory.used(), 0);
    error
}

#[tokio::test(start_paused = true)]
async fn hostile_answers_are_errors() {
    let of = |text: String| -> Answer { Box::new(move |_| Ok(text.clone())) };
    let pods = |pod: &str, count: usize| {
        format!("{{\"kind\":\"PodList\",\"items\":[{}]}}", vec![pod; count].join(","))
    };
    let token_of = |url: &Url| -> usize {
        let token = url.query_pairs().find(|(name, _)| name == "continue");
        token.map_or(0, |(_, token)| token.parse().unwrap())
    };
    let endless = move |url: &Url| {
        Ok(format!("{{\"kind\":\"PodList\",\"metadata\":{{\"continue\":\"{}\"}}}}", token_of(url) + 1))
    };
    let growing = move |url: &Url| {
        let (pods, next) = (vec!["{}"; 1_000].join(","), token_of(url) + 1);
        Ok(format!("{{\"kind\":\"PodList\",\"items\":[{pods}],\"metadata\":{{\"continue\":\"{next}\"}}}}"))
    };
    let port = r#"{"name":"a","containerPort":1}"#;
    let wide = format!(
        r#"{{"status":{{"podIP":"1.1.1.1"}},"spec":{{"containers":[{{"ports":[{}]}}]}}}}"#,
        vec![port; 11_000].join(",")
    );
    let cut = PODS[..PODS.len() / 2].to_owned();
    let large = 1 << 30;
    for (answer, memory, expected) in [
        (of("<html>".to_owned()), large, "the answer is not a list"),
        (of(cut), large, "the answer is not a list"),
        (of("[".repeat(100_000)), large, "the answer is not a list"),
        (of(r#"{"items":[{"status":{"podIP":7}}]}"#.to_owned()), large, "the answer is not a list"),
        (of("{}".to_owned()), large, "the answer is not a list: its kind is ''"),
        (of(r#"{"kind":"Status","code":200}"#.to_owned()), large, "its kind is 'Status'"),
        (of(pods("{}", 2_001)), large, "more than 2000 objects"),
        (
            of(r#"{"kind":"PodList","metadata":{"continue":"same"}}"#.to_owned()),
            large,
            "have the same continue token",
        ),
        (
            of(format!(r#"{{"kind":"PodList","metadata":{{"continue":"{}"}}}}"#, "x".repeat(20_000))),
            large,
            "is longer than",
        ),
        (Box::new(endless) as Answer, large, "there are more than 1000 pages"),
        (Box::new(growing), large, "there are more than 50000 objects; use selectors"),
        (of(pods(&wide, 1)), large, "there are more than 10000 targets, the limit of one source"),
        (of(pods(r#"{"spec":{"containers":[{},{},{}]}}"#, 1_000)), 1 << 20, "scrapes may use"),
        (
            Box::new(|_| Err("server returned HTTP status 403 Forbidden".to_owned())),
            large,
            "GET /api/v1/pods: server",
        ),
    ] {
        let error = error_of(answer, memory).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_costs_a_bounded_time() {
    struct Silent;
    impl Fetch for Silent {
        fn fetch<'a>(&'a self, _: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>> {
            Box::pin(std::future::pending())
        }
    }
    let memory = MemoryBudget::root("scrapes", 1 << 20);
    let (mut source, _) = source("{role: node, api_server: 'https://k8s'}", Box::new(recorded), &memory);
    source.fetch = Arc::new(Silent);
    assert_eq!(source.list().await.err().unwrap(), "GET /api/v1/nodes: no answer within 30 s");
}
