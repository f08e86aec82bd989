//! `--before-takeover`: the Helm release of a running Karpenter is examined before this product's chart upgrades it, and every
//! obstacle is named with the command or value that removes it.

mod kubernetes;
mod ownership;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::definitions::right;
use super::finding::{Finding, Verdict};
use super::right::Right;

const AREA: &str = "takeover";
/// Karpenter's Deployment. Ours have the same name label, and one for the component.
const KARPENTER: &str = "app.kubernetes.io/name=karpenter,!app.kubernetes.io/component";
/// Its Deployment selects by exactly these; the chart's provisioner does too, so that Helm can patch one into the other.
const SELECTOR: [&str; 2] = ["app.kubernetes.io/instance", "app.kubernetes.io/name"];
const ROLE: &str = "eks.amazonaws.com/role-arn";
const RELEASE: &str = "meta.helm.sh/release-name";
/// The newest minor version of Karpenter 1 whose objects are known here.
const NEWEST_MINOR: u32 = 14;

pub(super) async fn check(client: &Client, namespace: &str, version: &Info) -> Vec<Finding> {
    let mut findings = vec![kubernetes::judge(version)];
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.list(&ListParams::default().labels(KARPENTER)).await;
    let deployment = match found {
        Ok(found) => found.items.into_iter().next(),
        Err(error) => {
            let right = Right::in_namespace::<Deployment>("list", namespace);
            findings.push(unknown(right.not_used(AREA, "Deployment", &error)));
            findings.extend(definitions(client, namespace).await);
            return findings;
        }
    };
    let Some(deployment) = deployment else {
        let detail = format!("no Karpenter runs in namespace {namespace}");
        let fix = "name its namespace with -n; where there is none, install instead of taking over";
        findings.push(Finding::wrong(AREA, "Deployment", detail, fix));
        return findings;
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    match accounts.get_opt(&account_name(&deployment)).await {
        Ok(account) => findings.extend(judge_deployment(namespace, &deployment, account.as_ref())),
        Err(error) => {
            findings.extend(judge_deployment(namespace, &deployment, None));
            let right = Right::in_namespace::<ServiceAccount>("get", namespace);
            findings.push(unknown(right.not_used(AREA, "ServiceAccount", &error)));
        }
    }
    findings.extend(definitions(client, namespace).await);
    findings.push(next_step(namespace, &deployment));
    findings
}

async fn definitions(client: &Client, namespace: &str) -> Vec<Finding> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut findings = Vec::new();
    for wanted in api::crd::all() {
        let name = wanted.name_any();
        match definitions.get_opt(&name).await {
            Ok(found) => findings.extend(found.map(|found| ownership::judge(namespace, &name, &found))),
            Err(error) => findings.push(unknown(right().not_used(AREA, "CRDs", &error))),
        }
    }
    findings
}

/// What could not be read may be an obstacle.
fn unknown(finding: Finding) -> Finding {
    Finding { verdict: Verdict::Wrong, ..finding }
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
}
