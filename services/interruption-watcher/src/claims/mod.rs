//! The NodeClaims of the cluster by the instance they stand for. One actor owns the table; whoever handles a warning asks it.

mod object;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use object::{Claim, ClaimObject};

const MAILBOX: usize = 1024;

pub(crate) enum Command {
    Change(Change<ClaimObject>),
    OfInstances(Vec<String>, oneshot::Sender<Vec<Arc<Claim>>>),
    Replacing(String, oneshot::Sender<Vec<Arc<Claim>>>),
    Count(oneshot::Sender<usize>),
}

impl From<Change<ClaimObject>> for Command {
    fn from(change: Change<ClaimObject>) -> Self {
        Self::Change(change)
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Claims {
    mailbox: mpsc::Sender<Command>,
}

pub(crate) struct Actor {
    mailbox: mpsc::Receiver<Command>,
    table: Table,
}

impl Actor {
    pub(crate) fn new() -> (Self, Claims) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        (Self { mailbox, table: Table::default() }, Claims { mailbox: sender })
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let command = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(command) = self.mailbox.recv() => command,
            };
            // Who asked may be gone; then nobody misses the answer.
            match command {
                Command::Change(change) => self.table.change(change),
                Command::OfInstances(ids, reply) => drop(reply.send(self.table.of_instances(&ids))),
                Command::Replacing(id, reply) => drop(reply.send(self.table.of_command(&id))),
                Command::Count(reply) => drop(reply.send(self.table.managed())),
            }
        }
    }
}

/// The owner of the table is gone: the process is ending.
#[derive(Debug, thiserror::Error)]
#[error("the process is stopping")]
pub(crate) struct Stopping;

impl Claims {
    /// Where the watch puts what it sees.
    pub(crate) fn intake(&self) -> mpsc::Sender<Command> {
        self.mailbox.clone()
    }

    /// Claims whose instance is among `ids`, by name. Instances without claim are not ours.
    pub(crate) async fn of_instances(&self, ids: Vec<String>) -> Result<Vec<Arc<Claim>>, Stopping> {
        self.ask(|reply| Command::OfInstances(ids, reply)).await
    }

    /// Claims that were made as replacements for a command.
    pub(crate) async fn of_command(&self, id: String) -> Result<Vec<Arc<Claim>>, Stopping> {
        self.ask(|reply| Command::Replacing(id, reply)).await
    }

    /// Claims of ours that have an instance.
    pub(crate) async fn count(&self) -> Result<usize, Stopping> {
        self.ask(Command::Count).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Stopping> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(question(reply)).await.map_err(|_| Stopping)?;
        answer.await.map_err(|_| Stopping)
    }
}

#[derive(Default)]
struct Table {
    by_name: HashMap<Arc<str>, Arc<Claim>>,
    /// Names of claims; nearly always one.
    by_instance: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl Table {
    fn change(&mut self, change: Change<ClaimObject>) {
        match change {
            Change::Applied(object) => self.apply(&object),
            Change::Deleted(object) => {
                if let Some(claim) = Claim::of(&object) {
                    self.remove(&claim.name);
                }
            }
            Change::Reset(objects) => {
                *self = Self::default();
                objects.iter().for_each(|object| self.apply(object));
            }
        }
    }

    fn apply(&mut self, object: &ClaimObject) {
        let Some(claim) = Claim::of(object) else { return };
        self.remove(&claim.name);
        if !claim.instance.is_empty() {
            let names = self.by_instance.entry(Arc::clone(&claim.instance)).or_default();
            names.push(Arc::clone(&claim.name));
            names.sort_unstable();
        }
        self.by_name.insert(Arc::clone(&claim.name), Arc::new(claim));
    }

    fn remove(&mut self, name: &Arc<str>) {
        let Some(old) = self.by_name.remove(name) else { return };
        if let Some(names) = self.by_instance.get_mut(&old.instance) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.by_instance.remove(&old.instance);
            }
        }
    }

    fn of_instances(&self, ids: &[String]) -> Vec<Arc<Claim>> {
        let names = ids.iter().filter_map(|id| self.by_instance.get(id.as_str())).flatten();
        names.filter_map(|name| self.by_name.get(name).cloned()).collect()
    }

    fn of_command(&self, id: &str) -> Vec<Arc<Claim>> {
        let of = |claim: &&Arc<Claim>| claim.command.as_deref() == Some(id);
        let mut found: Vec<Arc<Claim>> = self.by_name.values().filter(of).cloned().collect();
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        found
    }

    fn managed(&self) -> usize {
        self.by_name.values().filter(|claim| claim.managed && !claim.instance.is_empty()).count()
    }
}
