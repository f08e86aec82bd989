//! What every node must be told about its cluster: name, API server, CA, service addresses. Found once at start; the service
//! CIDR when it is first needed.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::NodeClassSource;
use cloud::error::CloudError;
use k8s_openapi::api::core::v1::Service;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use runtime::Settings;
use tokio::sync::OnceCell;
use tracing::{info, warn};

const IN_CLUSTER_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

#[derive(Debug, Default)]
pub struct ClusterFacts {
    pub name: String,
    pub region: String,
    /// URL of the API server as nodes reach it.
    pub endpoint: String,
    /// Base64 of the CA in PEM.
    pub ca_bundle: Option<String>,
    /// Address of cluster DNS.
    pub dns: Option<String>,
    service_cidr: OnceCell<String>,
}

impl ClusterFacts {
    pub async fn find(
        settings: &Settings,
        kube: &Client,
        source: &dyn NodeClassSource,
    ) -> anyhow::Result<Self> {
        let name = settings.cluster_name.clone();
        let mut facts = Self {
            region: source.region().to_owned(),
            endpoint: settings.cluster_endpoint.clone().unwrap_or_default(),
            ca_bundle: settings.cluster_ca_bundle.clone().filter(|text| !text.is_empty()).or_else(own_ca),
            dns: dns(kube).await,
            service_cidr: OnceCell::new(),
            name,
        };
        if facts.endpoint.is_empty() || facts.ca_bundle.is_none() {
            let cluster = source.cluster(&facts.name).await.with_context(|| {
                format!("ask EKS for cluster {}; or set CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE", facts.name)
            })?;
            if facts.endpoint.is_empty() {
                facts.endpoint = cluster.endpoint;
            }
            facts.ca_bundle = facts.ca_bundle.or(cluster.certificate_authority);
        }
        Ok(facts)
    }

    /// For tests: nothing is asked.
    pub fn fixed(name: &str, region: &str, endpoint: &str, ca_bundle: &str, dns: &str, cidr: &str) -> Self {
        Self {
            name: name.to_owned(),
            region: region.to_owned(),
            endpoint: endpoint.to_owned(),
            ca_bundle: Some(ca_bundle.to_owned()),
            dns: Some(dns.to_owned()),
            service_cidr: OnceCell::new_with(Some(cidr.to_owned())),
        }
    }

    /// IPv6 when cluster DNS is.
    pub fn is_ipv6(&self) -> bool {
        self.dns.as_ref().is_some_and(|address| address.contains(':'))
    }

    /// Asked from EKS until it answers once.
    pub async fn resolve_service_cidr(&self, source: &dyn NodeClassSource) -> Result<&str, CloudError> {
        let ask = || async {
            let cluster = source.cluster(&self.name).await?;
            let text = "EKS names no service CIDR";
            cluster.service_cidr.ok_or_else(|| CloudError::malformed("DescribeCluster", text))
        };
        self.service_cidr.get_or_try_init(ask).await.map(String::as_str)
    }

    /// What is known so far.
    pub fn service_cidr(&self) -> Option<&str> {
        self.service_cidr.get().map(String::as_str)
    }
}

/// The CA this process itself trusts, exactly as it is stored: the drift hash of classes depends on every byte.
fn own_ca() -> Option<String> {
    if let Ok(config) = Kubeconfig::read() {
        let context = config.contexts.iter().find(|c| Some(&c.name) == config.current_context.as_ref());
        let wanted = context.and_then(|c| c.context.as_ref()).map(|c| c.cluster.clone());
        let cluster = config.clusters.iter().find(|c| Some(&c.name) == wanted.as_ref());
        if let Some(cluster) = cluster.and_then(|c| c.cluster.as_ref()) {
            let file = || std::fs::read(cluster.certificate_authority.as_ref()?).ok();
            return cluster.certificate_authority_data.clone().or_else(|| Some(STANDARD.encode(file()?)));
        }
    }
    std::fs::read(IN_CLUSTER_CA).ok().map(|pem| STANDARD.encode(pem))
}

async fn dns(kube: &Client) -> Option<String> {
    let services: Api<Service> = Api::namespaced(kube.clone(), "kube-system");
    match services.get("kube-dns").await {
        Ok(service) => {
            service.spec.and_then(|spec| spec.cluster_ip).filter(|ip| ip != "None" && !ip.is_empty())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            info!("no service kube-dns: nodes use their image's own idea of cluster DNS");
            None
        }
        Err(error) => {
            warn!(error = %error, "service kube-dns cannot be read: nodes use their image's own idea of cluster DNS");
            None
        }
    }
}
