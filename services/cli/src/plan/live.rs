//! `plan --live`: the running provisioner's answer for the cluster as it is with some objects changed, beside its answer for the
//! cluster unchanged. Both come from the RPC `Plan`; nothing is changed.

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
    let mut client = ProvisionerClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let request = pb::GetSnapshotRequest { with_nodes: true, with_pending: false };
    let snapshot = client.get_snapshot(request).await.map_err(|status| explain(&status))?.into_inner();
    if !snapshot.synced {
        bail!("the provisioner has not read the whole cluster yet; ask again in a moment");
    }
    let solve_limit = args.deadline.as_ref().map(|limit| limit.to_std().try_into()).transpose();
    let solve_limit: Option<prost_types::Duration> = solve_limit.context("--deadline is too long")?;
    let unchanged =
        pb::PlanRequest { consolidate: args.consolidate, solve_limit, ..pb::PlanRequest::default() };
    let changed = pb::PlanRequest { objects_json, remove_objects: args.remove.clone(), ..unchanged.clone() };
    let before = plan(&mut client, unchanged).await?;
    let after = plan(&mut client, changed).await?;
    Comparison::new(&snapshot, &args.remove, before, after)
}

async fn plan(
    client: &mut ProvisionerClient<Transport>,
    request: pb::PlanRequest,
) -> Result<pb::PlanResponse> {
    Ok(client.plan(request).await.map_err(|status| explain(&status))?.into_inner())
}
