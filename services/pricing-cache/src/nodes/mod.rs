//! Learns from real nodes how much memory their instance types have: Node (what kubelet reports), its NodeClaim (which
//! image) and its EC2NodeClass (whether that is still the image such a node would get).

mod observe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use runtime::watch::Change;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::owner;
use observe::{ClaimSeen, ClassSeen, NodeSeen, World};

const MAILBOX: usize = 256;
/// Nodes join in bursts.
const GATHER: Duration = Duration::from_millis(200);

pub(crate) enum Message {
    Node(Change<Node>),
    Claim(Change<NodeClaim>),
    Class(Change<EC2NodeClass>),
}

impl From<Change<Node>> for Message {
    fn from(change: Change<Node>) -> Self {
        Self::Node(change)
    }
}

impl From<Change<NodeClaim>> for Message {
    fn from(change: Change<NodeClaim>) -> Self {
        Self::Claim(change)
    }
}

impl From<Change<EC2NodeClass>> for Message {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self::Class(change)
    }
}

pub(crate) struct Learner {
    mailbox: mpsc::Receiver<Message>,
    owner: mpsc::Sender<owner::Message>,
    world: World,
    /// What the owner was told last, so that a node's heartbeat is no news.
    told: BTreeMap<(String, String), u64>,
}

impl Learner {
    pub(crate) fn new(owner: mpsc::Sender<owner::Message>) -> (Self, mpsc::Sender<Message>) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        (Self { mailbox, owner, world: World::default(), told: BTreeMap::new() }, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(message) = self.mailbox.recv() => message,
            };
            let mut changed = self.take(first);
            if changed {
                tokio::time::sleep(GATHER).await;
            }
            while let Ok(message) = self.mailbox.try_recv() {
                changed |= self.take(message);
            }
            if !changed {
                continue;
            }
            let seen = self.world.least_memory();
            for ((instance_type, images), bytes) in &seen {
                if self.told.get(&(instance_type.clone(), images.clone())) != Some(bytes) {
                    let (instance_type, images, bytes) = (instance_type.clone(), images.clone(), *bytes);
                    let _ = self.owner.send(owner::Message::Memory { instance_type, images, bytes }).await;
                }
            }
            self.told = seen;
        }
    }

    /// Whether what can be learned may have changed.
    fn take(&mut self, message: Message) -> bool {
        let World { nodes, claims, classes } = &mut self.world;
        match message {
            Message::Node(change) => keep(nodes, change, NodeSeen::of),
            Message::Claim(change) => keep(claims, change, ClaimSeen::of),
            Message::Class(change) => keep(classes, change, |class| Some(ClassSeen::of(class))),
        }
    }
}

/// Follows one kind, keeping of each object only what `of` takes from it.
fn keep<K: kube::Resource, S: PartialEq>(
    kept: &mut BTreeMap<String, S>,
    change: Change<K>,
    of: impl Fn(&K) -> Option<S>,
) -> bool {
    let mut put = |object: &Arc<K>| match of(object) {
        Some(seen) if kept.get(&object.name_any()) == Some(&seen) => false,
        Some(seen) => {
            kept.insert(object.name_any(), seen);
            true
        }
        None => kept.remove(&object.name_any()).is_some(),
    };
    match change {
        Change::Applied(object) => put(&object),
        Change::Deleted(object) => kept.remove(&object.name_any()).is_some(),
        Change::Reset(all) => {
            *kept = all.iter().filter_map(|o| Some((o.name_any(), of(o)?))).collect();
            true
        }
    }
}
