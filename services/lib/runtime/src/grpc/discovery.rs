//! Where the replicas of another service are, and which of them to ask. Follows what they publish; never guesses an
//! address.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tonic::Status;

use super::{
    caller::{Caller, Outgoing},
    connection::{Connection, Shared, Unreachable},
    errors,
    published::{self, Content, Fault},
};
use crate::{
    Service,
    watch::{Change, Index},
};

/// Malformed entries of one ConfigMap that are named in the log, and in a refusal.
const MOST_NAMED: usize = 5;
/// How long a first call waits for the first look at who is there.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// The replicas of one other service. Cheap to clone; get it from [`crate::Shell::peers`].
#[derive(Clone)]
pub struct Peers {
    inner: Arc<Inner>,
}

struct Inner {
    callee: Service,
    namespace: String,
    lease: String,
    seen: watch::Receiver<View>,
    turn: AtomicUsize,
    outgoing: Outgoing,
}

#[derive(Clone, Default)]
struct View {
    /// Whether the ConfigMap was looked at; it may still be missing.
    looked: bool,
    replicas: BTreeMap<String, Shared>,
    /// What was left out of the ConfigMap.
    faults: BTreeMap<String, Fault>,
    leader: Option<String>,
}

/// Which replica a call goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    Any,
    Leader,
    Replica(String),
}

impl Peers {
    /// The handle, and what feeds it: the trust ConfigMap and the Lease of the callee.
    pub(crate) fn new(
        callee: Service,
        namespace: &str,
        lease: String,
        secure: bool,
        outgoing: Outgoing,
    ) -> (Self, TrustIndex, LeaderIndex) {
        let (view, seen) = watch::channel(View::default());
        let view = Arc::new(view);
        let name =
            ServerName::try_from(callee.dns_name(namespace)).expect("made of a service and a namespace name");
        let trust = TrustIndex {
            view: view.clone(),
            config_map: callee.trust_config_map(),
            name: secure.then_some(name),
        };
        let inner = Inner {
            callee,
            namespace: namespace.to_owned(),
            lease,
            seen,
            turn: AtomicUsize::new(0),
            outgoing,
        };
        (Self { inner: Arc::new(inner) }, trust, LeaderIndex { view })
    }

    /// Calls go round the replicas that can be reached.
    pub fn any(&self) -> Caller {
        self.caller(Pick::Any)
    }

    /// Calls go to the replica that holds the callee's Lease.
    pub fn leader(&self) -> Caller {
        self.caller(Pick::Leader)
    }

    /// Calls go to this replica and no other.
    pub fn replica(&self, name: &str) -> Caller {
        self.caller(Pick::Replica(name.to_owned()))
    }

    /// The names of the replicas that work can be spread over now: all that are known, without those that could not be reached
    /// lately; all where that leaves none.
    pub fn replicas(&self) -> Vec<String> {
        let view = self.inner.seen.borrow();
        let up = view.replicas.iter().filter(|(_, replica)| !replica.is_down());
        let up: Vec<String> = up.map(|(name, _)| name.clone()).collect();
        if up.is_empty() { view.replicas.keys().cloned().collect() } else { up }
    }

    pub fn callee(&self) -> Service {
        self.inner.callee
    }

    fn caller(&self, pick: Pick) -> Caller {
        Caller::new(self.clone(), pick, self.inner.outgoing.clone())
    }

    /// A connected replica. Only connecting is tried more than once; no call is ever sent twice.
    pub(crate) async fn pick(&self, pick: &Pick) -> Result<(Shared, tonic::transport::Channel), Status> {
        let candidates = self.candidates(pick).await?;
        let mut failures: Vec<Unreachable> = Vec::new();
        for candidate in candidates {
            match candidate.channel().await {
                Ok(channel) => return Ok((candidate, channel)),
                Err(error) => failures.push(error),
            }
        }
        let callee = self.inner.callee;
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let message = format!("no replica of {callee} can be reached: {}", failures.join("; "));
        Err(errors::unavailable("UNREACHABLE", message))
    }

    async fn candidates(&self, pick: &Pick) -> Result<Vec<Shared>, Status> {
        let Inner { callee, namespace, lease, .. } = &*self.inner;
        let mut seen = self.inner.seen.clone();
        // Not an error if it does not come: then there is nobody, and that is said below.
        let _ = tokio::time::timeout(FIRST_LOOK, seen.wait_for(|view| view.looked)).await;
        let view = seen.borrow().clone();
        if view.replicas.is_empty() {
            let config_map = callee.trust_config_map();
            let message = match view.faults.is_empty() {
                true => format!(
                    "no replica of {callee} has published a certificate in ConfigMap {namespace}/{config_map}; is it running?"
                ),
                false => format!(
                    "ConfigMap {namespace}/{config_map} names no replica of {callee} that can be trusted: {}; a running \
                     replica corrects its entry within 10 s, so others can be deleted",
                    named_faults(&view.faults)
                ),
            };
            return Err(errors::unavailable("NO_REPLICA", message));
        }
        let named = |name: &str| view.replicas.get(name).cloned();
        match pick {
            Pick::Any => {
                let mut all: Vec<Shared> = view.replicas.values().cloned().collect();
                let first = self.inner.turn.fetch_add(1, Ordering::Relaxed) % all.len();
                all.rotate_left(first);
                // Stable: keeps the round within each half.
                all.sort_by_key(|replica| replica.is_down());
                Ok(all)
            }
            Pick::Replica(name) => named(name).map(|replica| vec![replica]).ok_or_else(|| {
                errors::unavailable("NO_SUCH_REPLICA", format!("{callee} has no replica {name} now"))
            }),
            Pick::Leader => match &view.leader {
                Some(leader) => named(leader).map(|replica| vec![replica]).ok_or_else(|| {
                    let message = format!("{leader} leads {callee} but has not published a certificate");
                    errors::unavailable("NO_SUCH_REPLICA", message)
                }),
                // Without election (one replica) there is no Lease to look at.
                None if view.replicas.len() == 1 => Ok(view.replicas.values().cloned().collect()),
                None => Err(errors::unavailable(
                    "NO_LEADER",
                    format!("nobody leads {callee}: Lease {namespace}/{lease} has no holder"),
                )),
            },
        }
    }
}

fn named_faults(faults: &BTreeMap<String, Fault>) -> String {
    let named = faults.iter().take(MOST_NAMED).map(|(name, fault)| format!("{name}: {fault}"));
    let more = faults.len().checked_sub(MOST_NAMED + 1).map(|more| format!("and {} more", more + 1));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

/// Keeps the view in step with the callee's trust ConfigMap.
pub(crate) struct TrustIndex {
    view: Arc<watch::Sender<View>>,
    config_map: String,
    /// `None`: without TLS.
    name: Option<ServerName<'static>>,
}

impl TrustIndex {
    pub(crate) fn set(&self, content: impl Into<Content>) {
        let mut content = content.into();
        if self.name.is_some() {
            // With TLS, a replica that published no certificate cannot be trusted and is not there.
            let bare = content.replicas.extract_if(.., |_, replica| replica.certificates.is_empty());
            content.faults.extend(bare.map(|(name, _)| (name, Fault::NoCertificate)));
        }
        let mut news = BTreeMap::new();
        self.view.send_modify(|view| {
            view.looked = true;
            news.clone_from(&content.faults);
            news.retain(|name, fault| view.faults.get(name) != Some(fault));
            view.faults = content.faults;
            let mut before = std::mem::take(&mut view.replicas);
            view.replicas = content
                .replicas
                .into_iter()
                .map(|(name, replica)| {
                    let known = before.remove(&name).filter(|known| known.addr == replica.addr);
                    let connection = match known {
                        Some(known) => {
                            known.pin(replica.certificates);
                            known
                        }
                        None => {
                            let tls = self.name.clone().map(|server| (replica.certificates, server));
                            Arc::new(Connection::new(&name, replica.addr, tls))
                        }
                    };
                    (name, connection)
                })
                .collect();
        });
        if !news.is_empty() {
            let (config_map, replicas) = (&self.config_map, named_faults(&news));
            tracing::warn!(
                config_map,
                replicas,
                "malformed entries in the trust ConfigMap are left out, the others count"
            );
        }
    }
}

impl Index<ConfigMap> for TrustIndex {
    async fn change(&mut self, change: Change<ConfigMap>) {
        let read = |map: &ConfigMap| map.data.as_ref().map(published::read).unwrap_or_default();
        self.set(match change {
            Change::Applied(map) => read(&map),
            Change::Deleted(_) => Content::default(),
            Change::Reset(maps) => maps.first().map(|map| read(map)).unwrap_or_default(),
        });
    }
}

/// Keeps the view in step with the callee's Lease.
pub(crate) struct LeaderIndex {
    view: Arc<watch::Sender<View>>,
}

impl LeaderIndex {
    pub(crate) fn set(&self, leader: Option<String>) {
        self.view.send_if_modified(|view| {
            let changed = view.leader != leader;
            view.leader = leader;
            changed
        });
    }
}

impl Index<Lease> for LeaderIndex {
    async fn change(&mut self, change: Change<Lease>) {
        let holder = |lease: &Lease| {
            let holder = lease.spec.as_ref()?.holder_identity.clone()?;
            (!holder.is_empty()).then_some(holder)
        };
        self.set(match change {
            Change::Applied(lease) => holder(&lease),
            Change::Deleted(_) => None,
            Change::Reset(leases) => leases.first().and_then(|lease| holder(lease)),
        });
    }
}
