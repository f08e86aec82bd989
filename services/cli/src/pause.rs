//! `kubectl karpenter pause` and `resume`: voluntary disruption of a NodePool stops for a while. An annotation of the NodePool, so that it
//! outlives restarts and everyone sees it with kubectl.

use std::io::{self, Write};

use anyhow::{Context as _, Result, bail};
use api::NodePool;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams, Patch, PatchParams};
use model::duration::GoDuration;
use model::labels;
use serde::Serialize;

use crate::connect::{self, Connection};
use crate::output::{Output, write_json};

#[derive(clap::Args, Debug)]
#[command(mut_arg("service_account", connect::of_operator))]
pub struct PauseArgs {
    /// Only this NodePool; all when absent
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    /// How long, such as 30m or 1h
    #[arg(long = "for", value_name = "DURATION")]
    duration: GoDuration,

    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Args, Debug)]
#[command(mut_arg("service_account", connect::of_operator))]
pub struct ResumeArgs {
    /// Only this NodePool; all when absent
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

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
    run(&args.connection, args.output, args.pool.as_deref(), Some(&until))
}

pub fn resume(args: &ResumeArgs) -> Result<()> {
    run(&args.connection, args.output, args.pool.as_deref(), None)
}

/// A NodePool whose annotation was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotated {
    node_pool: String,
    /// Null when the pause has ended.
    paused_until: Option<String>,
}

fn run(connection: &Connection, output: Output, pool: Option<&str>, until: Option<&str>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut annotated = Vec::new();
    let outcome = runtime.block_on(annotate(connection, pool, until, &mut annotated));
    // What was written before a failure is written all the same.
    print(&mut io::stdout().lock(), output, &annotated)?;
    outcome
}

async fn annotate(
    connection: &Connection,
    pool: Option<&str>,
    until: Option<&str>,
    annotated: &mut Vec<Annotated>,
) -> Result<()> {
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
        annotated.push(Annotated { node_pool: name, paused_until: until.map(str::to_owned) });
    }
    Ok(())
}

fn print(out: &mut dyn Write, output: Output, annotated: &[Annotated]) -> io::Result<()> {
    if output == Output::Json {
        return write_json(out, &annotated);
    }
    for Annotated { node_pool, paused_until } in annotated {
        match paused_until {
            Some(until) => writeln!(out, "NodePool {node_pool}: no voluntary disruption until {until}")?,
            None => writeln!(out, "NodePool {node_pool}: voluntary disruption goes on")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn printed(output: Output, until: Option<&str>) -> String {
        let annotated =
            [Annotated { node_pool: "general".to_owned(), paused_until: until.map(str::to_owned) }];
        let mut out = Vec::new();
        print(&mut out, output, &annotated).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_read_a_sentence_per_pool_and_programs_an_object() {
        let until = "2030-01-01T00:00:00Z";
        let sentence = "NodePool general: no voluntary disruption until 2030-01-01T00:00:00Z\n";
        assert_eq!(printed(Output::Table, Some(until)), sentence);
        let read = |until| serde_json::from_str::<Value>(&printed(Output::Json, until)).unwrap();
        assert_eq!(read(Some(until)), json!([{"nodePool": "general", "pausedUntil": until}]));
        assert_eq!(read(None), json!([{"nodePool": "general", "pausedUntil": null}]));
    }
}
