//! `kubectl karpenter pause` and `resume`: voluntary disruption of a NodePool stops for a while. An annotation of the NodePool, so that it
//! outlives restarts and everyone sees it with kubectl.

use anyhow::{Context as _, Result, bail};
use api::NodePool;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams, Patch, PatchParams};
use model::duration::GoDuration;
use model::labels;

use crate::connect::{self, Connection};

#[derive(clap::Args, Debug)]
#[command(mut_arg("service_account", connect::of_operator))]
pub struct PauseArgs {
    /// Only this NodePool; all when absent
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    /// How long, such as 30m or 1h
    #[arg(long = "for", value_name = "DURATION")]
    duration: GoDuration,

    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Args, Debug)]
#[command(mut_arg("service_account", connect::of_operator))]
pub struct ResumeArgs {
    /// Only this NodePool; all when absent
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    #[command(flatten)]
    connection: Connection,
}

pub fn pause(args: &PauseArgs) -> Result<()> {
    if args.duration.nanos() <= 0 {
        bail!("--for must be longer than nothing, such as 1h");
    }
    let until = Timestamp::now()
        .checked_add(SignedDuration::from_nanos(args.duration.nanos()))
        .context("--for ends after all time")?;
    // Whole seconds, as Kubernetes writes times.
    let until = Timestamp::from_second(until.as_second())?.to_string();
    annotate(&args.connection, args.pool.as_deref(), Some(&until))
}

pub fn resume(args: &ResumeArgs) -> Result<()> {
    annotate(&args.connection, args.pool.as_deref(), None)
}

fn annotate(connection: &Connection, pool: Option<&str>, until: Option<&str>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let pools: Api<NodePool> = Api::all(connection.client().await?);
        let names = match pool {
            Some(name) => vec![name.to_owned()],
            None => {
                let all = pools.list(&ListParams::default()).await.context("list NodePools")?;
                all.items.into_iter().filter_map(|pool| pool.metadata.name).collect()
            }
        };
        if names.is_empty() {
            bail!("there is no NodePool");
        }
        for name in names {
            let patch = serde_json::json!({"metadata": {"annotations": {labels::PAUSED_UNTIL: until}}});
            pools
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .with_context(|| format!("annotate NodePool {name} with {}", labels::PAUSED_UNTIL))?;
            match until {
                Some(until) => println!("NodePool {name}: no voluntary disruption until {until}"),
                None => println!("NodePool {name}: voluntary disruption goes on"),
            }
        }
        Ok(())
    })
}
