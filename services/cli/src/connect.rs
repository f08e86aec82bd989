//! How a sub-command reaches one of the running services from a person's machine: where it is, which certificate it may
//! show, and whose token to present.
//!
//! ```text
//!  address      --address, else GRPC_<SERVICE>, else what the service published in the cluster
//!  certificate  exactly what the service published (ConfigMap karpenter-<service>-trust), read with the person's kubeconfig
//!  token        --token, else a token for --service-account, asked from the API server with the person's kubeconfig
//! ```
//! A published address is a pod's: from outside the cluster's network, forward a port and name it with `--address`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::KubeConfigOptions;
use runtime::Service;
use runtime::grpc::AUDIENCE;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

const CONNECT: Duration = Duration::from_secs(5);
const CALL: Duration = Duration::from_secs(60);

/// Flags of every sub-command that asks a running service.
#[derive(clap::Args, Clone, Debug)]
pub struct Connection {
    /// host:port of the service [default: environment variable GRPC_<SERVICE>, else what it published in the cluster]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Connection")]
    pub address: Option<String>,

    /// Token to present [default: one for --service-account, asked from the API server]
    #[arg(long, env = "KARPENTER_TOKEN", hide_env_values = true, help_heading = "Connection")]
    pub token: Option<String>,

    /// ServiceAccount to ask a token for
    #[arg(long, value_name = "NAME", default_value = "karpenter-operator", help_heading = "Connection")]
    pub service_account: String,

    /// Namespace of the services
    #[arg(long, env = "SYSTEM_NAMESPACE", default_value = "kube-system", help_heading = "Connection")]
    pub namespace: String,

    /// Context of the kubeconfig
    #[arg(long, help_heading = "Connection")]
    pub context: Option<String>,

    /// The service runs without TLS and authentication (--insecure-local)
    #[arg(long, help_heading = "Connection", requires = "address")]
    pub insecure: bool,
}

/// The transport of a generated client: `PricingCacheClient::new(connection.open(...).await?)`.
pub type Transport = InterceptedService<Channel, Bearer>;

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
        let named = self.address.as_deref().or_else(|| from_env.filter(|text| !text.is_empty()));
        if self.insecure {
            let address = named.context("--insecure needs --address")?;
            let channel = endpoint(&format!("http://{address}"))?.connect().await;
            let channel = channel.with_context(|| format!("connect to {service} at {address}"))?;
            return Ok(InterceptedService::new(channel, Bearer(None)));
        }
        let client = self.client().await?;
        let published = self.published(&client, service).await?;
        let channel = self.reach(service, named, &published).await?;
        let token = match &self.token {
            Some(token) => token.clone(),
            None => self.request_token(&client).await?,
        };
        let mut bearer: MetadataValue<Ascii> = format!("Bearer {}", token.trim())
            .parse()
            .context("the token has characters that no token has")?;
        bearer.set_sensitive(true);
        Ok(InterceptedService::new(channel, Bearer(Some(bearer))))
    }

    pub(crate) async fn client(&self) -> Result<kube::Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.context {
            Some(_) => kube::Config::from_kubeconfig(&options).await.map_err(anyhow::Error::from),
            None => kube::Config::infer().await.map_err(anyhow::Error::from),
        };
        let config = config.context("find the cluster: set KUBECONFIG or --context")?;
        kube::Client::try_from(config).context("set up the client of the cluster")
    }

    async fn published(&self, client: &kube::Client, service: Service) -> Result<BTreeMap<String, String>> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let name = service.trust_config_map();
        let found = maps.get_opt(&name).await.with_context(|| {
            format!("read ConfigMap {}/{name}, in which {service} publishes where it is", self.namespace)
        })?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        if data.is_empty() {
            bail!("{service} is not running: ConfigMap {}/{name} names no replica", self.namespace);
        }
        Ok(data)
    }

    async fn reach(
        &self,
        service: Service,
        named: Option<&str>,
        published: &BTreeMap<String, String>,
    ) -> Result<Channel> {
        let every_pem =
            || published.iter().filter(|(key, _)| key.ends_with(".pem")).map(|(_, pem)| pem.as_str());
        let candidates: Vec<(&str, String)> = match named {
            // Behind a forwarded port may be any replica.
            Some(address) => vec![(address, every_pem().collect())],
            None => published
                .iter()
                .filter_map(|(key, address)| Some((key.strip_suffix(".addr")?, address.trim())))
                .map(|(replica, address)| {
                    (address, published.get(&format!("{replica}.pem")).cloned().unwrap_or_default())
                })
                .collect(),
        };
        let mut failures = Vec::new();
        for (address, pem) in candidates {
            let tls = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(pem))
                .domain_name(service.dns_name(&self.namespace));
            let connected = async {
                Ok::<_, anyhow::Error>(
                    endpoint(&format!("https://{address}"))?.tls_config(tls)?.connect().await?,
                )
            };
            match connected.await {
                Ok(channel) => return Ok(channel),
                Err(error) => failures.push(format!("{address}: {error:#}")),
            }
        }
        let hint = "from outside the cluster's network, `kubectl port-forward` to it and use --address";
        bail!("no replica of {service} can be reached ({hint}): {}", failures.join("; "))
    }

    /// Connects to one replica, trusting what it published.
    pub(crate) async fn reach_replica(
        &self,
        service: Service,
        replica: &str,
        published: &BTreeMap<String, String>,
    ) -> Result<Channel> {
        let own =
            published.iter().filter(|(key, _)| key.rsplit_once('.').is_some_and(|(name, _)| name == replica));
        let own = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.reach(service, None, &own).await
    }

    async fn request_token(&self, client: &kube::Client) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let spec = TokenRequestSpec { audiences: vec![AUDIENCE.to_owned()], ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let name = &self.service_account;
        let issued = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let issued = issued.with_context(|| {
            format!(
                "ask a token for ServiceAccount {}/{name}; give one with --token, or another account",
                self.namespace
            )
        })?;
        Ok(issued.status.context("the API server issued no token")?.token)
    }
}

fn endpoint(address: &str) -> Result<Endpoint> {
    let endpoint =
        Endpoint::from_shared(address.to_owned()).with_context(|| format!("{address} is no address"))?;
    Ok(endpoint.connect_timeout(CONNECT).timeout(CALL))
}

/// What a service answered instead of an answer, for people.
pub fn explain(status: &tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", status.code(), status.message())
}
