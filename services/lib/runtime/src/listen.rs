//! Ports of a service. The default address `[::]` takes IPv6 and IPv4 alike, as pods of a cluster have the one, the other or both.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::Context as _;
use tokio::net::TcpListener;

/// Where the kernel has no IPv6 at all, `[::]` means every IPv4 address.
pub(crate) async fn bind(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(addr).await {
        Err(error) if error.kind() != ErrorKind::AddrInUse && is_every(addr) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, addr.port())).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("listen on {addr}"))
}

fn is_every(addr: SocketAddr) -> bool {
    addr.is_ipv6() && addr.ip().is_unspecified()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn every_address_takes_callers_of_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect(("::1", port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_refused_and_named() {
        let first = bind("[::]:0".parse().unwrap()).await.unwrap();
        let taken = SocketAddr::new("::".parse().unwrap(), first.local_addr().unwrap().port());
        let error = bind(taken).await.unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()), "{error:#}");
    }
}
