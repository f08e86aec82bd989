//! The local AWS's record beside the policies in `deploy/aws/policies`: every call is allowed to its caller with its resources,
//! tags and condition keys, every action that is allowed is called, and what nobody needs is denied.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use integration::{Stack, aws};
use runtime::Service;
use serde_json::Value;

use super::policy::{Authorization, Scene, allows, wildcards_match_as_iam_says};
use super::requests::{Made, authorizations};

/// Allowed, and not in this record; why.
const NOT_RECORDED: &[(&str, &str)] = &[
    ("iam:GetInstanceProfile", "only for a class with spec.instanceProfile, or after a profile vanished"),
    ("ec2:DescribePlacementGroups", "only for a class with a placement group"),
    ("events:PutRule", "only with --manage-rules where a rule is missing; the local AWS has all five"),
    ("events:PutTargets", "as above"),
    ("sqs:ChangeMessageVisibility", "only for a message that could not be handled"),
];

/// What each caller called, counted, and the requests that were kept.
pub(super) struct Calls {
    by_key: BTreeMap<String, BTreeMap<String, u64>>,
    requests: Vec<Value>,
}

impl Calls {
    pub(super) fn read(stack: &Stack) -> Result<Self> {
        let all = aws::get(stack, "/calls?limit=1000")?;
        Ok(Self {
            by_key: serde_json::from_value(all["byAccessKey"].clone())?,
            requests: all["requests"].as_array().cloned().unwrap_or_default(),
        })
    }
}

pub(super) fn compare(stack: &Stack, calls: &Calls) -> Result<Vec<String>> {
    let (scene, mut complaints) = (Scene::of(stack)?, BTreeSet::new());
    // What the provisioner makes, with the tags that the conditions of other services' policies ask for.
    let mut made = Made::default();
    for service in Service::ALL {
        let statements = scene.policies(service)?;
        let mut used = BTreeSet::new();
        let of_service = calls.requests.iter().filter(|request| request["accessKey"] == service.as_str());
        for request in of_service {
            for wanted in authorizations(&scene, &mut made, request)? {
                if !allows(&statements, &wanted)? {
                    complaints.insert(format!("{service}: its policy does not allow {wanted:?}"));
                }
                used.insert(wanted.action);
            }
        }
        // Calls that are no longer among those kept with their parameters.
        let counted = calls.by_key.get(service.as_str()).into_iter().flat_map(BTreeMap::keys);
        let counted: BTreeSet<String> = counted.cloned().collect();
        for action in statements.iter().flat_map(|statement| &statement.action) {
            let known = NOT_RECORDED.iter().any(|(name, _)| name == action);
            if !known && !used.contains(action) && !counted.contains(action) {
                complaints.insert(format!("{service}: its policy allows {action}, which it never calls"));
            }
        }
    }
    Ok(complaints.into_iter().collect())
}

/// Authorizations that a service needs or must never have, by what makes the difference.
pub(super) fn the_policies_deny_what_nobody_needs() -> Result<()> {
    wildcards_match_as_iam_says()?;
    let scene = Scene {
        cluster: "prod".to_owned(),
        region: "us-west-2".to_owned(),
        queue: "arn:aws:sqs:us-west-2:123456789012:prod".to_owned(),
    };
    for (service, wanted, expected, why) in cases(&scene) {
        let allowed = allows(&scene.policies(service)?, &wanted).with_context(|| why.to_owned())?;
        ensure!(allowed == expected, "{service}, {why}: allowed is {allowed}, {wanted:?}");
    }
    Ok(())
}

fn tags(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn cases(scene: &Scene) -> Vec<(Service, Authorization, bool, &'static str)> {
    use Service::{InterruptionWatcher, PricingCache, Provisioner, Termination};
    let on = |action: &str, resource: &str| {
        let (action, resource) = (action.to_owned(), resource.to_owned());
        Authorization { action, resource, context: BTreeMap::new() }.with("aws:RequestedRegion", "us-west-2")
    };
    let instance = scene.ec2("instance/i-1");
    let ends =
        |found: &[(&str, &str)]| on("ec2:TerminateInstances", &instance).tagged("Resource", &tags(found));
    let owned = ("kubernetes.io/cluster/prod", "owned");
    let profile = scene.profile("/karpenter/", "p");
    let ours = tags(&[
        owned,
        ("eks:eks-cluster-name", "prod"),
        ("topology.kubernetes.io/region", "us-west-2"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ]);
    let tagging = |there: &BTreeMap<String, String>| {
        on("iam:TagInstanceProfile", &profile).tagged("Request", &ours).tagged("Resource", there)
    };
    let launched = tags(&[owned, ("eks:eks-cluster-name", "prod"), ("karpenter.sh/nodepool", "default")]);
    let launches = |sent: &BTreeMap<String, String>| on("ec2:CreateFleet", &instance).tagged("Request", sent);
    let retags = |sent: &[(&str, &str)]| {
        on("ec2:CreateTags", &instance).tagged("Resource", &launched).tagged("Request", &tags(sent))
    };
    let passes = |role: &str| on("iam:PassRole", role).with("iam:PassedToService", "ec2.amazonaws.com");
    let targets =
        |rule: &str, queue: &str| on("events:PutTargets", &scene.rule(rule)).with("events:TargetArn", queue);
    let shift = on("arc-zonal-shift:GetManagedResource", "*");
    vec![
        (
            Termination,
            ends(&[owned, ("karpenter.sh/nodepool", "p")]),
            true,
            "an instance of this cluster and a pool",
        ),
        (
            Termination,
            ends(&[owned, ("karpenter.sh/nodeclaim", "c")]),
            true,
            "an instance of this cluster and a claim",
        ),
        (Termination, ends(&[owned]), false, "an instance of a managed node group"),
        (
            Termination,
            ends(&[("kubernetes.io/cluster/prod-eu", "owned"), ("karpenter.sh/nodepool", "p")]),
            false,
            "another cluster's instance",
        ),
        (
            Termination,
            ends(&[("karpenter.sh/nodepool", "p"), ("karpenter.sh/nodeclaim", "c")]),
            false,
            "an instance of no cluster",
        ),
        (Termination, launches(&launched), false, "termination launches nothing"),
        (Provisioner, ends(&[owned, ("karpenter.sh/nodepool", "p")]), false, "the provisioner ends nothing"),
        (Provisioner, tagging(&ours), true, "a profile that is made with its tags"),
        (
            Provisioner,
            tagging(&BTreeMap::new()),
            false,
            "somebody else's profile is not taken over by tagging it",
        ),
        (
            Provisioner,
            on("iam:DeleteInstanceProfile", &profile).tagged("Resource", &ours),
            true,
            "its own profile",
        ),
        (Provisioner, on("iam:DeleteInstanceProfile", &profile), false, "a profile without tags"),
        (Provisioner, on("iam:AddRoleToInstanceProfile", &profile), false, "a role into a foreign profile"),
        (Provisioner, passes(&scene.node_role_arn()), true, "the node role"),
        (Provisioner, passes("arn:aws:iam::123456789012:role/Admin"), false, "any other role"),
        (
            Provisioner,
            on("iam:PassRole", &scene.node_role_arn()).with("iam:PassedToService", "lambda.amazonaws.com"),
            false,
            "the node role for another service",
        ),
        (Provisioner, launches(&launched), true, "a launch with its tags"),
        (
            Provisioner,
            launches(&tags(&[owned, ("karpenter.sh/nodepool", "p")])),
            false,
            "a launch without the cluster's name",
        ),
        (
            Provisioner,
            launches(&tags(&[("eks:eks-cluster-name", "prod-eu")])),
            false,
            "a launch for another cluster",
        ),
        (
            Provisioner,
            retags(&[("Name", "ip-1"), ("karpenter.sh/nodeclaim", "c")]),
            true,
            "tags of a registered node",
        ),
        (
            Provisioner,
            retags(&[("eks:eks-cluster-name", "other")]),
            false,
            "an instance is not given to another cluster",
        ),
        (
            Provisioner,
            retags(&[("karpenter.sh/nodepool", "other")]),
            false,
            "an instance is not moved to another pool",
        ),
        (InterruptionWatcher, on("sqs:DeleteMessage", &scene.queue), true, "its queue"),
        (
            InterruptionWatcher,
            on("sqs:DeleteMessage", "arn:aws:sqs:us-west-2:123456789012:orders"),
            false,
            "another queue",
        ),
        (InterruptionWatcher, on("sqs:SendMessage", &scene.queue), false, "it writes no message"),
        (InterruptionWatcher, on("events:PutRule", &scene.rule("prod-RebalanceRule")), true, "its own rule"),
        (
            InterruptionWatcher,
            on("events:PutRule", &scene.rule("prod-eu-RebalanceRule")),
            false,
            "the rule of prod-eu",
        ),
        (
            InterruptionWatcher,
            on("events:PutRule", &scene.rule("prod-backup")),
            false,
            "a rule of somebody else",
        ),
        (InterruptionWatcher, targets("prod-RebalanceRule", &scene.queue), true, "its queue as a target"),
        (
            InterruptionWatcher,
            targets("prod-RebalanceRule", "arn:aws:lambda:us-west-2:1:function:f"),
            false,
            "another target",
        ),
        (InterruptionWatcher, on("ec2:DescribeInstances", "*"), true, "the state of instances"),
        (InterruptionWatcher, ends(&[owned, ("karpenter.sh/nodepool", "p")]), false, "it ends nothing"),
        (
            PricingCache,
            shift.clone().with("arc-zonal-shift:ResourceIdentifier", &scene.cluster_arn()),
            true,
            "shifts of this cluster",
        ),
        (
            PricingCache,
            shift.with("arc-zonal-shift:ResourceIdentifier", "arn:aws:eks:us-west-2:1:cluster/x"),
            false,
            "shifts of others",
        ),
        (PricingCache, ends(&[owned, ("karpenter.sh/nodepool", "p")]), false, "it changes nothing"),
    ]
}
