//! No service ends by itself: a replica that a test stops or kills through the stack is forgotten there, one that died is not.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// A replica as the stack remembers it.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    name: String,
    is_alive: bool,
}

pub(super) fn problems(all: &[Recorded]) -> Vec<String> {
    let dead = all.iter().filter(|replica| !replica.is_alive);
    dead.map(|replica| format!("{} ended by itself", replica.name)).collect()
}

/// The services among the records of an instance's `state` directory.
pub(super) fn recorded(directory: &Path) -> Result<Vec<Recorded>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "process") {
            continue;
        }
        let text = match std::fs::read_to_string(&path) {
            // Another test stops it just now.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            text => text?,
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(replica(name, &text, |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()));
    }
    Ok(found)
}

/// `stat` gives the kernel's line about a process. The pid alone may belong to another process by now: its start time tells.
fn replica(name: String, record: &str, stat: impl Fn(u64) -> Option<String>) -> Option<Recorded> {
    let record: Value = serde_json::from_str(record).ok()?;
    record["facts"].get("service")?;
    let line = stat(record["pid"].as_u64()?);
    // Counted from the command's closing bracket: state first, start time in clock ticks as the twentieth.
    let fields: Vec<String> = line
        .as_deref()
        .and_then(|line| line.rsplit(')').next())
        .map(|after| after.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default();
    let ended = fields.first().is_none_or(|state| state == "Z" || state == "X");
    let same = fields.get(19).and_then(|born| born.parse().ok()) == record["born"].as_u64();
    Some(Recorded { name, is_alive: !ended && same })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str =
        r#"{"pid": 7, "born": 4711, "boot": "b", "facts": {"service": "provisioner", "replica": 1}}"#;

    fn judged(stat: Option<&str>) -> Vec<String> {
        let found = replica("provisioner-1".into(), RECORD, |_| stat.map(str::to_owned));
        problems(&[found.expect("a service")])
    }

    fn stat(state: &str, born: &str) -> String {
        format!("7 (karpenter) x) {state} {} {born} 0", ["0"; 18].join(" "))
    }

    #[test]
    fn a_process_that_is_gone_a_zombie_or_another_one_is_dead() {
        assert_eq!(judged(None), ["provisioner-1 ended by itself"]);
        assert_eq!(judged(Some(&stat("Z", "4711"))).len(), 1);
        assert_eq!(judged(Some(&stat("S", "9999"))).len(), 1);
        assert_eq!(judged(Some(&stat("S", "4711"))), Vec::<String>::new());
    }

    #[test]
    fn only_services_are_judged() {
        assert!(replica("etcd".into(), r#"{"pid": 7, "born": 1, "facts": {}}"#, |_| None).is_none());
    }
}
