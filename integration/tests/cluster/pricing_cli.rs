//! `kubectl karpenter prices` as a person runs it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, aws, rpc, test};
use proto::pricingcache::v1::ReportUnavailableRequest;
use serde_json::{Value, json};

use crate::pricing_scene::{NAME, Reader, fail, forget_everything, mark};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("pricing_cli", alone, a_person_sees_prices_savings_and_what_is_gone_since_when)]
}

/// Exit status, what was printed, and what was complained about.
fn kubectl(stack: &Stack, words: &[&str]) -> Result<(bool, String, String)> {
    let mut command = Command::new(rpc::binary(NAME)?.with_file_name("kubectl-karpenter"));
    command.arg("prices").args(words).env("KUBECONFIG", stack.var("KUBECONFIG")?);
    let output = command.env_remove("GRPC_PRICING_CACHE").stdin(Stdio::null()).output().context("run it")?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.success(), text(output.stdout), text(output.stderr)))
}

fn json_of(stack: &Stack, words: &[&str]) -> Result<Value> {
    let (fine, printed, complaint) = kubectl(stack, &[words, &["-o", "json"]].concat())?;
    ensure!(fine, "{complaint}");
    Ok(serde_json::from_str(&printed)?)
}

async fn a_person_sees_prices_savings_and_what_is_gone_since_when(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "GetProducts", "AccessDeniedException")?;
    let paid = json!({"instanceType": "m5.large", "zone": "us-west-2a", "total": 3});
    let paid = aws::put(&stack, "/capacity-reservation", &paid)?["id"].clone();
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let report = ReportUnavailableRequest { unavailable: vec![mark("m5.large")], hold: None };
    reader.client().report_unavailable(report).await?;

    let (fine, table, complaint) = kubectl(&stack, &["--type", "m5.large,c5.large", "--zone", "us-west-2a"])?;
    ensure!(fine, "{complaint}");
    for part in [
        "on-demand prices estimated from the built-in table; reading fails since",
        "AccessDeniedException",
        "spot prices      from AWS, read",
        "TYPE",
        "no, since",
    ] {
        ensure!(table.contains(part), "{part:?} is not in\n{table}");
    }
    let left = format!("3 left in {}", paid.as_str().context("an id")?);
    ensure!(table.contains(&left), "{left:?} is not in\n{table}");
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("us-west-2")).collect();
    ensure!(rows.len() == 5 && rows.iter().all(|row| row.contains("us-west-2a")), "{table}");

    let spot = json_of(&stack, &["-t", "m5.*", "-c", "spot", "--by-price"])?;
    let listed = spot["prices"].as_array().context("a list")?;
    ensure!(listed.len() > 20, "{} prices", listed.len());
    ensure!(listed.iter().all(|row| row["capacityType"] == "spot"), "{spot}");
    ensure!(listed.iter().all(|row| row["instanceType"].as_str().is_some_and(|n| n.starts_with("m5."))));
    ensure!(listed.is_sorted_by_key(|row| row["pricePerHour"].as_f64().map(|p| (p * 1e6) as i64)), "{spot}");
    ensure!(listed.iter().any(|row| row["discountPercent"].as_i64().is_some_and(|percent| percent > 10)));
    let gone: Vec<&Value> = listed.iter().filter(|row| row["available"] == false).collect();
    ensure!(gone.len() == 1 && gone[0]["unavailableSince"].is_string(), "{gone:?}");
    ensure!(spot["onDemandSource"]["kind"] == "built-in" && spot["spotSource"]["kind"] == "api", "{spot}");

    let by_id = json_of(&stack, &["-t", "m5.large", "-c", "on-demand", "-z", "usw2-az1"])?;
    ensure!(by_id["prices"].as_array().is_some_and(|rows| rows.len() == 1), "{by_id}");
    let (fine, _, complaint) = kubectl(&stack, &["--type", "z9.large"])?;
    ensure!(!fine && complaint.contains("no offering matches"), "{complaint}");
    let (fine, _, complaint) = kubectl(&stack, &["--capacity-type", "free"])?;
    ensure!(!fine && complaint.contains("on-demand"), "it names what may be given: {complaint}");
    service.stop(&stack)?;
    aws::put(&stack, "/capacity-reservation", &json!({"id": paid, "state": "cancelled"}))?;
    forget_everything(&stack).await
}
