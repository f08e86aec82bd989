//! What must hold on a cluster whatever test runs on it, looked at when each test ends. A violation fails the run and names the
//! tests that were running.
//!
//! Every rule is a pure function over what was recorded: the service logs, the audit log, the instances of the local AWS, the
//! claims and the processes of the stack. [`Watcher`] only reads these and remembers how far it got.
//!
//! | rule | a test may provoke it |
//! |---|---|
//! | a NodeClaim has one instance at most | never |
//! | no service panics, plans what the scheduler would refuse, or fails inside a handler | never |
//! | no service ends by itself | never |
//! | no other ERROR line | where it declares so |
//! | no instance runs without its NodeClaim for longer than a minute | where it declares so |
//! | no NodePool has more nodes disrupted than its budget allows | where it declares so |
//! | no finalizer is stuck | where it declares so |
//! | no pod is deleted past its PodDisruptionBudget | where it declares so |
//! | no request is refused by RBAC | where it declares so |
//!
//! It declares so with [`Test::expecting`](crate::Test::expecting).

mod audit;
mod budgets;
mod finalizers;
mod instances;
mod log;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::NodeClaim;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::aws;
use crate::stack::Stack;

/// Longer than the stack takes to forget a replica that it has stopped.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// What a test provoked may be logged a little after its end, when its objects are gone but the services still run.
const ECHO: Duration = Duration::from_secs(20);

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub what: String,
    /// Tests that ran on the cluster.
    pub during: String,
}

/// Beside one cluster, from its start to its end.
pub struct Watcher {
    stack: Stack,
    seen: Mutex<Seen>,
    over_budget: budgets::Found,
    watching: JoinHandle<()>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

#[derive(Default)]
struct Seen {
    /// Tests that are running, with the texts that each expects.
    running: BTreeMap<&'static str, &'static [&'static str]>,
    /// What tests expected that have ended, and when they did.
    ended: Vec<(Instant, &'static [&'static str])>,
    /// How far each log was read, in bytes.
    read: BTreeMap<PathBuf, u64>,
    /// Instances whose launch was under way when their claim was deleted.
    excused: BTreeSet<String>,
    /// Violations that were reported: facts such as two instances stay visible for minutes.
    reported: BTreeSet<String>,
}

impl Watcher {
    pub fn new(stack: Stack, runtime: &Handle) -> Self {
        let over_budget = budgets::Found::default();
        let (of, found) = (stack.clone(), over_budget.clone());
        let watching = runtime.spawn(async move {
            if let Ok(client) = of.admin().await {
                budgets::watch(client, found).await;
            }
        });
        Self { stack, seen: Mutex::default(), over_budget, watching }
    }

    /// `expected`: parts of violations that this test provokes.
    pub fn begin(&self, test: &'static str, expected: &'static [&'static str]) {
        self.locked().running.insert(test, expected);
    }

    /// Judges what was recorded since the last look, and forgets the test.
    pub async fn end(&self, test: &'static str) -> Vec<Violation> {
        let (claims, dead) = (self.claims().await, self.dead().await);
        let mut seen = self.locked();
        let found = claims.and_then(|claims| self.look(&mut seen, &claims, dead?));
        let running: Vec<&str> = seen.running.keys().copied().collect();
        let during = running.join(", ");
        seen.ended.retain(|(ended, _)| ended.elapsed() < ECHO);
        let ended = seen.ended.iter().map(|(_, expected)| *expected);
        let expected: Vec<&str> = seen.running.values().copied().chain(ended).flatten().copied().collect();
        if let Some(expected) = seen.running.remove(test) {
            seen.ended.push((Instant::now(), expected));
        }
        let found = found.unwrap_or_else(|error| {
            vec![Broken::excusable(format!("the invariants could not be looked at: {error:#}"))]
        });
        let mut found = unexpected(found, &expected);
        found.retain(|what| seen.reported.insert(what.clone()));
        found.into_iter().map(|what| Violation { what, during: during.clone() }).collect()
    }

    /// Replicas that ended by themselves. One that a test stops just now is forgotten by the stack a moment after its end.
    async fn dead(&self) -> Result<Vec<String>> {
        let look = || anyhow::Ok(processes::problems(&processes::recorded(&self.stack.dir().join("state"))?));
        let mut first = look()?;
        if !first.is_empty() {
            tokio::time::sleep(FORGOTTEN).await;
            let again = look()?;
            first.retain(|one| again.contains(one));
        }
        Ok(first)
    }

    async fn claims(&self) -> Result<Vec<Claim>> {
        let claims: Api<NodeClaim> = Api::all(self.stack.admin().await?);
        let listed = claims.list_metadata(&ListParams::default()).await.context("list NodeClaims")?;
        let of = |claim: &kube::core::PartialObjectMeta<NodeClaim>| Claim {
            name: claim.name_any(),
            deleted: claim.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        };
        Ok(listed.items.iter().map(of).collect())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, seen: &mut Seen, claims: &[Claim], dead: Vec<String>) -> Result<Vec<Broken>> {
        let mut found = Vec::new();
        for service in runtime::Service::ALL {
            for file in logs_of(&self.stack.dir().join("log"), service.as_str())? {
                let text = unread(&file, &mut seen.read)?;
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                found.extend(text.lines().filter_map(|line| log::problem(&name, line)));
            }
        }
        let listed = aws::get(&self.stack, "/instances")?;
        let all: Vec<instances::Instance> = serde_json::from_value(listed["instances"].clone())?;
        found.extend(instances::problems(&all).into_iter().map(Broken::inexcusable));
        found.extend(dead.into_iter().map(Broken::inexcusable));
        let audit = unread(&self.stack.dir().join("log/audit.log"), &mut seen.read)?;
        found.extend(audit.lines().filter_map(audit::problem).map(Broken::excusable));
        let now = Timestamp::now();
        let names: BTreeSet<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        let orphans = instances::orphans(&all, &names, now.as_millisecond() as f64 / 1e3, &mut seen.excused);
        found.extend(orphans.into_iter().map(Broken::excusable));
        let deleting: Vec<finalizers::Deleting> = claims.iter().filter_map(Claim::deleting).collect();
        found.extend(finalizers::problems(&deleting, now).into_iter().map(Broken::excusable));
        let over_budget =
            std::mem::take(&mut *self.over_budget.lock().unwrap_or_else(PoisonError::into_inner));
        found.extend(over_budget.into_iter().map(Broken::excusable));
        Ok(found)
    }
}

struct Claim {
    name: String,
    deleted: Option<Timestamp>,
}

impl Claim {
    fn deleting(&self) -> Option<finalizers::Deleting> {
        Some(finalizers::Deleting { what: format!("NodeClaim {}", self.name), since: self.deleted? })
    }
}

/// A rule that does not hold, before it is asked whether a test provoked it.
#[derive(Debug, PartialEq, Eq)]
struct Broken {
    what: String,
    /// Whether a test may provoke it.
    is_excusable: bool,
}

impl Broken {
    fn excusable(what: String) -> Self {
        Self { what, is_excusable: true }
    }

    fn inexcusable(what: String) -> Self {
        Self { what, is_excusable: false }
    }
}

/// What no test provoked.
fn unexpected(found: Vec<Broken>, expected: &[&str]) -> Vec<String> {
    let is_expected = |one: &Broken| one.is_excusable && expected.iter().any(|part| one.what.contains(part));
    found.into_iter().filter(|one| !is_expected(one)).map(|one| one.what).collect()
}

/// The logs of a service's replicas, `<service>-<replica>.log`.
fn logs_of(directory: &Path, service: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let replica =
            name.strip_suffix(".log").and_then(|name| name.strip_prefix(service)?.strip_prefix('-'));
        if replica.is_some_and(|replica| replica.bytes().all(|byte| byte.is_ascii_digit())) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The complete lines that were added since the last call.
fn unread(file: &Path, read: &mut BTreeMap<PathBuf, u64>) -> Result<String> {
    let mut opened = match std::fs::File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        opened => opened.with_context(|| format!("open {}", file.display()))?,
    };
    let from = read.entry(file.to_owned()).or_default();
    if opened.metadata()?.len() < *from {
        *from = 0;
    }
    opened.seek(SeekFrom::Start(*from))?;
    let mut bytes = Vec::new();
    opened.read_to_end(&mut bytes)?;
    // A line that is being written is read the next time.
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    *from += complete as u64;
    Ok(String::from_utf8_lossy(&bytes[..complete]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_excusable_violation_can_be_expected() {
        let found = || vec![Broken::excusable("a late drain".into()), Broken::inexcusable("a panic".into())];
        assert_eq!(unexpected(found(), &[]), ["a late drain", "a panic"]);
        assert_eq!(unexpected(found(), &["late", "panic"]), ["a panic"]);
        assert_eq!(unexpected(found(), &["early"]).len(), 2);
    }

    #[test]
    fn only_complete_new_lines_are_read() {
        let file = std::env::temp_dir().join(format!("invariants-{}.log", std::process::id()));
        let mut read = BTreeMap::new();
        assert_eq!(unread(&file, &mut read).expect("a file that is not there"), "");
        std::fs::write(&file, "one\ntw").expect("write");
        assert_eq!(unread(&file, &mut read).expect("read"), "one\n");
        std::fs::write(&file, "one\ntwo\n").expect("write");
        assert_eq!(unread(&file, &mut read).expect("read"), "two\n");
        assert_eq!(unread(&file, &mut read).expect("read"), "");
        std::fs::write(&file, "x\n").expect("write");
        assert_eq!(unread(&file, &mut read).expect("a new file"), "x\n");
        std::fs::remove_file(&file).expect("remove");
    }
}
