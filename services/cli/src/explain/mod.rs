//! `kubectl karpenter explain node|pod`: why a node stays, and why a pod is where it is.
//!
//! Only asks and prints: the words are those of the running services, which decide with the same rules.

mod node;
mod pod;

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::{ExplainNodeRequest, ListCandidatesRequest};
use proto::provisioner::v1::ExplainPodRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::types::v1::PodRef;
use runtime::Service;

use crate::connect::{Connection, Transport, explain};
use crate::output::write_json;
use crate::progress::while_running;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Whether a node may be disrupted now, or what holds it and what would change that
    Node(NodeArgs),
    /// Why a pod is on its node, or has none
    Pod(PodArgs),
}

#[derive(clap::Args, Debug)]
struct NodeArgs {
    /// Name of the Node or of its NodeClaim
    name: String,

    #[arg(long, short = 'o', default_value = "text")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_DISRUPTION", hide = true)]
    grpc_disruption: Option<String>,
}

// As with kubectl, `-n` is the pod's namespace here; that of the services keeps a longer name.
#[derive(clap::Args, Debug)]
#[command(mut_arg("namespace", |arg| arg.short(None::<char>).long("system-namespace")))]
struct PodArgs {
    /// Name of the pod, or namespace/name
    name: String,

    /// Namespace of the pod
    #[arg(long = "namespace", short = 'n', value_name = "NAMESPACE")]
    pod_namespace: Option<String>,

    #[arg(long, short = 'o', default_value = "text")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_PROVISIONER", hide = true)]
    grpc_provisioner: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match &args.what {
        What::Node(args) => {
            let answer = while_running("asking disruption", || runtime.block_on(ask_node(args)))?;
            match args.output {
                Output::Json => write_json(&mut out, &answer)?,
                Output::Text => node::print(&mut out, &answer)?,
            }
        }
        What::Pod(args) => {
            let answer = while_running("asking provisioner", || runtime.block_on(ask_pod(args)))?;
            match args.output {
                Output::Json => write_json(&mut out, &answer)?,
                Output::Text => pod::print(&mut out, &answer)?,
            }
        }
    }
    out.flush()?;
    Ok(())
}

async fn ask_node(args: &NodeArgs) -> Result<node::Answer> {
    let transport = args.connection.open(Service::Disruption, args.grpc_disruption.as_deref()).await?;
    query_node(transport, &args.name).await
}

/// What `explain node` prints about a node.
pub(crate) async fn describe_node(transport: Transport, name: &str) -> Result<String> {
    let answer = query_node(transport, name).await?;
    let mut text = Vec::new();
    node::print(&mut text, &answer)?;
    Ok(String::from_utf8(text)?)
}

async fn query_node(transport: Transport, name: &str) -> Result<node::Answer> {
    let mut client = DisruptionClient::new(transport);
    let request = ExplainNodeRequest { name: name.to_owned() };
    let answer = client.explain_node(request).await.map_err(|status| explain(&status))?.into_inner();
    let node_pool = answer.candidate.as_ref().map(|c| c.node_pool.clone()).unwrap_or_default();
    let request = ListCandidatesRequest { node_pool: node_pool.clone() };
    let listed = client.list_candidates(request).await.map_err(|status| explain(&status))?.into_inner();
    Ok(node::Answer::new(answer, listed.budgets.into_iter().filter(|budget| budget.node_pool == node_pool)))
}

async fn ask_pod(args: &PodArgs) -> Result<pod::Answer> {
    let pod = pod_ref(&args.name, args.pod_namespace.as_deref())?;
    let transport = args.connection.open(Service::Provisioner, args.grpc_provisioner.as_deref()).await?;
    let mut client = ProvisionerClient::new(transport);
    let request = ExplainPodRequest { pod: Some(pod.clone()) };
    let answer = client.explain_pod(request).await.map_err(|status| explain(&status))?;
    Ok(pod::Answer::new(&pod, answer.into_inner()))
}

fn pod_ref(name: &str, namespace: Option<&str>) -> Result<PodRef> {
    let (own, name) = match name.split_once('/') {
        Some((own, name)) => (Some(own), name),
        None => (None, name),
    };
    if let (Some(a), Some(b)) = (own, namespace)
        && a != b
    {
        bail!("the pod is in namespace {a} by its name and in {b} by --namespace");
    }
    let namespace = own.or(namespace).unwrap_or("default");
    Ok(PodRef { namespace: namespace.to_owned(), name: name.to_owned(), uid: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_named_with_or_without_its_namespace() {
        let named = |name: &str, namespace| {
            let pod = pod_ref(name, namespace).unwrap();
            (pod.namespace, pod.name)
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(named("web", None), pair("default", "web"));
        assert_eq!(named("web", Some("shop")), pair("shop", "web"));
        assert_eq!(named("shop/web", None), pair("shop", "web"));
        assert!(pod_ref("shop/web", Some("other")).is_err());
    }
}
