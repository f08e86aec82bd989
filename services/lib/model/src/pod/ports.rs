//! Host ports, and when two of them cannot share a node.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `None`: every address of the node (an empty, `0.0.0.0` or `::` host IP).
    pub ip: Option<IpAddr>,
    pub port: u16,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl HostPort {
    /// An unspecified address of either family becomes "every address".
    pub fn new(ip: Option<IpAddr>, port: u16, protocol: Protocol) -> Self {
        Self { ip: ip.filter(|ip| !ip.is_unspecified()), port, protocol }
    }

    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}
