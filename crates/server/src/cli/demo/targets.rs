//! The scrape targets of the demo: the server itself, and the generated services, each of which exposes
//! its metrics at a path of its own.

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

/// Interval of scrapes: short, since a new user waits for the first one.
pub const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of connections to the services; more are closed. A scrape of each service needs one.
const CONNECTIONS_MAX: usize = 256;
/// Content type of the services' metrics.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The counters that the services expose.
pub type SharedMeter = Arc<Mutex<Meter>>;

/// The scrape configuration: the server at one address, the services at another.
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

/// Serves the metrics of the services at `/INSTANCE/metrics` until it is dropped.
pub async fn serve(listener: TcpListener, meter: SharedMeter) {
    let mut connections = FuturesUnordered::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(()) = connections.next() => continue,
        };
        // A client that could not connect does not wait for an answer.
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
            // The scraper reports errors.
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
