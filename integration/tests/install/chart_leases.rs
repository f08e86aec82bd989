//! `LEADER_ELECTION_NAME` in the chart: what the services name their Leases is what their rights name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use integration::helm::{self, chart, render, try_run};
use integration::{Stack, Test, test};
use runtime::Service;
use serde_json::Value;

use crate::charts::values;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("chart_leases", rights_to_leases_follow_the_name_that_the_services_read),
        test!("chart_leases", a_name_that_rights_cannot_follow_is_refused),
    ]
}

/// Karpenter's own Lease, which the services look at and do not hold.
const OF_THE_REFERENCE: &str = "karpenter-leader-election";

/// Names of Leases that the Role of each service gives, by service.
fn leases(objects: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for role in objects.iter().filter(|object| object["kind"] == "Role") {
        let Some(service) = role["metadata"]["labels"]["app.kubernetes.io/component"].as_str() else {
            continue;
        };
        let rules = role["rules"].as_array().into_iter().flatten();
        let of_leases = rules.filter(|rule| rule["resources"] == serde_json::json!(["leases"]));
        let names = of_leases.flat_map(|rule| rule["resourceNames"].as_array().into_iter().flatten());
        let names = names.filter_map(|name| Some(name.as_str()?.to_owned()));
        found.entry(service.to_owned()).or_default().extend(names);
    }
    found
}

/// The variable as each Deployment's container has it.
fn given(objects: &[Value]) -> BTreeMap<String, Option<String>> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    deployments
        .map(|deployment| {
            let service = deployment["metadata"]["labels"]["app.kubernetes.io/component"].as_str();
            let listed = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
            let mut all = listed.as_array().into_iter().flatten();
            let name = all.find(|each| each["name"] == "LEADER_ELECTION_NAME");
            (
                service.unwrap_or_default().to_owned(),
                name.and_then(|each| Some(each["value"].as_str()?.to_owned())),
            )
        })
        .collect()
}

async fn rights_to_leases_follow_the_name_that_the_services_read(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let file = values("minimal");
    let named = "controller.env[0].name=LEADER_ELECTION_NAME,controller.env[0].value=blue";
    for (options, prefix, read) in [
        (vec!["--values", &file], "karpenter", None),
        (vec!["--values", &file, "--set", named], "blue", Some("blue")),
    ] {
        let objects = render(&stack, "karpenter", &options)?;
        let (given, leases) = (given(&objects), leases(&objects));
        ensure!(given.len() == 5, "{given:?}");
        ensure!(given.values().all(|name| name.as_deref() == read), "the services read {given:?}");
        for service in Service::ALL {
            let names = leases.get(service.as_str()).with_context(|| format!("a Role of {service}"))?;
            let others = Service::ALL.map(|other| format!("{prefix}-{other}"));
            for name in names {
                ensure!(others.contains(name) || name == OF_THE_REFERENCE, "{service} may use Lease {name}");
            }
            // Every replica of pricing-cache answers alike, so none leads.
            let leads = names.contains(&format!("{prefix}-{service}"));
            ensure!(
                leads || service == Service::PricingCache,
                "{service} may not use its own Lease: {names:?}"
            );
        }
    }
    Ok(())
}

async fn a_name_that_rights_cannot_follow_is_refused(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let (path, file) = (chart("karpenter"), values("minimal"));
    let path = path.to_str().context("a path in UTF-8")?;
    for (set, named) in [
        ("termination.env[0].name=LEADER_ELECTION_NAME,termination.env[0].value=blue", "termination.env"),
        (
            "controller.env[0].name=LEADER_ELECTION_NAME,controller.env[0].valueFrom.configMapKeyRef.name=x",
            "controller.env",
        ),
    ] {
        let answer = try_run(&stack, "helm", &["template", "wrong", path, "--values", &file, "--set", set])?;
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        ensure!(!answer.status.success() && said.contains(named), "{set}: {said}");
    }
    Ok(())
}
