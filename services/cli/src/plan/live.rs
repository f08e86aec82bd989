//! `plan --live`: the running provisioner's answer for the cluster as it is with some objects changed, beside its answer for the
//! cluster unchanged. Both come from the RPC `Plan`; nothing is changed. The live page asks its what-if questions here too.

mod comparison;

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use proto::provisioner::v1 as pb;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use runtime::Service;

use super::args::{Args, Output};
use super::table::Paint;
use crate::connect::{Transport, explain};
use crate::manifest;
use crate::progress::while_running;
use comparison::Comparison;
pub(crate) use comparison::Side;

/// Answers about thousands of nodes fill several megabytes.
const LARGEST_ANSWER: usize = 256 << 20;

pub(super) fn run(args: &Args) -> Result<()> {
    if args.output == Output::Html {
        bail!("-o html draws a plan from manifests; for the running cluster use `kubectl karpenter ui`");
    }
    let objects = manifest::read_values(&args.paths())?;
    let objects = objects.iter().map(ToString::to_string).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let compared = while_running("asking provisioner", || runtime.block_on(ask(args, objects)))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &compared).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        _ => compared.print(&mut out, &Paint(args.colour()))?,
    }
    out.flush().context("write the plan")
}

async fn ask(args: &Args, objects_json: Vec<String>) -> Result<Comparison> {
    let transport = args.connection.open(Service::Provisioner, args.grpc_provisioner.as_deref()).await?;
    let solve_limit = args.deadline.as_ref().map(|limit| limit.to_std().try_into()).transpose();
    let question = pb::PlanRequest {
        objects_json,
        remove_objects: args.remove.clone(),
        consolidate: args.consolidate,
        solve_limit: solve_limit.context("--deadline is too long")?,
    };
    Answers::of(ProvisionerClient::new(transport), question).await?.try_into()
}

/// What the provisioner says about the cluster as it is, and with a change.
pub(crate) struct Answers {
    pub(crate) today: Side,
    /// Of the nodes of today, how many the pods that wait need.
    pub(crate) awaited: usize,
    pub(crate) changed: Side,
    pub(crate) plan: pb::PlanResponse,
}

impl Answers {
    pub(crate) async fn of(client: ProvisionerClient<Transport>, changed: pb::PlanRequest) -> Result<Self> {
        let mut client = client.max_decoding_message_size(LARGEST_ANSWER);
        let request = pb::GetSnapshotRequest { with_nodes: true, with_pending: false };
        let snapshot = client.get_snapshot(request).await.map_err(|status| explain(&status))?.into_inner();
        if !snapshot.synced {
            bail!("the provisioner has not read the whole cluster yet; ask again in a moment");
        }
        let unchanged = pb::PlanRequest {
            consolidate: changed.consolidate,
            solve_limit: changed.solve_limit,
            ..pb::PlanRequest::default()
        };
        let gone = changed.remove_objects.clone();
        let before = client.plan(unchanged).await.map_err(|status| explain(&status))?.into_inner();
        let plan = client.plan(changed).await.map_err(|status| explain(&status))?.into_inner();
        let (today, changed) = comparison::sides(&snapshot, &gone, &before, &plan);
        Ok(Self { today, awaited: before.new_nodes.len(), changed, plan })
    }
}
