//! Our services as processes of their own, started and ended through `deploy/local/stack service`.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::stack::Stack;

/// Bytes: as in the reference every pod has a series, and there may be thousands.
const LONGEST_ANSWER: u64 = 256 << 20;

/// One running replica of one service.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    pub name: String,
    pub replica: u32,
    pub pid: u32,
    /// host:port of its gRPC server.
    pub grpc: String,
    /// host:port of its admin HTTP server.
    pub admin: String,
}

impl Service {
    /// Starts a replica with extra flags of its own, and returns once it says that it is ready.
    pub fn start(stack: &Stack, name: &str, replica: u32, arguments: &[&str]) -> Result<Self> {
        // One word: a flag that begins with a dash would be taken for an option of `stack` itself.
        let options: Vec<String> = arguments.iter().map(|argument| format!("--arg={argument}")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Self::start_with(stack, name, replica, &options)
    }

    /// The same with options of `stack service start`, such as `--bin-dir` or `--env K=V`.
    pub fn start_with(stack: &Stack, name: &str, replica: u32, options: &[&str]) -> Result<Self> {
        let number = replica.to_string();
        let mut call = vec!["service", "start", name, "--replica", &number, "-o", "json"];
        call.extend(options);
        let printed = stack.command(call).with_context(|| format!("start {name}-{replica}"))?;
        serde_json::from_str(&printed).with_context(|| format!("`service start` printed {printed:?}"))
    }

    /// A replica that several tests use at the same time: the first of them starts it, and it is ended before the next test
    /// that is alone. All must name the same flags.
    pub fn shared(stack: &Stack, name: &str, arguments: &[&str]) -> Result<Self> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        match running(stack)?.into_iter().find(|service| service.name == name) {
            Some(service) => Ok(service),
            None => Self::start(stack, name, 1, arguments),
        }
    }

    /// SIGTERM, and waits until the process is gone.
    pub fn stop(&self, stack: &Stack) -> Result<()> {
        self.end(stack, &[])
    }

    /// SIGKILL.
    pub fn kill(&self, stack: &Stack) -> Result<()> {
        self.end(stack, &["--kill"])
    }

    fn end(&self, stack: &Stack, more: &[&str]) -> Result<()> {
        let number = self.replica.to_string();
        let mut call = vec!["service", "stop", self.name.as_str(), "--replica", &number];
        call.extend(more);
        stack.command(call).map(drop).with_context(|| format!("end {}-{}", self.name, self.replica))
    }

    /// The identity it uses in Leases and in its trust ConfigMap.
    pub fn identity(&self) -> String {
        format!("{}-{}", self.name, self.replica)
    }

    /// Body of `path` on its admin server.
    pub fn admin_get(&self, path: &str) -> Result<String> {
        let url = format!("http://{}{path}", self.admin);
        let mut answer = ureq::get(&url).call().with_context(|| format!("GET {url}"))?;
        Ok(answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string()?)
    }

    /// Sum of all samples of a metric whose labels contain `labels` (a piece of the text form, may be empty).
    pub fn metric(&self, name: &str, labels: &str) -> Result<f64> {
        let text = self.admin_get("/metrics")?;
        Ok(text
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(labels))
            .filter(|line| matches!(line.as_bytes().get(name.len()), Some(b' ' | b'{')))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    /// Resident memory in bytes, as the kernel counts it.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Processor time used so far, in clock ticks of 10 ms.
    pub fn cpu_ticks(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let after_name = stat.rsplit(')').next().context("malformed stat")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).context("short stat")?.parse::<u64>().context("ticks");
        Ok(ticks(11)? + ticks(12)?)
    }
}

/// Ends every replica that still runs.
pub(crate) fn kill_all(stack: &Stack) -> Result<()> {
    running(stack)?.iter().try_for_each(|service| service.kill(stack))
}

fn running(stack: &Stack) -> Result<Vec<Service>> {
    let printed = stack.command(["service", "list", "-o", "json"])?;
    serde_json::from_str(&printed).context("`service list` printed something else")
}
