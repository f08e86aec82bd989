//! What this product's chart says about its values: its schemas, and the rules between values that its templates enforce.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use runtime::Service;
use serde_json::Value;

use super::super::finding::Finding;
use super::{AREA, assignment, merge, parse, removal};

const SCHEMA: &str = include_str!("../../../../../charts/karpenter/values.schema.json");
const DEFAULTS: &str = include_str!("../../../../../charts/karpenter/values.yaml");

const fn schema_of(service: Service) -> &'static str {
    match service {
        Service::Provisioner => {
            include_str!("../../../../../charts/karpenter/charts/provisioner/values.schema.json")
        }
        Service::Disruption => {
            include_str!("../../../../../charts/karpenter/charts/disruption/values.schema.json")
        }
        Service::Termination => {
            include_str!("../../../../../charts/karpenter/charts/termination/values.schema.json")
        }
        Service::InterruptionWatcher => {
            include_str!("../../../../../charts/karpenter/charts/interruption-watcher/values.schema.json")
        }
        Service::PricingCache => {
            include_str!("../../../../../charts/karpenter/charts/pricing-cache/values.schema.json")
        }
    }
}

/// That of the umbrella, with each service's own for the values of that service.
pub(super) fn schema() -> Result<Value> {
    let mut schema: Value = serde_json::from_str(SCHEMA).context("read the chart's schema")?;
    for service in Service::ALL {
        let own = serde_json::from_str(schema_of(service)).context("read the schema of a subchart")?;
        schema["properties"][service.as_str()] = own;
    }
    Ok(schema)
}

/// Accepted because people have them; nothing here reads them.
const WITHOUT_EFFECT: [(&[&str], &str); 3] = [
    (&["webhook"], "there is no webhook, the CRDs validate by themselves"),
    (&["postInstallHook"], "there is no hook"),
    (&["settings", "awsFeatureGates"], "no such gate is known"),
];
const LOG_PATHS: [&str; 2] = ["logOutputPaths", "logErrorOutputPaths"];

pub(super) fn judge(values: &Value, file: &Path) -> Result<Vec<Finding>> {
    let defaults = parse(DEFAULTS).context("read the chart's values")?;
    let mut effective = defaults.clone();
    merge(&mut effective, values.clone());
    let mut findings = Vec::new();
    if text(&effective, "/settings/clusterName").is_empty() {
        let fix = assignment(file, &["settings", "clusterName"], "\"<cluster>\"");
        findings.push(Finding::wrong(AREA, "settings.clusterName", "is required", fix));
    }
    findings.extend(judge_image(&effective, file));
    findings.extend(judge_ports(&effective, file));
    findings.extend(judge_leases(&effective, file));
    findings.extend(judge_accounts(&effective, file));
    for (path, why) in WITHOUT_EFFECT {
        if values.pointer(&format!("/{}", path.join("/"))).is_some() {
            let detail = format!("has no effect: {why}");
            findings.push(Finding::note(AREA, path.join("."), detail, removal(file, &[path])));
        }
    }
    for path in LOG_PATHS {
        if effective[path] != defaults[path] {
            let detail = "has no effect: logs go to stdout";
            findings.push(Finding::note(AREA, path, detail, removal(file, &[&[path]])));
        }
    }
    Ok(findings)
}

fn text<'a>(values: &'a Value, pointer: &str) -> &'a str {
    values.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn judge_image(values: &Value, file: &Path) -> Option<Finding> {
    let of = |key| ["controller", "image", key];
    let repository = text(values, "/controller/image/repository");
    let subject = "controller.image.repository";
    let fix = || removal(file, &[&of("repository"), &of("tag"), &of("digest")]);
    if format!("/{repository}").ends_with("/karpenter/controller") {
        let detail =
            format!("is refused: {repository} is Karpenter's image, which holds none of these programs");
        return Some(Finding::wrong(AREA, subject, detail, fix()));
    }
    if !repository.is_empty() {
        let detail =
            format!("{repository} must hold all five programs; a mirror of Karpenter's image does not");
        return Some(Finding::note(AREA, subject, detail, fix()));
    }
    if !text(values, "/controller/image/digest").is_empty() {
        let detail = "is refused: it names one image, and the five services have one each";
        let fix = removal(file, &[&of("digest")]);
        return Some(Finding::wrong(AREA, "controller.image.digest", detail, fix));
    }
    let tag = values.pointer("/controller/image/tag").filter(|tag| !tag.is_null() && *tag != "");
    if let Some(tag) = tag.filter(|_| text(values, "/controller/image/registry").is_empty()) {
        let detail = format!(
            "{tag} would be the tag of karpenter-<service>; Karpenter's tags are not those of these images"
        );
        let fix = removal(file, &[&of("tag")]);
        return Some(Finding::note(AREA, "controller.image.tag", detail, fix));
    }
    None
}

/// On the host's network each service has ports 10 above those of the one before.
fn judge_ports(values: &Value, file: &Path) -> Option<Finding> {
    let shared = values["hostNetwork"] == true;
    let services = if shared { Service::ALL.len() as u64 } else { 1 };
    let mut taken = BTreeSet::new();
    for index in 0..services {
        for name in ["metrics", "healthProbe", "grpc"] {
            let Some(port) = values.pointer(&format!("/controller/{name}/port")).and_then(Value::as_u64)
            else {
                continue;
            };
            let port = port + index * 10;
            if !taken.insert(port) {
                let also = if shared {
                    ", where each service has ports 10 above those of the one before"
                } else {
                    ""
                };
                let detail = format!("is refused: port {port} is taken twice{also}");
                let fix = assignment(file, &["controller", name, "port"], "<port>");
                return Some(Finding::wrong(AREA, format!("controller.{name}.port"), detail, fix));
            }
        }
    }
    None
}

/// All services share one name of their Leases, and the rights to them are named after it: the chart must know its value.
fn judge_leases(values: &Value, file: &Path) -> Vec<Finding> {
    const NAME: &str = "LEADER_ELECTION_NAME";
    let named = |place: &str, wrong: fn(&Value) -> bool| {
        let variables = values.pointer(place).and_then(Value::as_array)?;
        variables.iter().position(|variable| variable["name"] == NAME && wrong(variable))
    };
    let mut findings = Vec::new();
    if let Some(index) = named("/controller/env", |variable| text(variable, "/value").is_empty()) {
        let detail = format!("is refused: {NAME} needs a value here, not a reference");
        let fix = removal(file, &[&["controller", "env", &index.to_string()]]);
        findings.push(Finding::wrong(AREA, "controller.env", detail, fix));
    }
    for service in Service::ALL.map(Service::as_str) {
        let Some(index) = named(&format!("/{service}/env"), |_| true) else { continue };
        let detail = format!("is refused: all services share {NAME}, which belongs into controller.env");
        let fix = removal(file, &[&[service, "env", &index.to_string()]]);
        findings.push(Finding::wrong(AREA, format!("{service}.env"), detail, fix));
    }
    findings
}

/// With one account for all services, the annotations of one service's own have no place.
fn judge_accounts(values: &Value, file: &Path) -> Vec<Finding> {
    let shared = text(values, "/serviceAccount/name");
    let annotated = Service::ALL.map(Service::as_str).into_iter().filter(|service| {
        let own = values.pointer(&format!("/{service}/serviceAccount/annotations"));
        own.and_then(Value::as_object).is_some_and(|annotations| !annotations.is_empty())
    });
    let findings = annotated.filter(|_| !shared.is_empty()).map(|service| {
        let detail = format!(
            "is refused: all services run as serviceAccount.name={shared}, which has annotations of its own"
        );
        let place = [service, "serviceAccount", "annotations"];
        Finding::wrong(AREA, place.join("."), detail, removal(file, &[&place]))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Verdict;
    use super::*;

    #[test]
    fn the_chart_s_own_defaults_are_accepted_but_for_the_name_of_the_cluster() {
        let found = judge(&serde_json::json!({}), Path::new("v")).unwrap();
        let subjects: Vec<&str> = found.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["settings.clusterName"]);
        assert_eq!(super::super::schema::refusals(&schema().unwrap(), &parse(DEFAULTS).unwrap()), []);
    }

    /// Files that Helm renders with this chart in the tests of the installation.
    #[test]
    fn what_helm_takes_is_not_refused() {
        let files = [
            include_str!("../../../../../integration/tests/install/values/everything.yaml"),
            include_str!("../../../../../integration/tests/install/values/migrating.yaml"),
            include_str!("../../../../../integration/tests/install/values/minimal.yaml"),
            include_str!("../../../../../integration/tests/install/values/tutorial.yaml"),
        ];
        for text in files {
            let values = parse(text).unwrap();
            assert_eq!(super::super::schema::refusals(&schema().unwrap(), &values), [], "{text}");
            let found = judge(&values, Path::new("v")).unwrap();
            let wrong = found.iter().filter(|finding| finding.verdict == Verdict::Wrong);
            assert_eq!(wrong.collect::<Vec<_>>(), [] as [&Finding; 0], "{text}");
        }
    }

    #[test]
    fn values_of_one_service_do_not_contradict_those_of_all() {
        let values = serde_json::json!({
            "settings": {"clusterName": "demo"},
            "serviceAccount": {"name": "karpenter"},
            "termination": {"serviceAccount": {"annotations": {"a": "b"}}},
            "disruption": {"env": [{"name": "LEADER_ELECTION_NAME", "value": "x"}]},
        });
        let found = judge(&values, Path::new("v")).unwrap();
        let fixes: Vec<&str> = found.iter().map(|finding| finding.fix.as_str()).collect();
        let expected =
            ["yq -i 'del(.disruption.env[0])' v", "yq -i 'del(.termination.serviceAccount.annotations)' v"];
        assert_eq!(fixes, expected);
    }

    /// Each refusal of the templates is judged above; only the registry comes with the upgrade.
    #[test]
    fn no_refusal_of_the_templates_is_unknown_here() {
        let templates = concat!(
            include_str!("../../../../../charts/karpenter/templates/_effective.tpl"),
            include_str!("../../../../../charts/karpenter/templates/_environment.tpl"),
        );
        let refusals = templates.lines().filter(|line| line.trim_start().starts_with("{{- fail "));
        let known = [
            "settings.clusterName is required",
            "is the image of Karpenter itself",
            "controller.image.digest names one image",
            "is taken twice",
            "LEADER_ELECTION_NAME needs a value here",
            "controller.image.registry is required",
            "has LEADER_ELECTION_NAME, which all services",
            "has no account to go to",
        ];
        for line in refusals.clone() {
            assert!(known.iter().any(|words| line.contains(words)), "{line}");
        }
        assert_eq!(refusals.count(), known.len());
    }
}
