//! `--before-takeover`: the Helm release of a running Karpenter is examined before this product's chart upgrades it, and every
//! obstacle is named with the command or value that removes it.

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::definitions::UPGRADE;
use super::finding::Finding;

const AREA: &str = "takeover";
/// Karpenter's Deployment. Ours have the same name label, and one for the component.
const KARPENTER: &str = "app.kubernetes.io/name=karpenter,!app.kubernetes.io/component";
/// Its Deployment selects by exactly these; the chart's provisioner does too, so that Helm can patch one into the other.
const SELECTOR: [&str; 2] = ["app.kubernetes.io/instance", "app.kubernetes.io/name"];
const ROLE: &str = "eks.amazonaws.com/role-arn";
const RELEASE: &str = "meta.helm.sh/release-name";
/// The newest minor version of Karpenter 1 whose objects are known here.
const NEWEST_MINOR: u32 = 14;
/// The chart's `kubeVersion`.
const OLDEST_KUBERNETES_MINOR: u32 = 29;

pub(super) async fn check(client: &Client, namespace: &str, version: &Info) -> Result<Vec<Finding>> {
    let mut findings = vec![judge_kubernetes(version)];
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found =
        deployments.list(&ListParams::default().labels(KARPENTER)).await.context("list Deployments")?;
    let Some(deployment) = found.items.into_iter().next() else {
        let detail = format!("no Karpenter runs in namespace {namespace}");
        let fix = "name its namespace with -n; where there is none, install instead of taking over";
        findings.push(Finding::wrong(AREA, "Deployment", detail, fix));
        return Ok(findings);
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = accounts.get_opt(&account_name(&deployment)).await.context("read the ServiceAccount")?;
    findings.extend(judge_deployment(namespace, &deployment, account.as_ref()));
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for wanted in api::crd::all() {
        let name = wanted.name_any();
        let found = definitions.get_opt(&name).await.with_context(|| format!("read CRD {name}"))?;
        findings.extend(found.map(|found| judge_definition(&name, &found)));
    }
    findings.push(next_step(namespace, &deployment));
    Ok(findings)
}

fn judge_kubernetes(version: &Info) -> Finding {
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let subject = "Kubernetes version";
    match digits.parse::<u32>() {
        Ok(minor) if minor >= OLDEST_KUBERNETES_MINOR => {
            Finding::good(AREA, subject, version.git_version.clone())
        }
        _ => {
            let detail = format!("{} is older than 1.{OLDEST_KUBERNETES_MINOR}", version.git_version);
            Finding::wrong(AREA, subject, detail, "upgrade the cluster first")
        }
    }
}

fn judge_deployment(
    namespace: &str,
    deployment: &Deployment,
    account: Option<&ServiceAccount>,
) -> Vec<Finding> {
    vec![
        judge_version(deployment),
        judge_selector(namespace, deployment),
        judge_release(namespace, deployment),
        judge_account(&account_name(deployment), account),
        judge_queue(deployment),
        judge_replicas(namespace, deployment),
    ]
}

fn judge_version(deployment: &Deployment) -> Finding {
    let subject = "Karpenter version";
    let version = deployment.labels().get("app.kubernetes.io/version").cloned().unwrap_or_default();
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(minor))) if minor <= NEWEST_MINOR => Finding::good(AREA, subject, version),
        (Some(Ok(1)), Some(Ok(_))) => {
            let detail =
                format!("{version} is newer than 1.{NEWEST_MINOR}: its newer fields are not known here");
            Finding::note(AREA, subject, detail, "run in shadow mode first and compare")
        }
        (Some(Ok(0)), _) => {
            let fix = "upgrade Karpenter to 1.x first, and your objects to v1";
            Finding::wrong(AREA, subject, format!("{version} has no v1 objects"), fix)
        }
        _ => Finding::note(AREA, subject, "unknown: the Deployment has no version label", "it must be 1.x"),
    }
}

fn judge_selector(namespace: &str, deployment: &Deployment) -> Finding {
    let subject = "Deployment selector";
    let selector = deployment.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default();
    let name = deployment.name_any();
    if selector.match_expressions.is_none() && labels.keys().eq(SELECTOR) {
        return Finding::good(AREA, subject, format!("Helm can patch deployment/{name}"));
    }
    let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
    let detail = format!("is immutable and differs from the chart's ({})", keys.join(", "));
    Finding::wrong(
        AREA,
        subject,
        detail,
        format!("kubectl delete deployment -n {namespace} {name}, just before the upgrade"),
    )
}

fn judge_release(namespace: &str, deployment: &Deployment) -> Finding {
    let subject = "Helm release";
    match deployment.annotations().get(RELEASE) {
        Some(release) => Finding::good(AREA, subject, format!("{release} in {namespace}")),
        None => {
            let fix = "remove it the way it was installed, then install; nodes and NodeClaims stay";
            Finding::wrong(AREA, subject, "the Deployment belongs to no Helm release", fix)
        }
    }
}

fn judge_account(name: &str, account: Option<&ServiceAccount>) -> Finding {
    let subject = "AWS credentials";
    let role = account.and_then(|account| account.annotations().get(ROLE));
    let detail = match role {
        Some(role) => format!("{role} trusts ServiceAccount {name} only (IRSA)"),
        None => format!("a Pod Identity association is for ServiceAccount {name} only"),
    };
    let keep = role
        .map(|role| format!(" with serviceAccount.annotations.\"eks\\.amazonaws\\.com/role-arn\"={role}"));
    let fix = format!(
        "keep that account for all services: --set serviceAccount.name={name}{}; or create one role per service first (deploy/aws)",
        keep.unwrap_or_default()
    );
    Finding::note(AREA, subject, detail, fix)
}

fn judge_queue(deployment: &Deployment) -> Finding {
    let subject = "interruption queue";
    match variable(deployment, "INTERRUPTION_QUEUE") {
        Some(queue) => Finding::good(
            AREA,
            subject,
            format!("{queue}: the same queue and rules are used, one reader at a time"),
        ),
        None => {
            let fix = "set settings.interruptionQueue if there is a queue; deploy/aws creates one";
            Finding::note(AREA, subject, "Karpenter reads none: spot interruption warnings are missed", fix)
        }
    }
}

fn judge_replicas(namespace: &str, deployment: &Deployment) -> Finding {
    let subject = "running replicas";
    match deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1) {
        0 => Finding::good(AREA, subject, "0: Karpenter is stopped"),
        count => {
            let detail = format!("{count}: two autoscalers must not act at the same time");
            let release = release(deployment);
            let fix = format!(
                "just before the upgrade, with Karpenter's own chart and version: helm upgrade {release} <karpenter's chart> -n {namespace} --reuse-values --set replicas=0"
            );
            Finding::note(AREA, subject, detail, fix)
        }
    }
}

fn judge_definition(name: &str, found: &CustomResourceDefinition) -> Finding {
    let stored = found.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let wanted =
        found.spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone());
    let old: Vec<&str> =
        stored.filter(|version| Some(*version) != wanted.as_ref()).map(String::as_str).collect();
    if !old.is_empty() {
        let detail = format!("objects may still be stored as {}", old.join(", "));
        let fix = "write every object once (kubectl get … -o yaml | kubectl apply -f -), then remove the version from status.storedVersions";
        return Finding::wrong(AREA, name, detail, fix);
    }
    if found.spec.conversion.as_ref().is_some_and(|conversion| conversion.webhook.is_some()) {
        let detail = "converts with a webhook that ends with Karpenter";
        return Finding::wrong(AREA, name, detail, UPGRADE);
    }
    match found.annotations().get(RELEASE).map(String::as_str) {
        Some("karpenter-crd") => Finding::good(AREA, name, "belongs to Helm release karpenter-crd"),
        Some(other) => Finding::note(AREA, name, format!("belongs to Helm release {other}"), UPGRADE),
        None => Finding::note(AREA, name, "belongs to no Helm release", UPGRADE),
    }
}

fn next_step(namespace: &str, deployment: &Deployment) -> Finding {
    let release = release(deployment);
    let account = account_name(deployment);
    let fix = format!(
        "helm upgrade {release} <charts>/karpenter -n {namespace} -f <your values> --set controller.image.registry=<registry> --set serviceAccount.name={account}; back: helm rollback {release} -n {namespace}"
    );
    Finding::note(AREA, "next", "when nothing above fails", fix)
}

fn release(deployment: &Deployment) -> String {
    deployment.annotations().get(RELEASE).cloned().unwrap_or_else(|| deployment.name_any())
}

fn account_name(deployment: &Deployment) -> String {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
}

fn variable(deployment: &Deployment, name: &str) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let of = |container: &Container| {
        let found = container.env.iter().flatten().find(|variable| variable.name == name)?;
        found.value.clone().filter(|value| !value.is_empty())
    };
    pod.containers.iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::finding::Verdict;
    use super::*;

    /// As Karpenter's chart renders it, in what matters here.
    fn karpenter(version: &str, selector: Value) -> Deployment {
        let object = json!({
            "metadata": {
                "name": "karpenter",
                "labels": {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/version": version},
                "annotations": {RELEASE: "karpenter"},
            },
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": selector},
                "template": {"spec": {"serviceAccountName": "karpenter", "containers": [
                    {"name": "controller", "env": [{"name": "INTERRUPTION_QUEUE", "value": "demo"}]},
                ]}},
            },
        });
        serde_json::from_value(object).unwrap()
    }

    fn two_labels() -> Value {
        json!({"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"})
    }

    fn finding(findings: &[Finding], subject: &str) -> Finding {
        findings.iter().find(|finding| finding.subject == subject).unwrap().clone()
    }

    #[test]
    fn a_plain_release_has_no_obstacle_but_names_what_the_upgrade_needs() {
        let findings = judge_deployment("kube-system", &karpenter("1.14.1", two_labels()), None);
        assert!(findings.iter().all(|finding| finding.verdict != Verdict::Wrong), "{findings:?}");
        assert!(finding(&findings, "AWS credentials").fix.contains("--set serviceAccount.name=karpenter"));
        assert!(finding(&findings, "interruption queue").detail.contains("demo"));
        assert!(finding(&findings, "running replicas").fix.contains("--set replicas=0"));
    }

    #[test]
    fn a_selector_that_helm_cannot_patch_is_an_obstacle() {
        let mut selector = two_labels();
        selector["app"] = json!("karpenter");
        let findings = judge_deployment("kube-system", &karpenter("1.14.1", selector), None);
        let selector = finding(&findings, "Deployment selector");
        assert_eq!(selector.verdict, Verdict::Wrong);
        assert!(
            selector.fix.contains("kubectl delete deployment -n kube-system karpenter"),
            "{}",
            selector.fix
        );
    }

    #[test]
    fn the_irsa_role_is_named_with_the_value_that_keeps_it() {
        let account =
            json!({"metadata": {"name": "karpenter", "annotations": {ROLE: "arn:aws:iam::1:role/k"}}});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        let finding = judge_account("karpenter", Some(&account));
        assert!(finding.detail.contains("arn:aws:iam::1:role/k") && finding.detail.contains("IRSA"));
        assert!(finding.fix.contains("serviceAccount.annotations"), "{}", finding.fix);
    }

    #[test]
    fn versions_without_v1_objects_are_refused_and_newer_ones_noted() {
        let verdict = |version: &str| judge_version(&karpenter(version, two_labels())).verdict;
        assert_eq!(verdict("0.37.0"), Verdict::Wrong);
        assert_eq!(verdict("1.0.8"), Verdict::Good);
        assert_eq!(verdict("1.15.0"), Verdict::Note);
    }

    #[test]
    fn definitions_of_another_owner_name_the_command_that_takes_them() {
        let mut definition = api::crd::all().remove(0);
        let finding = judge_definition("x", &definition);
        assert_eq!((finding.verdict, finding.fix.contains("--take-ownership")), (Verdict::Note, true));
        definition.annotations_mut().insert(RELEASE.to_owned(), "karpenter-crd".to_owned());
        assert_eq!(judge_definition("x", &definition).verdict, Verdict::Good);
        let status = json!({"storedVersions": ["v1beta1", "v1"]});
        definition.status = serde_json::from_value(status).unwrap();
        assert_eq!(judge_definition("x", &definition).verdict, Verdict::Wrong);
    }
}
