//! The custom resources: present, established, and as this version knows them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};

use super::finding::Finding;
use super::right::Right;

const AREA: &str = "CRDs";

/// The command that installs or upgrades them. Ownership is taken because the chart `karpenter` or Karpenter's own may have
/// installed them.
pub(super) fn upgrade(namespace: &str) -> String {
    format!("helm upgrade --install karpenter-crd <charts>/karpenter-crd -n {namespace} --take-ownership")
}

pub(super) async fn check(client: &Client, namespace: &str) -> Vec<Finding> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut findings = Vec::new();
    for wanted in api::crd::all() {
        let name = wanted.metadata.name.clone().unwrap_or_default();
        match definitions.get_opt(&name).await {
            Ok(found) => findings.push(judge(namespace, &name, &wanted, found.as_ref())),
            Err(error) => findings.push(right().not_used(AREA, "definitions", &error)),
        }
    }
    findings
}

pub(super) fn right() -> Right {
    Right::in_cluster::<CustomResourceDefinition>("get")
}

fn judge(
    namespace: &str,
    name: &str,
    wanted: &CustomResourceDefinition,
    found: Option<&CustomResourceDefinition>,
) -> Finding {
    let Some(found) = found else {
        return Finding::wrong(AREA, name, "is missing", upgrade(namespace));
    };
    let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let established = conditions.clone().any(|each| each.type_ == "Established" && each.status == "True");
    if !established {
        let why = conditions.filter(|each| each.status == "False").map(|each| each.message.clone());
        let why: Vec<String> = why.flatten().collect();
        let detail = format!("is not accepted by the API server: {}", why.join("; "));
        return Finding::wrong(AREA, name, detail, format!("kubectl describe crd {name}"));
    }
    let served = |crd: &CustomResourceDefinition| -> Vec<String> {
        crd.spec
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.clone())
            .collect()
    };
    let missing: Vec<String> =
        served(wanted).into_iter().filter(|version| !served(found).contains(version)).collect();
    if !missing.is_empty() {
        let detail = format!("does not serve {}", missing.join(", "));
        return Finding::wrong(AREA, name, detail, upgrade(namespace));
    }
    match unknown_fields(wanted, found) {
        fields if fields.is_empty() => Finding::good(AREA, name, "served"),
        fields => {
            let detail = format!("is of an older version: it has no {}", fields.join(", "));
            Finding::note(AREA, name, detail, upgrade(namespace))
        }
    }
}

/// Fields directly under `spec` that this version knows and the cluster's definition does not.
fn unknown_fields(wanted: &CustomResourceDefinition, found: &CustomResourceDefinition) -> Vec<String> {
    let fields = |crd: &CustomResourceDefinition| -> Vec<String> {
        let newest = crd.spec.versions.iter().find(|version| version.storage);
        let schema = newest.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
        let properties = spec.and_then(|spec| spec.properties.as_ref());
        properties.map(|all| all.keys().map(|field| format!("spec.{field}")).collect()).unwrap_or_default()
    };
    let known = fields(found);
    fields(wanted).into_iter().filter(|field| !known.contains(field)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Verdict;
    use super::*;

    fn pools() -> CustomResourceDefinition {
        let all = api::crd::all();
        all.into_iter().find(|crd| crd.spec.names.plural == "nodepools").unwrap()
    }

    fn established(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
        let status = json!({"conditions": [{"type": "Established", "status": "True"}]});
        crd.status = serde_json::from_value(status).unwrap();
        crd
    }

    #[test]
    fn a_missing_definition_is_named_with_the_chart_that_has_it() {
        let finding = judge("kube-system", "nodepools.karpenter.sh", &pools(), None);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.fix.contains("karpenter-crd"));
    }

    #[test]
    fn a_definition_that_lacks_fields_of_this_version_is_noted_with_their_names() {
        let mut old = established(pools());
        for version in &mut old.spec.versions {
            let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
            spec.properties.as_mut().unwrap().remove("weight");
        }
        let finding = judge("kube-system", "nodepools.karpenter.sh", &pools(), Some(&old));
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.detail.contains("spec.weight"), "{}", finding.detail);
        assert_eq!(judge("kube-system", "x", &pools(), Some(&established(pools()))).verdict, Verdict::Good);
    }
}
