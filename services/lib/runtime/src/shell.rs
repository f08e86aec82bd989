//! Everything a service stands on, in one value that is made in `main` and taken apart in `start`.

use std::{fmt::Debug, net::SocketAddr, sync::Arc, time::SystemTime};

use anyhow::{Context as _, bail};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{
    Check, Metrics, Process, ProcessConfig, Readiness, Service,
    admin::Admin,
    events::{self, Recorder},
    grpc::{Current, GrpcServer, Keyring, Methods, Outgoing, Peers, Publisher, Subject, TokenFile, VALIDITY},
    kube_client, kube_limits,
    lease::{Elector, Leadership, Timing, Unelected},
    listen, notes,
    shadow::NodeClaim,
    watch::{Index, Streamed, Watch},
};

pub struct Shell {
    pub service: Service,
    pub config: ProcessConfig,
    pub process: Process,
    pub metrics: Metrics,
    pub readiness: Readiness,
    pub kube: kube::Client,
    replica: String,
}

/// Where a service can be reached, with the ports that were really bound.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub grpc: SocketAddr,
    pub admin: Vec<SocketAddr>,
}

impl Shell {
    /// With the Kubernetes API that kubeconfig or the pod's account leads to.
    pub async fn new(service: Service, config: ProcessConfig) -> anyhow::Result<Self> {
        let kube = kube_client::connect(service, &config).await?;
        Ok(Self::with_client(service, config, kube))
    }

    pub fn with_client(service: Service, config: ProcessConfig, kube: kube::Client) -> Self {
        if config.insecure_local {
            tracing::warn!("INSECURE: TLS and caller authentication are switched off (--insecure-local)");
        }
        if config.shadow_mode {
            tracing::warn!("SHADOW: decides and does not act (--shadow-mode)");
        }
        Self {
            service,
            process: Process::new(config.shutdown_grace),
            metrics: Metrics::new(service),
            readiness: Readiness::default(),
            replica: config.replica(),
            config,
            kube,
        }
    }

    /// The name of this replica, as in the Lease and the trust ConfigMap.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    pub fn stop(&self) -> CancellationToken {
        self.process.stop()
    }

    /// Feeds `index` with every object of a kind. The service is not ready before the first full list arrived.
    pub fn watch<K>(&mut self, name: &'static str, watch: Watch<K>, index: impl Index<K>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let synced = self.readiness.check(name, "first full list from the API server");
        self.watch_with(name, watch, index, synced);
    }

    /// The same for a kind of which there are very many: no whole list is ever held.
    pub fn watch_streamed<K, M>(
        &mut self,
        name: &'static str,
        watch: Watch<K>,
        mailbox: tokio::sync::mpsc::Sender<M>,
    ) where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        M: From<Streamed<K>> + Send + 'static,
    {
        let synced = self.readiness.check(name, "first full list from the API server");
        let (metrics, stop) = (self.metrics.clone(), self.stop());
        self.process.spawn(name, watch.run_streamed(mailbox, metrics, synced, stop));
    }

    fn watch_with<K>(&mut self, name: &'static str, watch: Watch<K>, index: impl Index<K>, synced: Check)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (metrics, stop) = (self.metrics.clone(), self.stop());
        self.process.spawn(name, watch.run(index, metrics, synced, stop));
    }

    /// Whether this replica may act: by the election of this service's leader, and where there is none, at any time. Never while
    /// Karpenter itself leads.
    pub fn leadership(&mut self) -> Leadership {
        let (stop, timing) = (self.stop(), Timing::default());
        let elects = self.service.elects_leader() && !self.config.disable_leader_election;
        // A shadow writes nothing, and is there to be compared with Karpenter.
        let is_shadow = self.config.shadow_mode;
        let (client, namespace) = (self.kube.clone(), &self.config.namespace);
        if elects {
            let name = self.service.lease(&self.config.leader_election_name);
            let metrics = self.metrics.clone();
            let (elector, leadership) =
                Elector::new(client, namespace, &name, &self.replica, timing, metrics);
            let elector = match is_shadow {
                true => elector,
                false => elector.after_karpenter(self.readiness.note("karpenter")),
            };
            self.process.spawn("lease", elector.run(stop));
            return leadership;
        }
        if is_shadow {
            return Leadership::always(&stop);
        }
        let (unelected, leadership) =
            Unelected::new(client, namespace, timing, self.readiness.note("karpenter"));
        self.process.spawn("lease", unelected.run(stop));
        leadership
    }

    /// The replicas of another service, for calls to it. That it is away does not make this service unready.
    pub fn peers(&mut self, callee: Service) -> anyhow::Result<Peers> {
        let secure = !self.config.insecure_local;
        let namespace = self.config.namespace.clone();
        let lease = callee.lease(&self.config.leader_election_name);
        let outgoing = Outgoing {
            token: secure.then(|| Arc::new(TokenFile::new(&self.config.rpc_token_dir.join(callee.as_str())))),
            families: self.metrics.rpc_client.clone(),
            methods: Arc::new(Methods::read(&[proto::FILE_DESCRIPTOR_SET])?),
        };
        let (peers, trust, leader) = Peers::new(callee, &namespace, lease.clone(), secure, outgoing);
        let unasked = Readiness::default();
        let maps =
            Watch::<ConfigMap>::namespaced(self.kube.clone(), &namespace).named(&callee.trust_config_map());
        self.watch_with("peers", maps, trust, unasked.check("trust", "first look"));
        if callee.elects_leader() {
            let leases = Watch::<Lease>::namespaced(self.kube.clone(), &namespace).named(&lease);
            self.watch_with("peers-leader", leases, leader, unasked.check("leader", "first look"));
        }
        Ok(peers)
    }

    /// Writes Kubernetes Events in this service's name, and the notes about it as Events of its Pod.
    pub fn events(&mut self) -> Recorder {
        let (task, recorder) = Recorder::new(self.kube.clone(), &self.replica, self.metrics.clone());
        let stop = self.stop();
        self.process.spawn("events", task.run(stop.clone()));
        let pod = events::pod(&self.config.namespace, &self.replica, "");
        self.process.spawn("notes", notes::tell(self.readiness.clone(), pod, recorder.clone(), stop));
        recorder
    }

    /// Opens the gRPC and admin ports, publishes certificate and address, and serves from now on. Call it last in `start`,
    /// when every readiness check exists.
    pub async fn serve(&mut self, server: GrpcServer) -> anyhow::Result<Addresses> {
        let secure = !self.config.insecure_local;
        let addr = self.config.grpc_addr;
        if !secure && (!addr.ip().is_loopback() || self.config.pod_ip.is_some()) {
            bail!(
                "--insecure-local lets everybody in, so it needs a loopback --grpc-addr, not {addr}, and no pod"
            );
        }
        let client = secure.then(|| self.kube.clone());
        let mut server = server.shared_account(self.config.shared_service_account.clone());
        if self.config.shadow_mode {
            server = server.telling_of(self.config.shadow_record.clone());
            self.watch_outcome();
        }
        let assembled = server.assemble(self.service, &self.config.namespace, &self.metrics, client)?;
        let listener = listen::bind(addr).await.context("gRPC")?;
        let bound = listener.local_addr().context("read the gRPC port")?;
        let advertised = self.config.advertised(bound);

        let keyring = secure.then(|| self.keyring(advertised)).transpose()?;
        let tls = keyring.as_ref().map(|keyring| keyring.current.server_config()).transpose()?;
        let maps: Api<ConfigMap> = Api::namespaced(self.kube.clone(), &self.config.namespace);
        let publisher =
            Publisher::new(maps, self.service.trust_config_map(), self.replica.clone(), advertised, keyring);
        let published = self.readiness.check("trust", "address and certificate to be published");

        let mut admins = Vec::new();
        let admin = Admin::new(self.metrics.clone(), self.readiness.clone(), self.config.enable_profiling);
        for addr in self.config.admin_addrs() {
            let listener = listen::bind(addr).await.context("admin HTTP")?;
            admins.push(listener.local_addr().context("read the admin port")?);
            self.process.spawn("admin", admin.clone().serve(listener, self.stop()));
        }
        let (readiness, stop) = (self.readiness.clone(), self.stop());
        self.process.spawn("stale-watches", kube_limits::note_stale(readiness.note("watches"), stop.clone()));
        // Leaves time for what happens after the last call: handing over the Lease, sending the last spans.
        let drain = self.config.shutdown_grace.mul_f64(0.75);
        self.process.spawn("trust", publisher.run(published, stop.clone()));
        self.process.spawn("grpc", assembled.serve(listener, tls, readiness, stop, drain));
        tracing::info!(grpc = %bound, %advertised, admin = ?admins, replica = self.replica, tls = secure, "listening");
        Ok(Addresses { grpc: bound, admin: admins })
    }

    /// What really happens beside a shadow. The provisioner, which may watch NodeClaims, tells for all.
    fn watch_outcome(&mut self) {
        if self.service == Service::Provisioner {
            let (claims, record) =
                (Watch::<NodeClaim>::all(self.kube.clone()), self.config.shadow_record.clone());
            let unasked = Readiness::default();
            self.watch_with("shadow-outcome", claims, record, unasked.check("nodeclaims", "first look"));
        }
    }

    fn keyring(&self, advertised: SocketAddr) -> anyhow::Result<Keyring> {
        let subject = Subject { service: self.service, namespace: self.config.namespace.clone(), advertised };
        let issued = subject.issue(SystemTime::now(), VALIDITY)?;
        Ok(Keyring { current: Current::new(&issued), subject, issued, validity: VALIDITY })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        grpc::Access,
        testing::{Reply, api_server},
    };

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        process: ProcessConfig,
    }

    async fn serve(args: &[&str]) -> anyhow::Result<Addresses> {
        let given = ["service", "--admin-addr=127.0.0.1:0"].iter().chain(args);
        let config = Flags::try_parse_from(given)?.process;
        let mut shell = Shell::with_client(Service::Termination, config, api_server(|_| Reply::Silence));
        shell.serve(GrpcServer::new(Access::new())).await
    }

    #[tokio::test]
    async fn without_authentication_nothing_is_served_beyond_loopback_nor_in_a_pod() {
        for beyond in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = serve(&["--insecure-local", "--grpc-addr", beyond]).await.unwrap_err().to_string();
            assert!(refused.contains("--insecure-local") && refused.contains(beyond), "{refused}");
        }
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let args = ["--insecure-local", "--grpc-addr", loopback];
            assert!(serve(&args).await.unwrap().grpc.ip().is_loopback());
            let in_pod = [&args[..], &["--pod-ip=10.1.2.3"]].concat();
            let refused = serve(&in_pod).await.unwrap_err().to_string();
            assert!(refused.contains("no pod"), "{refused}");
        }
        serve(&["--grpc-addr=[::]:0"]).await.expect("with authentication every address will do");
    }
}
