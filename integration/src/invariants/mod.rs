//! What must hold on a cluster whatever test runs on it, looked at when each test ends. A broken invariant fails the run and
//! names the tests that were running.
//!
//! Every rule is a pure function over what was recorded: the service logs, the audit log, the instances of the local AWS and the
//! processes of the stack. [`Watcher`] only reads these and remembers how far it got.

mod audit;
mod instances;
mod log;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use crate::aws;
use crate::stack::Stack;

/// Beside one cluster, from its start to its end.
pub struct Watcher {
    stack: Stack,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Tests that are running, with the ERROR lines that each expects.
    running: BTreeMap<&'static str, &'static [&'static str]>,
    /// How far each log was read, in bytes.
    read: BTreeMap<PathBuf, u64>,
    /// Instances whose launch was under way when their claim was deleted.
    excused: BTreeSet<String>,
    /// Violations that were reported: facts such as two instances stay visible for minutes.
    reported: BTreeSet<String>,
}

impl Watcher {
    pub fn new(stack: Stack) -> Self {
        Self { stack, seen: Mutex::default() }
    }

    /// `expected`: parts of ERROR messages and of refused requests that this test provokes.
    pub fn begin(&self, test: &'static str, expected: &'static [&'static str]) {
        self.locked().running.insert(test, expected);
    }

    /// Judges what was recorded since the last look, and forgets the test.
    pub async fn end(&self, test: &'static str) -> Result<()> {
        let claims = self.claims().await;
        let mut seen = self.locked();
        let found = claims.and_then(|claims| self.look(&mut seen, &claims));
        let running: Vec<&str> = seen.running.keys().copied().collect();
        let running = running.join(", ");
        seen.running.remove(test);
        let mut found = found.context("look at the invariants")?;
        found.retain(|violation| seen.reported.insert(violation.clone()));
        ensure!(found.is_empty(), "invariants broken while {running} ran:\n{}", found.join("\n"));
        Ok(())
    }

    async fn claims(&self) -> Result<BTreeSet<String>> {
        let claims: Api<NodeClaim> = Api::all(self.stack.admin().await?);
        let listed = claims.list_metadata(&ListParams::default()).await.context("list NodeClaims")?;
        Ok(listed.items.into_iter().map(|claim| claim.name_any()).collect())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, seen: &mut Seen, claims: &BTreeSet<String>) -> Result<Vec<String>> {
        let expected: Vec<&str> = seen.running.values().copied().flatten().copied().collect();
        let mut found = Vec::new();
        for service in runtime::Service::ALL {
            for file in logs_of(&self.stack.dir().join("log"), service.as_str())? {
                let text = unread(&file, &mut seen.read)?;
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                found.extend(text.lines().filter_map(|line| log::problem(&name, line, &expected)));
            }
        }
        let audit = unread(&self.stack.dir().join("log/audit.log"), &mut seen.read)?;
        found.extend(audit.lines().filter_map(|line| audit::problem(line, &expected)));
        let listed = aws::get(&self.stack, "/instances")?;
        let all: Vec<instances::Instance> = serde_json::from_value(listed["instances"].clone())?;
        found.extend(instances::problems(&all));
        let now = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
        let orphans = instances::orphans(&all, claims, now, &mut seen.excused);
        found.extend(orphans.into_iter().filter(|orphan| !expected.iter().any(|part| orphan.contains(part))));
        found.extend(processes::problems(&processes::recorded(&self.stack.dir().join("state"))?));
        Ok(found)
    }
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
