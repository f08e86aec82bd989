//! From a TCP listener to connections that are ready for HTTP/2. Handshakes run beside each other and in bounded time, so
//! that a silent client holds up nobody, and no single address can take all connections that there may be.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

const HANDSHAKE: Duration = Duration::from_secs(5);
const MOST_HANDSHAKES: usize = 256;
/// A service has one connection to each replica that it calls; a forwarded port has one for each command of a person.
const MOST_OF_ONE_ADDRESS: usize = 64;
const MOST_CONNECTIONS: usize = 1024;
/// After the kernel refused a connection (mostly: out of file descriptors), asking at once would only burn CPU.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `stop`, or until nobody takes the connections.
pub(crate) async fn accept<C, F>(
    listener: TcpListener,
    upgrade: impl Fn(TcpStream) -> F,
    ready: mpsc::Sender<io::Result<Admitted<C>>>,
    stop: CancellationToken,
) where
    C: Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
{
    let mut handshakes: JoinSet<io::Result<Admitted<C>>> = JoinSet::new();
    let places = Places::default();
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
                Ok((stream, from)) => {
                    let Some(place) = places.take(from.ip().to_canonical()) else {
                        tracing::debug!(%from, "too many connections");
                        continue;
                    };
                    // Calls are small and wait for their answer: never hold a packet back.
                    let _ = stream.set_nodelay(true);
                    let upgraded = tokio::time::timeout(HANDSHAKE, upgrade(stream));
                    handshakes.spawn(async {
                        let upgraded = upgraded.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                        upgraded.map(|inner| Admitted { inner, _place: place })
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

/// The connections that there are, by address.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Places {
    fn count(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where there are too many already.
    fn take(&self, from: IpAddr) -> Option<Place> {
        let mut count = self.count();
        if count.values().sum::<usize>() >= MOST_CONNECTIONS {
            return None;
        }
        let own = count.entry(from).or_default();
        if *own >= MOST_OF_ONE_ADDRESS {
            return None;
        }
        *own += 1;
        Some(Place { places: self.clone(), from })
    }
}

/// Free again when it is dropped.
struct Place {
    places: Places,
    from: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut count = self.places.count();
        if let Some(own) = count.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                count.remove(&self.from);
            }
        }
    }
}

/// A connection that holds its place for as long as it stands.
pub(crate) struct Admitted<C> {
    inner: C,
    _place: Place,
}

impl<C: Connected> Connected for Admitted<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.inner.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Admitted<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Admitted<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_no_more_than_its_share_and_gives_it_back() {
        let places = Places::default();
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut held: Vec<Place> = std::iter::from_fn(|| places.take(greedy)).collect();
        assert_eq!(held.len(), MOST_OF_ONE_ADDRESS);
        assert!(places.take(other).is_some(), "others are let in");
        held.pop();
        assert!(places.take(greedy).is_some());
        drop(held);
        assert!(places.count().is_empty());
    }

    #[test]
    fn all_addresses_together_have_a_limit() {
        let places = Places::default();
        let of = |number: u32| places.take(IpAddr::from(std::net::Ipv4Addr::from(number)));
        let held: Vec<Place> = (0..2000).filter_map(of).collect();
        assert_eq!(held.len(), MOST_CONNECTIONS);
    }
}
