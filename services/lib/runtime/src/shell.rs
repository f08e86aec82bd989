//! Everything a service stands on, in one value that is made in `main` and taken apart in `start`.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Metrics, Process, ProcessConfig, Readiness, Service, admin::{self, Admin}, grpc::GrpcServer, kube_client};

pub struct Shell {
    pub service: Service,
    pub config: ProcessConfig,
    pub process: Process,
    pub metrics: Metrics,
    pub readiness: Readiness,
    pub kube: kube::Client,
}

impl Shell {
    /// With the Kubernetes API that kubeconfig or the pod's account leads to.
    pub async fn new(service: Service, config: ProcessConfig) -> anyhow::Result<Self> {
        let kube = kube_client::connect(service, &config).await?;
        Ok(Self::with_client(service, config, kube))
    }

    pub fn with_client(service: Service, config: ProcessConfig, kube: kube::Client) -> Self {
        Self {
            service,
            process: Process::new(config.shutdown_grace),
            metrics: Metrics::new(service),
            readiness: Readiness::default(),
            config,
            kube,
        }
    }

    pub fn stop(&self) -> CancellationToken {
        self.process.stop()
    }

    /// Opens the gRPC and admin ports and serves on them from now on. Call it last in `start`, when every readiness check
    /// exists.
    pub async fn serve(&mut self, server: GrpcServer) -> anyhow::Result<Addresses> {
        let secure = !self.config.insecure_local;
        let client = secure.then(|| self.kube.clone());
        let assembled = server.assemble(self.service, &self.config.namespace, &self.metrics, client)?;
        let listener = TcpListener::bind(self.config.grpc_addr).await;
        let listener = listener.with_context(|| format!("listen on {} for gRPC", self.config.grpc_addr))?;
        let bound = listener.local_addr().context("read the gRPC port")?;
        let (readiness, stop) = (self.readiness.clone(), self.stop());
        let drain = self.config.shutdown_grace.mul_f64(0.75);
        self.process.spawn("grpc", assembled.serve(listener, None, readiness, stop, drain));

        let mut admins = Vec::new();
        for addr in self.config.admin_addrs() {
            let listener = admin::bind(addr).await.context("admin HTTP")?;
            admins.push(listener.local_addr().context("read the admin port")?);
            let admin = Admin {
                metrics: self.metrics.clone(),
                readiness: self.readiness.clone(),
                profiling: self.config.enable_profiling,
            };
            self.process.spawn("admin", admin.serve(listener, self.stop()));
        }
        Ok(Addresses { grpc: bound, admin: admins })
    }
}

/// Where a service can be reached, with the ports that were really bound.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub grpc: SocketAddr,
    pub admin: Vec<SocketAddr>,
}
