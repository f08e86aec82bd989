//! One instance of the local cluster, as `deploy/local/stack` starts it, and the addresses it left in its `env` file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Where the stack puts the accounts of our services.
const NAMESPACE: &str = "kube-system";

/// A running local cluster. Cheap to clone; it is taken down by [`Stack::down`], not by dropping it.
#[derive(Clone, Debug)]
pub struct Stack {
    dir: PathBuf,
    env: BTreeMap<String, String>,
    /// Other tests run on the same cluster.
    is_shared: bool,
}

impl Stack {
    /// Starts an instance of its own, with nothing of an earlier one left, and without our services.
    pub fn up() -> Result<Self> {
        Self::up_in("test")
    }

    /// The same under another name, so that two can run side by side.
    pub fn up_in(name: &str) -> Result<Self> {
        let dir = root().join(".local").join(name);
        run(tool(&dir).args(["up", "--fresh", "--services", "none"]), Output::Inherit)?;
        Self::attach(&dir)
    }

    /// Uses the instance that lives in `dir`.
    pub fn attach(dir: &Path) -> Result<Self> {
        let file = dir.join("env");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("read {}; is the local cluster up?", file.display()))?;
        Ok(Self { dir: dir.to_owned(), env: parse_env(&text), is_shared: false })
    }

    /// The same cluster for a test that shares it: what is switched there would fail its neighbours.
    #[must_use]
    pub(crate) fn without_faults(&self) -> Self {
        Self { is_shared: true, ..self.clone() }
    }

    pub(crate) fn may_switch_faults(&self) -> bool {
        !self.is_shared
    }

    pub fn down(&self) -> Result<()> {
        run(tool(&self.dir).arg("down"), Output::Inherit).map(drop)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A variable of the instance's `env` file.
    pub fn var(&self, name: &str) -> Result<&str> {
        let value = self.env.get(name).map(String::as_str);
        value.with_context(|| format!("{name} is not in {}/env", self.dir.display()))
    }

    /// A client with the administrator's rights.
    pub async fn admin(&self) -> Result<kube::Client> {
        let config = self.config_from(Path::new(self.var("KUBECONFIG")?)).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// A client with the rights of one of our services, whether it runs or not.
    pub async fn client_of(&self, service: &str) -> Result<kube::Client> {
        let token = self.token(service, &[]).await?;
        let mut config = self.config_from(Path::new(self.var("KUBECONFIG")?)).await?;
        config.auth_info = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
        Ok(kube::Client::try_from(config)?)
    }

    /// A token of a service's account; no audience means the API server's own.
    pub async fn token(&self, service: &str, audiences: &[&str]) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, NAMESPACE);
        let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let name = format!("karpenter-{service}");
        let issued = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
        Ok(issued.status.context("a token was issued")?.token)
    }

    async fn config_from(&self, kubeconfig: &Path) -> Result<kube::Config> {
        let read =
            Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        Ok(kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)
    }

    /// Runs a sub-command of `deploy/local/stack` on this instance and returns what it printed.
    pub fn command<I, S>(&self, arguments: I) -> Result<String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        run(tool(&self.dir).args(arguments), Output::Capture)
    }
}

enum Output {
    Inherit,
    Capture,
}

fn tool(dir: &Path) -> Command {
    let mut command = Command::new(root().join("deploy/local/stack"));
    command.arg("--dir").arg(dir).stdin(Stdio::null());
    command
}

fn run(command: &mut Command, output: Output) -> Result<String> {
    let outcome = match output {
        Output::Inherit => command.stdout(Stdio::inherit()).stderr(Stdio::inherit()).output(),
        Output::Capture => command.output(),
    }
    .with_context(|| format!("start {command:?}"))?;
    if !outcome.status.success() {
        bail!("{command:?} ended with {}: {}", outcome.status, String::from_utf8_lossy(&outcome.stderr));
    }
    Ok(String::from_utf8(outcome.stdout)?)
}

/// The checkout: this crate's parent.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the checkout").to_owned()
}

/// Reads `export NAME=value` lines; values may be in single or double quotes.
fn parse_env(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("export ")?.split_once('='))
        .map(|(name, value)| {
            let bare = value.trim().trim_matches(|quote| quote == '\'' || quote == '"');
            (name.to_owned(), bare.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_file_lines_are_read_with_and_without_quotes() {
        let env = parse_env("# comment\nexport A=1\nexport B='two words'\nexport C=\"x=y\"\n");
        assert_eq!(env["A"], "1");
        assert_eq!(env["B"], "two words");
        assert_eq!(env["C"], "x=y");
        assert_eq!(env.len(), 3);
    }
}
