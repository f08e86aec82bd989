//! Calls to our services: as one of them (its account, its token, TLS to what the callee published), or as a person with
//! grpcurl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use clap::Parser as _;
use runtime::grpc::Peers;
use runtime::{ProcessConfig, Service, Shell};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stack::Stack;

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    process: ProcessConfig,
}

/// This process, taking the part of one of our services as a caller. Ends when it is dropped.
pub struct Impersonation {
    pub peers: Peers,
    stop: CancellationToken,
    _running: JoinHandle<Result<()>>,
}

impl Impersonation {
    /// `caller` calls `callee` with its own token.
    pub async fn new(stack: &Stack, caller: Service, callee: Service) -> Result<Self> {
        let token = stack.token(caller.as_str(), &[&callee.audience()]).await?;
        Self::with_token(stack, caller, callee, &token).await
    }

    /// A person with the rights of an operator calls `callee`.
    pub async fn person(stack: &Stack, callee: Service) -> Result<Self> {
        let token = stack.token("operator", &[&callee.audience()]).await?;
        // Trust is read with the account of any service that calls others.
        Self::with_token(stack, Service::Disruption, callee, &token).await
    }

    /// The same with whatever is given as the token.
    pub async fn with_token(stack: &Stack, caller: Service, callee: Service, token: &str) -> Result<Self> {
        // Tests that run side by side have tokens of different callers for one callee.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = stack.dir().join(format!("tokens-of-harness-{number}"));
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(callee.as_str()), token)?;
        let directory = directory.to_str().context("a path in UTF-8")?;
        let words = ["harness", "--replica-name", "harness", "--rpc-token-dir", directory];
        let flags = Flags::try_parse_from(words)?;
        let client = stack.client_of(caller.as_str()).await?;
        let mut shell = Shell::with_client(caller, flags.process, client);
        let peers = shell.peers(callee)?;
        let stop = shell.stop();
        #[expect(clippy::disallowed_methods, reason = "ends with the token below")]
        let running = tokio::spawn(shell.process.run_until_stopped());
        Ok(Self { peers, stop, _running: running })
    }
}

impl Drop for Impersonation {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What a person sees who types `grpcurl …`. `token` is shown when given; TLS trusts what the services published.
pub fn grpcurl(stack: &Stack, token: Option<&str>, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(stack.var("GRPCURL")?);
    command.arg("-cacert").arg(stack.dir().join("trust.pem"));
    if let Some(token) = token {
        command.arg("-H").arg(format!("authorization: Bearer {token}"));
    }
    command.args(arguments).output().with_context(|| format!("run {command:?}"))
}

/// The program of a service: of the build that `KARPENTER_BIN_DIR` names, as in `stack`, or else beside the running test.
pub fn binary(service: &str) -> Result<PathBuf> {
    let name = format!("karpenter-{service}");
    if let Some(named) = std::env::var_os("KARPENTER_BIN_DIR") {
        return Ok(Path::new(&named).join(name));
    }
    let test = std::env::current_exe()?;
    let directory = test.parent().and_then(Path::parent).context("target/<profile>/deps/<test>")?;
    Ok(directory.join(name))
}
