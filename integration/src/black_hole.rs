//! A hop between a client and a server that swallows packets on command: nothing arrives any more, and nobody is told that the
//! connection has ended. What a lost route or a replaced load balancer looks like from both sides.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Ends when it is dropped, and every connection with it.
pub struct BlackHole {
    pub address: SocketAddr,
    state: watch::Sender<State>,
    _accepting: JoinSet<()>,
}

#[derive(Clone, Copy)]
struct State {
    /// Where new connections lead.
    server: SocketAddr,
    /// How many connections were made so far; they are numbered in their order.
    connections: u64,
    /// The packets of this connection and of later ones pass.
    first_passing: u64,
}

impl BlackHole {
    /// In front of `server`, on a free port of its own.
    pub async fn new(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen")?;
        let address = listener.local_addr()?;
        let state = watch::Sender::new(State { server, connections: 0, first_passing: 0 });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, state.clone()));
        Ok(Self { address, state, _accepting: accepting })
    }

    /// New connections lead to `server`: that of before was started again at another address.
    pub fn lead_to(&self, server: SocketAddr) {
        self.state.send_modify(|state| state.server = server);
    }

    /// From now on nothing passes, on connections that there are and on new ones.
    pub fn swallow(&self) {
        self.state.send_modify(|state| state.first_passing = u64::MAX);
    }

    /// New connections work; those made before stay swallowed for ever.
    pub fn pass_new_connections(&self) {
        self.state.send_modify(|state| state.first_passing = state.connections);
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.state.borrow().connections
    }
}

async fn accept(listener: TcpListener, state: watch::Sender<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let State { server, connections: number, .. } = *state.borrow();
        state.send_modify(|state| state.connections += 1);
        connections.spawn(forward(client, server, number, state.subscribe()));
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, number: u64, mut state: watch::Receiver<State>) {
    let mut passing = std::pin::pin!(async {
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    tokio::select! {
        biased;
        Ok(_) = state.wait_for(|state| number < state.first_passing) => {}
        () = &mut passing => return,
    }
    // Both sockets stay open and are read no more.
    std::future::pending::<()>().await;
}
