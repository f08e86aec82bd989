//! `kubectl karpenter commands`: which disruption commands are under way or ended lately, what each saves and what it waits for; and
//! `commands cancel ID`, which takes one back.

mod table;

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use jiff::Timestamp;
use proto::disruption::v1 as pb;
use proto::disruption::v1::disruption_client::DisruptionClient;
use runtime::Service;

use crate::connect::{self, Connection, Transport, explain};
use crate::output::{Output, write_json};
use crate::progress::while_running;
use table::Row;

/// Clears the screen and what scrolled off it, and goes to its corner.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,

    /// Follow until interrupted
    #[arg(long, short = 'w')]
    watch: bool,

    /// Only what is under way, without what ended in the last day
    #[arg(long)]
    active: bool,

    /// With --watch, json is one command per line, whenever it changed
    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_DISRUPTION", hide = true)]
    grpc_disruption: Option<String>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Take a command back: taints are removed and unused replacements deleted. Not possible once its NodeClaims are being deleted
    #[command(mut_arg("service_account", connect::of_operator))]
    Cancel {
        /// As `commands` shows it
        id: String,
        #[arg(long, short = 'o', default_value = "table")]
        output: Output,
        #[command(flatten)]
        connection: Connection,
        #[arg(long, env = "GRPC_DISRUPTION", hide = true)]
        grpc_disruption: Option<String>,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(Action::Cancel { id, output, connection, grpc_disruption }) = &args.action {
        let from_env = grpc_disruption.as_deref();
        let cancelled = while_running("cancelling", || runtime.block_on(cancel(connection, from_env, id)))?;
        return Ok(print_cancelled(&mut io::stdout().lock(), *output, &cancelled)?);
    }
    if args.watch {
        return runtime.block_on(follow(args));
    }
    let rows = while_running("asking disruption", || runtime.block_on(list(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &rows)?,
        Output::Table => table::print(&mut out, &rows, Timestamp::now())?,
    }
    out.flush()?;
    Ok(())
}

async fn client(args: &Args) -> Result<DisruptionClient<Transport>> {
    let transport = args.connection.open(Service::Disruption, args.grpc_disruption.as_deref()).await?;
    Ok(DisruptionClient::new(transport))
}

async fn list(args: &Args) -> Result<Vec<Row>> {
    let request = pb::ListCommandsRequest { with_ended: !args.active };
    let answer = client(args).await?.list_commands(request).await.map_err(|status| explain(&status))?;
    Ok(answer.into_inner().commands.into_iter().map(Row::from).collect())
}

/// On a terminal the table is drawn anew, elsewhere lines are added.
async fn follow(args: &Args) -> Result<()> {
    let stream = client(args).await?.watch_commands(pb::WatchCommandsRequest::default()).await;
    let mut stream = stream.map_err(|status| explain(&status))?.into_inner();
    let live = args.output == Output::Table && io::stdout().is_terminal();
    let mut rows: Vec<Row> = if live { list(args).await? } else { Vec::new() };
    loop {
        if live {
            let mut out = io::stdout().lock();
            write!(out, "{CLEAR}")?;
            table::print(&mut out, &rows, Timestamp::now())?;
            out.flush()?;
        }
        let Some(change) = stream.message().await.map_err(|status| explain(&status))? else { return Ok(()) };
        let Some(row) = change.command.map(Row::from) else { continue };
        let mut out = io::stdout().lock();
        match args.output {
            Output::Json => {
                serde_json::to_writer(&mut out, &row)?;
                writeln!(out)?;
            }
            Output::Table if !live => table::print_row(&mut out, &row, Timestamp::now())?,
            Output::Table => {
                rows.retain(|known| known.id != row.id);
                rows.insert(0, row);
            }
        }
        out.flush()?;
    }
}

/// Only the leader can: the others are asked who answers that they are not.
async fn cancel(connection: &Connection, from_env: Option<&str>, id: &str) -> Result<Row> {
    let mut last = None;
    for (_, transport) in connection.open_each(Service::Disruption, from_env).await? {
        let Ok(transport) = transport else { continue };
        let request = pb::CancelCommandRequest { id: id.to_owned() };
        match DisruptionClient::new(transport).cancel_command(request).await {
            Ok(answer) => {
                let command = answer.into_inner().command;
                return Ok(Row::from(
                    command
                        .with_context(|| format!("disruption cancelled {id} and did not say what it was"))?,
                ));
            }
            Err(status) if is_of_another(&status) => last = Some(status),
            Err(status) => return Err(explain(&status)),
        }
    }
    match last {
        Some(status) => Err(explain(&status)),
        None => bail!("no replica of disruption could be reached"),
    }
}

fn print_cancelled(out: &mut dyn Write, output: Output, command: &Row) -> io::Result<()> {
    match output {
        Output::Json => write_json(out, command),
        Output::Table => {
            writeln!(out, "command {} is cancelled; its nodes stay: {}", command.id, command.nodes.join(", "))
        }
    }
}

/// This replica does not lead, or is gone.
fn is_of_another(status: &tonic::Status) -> bool {
    matches!(status.code(), tonic::Code::FailedPrecondition | tonic::Code::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_command_is_a_sentence_for_people_and_the_command_for_programs() {
        let command = Row::from(pb::Command {
            id: "c-1".to_owned(),
            remove_nodes: vec!["a".to_owned(), "b".to_owned()],
            ..pb::Command::default()
        });
        let printed = |output| {
            let mut out = Vec::new();
            print_cancelled(&mut out, output, &command).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(Output::Table), "command c-1 is cancelled; its nodes stay: a, b\n");
        let json: serde_json::Value = serde_json::from_str(&printed(Output::Json)).unwrap();
        assert_eq!((&json["id"], &json["nodes"][1]), (&"c-1".into(), &"b".into()));
    }
}
