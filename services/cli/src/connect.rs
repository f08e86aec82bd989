//! How a sub-command reaches one of the running services from a person's machine: where it is, which certificate it may
//! show, and whose token to present.
//!
//! ```text
//!  address      --address, else GRPC_<SERVICE>, else a replica that published itself, directly or by port-forward (dial)
//!  certificate  exactly what the service published (ConfigMap karpenter-<service>-trust), read with the person's kubeconfig
//!  token        --token, else a token for --service-account, asked from the API server with the person's kubeconfig
//! ```
//! Nothing but the kubeconfig is needed, of somebody bound to the chart's Role karpenter-viewer. That Role gives tokens of the account
//! that only reads, which is what a command asks for unless it changes something.

pub(crate) mod dial;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::Service;
use tokio::sync::OnceCell;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use dial::Replica;

/// Whose token a command shows that only reads.
const VIEWER: &str = "karpenter-viewer";
/// Whose token a command shows that changes something: `#[command(mut_arg("service_account", connect::of_operator))]`.
const OPERATOR: &str = "karpenter-operator";

/// The flag of a command that changes something.
pub(crate) fn of_operator(service_account: clap::Arg) -> clap::Arg {
    service_account.default_value(OPERATOR)
}

/// Flags of every sub-command that asks a running service.
#[derive(clap::Args, Clone, Debug)]
pub struct Connection {
    /// host:port of the service, or of several of its replicas with commas between [default: environment variable GRPC_<SERVICE>,
    /// else what it published in the cluster]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Connection")]
    pub address: Option<String>,

    /// Token to present [default: requested from the API server for --service-account]
    #[arg(long, env = "KARPENTER_TOKEN", hide_env_values = true, help_heading = "Connection")]
    pub token: Option<String>,

    /// ServiceAccount to request a token for
    #[arg(long, value_name = "NAME", default_value = VIEWER, help_heading = "Connection")]
    pub service_account: String,

    /// Namespace of the services
    #[arg(
        long,
        short = 'n',
        env = "SYSTEM_NAMESPACE",
        default_value = "kube-system",
        help_heading = "Connection"
    )]
    pub namespace: String,

    /// Kubeconfig file [default: KUBECONFIG, else ~/.kube/config, else the pod's own account]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, help_heading = "Connection")]
    pub context: Option<String>,

    /// The service runs without TLS and authentication (--insecure-local)
    #[arg(long, help_heading = "Connection", requires = "address")]
    pub insecure: bool,

    /// Set up once: a kubeconfig may run a program for its credentials, which takes a second.
    #[arg(skip)]
    pub(crate) shared: SharedClient,
}

#[derive(Clone, Default)]
pub(crate) struct SharedClient(Arc<OnceCell<kube::Client>>);

impl fmt::Debug for SharedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedClient")
    }
}

/// The transport of a generated client: `PricingCacheClient::new(connection.open(...).await?)`.
pub type Transport = InterceptedService<Channel, Bearer>;

/// Replicas that are being connected to, by name.
pub(crate) type Opening<'a> = FuturesUnordered<BoxFuture<'a, (String, Result<Transport>)>>;

/// Adds the token to every call.
#[derive(Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl Connection {
    /// Connects to a replica that answers. `from_env` is the value of `GRPC_<SERVICE>`.
    pub async fn open(&self, service: Service, from_env: Option<&str>) -> Result<Transport> {
        let mut failed = Vec::new();
        for address in self.named(from_env)? {
            match self.open_at(service, address).await {
                Ok(transport) => return Ok(transport),
                Err(error) => failed.push(error),
            }
        }
        if failed.len() > 1 {
            bail!("{}", failed.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>().join("; "));
        }
        if let Some(only) = failed.pop() {
            return Err(only);
        }
        let client = self.client().await?;
        let channel = async {
            let replicas = dial::replicas(&self.published(&client, service).await?);
            self.reach_replicas(service, &replicas, &client).await
        };
        let (channel, bearer) = tokio::try_join!(channel, self.bearer(&client, service))?;
        Ok(InterceptedService::new(channel, bearer))
    }

    /// The addresses that are given; none where the service is to be found by what it published.
    fn named<'a>(&'a self, from_env: Option<&'a str>) -> Result<Vec<&'a str>> {
        let given = self.address.as_deref().or(from_env).unwrap_or_default();
        let named: Vec<&str> =
            given.split(',').map(str::trim).filter(|address| !address.is_empty()).collect();
        if self.insecure && named.is_empty() {
            bail!("--insecure needs --address");
        }
        Ok(named)
    }

    async fn open_at(&self, service: Service, address: &str) -> Result<Transport> {
        let connecting = || format!("connect to {service} at {address}");
        if self.insecure {
            let channel = dial::insecurely(address).await.with_context(connecting)?;
            return Ok(InterceptedService::new(channel, Bearer(None)));
        }
        let client = self.client().await?;
        let channel = async {
            let replicas = dial::replicas(&self.published(&client, service).await?);
            dial::at(address, &service.dns_name(&self.namespace), &replicas).await.with_context(connecting)
        };
        let (channel, bearer) = tokio::try_join!(channel, self.bearer(&client, service))?;
        Ok(InterceptedService::new(channel, bearer))
    }

    /// Connects to each replica by itself, for what only the leader knows: to those that are named, else to all that published
    /// themselves. With the replica's name, and why it cannot be reached.
    pub(crate) async fn open_each(
        &self,
        service: Service,
        from_env: Option<&str>,
    ) -> Result<Vec<(String, Result<Transport>)>> {
        let mut each: Vec<_> = self.opening_each(service, from_env).await?.collect().await;
        each.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(each)
    }

    /// The same, one after the other as they answer: a replica that is gone and still published costs no time.
    pub(crate) async fn opening_each(&self, service: Service, from_env: Option<&str>) -> Result<Opening<'_>> {
        let opening = Opening::new();
        let named = self.named(from_env)?;
        for address in &named {
            let address = (*address).to_owned();
            let transport = async move {
                let transport = self.open_at(service, &address).await;
                (format!("at {address}"), transport)
            };
            opening.push(transport.boxed());
        }
        if !named.is_empty() {
            return Ok(opening);
        }
        let client = self.client().await?;
        let replicas = dial::replicas(&self.published(&client, service).await?);
        let bearer = self.bearer(&client, service).await?;
        for replica in replicas {
            let (client, bearer) = (client.clone(), bearer.clone());
            let transport = async move {
                let reached = self.reach_replicas(service, std::slice::from_ref(&replica), &client).await;
                (replica.name, reached.map(|channel| InterceptedService::new(channel, bearer)))
            };
            opening.push(transport.boxed());
        }
        Ok(opening)
    }

    async fn bearer(&self, client: &kube::Client, service: Service) -> Result<Bearer> {
        let token = match &self.token {
            Some(token) => token.clone(),
            None => self.request_token(client, service).await?,
        };
        let mut bearer: MetadataValue<Ascii> =
            format!("Bearer {}", token.trim()).parse().context("the token contains invalid characters")?;
        bearer.set_sensitive(true);
        Ok(Bearer(Some(bearer)))
    }

    pub(crate) async fn client(&self) -> Result<kube::Client> {
        self.shared.0.get_or_try_init(|| self.new_client()).await.cloned()
    }

    async fn new_client(&self) -> Result<kube::Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let read = Kubeconfig::read_from(file).with_context(|| format!("read {}", file.display()))?;
                kube::Config::from_custom_kubeconfig(read, &options).await.map_err(anyhow::Error::from)
            }
            (None, Some(_)) => kube::Config::from_kubeconfig(&options).await.map_err(anyhow::Error::from),
            (None, None) => kube::Config::infer().await.map_err(anyhow::Error::from),
        };
        let config = config.context("find the cluster: set KUBECONFIG, --kubeconfig or --context")?;
        kube::Client::try_from(config).context("set up the client of the cluster")
    }

    async fn published(&self, client: &kube::Client, service: Service) -> Result<BTreeMap<String, String>> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let name = service.trust_config_map();
        let found = maps.get_opt(&name).await.with_context(|| {
            format!("read ConfigMap {}/{name}, in which {service} publishes its address", self.namespace)
        })?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        if data.is_empty() {
            bail!(
                "{service} is not running: ConfigMap {0}/{name} names no replica (-n is the namespace of the services, now {0})",
                self.namespace
            );
        }
        Ok(data)
    }

    /// Connects to one of these replicas, trusting what each has published.
    pub(crate) async fn reach_replicas(
        &self,
        service: Service,
        replicas: &[Replica],
        client: &kube::Client,
    ) -> Result<Channel> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let domain = service.dns_name(&self.namespace);
        dial::to_any(&pods, &domain, replicas)
            .await
            .with_context(|| format!("no replica of {service} can be reached, directly or by port-forward"))
    }

    async fn request_token(&self, client: &kube::Client, service: Service) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let spec = TokenRequestSpec { audiences: vec![service.audience()], ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let name = &self.service_account;
        let issued = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let issued = issued.with_context(|| {
            format!(
                "request a token for ServiceAccount {0}/{name}; ask an administrator to bind you to Role {0}/{name}, \
                 choose another account with --service-account, or pass a token with --token",
                self.namespace
            )
        })?;
        Ok(issued.status.context("the API server issued no token")?.token)
    }
}

/// What a service answered instead of an answer, for people.
pub fn explain(status: &tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", status.code(), status.message())
}

#[cfg(test)]
mod tests;
