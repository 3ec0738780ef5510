//! The accept loops of carbon's listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt, unfold};
use sandur_base::BoxFuture;
use sandur_runtime::Task;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Carbon;
use super::connection::Connection;
use super::datagrams;
use super::intake::Source;
use super::listen::Bound;
use super::unpacked::STREAMS_MAX;
use crate::admission::{Connections, Place};

/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts on all bound addresses until the server stops; the tasks end when all received data is stored.
pub fn start(carbon: &Carbon, connections: &Connections, bound: Vec<Bound>) -> Vec<Task<()>> {
    let unpacking = Arc::new(Semaphore::new(STREAMS_MAX));
    let mut tasks = Vec::new();
    for Bound { protocol, tenancy, tcp, udp, .. } in bound {
        let source = Source { protocol, tenancy, peer: None };
        if let Some(socket) = udp {
            tasks.push(
                carbon
                    .env
                    .spawn("carbon datagrams", datagrams::receive(carbon.clone(), source.clone(), socket)),
            );
        }
        let listener = Listener {
            carbon: carbon.clone(),
            source,
            connections: connections.clone(),
            unpacking: Arc::clone(&unpacking),
        };
        tasks.push(carbon.env.spawn("carbon acceptor", listener.run(tcp)));
    }
    tasks
}

struct Listener {
    carbon: Carbon,
    source: Source,
    connections: Connections,
    unpacking: Arc<Semaphore>,
}

impl Listener {
    async fn run(self, listener: TcpListener) {
        let mut open: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        // A stream, because an accepted connection must not be lost while it waits for a slot.
        let (socket, connections) = (&listener, &self.connections);
        let accepted = unfold((), async move |()| {
            let next = async {
                let (stream, peer) = socket.accept().await?;
                std::io::Result::Ok((stream, peer, connections.admit(peer.ip()).await))
            };
            Some((next.await, ()))
        });
        let mut accepted = Box::pin(accepted);
        loop {
            tokio::select! {
                () = self.carbon.stopping.triggered() => break,
                Some(()) = open.next() => {}
                Some(next) = accepted.next() => match next {
                    Ok((stream, peer, Some(place))) => open.push(self.serve(stream, peer, place)),
                    Ok((_, peer, None)) => {
                        tracing::debug!(%peer, "refused: carbon.max_connections is reached");
                        self.carbon.metrics.ended("max_connections");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection of Carbon");
                        self.carbon.env.sleep(PAUSE).await;
                    }
                },
            }
        }
        drop(accepted);
        drop(listener);
        let drain = self.carbon.drain_timeout;
        let all = async { while open.next().await.is_some() {} };
        if self.carbon.env.timeout(drain, all).await.is_none() {
            tracing::warn!(
                open = open.len(),
                "closing connections that were not stored within http.drain_timeout"
            );
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Place) -> BoxFuture<'static, ()> {
        let connection = Connection {
            carbon: self.carbon.clone(),
            source: Source { peer: Some(peer), ..self.source.clone() },
            place: Arc::new(place),
            unpacking: Arc::clone(&self.unpacking),
        };
        let gauge = self.carbon.metrics.connections.clone();
        let task = self.carbon.env.spawn("carbon connection", async move {
            gauge.inc();
            connection.serve(stream).await;
            gauge.dec();
        });
        Box::pin(async move { drop(task.join().await) })
    }
}
