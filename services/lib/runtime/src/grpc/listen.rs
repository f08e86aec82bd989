//! From a TCP listener to connections that are ready for HTTP/2. Handshakes run beside each other and in bounded time, so
//! that a silent client holds up nobody, and no single address can take all connections that there may be
//! or make them faster than this service can do something else.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::places::{Place, Places};

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
    let places = Places::new(MOST_CONNECTIONS, MOST_OF_ONE_ADDRESS);
    let mut pace = Handshakes::default();
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
                    let address = from.ip().to_canonical();
                    let Some(place) = places.take(address) else {
                        tracing::debug!(%from, "too many connections");
                        continue;
                    };
                    // Calls are small and wait for their answer: never hold a packet back.
                    let _ = stream.set_nodelay(true);
                    let put_off = pace.put_off(address, Instant::now());
                    let upgrade = upgrade(stream);
                    handshakes.spawn(async move {
                        tokio::time::sleep(put_off).await;
                        let upgraded = tokio::time::timeout(HANDSHAKE, upgrade).await;
                        let upgraded = upgraded.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                        upgraded.map(|inner| Admitted::new(inner, place, address))
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

/// How fast one address may make connections: a handshake is what costs most of them.
const BURST: u32 = 64;
const BETWEEN_HANDSHAKES: Duration = Duration::from_millis(50);
/// Addresses that made connections lately.
const MOST_ADDRESSES: usize = 4096;

#[derive(Default)]
struct Handshakes(HashMap<IpAddr, Instant>);

impl Handshakes {
    /// How long the next handshake with that address is put off. Its burst is used up that far in advance.
    fn put_off(&mut self, address: IpAddr, now: Instant) -> Duration {
        if self.0.len() >= MOST_ADDRESSES {
            self.0.retain(|_, paid_until| *paid_until > now);
        }
        let paid_until = self.0.entry(address).or_insert(now);
        *paid_until = (*paid_until).max(now) + BETWEEN_HANDSHAKES;
        paid_until.duration_since(now).saturating_sub(BETWEEN_HANDSHAKES * BURST)
    }
}

/// The other end of a connection: in the extensions of each of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    address: IpAddr,
    closed: CancellationToken,
}

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self { address, closed: CancellationToken::new() }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Ends the connection with every call on it. Whether it was open.
    pub(crate) fn close(&self) -> bool {
        let was_open = !self.closed.is_cancelled();
        self.closed.cancel();
        was_open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

/// A connection that holds its place for as long as it stands.
pub(crate) struct Admitted<C> {
    inner: C,
    peer: Peer,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: Place,
}

impl<C> Admitted<C> {
    fn new(inner: C, place: Place, address: IpAddr) -> Self {
        let peer = Peer::new(address);
        Self { inner, closed: Box::pin(peer.closed.clone().cancelled_owned()), peer, _place: place }
    }
}

impl<C> Connected for Admitted<C> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Admitted<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
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
    fn connections_of_one_address_follow_each_other_no_faster_than_they_may() {
        let (mut pace, began) = (Handshakes::default(), Instant::now());
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let put_off: Vec<Duration> = (0..BURST + 20).map(|_| pace.put_off(greedy, began)).collect();
        let (burst, later) = put_off.split_at(BURST as usize);
        assert!(burst.iter().all(Duration::is_zero), "{burst:?}");
        assert_eq!((later[0], later[19]), (BETWEEN_HANDSHAKES, BETWEEN_HANDSHAKES * 20));
        assert_eq!(pace.put_off(other, began), Duration::ZERO);
        let rested = began + BETWEEN_HANDSHAKES * (BURST + 20);
        assert_eq!(pace.put_off(greedy, rested), Duration::ZERO);
    }

    #[test]
    fn addresses_that_made_no_connection_for_long_are_forgotten() {
        let (mut pace, began) = (Handshakes::default(), Instant::now());
        for number in 0..MOST_ADDRESSES as u32 {
            pace.put_off(IpAddr::from(std::net::Ipv4Addr::from(number)), began);
        }
        pace.put_off(IpAddr::from([192, 0, 2, 1]), began + Duration::from_secs(1));
        assert_eq!(pace.0.len(), 1);
    }
}
