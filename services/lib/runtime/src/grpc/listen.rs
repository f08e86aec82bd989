//! From a TCP listener to connections that are ready for HTTP/2. Handshakes run beside each other and in bounded time, so
//! that a silent client holds up nobody.

use std::{io, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

const HANDSHAKE: Duration = Duration::from_secs(5);
const MOST_HANDSHAKES: usize = 256;
/// After the kernel refused a connection (mostly: out of file descriptors), asking at once would only burn CPU.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `stop`, or until nobody takes the connections.
pub(crate) async fn accept<C, F>(
    listener: TcpListener,
    upgrade: impl Fn(TcpStream) -> F,
    ready: mpsc::Sender<io::Result<C>>,
    stop: CancellationToken,
) where
    C: Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
{
    let mut handshakes: JoinSet<io::Result<C>> = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(done) = handshakes.join_next() => {
                match done {
                    Ok(Ok(connection)) => {
                        if ready.send(Ok(connection)).await.is_err() {
                            return;
                        }
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
                    Err(error) => tracing::warn!(%error, "handshake task failed"),
                }
            }
            accepted = listener.accept(), if handshakes.len() < MOST_HANDSHAKES => match accepted {
                Ok((stream, _)) => {
                    // Calls are small and wait for their answer: never hold a packet back.
                    let _ = stream.set_nodelay(true);
                    let upgraded = tokio::time::timeout(HANDSHAKE, upgrade(stream));
                    handshakes.spawn(async { upgraded.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}
