//! CapacityBuffers (gate CapacityBuffer): room for pods that do not exist yet. Each buffer is resolved into placeholder pods,
//! which live in the cluster's state only and take part in every decision; what decisions came to is told in its status.
//!
//! ```text
//!  CapacityBuffers, PodTemplates, workloads ─► actor ─► resolve (pure) ─► cluster: placeholders
//!  schedule: what became of placeholders    ─►   └────► status (pure)  ─► one write a buffer, by the leader
//! ```

mod actor;
mod resolve;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::CapacityBuffer;
use k8s_openapi::api::core::v1::PodTemplate;
use runtime::Shell;
use runtime::watch::Watch;
use tokio::sync::mpsc;

use crate::deps::Deps;
use actor::{Actor, Message};

const INBOX: usize = 256;

/// Namespace and name of a buffer.
pub(crate) type BufferKey = (Arc<str>, Arc<str>);

/// What a decision came to for the placeholders of one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// On nodes that exist or are being launched.
    pub(crate) fit: usize,
    /// On nodes that this decision created NodeClaims for.
    pub(crate) created: usize,
    /// Nowhere.
    pub(crate) lack: usize,
}

/// Told after every decision. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BuffersHandle(Option<mpsc::Sender<Message>>);

impl BuffersHandle {
    /// The gate is closed.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns at once. A report that finds no room is lost: the next decision brings another.
    pub(crate) fn decided(&self, placed: BTreeMap<BufferKey, Placed>) {
        if let Some(inbox) = self.0.as_ref().filter(|_| !placed.is_empty()) {
            let _ = inbox.try_send(Message::Decided(placed));
        }
    }
}

/// Starts resolving buffers.
pub(crate) fn spawn(shell: &mut Shell, deps: &Deps) -> BuffersHandle {
    let (sender, inbox) = mpsc::channel(INBOX);
    let stop = shell.stop();
    let actor = Actor::new(inbox, deps).run(stop);
    shell.process.spawn("buffers", actor);
    let kube = shell.kube.clone();
    shell.watch("capacitybuffers", Watch::<CapacityBuffer>::all(kube.clone()), sender.clone());
    shell.watch("podtemplates", Watch::<PodTemplate>::all(kube), sender.clone());
    BuffersHandle(Some(sender))
}
