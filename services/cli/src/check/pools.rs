//! Pools and node classes: ready, or the condition that says why not.

use api::conditions::{Condition, ConditionStatus, READY};
use api::{EC2NodeClass, NodePool};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::finding::Finding;
use super::right::Right;

const AREA: &str = "pools";
/// Reason of a condition that waits for another.
const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";

pub(super) async fn check(client: &Client) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pools = listed::<NodePool>(client, "NodePools", &mut findings).await;
    let classes = listed::<EC2NodeClass>(client, "EC2NodeClasses", &mut findings).await;
    if pools.as_ref().is_some_and(Vec::is_empty) {
        let fix = "helm upgrade --install karpenter-nodepool <charts>/karpenter-nodepool --set clusterName=<cluster>, or apply your own";
        findings.push(Finding::note(AREA, "NodePools", "there are none: no node will be launched", fix));
    }
    for class in classes.into_iter().flatten() {
        let conditions =
            class.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        findings.push(judge(
            &format!("ec2nodeclass/{}", class.name_any()),
            class.metadata.generation,
            &conditions,
        ));
    }
    for pool in pools.into_iter().flatten() {
        let conditions =
            pool.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        findings.push(judge(&format!("nodepool/{}", pool.name_any()), pool.metadata.generation, &conditions));
    }
    findings
}

/// Nothing when they could not be listed. Why is added to the findings, unless the definition is missing: that is one already.
async fn listed<K>(client: &Client, subject: &str, findings: &mut Vec<Finding>) -> Option<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match Api::<K>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => Some(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => {
            findings.push(Right::in_cluster::<K>("list").not_used(AREA, subject, &error));
            None
        }
    }
}

fn judge(subject: &str, generation: Option<i64>, conditions: &[Condition]) -> Finding {
    let describe = format!("kubectl describe {}", subject.replace('/', " "));
    let Some(ready) = conditions.iter().find(|each| each.type_ == READY) else {
        return Finding::wrong(
            AREA,
            subject,
            "its status has not been written yet",
            "check that the provisioner runs",
        );
    };
    if ready.observed_generation.is_some() && ready.observed_generation != generation {
        return Finding::note(AREA, subject, "was changed; its status is not up to date yet", describe);
    }
    if ready.status == ConditionStatus::True {
        return Finding::good(AREA, subject, "ready");
    }
    let mut failing: Vec<&Condition> = conditions
        .iter()
        .filter(|each| each.type_ != READY && each.status != ConditionStatus::True)
        .collect();
    // What only waits for another condition is not the cause.
    failing.sort_by_key(|each| each.reason == DEPENDENCIES_NOT_READY);
    let told: Vec<String> =
        failing.iter().map(|each| format!("{}: {} {}", each.type_, each.reason, each.message)).collect();
    let detail = if told.is_empty() { ready.message.clone() } else { told.join("; ") };
    let fix = failing.first().and_then(|first| fix(&first.type_)).map_or(describe, str::to_owned);
    Finding::wrong(AREA, subject, detail, fix)
}

/// What helps against the mistakes that people make most.
fn fix(condition: &str) -> Option<&'static str> {
    const KNOWN: &[(&str, &str)] = &[
        ("SubnetsReady", "tag the subnets with karpenter.sh/discovery=<cluster>, or fix subnetSelectorTerms"),
        (
            "SecurityGroupsReady",
            "tag a security group with karpenter.sh/discovery=<cluster>, or fix securityGroupSelectorTerms",
        ),
        (
            "AMIsReady",
            "fix amiSelectorTerms: no image matches; the role of karpenter-provisioner needs ssm:GetParameter and ec2:DescribeImages",
        ),
        (
            "InstanceProfileReady",
            "check spec.role; the role of karpenter-provisioner needs the iam actions of deploy/aws/policies/provisioner-profiles.json",
        ),
        (
            "ValidationSucceeded",
            "compare the role of karpenter-provisioner with deploy/aws/policies/provisioner.json; tag conditions and service control policies count too",
        ),
        ("NodeClassReady", "fix the EC2NodeClass that the pool refers to"),
    ];
    KNOWN.iter().find(|(known, _)| *known == condition).map(|(_, fix)| *fix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Verdict;
    use super::*;

    fn condition(kind: &str, status: &str, message: &str) -> Condition {
        serde_json::from_value(json!({
            "type": kind, "status": status, "reason": "Because", "message": message,
            "lastTransitionTime": "2030-01-01T00:00:00Z", "observedGeneration": 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_class_without_subnets_is_told_which_tag_is_missing() {
        let mut waiting = condition("ValidationSucceeded", "Unknown", "Awaiting SubnetsReady");
        waiting.reason = DEPENDENCIES_NOT_READY.to_owned();
        let conditions = [
            condition("Ready", "False", "SubnetsReady=False"),
            waiting,
            condition("SubnetsReady", "False", "no subnets"),
        ];
        let finding = judge("ec2nodeclass/default", Some(2), &conditions);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(
            finding.detail.contains("no subnets") && finding.fix.contains("karpenter.sh/discovery"),
            "{finding:?}"
        );
    }

    #[test]
    fn ready_counts_only_for_what_the_object_says_now() {
        let ready = [condition("Ready", "True", "")];
        assert_eq!(judge("nodepool/a", Some(2), &ready).verdict, Verdict::Good);
        assert_eq!(judge("nodepool/a", Some(3), &ready).verdict, Verdict::Note);
        assert_eq!(judge("nodepool/a", Some(2), &[]).verdict, Verdict::Wrong);
    }
}
