//! The connection to one replica: made when first needed, kept alive, dropped when a call could not be sent over it.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::{net::TcpStream, sync::Mutex, time::Instant};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::pin::Pins;
use crate::log_format::chain;

const CONNECT: Duration = Duration::from_secs(2);
/// A replica that could not be reached is asked last for this long, and twice as long each time it fails again: the entry of
/// a replica whose machine died stays until its certificate expires, and must not cost a call a connect timeout every now
/// and then.
const DOWN: Duration = Duration::from_secs(5);
const LONGEST_DOWN: Duration = Duration::from_secs(300);

pub(crate) struct Connection {
    pub(crate) replica: String,
    pub(crate) addr: SocketAddr,
    /// `None` without TLS.
    tls: Option<(Pins, ServerName<'static>)>,
    channel: Mutex<Option<Channel>>,
    down: std::sync::Mutex<Option<Down>>,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    until: Instant,
    lasts: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("{replica} at {addr}: {reason}")]
pub(crate) struct Unreachable {
    pub(crate) replica: String,
    pub(crate) addr: SocketAddr,
    reason: String,
}

impl Connection {
    pub(crate) fn new(
        replica: &str,
        addr: SocketAddr,
        tls: Option<(Vec<CertificateDer<'static>>, ServerName<'static>)>,
    ) -> Self {
        Self {
            replica: replica.to_owned(),
            addr,
            tls: tls.map(|(certificates, name)| (Pins::new(certificates), name)),
            channel: Mutex::default(),
            down: std::sync::Mutex::default(),
        }
    }

    /// From the next handshake on, only these are accepted. A connection that stands was made to a key that the replica had
    /// published, and stays.
    pub(crate) fn pin(&self, certificates: Vec<CertificateDer<'static>>) {
        if let Some((pins, _)) = &self.tls
            && pins.replace(certificates)
        {
            // It has just published something new, so it lives.
            *self.down() = None;
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down().is_some_and(|down| Instant::now() < down.until)
    }

    fn down(&self) -> std::sync::MutexGuard<'_, Option<Down>> {
        self.down.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set_down(&self) {
        let mut down = self.down();
        let lasts = down.map_or(DOWN, |before| (before.lasts * 2).min(LONGEST_DOWN));
        *down = Some(Down { until: Instant::now() + lasts, lasts });
    }

    /// A channel that was connected at least once. Nothing is sent yet, so failing here and going to another replica
    /// repeats no call.
    pub(crate) async fn channel(&self) -> Result<Channel, Unreachable> {
        let mut slot = self.channel.lock().await;
        if let Some(channel) = &*slot {
            return Ok(channel.clone());
        }
        match self.connect().await {
            Ok(channel) => {
                *slot = Some(channel.clone());
                *self.down() = None;
                Ok(channel)
            }
            Err(reason) => {
                self.set_down();
                Err(Unreachable { replica: self.replica.clone(), addr: self.addr, reason })
            }
        }
    }

    pub(crate) async fn failed(&self) {
        self.set_down();
        *self.channel.lock().await = None;
    }

    async fn connect(&self) -> Result<Channel, String> {
        // The scheme is only for the request line; whether there is TLS is decided by the connector below.
        let endpoint = Endpoint::from_shared(format!("http://{}", self.addr))
            .map_err(|error| chain(&error))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(15))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true);
        let connected = match &self.tls {
            None => endpoint.connect().await,
            Some((pins, name)) => {
                let connector = TlsConnector::from(pins.client_config().map_err(|error| chain(&error))?);
                let (addr, name) = (self.addr, name.clone());
                let dial = service_fn(move |_: Uri| dial(addr, connector.clone(), name.clone()));
                endpoint.connect_with_connector(dial).await
            }
        };
        connected.map_err(|error| chain(&error))
    }
}

async fn dial(
    addr: SocketAddr,
    connector: TlsConnector,
    name: ServerName<'static>,
) -> io::Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>> {
    let stream = tokio::time::timeout(CONNECT, async {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        connector.connect(name, stream).await
    });
    stream.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(TokioIo::new)
}

/// Shared by everybody who calls the same replica.
pub(crate) type Shared = Arc<Connection>;
