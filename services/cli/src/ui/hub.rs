//! The one picture, and its readers. A reader that joins gets the whole picture and then every change; a reader that is too slow
//! for the changes gets the whole picture again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use super::picture::{Event, Patch, Picture};

/// Changes that a slow reader may be behind.
const BEHIND: usize = 256;

pub(crate) struct Hub {
    picture: Mutex<Picture>,
    /// Patches as JSON.
    changes: broadcast::Sender<Arc<str>>,
    /// Changes of the nodes or of the pods that wait: the lower bound is another then.
    load: watch::Sender<u64>,
    /// Changes of any part.
    any: watch::Sender<u64>,
    /// Readers that came so far.
    joined: watch::Sender<u64>,
    pub(super) jaeger: Option<String>,
    pub(super) read_only: bool,
}

impl Hub {
    pub(crate) fn new(jaeger: Option<String>, read_only: bool) -> Self {
        Self {
            picture: Mutex::default(),
            changes: broadcast::channel(BEHIND).0,
            load: watch::channel(0).0,
            any: watch::channel(0).0,
            joined: watch::channel(0).0,
            jaeger,
            read_only,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, event: Event) {
        let mut picture = self.lock();
        let patch = picture.take(event, Timestamp::now().as_second());
        if patch.is_empty() {
            return;
        }
        if !patch.nodes.is_empty() || !patch.pending.is_empty() {
            self.load.send_modify(|count| *count += 1);
        }
        self.any.send_modify(|count| *count += 1);
        // Sent under the lock, so that no reader joins between a change and its patch. There may be no reader.
        if self.changes.receiver_count() > 0 {
            let _ = self.changes.send(Arc::from(json(&patch)));
        }
    }

    /// The whole picture, and every change after it.
    pub(super) fn join(&self) -> (String, broadcast::Receiver<Arc<str>>) {
        let picture = self.lock();
        let joined = (json(&picture.full()), self.changes.subscribe());
        self.joined.send_modify(|count| *count += 1);
        joined
    }

    pub(super) fn full(&self) -> String {
        json(&Patch { at: Some(Timestamp::now().as_second()), ..self.lock().full() })
    }

    /// A copy of the picture as it is now; its parts are shared, not copied.
    pub(crate) fn picture(&self) -> Picture {
        self.lock().clone()
    }

    /// Changes whenever any part of the picture does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// Changes whenever a node or a waiting pod does.
    pub(super) fn load_changes(&self) -> watch::Receiver<u64> {
        self.load.subscribe()
    }

    /// Waits until a page is open.
    pub(super) async fn until_watched(&self) {
        let mut joined = self.joined.subscribe();
        while self.changes.receiver_count() == 0 {
            if joined.changed().await.is_err() {
                return;
            }
        }
    }

    /// Names of the nodes of ours that are not being deleted.
    pub(super) fn own_nodes(&self) -> Vec<String> {
        let picture = self.lock();
        let own = picture.nodes.iter().filter(|(_, node)| node.is_ours() && node.phase != "deleting");
        own.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn has_nodes(&self) -> bool {
        self.lock().seen()
    }

    pub(super) fn troubles(&self) -> String {
        self.lock().troubles()
    }

    pub(super) async fn until(&self, reached: impl Fn(&Picture) -> bool) {
        let mut changes = self.changes.subscribe();
        while !reached(&self.lock()) {
            if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                return;
            }
        }
    }
}

fn json(patch: &Patch) -> String {
    serde_json::to_string(patch).expect("a patch has text keys only")
}
