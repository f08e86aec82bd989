//! Writes entries of one ConfigMap, each on its own, so that replicas do not overwrite each other. What could not be written
//! is tried again until it is, together with whatever came meanwhile; nobody waits for it who did not ask to.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::FIELD_MANAGER;

const MAILBOX: usize = 64;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const QUICKEST_RETRY: Duration = Duration::from_millis(250);
const SLOWEST_RETRY: Duration = Duration::from_secs(10);

/// Entries to write; `None` takes one out.
#[derive(Debug, Default)]
pub(crate) struct Save {
    pub(crate) entries: BTreeMap<String, Option<String>>,
    /// Told when they are stored.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

pub(crate) struct Saver {
    api: Api<ConfigMap>,
    name: &'static str,
    mailbox: mpsc::Receiver<Save>,
}

impl Saver {
    pub(crate) fn new(
        client: kube::Client,
        namespace: &str,
        name: &'static str,
    ) -> (Self, mpsc::Sender<Save>) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        (Self { api: Api::namespaced(client, namespace), name, mailbox }, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut pending = Pending::default();
        // The pause before the next try while writing fails.
        let mut failing: Option<Duration> = None;
        loop {
            if pending.entries.is_empty() || failing.is_some() {
                tokio::select! {
                    biased;
                    save = self.mailbox.recv() => match save {
                        Some(save) => pending.add(save),
                        None => {
                            stop.cancelled().await;
                            return Ok(());
                        }
                    },
                    () = tokio::time::sleep(failing.unwrap_or_default()), if failing.is_some() => {}
                }
            }
            while let Ok(save) = self.mailbox.try_recv() {
                pending.add(save);
            }
            let (written, later) = self.write_while_receiving(&pending.entries).await;
            match written {
                Ok(()) => {
                    if failing.take().is_some() {
                        info!(configmap = self.name, "the ConfigMap can be written again");
                    }
                    pending.finish();
                }
                Err(error) => {
                    if failing.is_none() {
                        let error = format!("{error:#}");
                        warn!(configmap = self.name, error, "could not write the ConfigMap; retrying");
                    }
                    failing = Some(failing.map_or(QUICKEST_RETRY, |last| (last * 2).min(SLOWEST_RETRY)));
                }
            }
            later.into_iter().for_each(|save| pending.add(save));
        }
    }

    /// The owner must never wait for the API server, so its mail is taken in meanwhile.
    async fn write_while_receiving(
        &mut self,
        entries: &BTreeMap<String, Option<String>>,
    ) -> (anyhow::Result<()>, Vec<Save>) {
        let mut later = Vec::new();
        let target = Target { api: self.api.clone(), name: self.name };
        let mut writing = std::pin::pin!(target.write(entries));
        loop {
            tokio::select! {
                biased;
                written = &mut writing => return (written, later),
                Some(save) = self.mailbox.recv() => later.push(save),
            }
        }
    }
}

/// The ConfigMap that is written.
struct Target {
    api: Api<ConfigMap>,
    name: &'static str,
}

impl Target {
    async fn write(&self, entries: &BTreeMap<String, Option<String>>) -> anyhow::Result<()> {
        let patched = tokio::time::timeout(CALL_TIMEOUT, self.patch(entries)).await;
        match patched.context("no answer in time")? {
            Ok(()) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let created = tokio::time::timeout(CALL_TIMEOUT, self.create(entries)).await;
                created
                    .context("no answer in time")?
                    .with_context(|| format!("create ConfigMap {}", self.name))
            }
            Err(error) => Err(error).with_context(|| format!("patch ConfigMap {}", self.name)),
        }
    }

    async fn patch(&self, entries: &BTreeMap<String, Option<String>>) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.api.patch(self.name, &params, &Patch::Merge(json!({ "data": entries }))).await.map(drop)
    }

    /// By apply, not by post: its address has the name, so that the right to create can be limited to our own maps. Applied
    /// without entries, because those of another replica that was quicker must stay.
    async fn create(&self, entries: &BTreeMap<String, Option<String>>) -> Result<(), kube::Error> {
        let empty = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": self.name } });
        self.api.patch(self.name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&empty)).await?;
        self.patch(entries).await
    }
}

/// Everything that is to be written, the latest text of each entry.
#[derive(Default)]
struct Pending {
    entries: BTreeMap<String, Option<String>>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Pending {
    fn add(&mut self, save: Save) {
        self.entries.extend(save.entries);
        self.waiting.extend(save.done);
    }

    fn finish(&mut self) {
        self.entries.clear();
        for waiting in self.waiting.drain(..) {
            // A caller that stopped waiting does not mind.
            let _ = waiting.send(());
        }
    }
}
