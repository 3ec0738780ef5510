//! What the demo's server scrapes: itself, and the made-up services, each of which shows its metrics at a
//! path of its own, as services do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sandur_scrape::{JobConfig, ScrapeFile, TargetGroup};
use tokio::net::TcpListener;

use super::metrics::Meter;

/// How often: a newcomer waits for the first scrape.
pub const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// Connections to the services at once; more are closed. A scrape of each needs one.
const CONNECTIONS_MAX: usize = 256;
/// What the services show, as scrapes read it.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counters that services show while they count.
pub type SharedMeter = Arc<Mutex<Meter>>;

/// What is scraped: the server at one address, the services at another.
pub fn scraped(server: SocketAddr, services: SocketAddr, meter: &SharedMeter) -> ScrapeFile {
    let job = |name: &str, groups| JobConfig {
        groups,
        ..JobConfig::new(name.to_owned(), SCRAPE_EVERY, SCRAPE_EVERY)
    };
    let itself = TargetGroup { targets: vec![server.to_string()], labels: BTreeMap::new() };
    let instances = meter.lock().unwrap_or_else(PoisonError::into_inner).instances();
    let groups = instances.into_iter().map(|(app, instance)| {
        let path = format!("/{instance}/metrics");
        let labels = [("app", app), ("instance", instance), ("__metrics_path__", path)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value)).into();
        TargetGroup { targets: vec![services.to_string()], labels }
    });
    let jobs = vec![job("sandur", vec![itself]), job("shop", groups.collect())];
    ScrapeFile { jobs, warnings: Vec::new() }
}

/// Shows the metrics of the services at `/INSTANCE/metrics` until it is dropped.
pub async fn serve(listener: TcpListener, meter: SharedMeter) {
    let mut connections = FuturesUnordered::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(()) = connections.next() => continue,
        };
        // A connection that was not made is one that nobody waits for.
        let Ok((stream, _)) = stream else { continue };
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let meter = Arc::clone(&meter);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&meter, request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        connections.push(async move {
            // Who scrapes says what went wrong.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(meter: &SharedMeter, path: &str) -> Response<Body> {
    let instance = path.strip_suffix("/metrics").and_then(|rest| rest.strip_prefix('/'));
    let page = instance.and_then(|name| meter.lock().unwrap_or_else(PoisonError::into_inner).page(name));
    let mut response = Response::new(Body::empty());
    match page {
        Some(page) => {
            response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(TEXT));
            *response.body_mut() = Body::from(page);
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}
