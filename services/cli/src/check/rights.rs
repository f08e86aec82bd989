//! Whether each service has the rights in the cluster that the chart gives it: asked from the API server, one by one.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use runtime::Service;
use serde::Deserialize;

use super::finding::Finding;
use super::right::Right;

const AREA: &str = "rights";
/// Reviews under way at once.
const AT_ONCE: usize = 16;

const SHARED: &str = include_str!("../../../../charts/karpenter/files/rights.json");

const fn own(service: Service) -> &'static str {
    match service {
        Service::Provisioner => include_str!("../../../../charts/karpenter/charts/provisioner/rights.json"),
        Service::Disruption => include_str!("../../../../charts/karpenter/charts/disruption/rights.json"),
        Service::Termination => include_str!("../../../../charts/karpenter/charts/termination/rights.json"),
        Service::InterruptionWatcher => {
            include_str!("../../../../charts/karpenter/charts/interruption-watcher/rights.json")
        }
        Service::PricingCache => {
            include_str!("../../../../charts/karpenter/charts/pricing-cache/rights.json")
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    why: String,
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// One question to the API server.
#[derive(Clone, Debug)]
struct Question {
    why: String,
    asked: ResourceAttributes,
}

fn questions(text: &str, namespace: &str) -> Result<Vec<Question>> {
    let rules: BTreeMap<String, Vec<Rule>> = serde_json::from_str(text).context("read the chart's rights")?;
    let mut questions = Vec::new();
    for (scope, rules) in rules {
        let namespace = match scope.as_str() {
            "namespace" => Some(namespace.to_owned()),
            "kubeSystem" => Some("kube-system".to_owned()),
            _ => None,
        };
        for rule in &rules {
            let names: Vec<Option<String>> = match rule.resource_names.as_slice() {
                [] => vec![None],
                names => names.iter().cloned().map(Some).collect(),
            };
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    let (resource, sub) = match resource.split_once('/') {
                        Some((resource, sub)) => (resource, Some(sub.to_owned())),
                        None => (resource.as_str(), None),
                    };
                    for verb in &rule.verbs {
                        questions.extend(names.iter().map(|name| Question {
                            why: rule.why.clone(),
                            asked: ResourceAttributes {
                                group: Some(group.clone()),
                                resource: Some(resource.to_owned()),
                                subresource: sub.clone(),
                                verb: Some(verb.clone()),
                                namespace: namespace.clone(),
                                name: name.clone(),
                                ..ResourceAttributes::default()
                            },
                        }));
                    }
                }
            }
        }
    }
    Ok(questions)
}

pub(super) async fn check(client: &Client, namespace: &str) -> Result<Vec<Finding>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let mut findings = Vec::new();
    for service in Service::ALL {
        let mut all = questions(SHARED, namespace)?;
        all.extend(questions(own(service), namespace)?);
        let count = all.len();
        let component = format!("app.kubernetes.io/component={service}");
        // Which account to ask about is unknown without the Deployment.
        let account = match deployments.list(&ListParams::default().labels(&component)).await {
            Ok(installed) => account(service, &installed.items),
            Err(error) => {
                let right = Right::in_namespace::<Deployment>("list", namespace);
                findings.push(right.not_used(AREA, "ServiceAccounts", &error));
                continue;
            }
        };
        match denied(client, namespace, &account, all).await {
            Ok(denied) => findings.push(judge(service, count, &denied)),
            Err(error) => {
                let right = Right::in_cluster::<SubjectAccessReview>("create");
                findings.push(right.not_used(AREA, "ServiceAccounts", &error));
            }
        }
    }
    Ok(findings)
}

/// The ServiceAccount that the service runs as: that of its Deployment, because all services may share one.
fn account(service: Service, deployments: &[Deployment]) -> String {
    let template =
        |each: &Deployment| each.spec.as_ref()?.template.spec.as_ref()?.service_account_name.clone();
    deployments.iter().find_map(template).unwrap_or_else(|| service.service_account())
}

/// Those of the questions to which the answer is no, or why the API server does not answer.
async fn denied(
    client: &Client,
    namespace: &str,
    account: &str,
    questions: Vec<Question>,
) -> Result<Vec<Question>, kube::Error> {
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answers = stream::iter(questions).map(async |question| {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.clone()),
                groups: Some(groups.to_vec()),
                resource_attributes: Some(question.asked.clone()),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok::<_, kube::Error>((!allowed).then_some(question))
    });
    answers.buffer_unordered(AT_ONCE).try_filter_map(future::ok).try_collect().await
}

fn judge(service: Service, asked: usize, denied: &[Question]) -> Finding {
    if denied.is_empty() {
        return Finding::good(AREA, service.as_str(), format!("has all {asked} rights in the cluster"));
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut named: Vec<String> = denied
        .iter()
        .map(|question| {
            let asked = &question.asked;
            format!("{} {} ({})", text(&asked.verb), text(&asked.resource), question.why)
        })
        .collect();
    named.sort();
    named.dedup();
    let more = named.len().saturating_sub(3);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    named.truncate(3);
    let detail = format!("may not {}{more}", named.join("; "));
    let fix = format!(
        "helm upgrade karpenter <charts>/karpenter (ClusterRole and Role karpenter-{service}, and their bindings)"
    );
    Finding::wrong(AREA, service.as_str(), detail, fix)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn every_right_of_the_chart_becomes_a_question() {
        for service in Service::ALL {
            let all = questions(own(service), "here").unwrap();
            assert!(!all.is_empty());
            let trust = all.iter().find(|question| question.asked.name == Some(service.trust_config_map()));
            let trust = trust.expect("its own certificate");
            assert_eq!(trust.asked.namespace.as_deref(), Some("here"));
        }
        let eviction = questions(own(Service::Termination), "here").unwrap();
        assert!(eviction.iter().any(|question| question.asked.subresource.as_deref() == Some("eviction")));
    }

    #[test]
    fn a_shared_service_account_is_read_from_the_deployment() {
        let deployment = serde_json::json!({"spec": {
            "selector": {}, "template": {"spec": {"containers": [], "serviceAccountName": "karpenter"}}}});
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        assert_eq!(account(Service::Termination, &[deployment]), "karpenter");
        assert_eq!(account(Service::Termination, &[]), "karpenter-termination");
    }

    #[test]
    fn missing_rights_are_named_with_what_they_are_for() {
        let denied = questions(own(Service::Termination), "here").unwrap();
        let finding = judge(Service::Termination, 9, &denied);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.detail.contains("and ") && finding.detail.contains('('), "{}", finding.detail);
        assert_eq!(judge(Service::Termination, 9, &[]).verdict, Verdict::Good);
    }
}
