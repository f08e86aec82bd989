//! What must be true before this process may be sent work: a set of named checks. `/readyz` and the gRPC health
//! service both read it, so that they cannot disagree.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

type Checks = BTreeMap<Arc<str>, Option<String>>;
pub(crate) type Notes = BTreeMap<Arc<str>, String>;

/// Cheap to clone. Without any check the process is ready.
#[derive(Clone, Debug)]
pub struct Readiness {
    checks: watch::Sender<Checks>,
    notes: watch::Sender<Notes>,
}

/// One named condition, owned by the part that can tell.
#[derive(Clone, Debug)]
pub struct Check {
    name: Arc<str>,
    checks: watch::Sender<Checks>,
}

/// Something a person should know although the process is ready: what it does not do, and why.
#[derive(Clone, Debug)]
pub struct Note {
    name: Arc<str>,
    notes: watch::Sender<Notes>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { checks: watch::Sender::new(BTreeMap::new()), notes: watch::Sender::new(BTreeMap::new()) }
    }
}

impl Readiness {
    /// A new check, not ready yet; `waiting_for` tells a person what it waits for.
    pub fn check(&self, name: &str, waiting_for: &str) -> Check {
        let check = Check { name: name.into(), checks: self.checks.clone() };
        check.not_ready(waiting_for);
        check
    }

    /// A place for a remark that does not change readiness; empty at first.
    pub fn note(&self, name: &str) -> Note {
        Note { name: name.into(), notes: self.notes.clone() }
    }

    pub fn is_ready(&self) -> bool {
        self.checks.borrow().values().all(Option::is_none)
    }

    /// One line per note that says something, `name: text`.
    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().iter().map(|(name, text)| format!("{name}: {text}")).collect()
    }

    pub(crate) fn watch_notes(&self) -> watch::Receiver<Notes> {
        self.notes.subscribe()
    }

    /// One line per check that is not ready, `name: reason`.
    pub fn missing(&self) -> Vec<String> {
        let checks = self.checks.borrow();
        checks.iter().filter_map(|(name, why)| why.as_ref().map(|why| format!("{name}: {why}"))).collect()
    }

    /// Resolves when all checks are ready.
    pub async fn ready(&self) {
        let mut seen = self.checks.subscribe();
        // We hold a sender, so the channel cannot close.
        let _ = seen.wait_for(|checks| checks.values().all(Option::is_none)).await;
    }

    pub(crate) fn subscribe(&self) -> Changes {
        Changes { seen: self.checks.subscribe() }
    }
}

pub(crate) struct Changes {
    seen: watch::Receiver<Checks>,
}

impl Changes {
    pub(crate) fn is_ready(&mut self) -> bool {
        self.seen.borrow_and_update().values().all(Option::is_none)
    }

    /// Resolves after the next change; never when all senders are gone.
    pub(crate) async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Check {
    pub fn ready(&self) {
        self.set(None);
    }

    pub fn not_ready(&self, why: &str) {
        self.set(Some(why.to_owned()));
    }

    fn set(&self, state: Option<String>) {
        self.checks.send_if_modified(|checks| {
            let changed = checks.get(&self.name) != Some(&state);
            checks.insert(self.name.clone(), state);
            changed
        });
    }
}

impl Note {
    pub fn set(&self, text: &str) {
        self.notes.send_modify(|notes| drop(notes.insert(self.name.clone(), text.to_owned())));
    }

    pub fn clear(&self) {
        self.notes.send_modify(|notes| drop(notes.remove(&self.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_told_and_does_not_make_the_process_unready() {
        let readiness = Readiness::default();
        let note = readiness.note("queue");
        assert!(readiness.notes().is_empty());
        note.set("there is no such queue");
        assert!(readiness.is_ready());
        assert_eq!(readiness.notes(), ["queue: there is no such queue"]);
        note.clear();
        assert!(readiness.notes().is_empty());
    }

    #[tokio::test]
    async fn ready_only_when_every_check_is_and_the_missing_ones_are_named() {
        let readiness = Readiness::default();
        assert!(readiness.is_ready());
        let nodes = readiness.check("nodes", "first list");
        let prices = readiness.check("prices", "first refresh");
        nodes.ready();
        assert!(!readiness.is_ready());
        assert_eq!(readiness.missing(), ["prices: first refresh"]);
        prices.ready();
        readiness.ready().await;
        nodes.not_ready("relisting");
        assert_eq!(readiness.missing(), ["nodes: relisting"]);
    }
}
