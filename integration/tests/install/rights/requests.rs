//! What IAM checks for a call that the local AWS recorded: the resources it touches, and the condition keys that AWS fills in for
//! each, by the service authorization reference.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::policy::{ACCOUNT, Authorization, Scene};

type Tags = BTreeMap<String, String>;

/// Tags of what was made before, as later calls meet them on the resource.
#[derive(Default)]
pub(super) struct Made {
    templates: Tags,
    instances: Tags,
    profiles: BTreeMap<String, Tags>,
}

/// Calls in the order in which they were made.
pub(super) fn authorizations(scene: &Scene, made: &mut Made, request: &Value) -> Result<Vec<Authorization>> {
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    let (service, action) = (text("service"), text("action"));
    let params = &request["params"];
    let param = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
    let call = Call { scene, action: permission(service, action), region: text("region") };
    Ok(match (service, action) {
        // Needs no permission.
        ("sts", "GetCallerIdentity") => Vec::new(),
        ("ec2", listing) if listing.starts_with("Describe") => vec![call.on("*")],
        ("pricing", "GetProducts") | ("iam", "ListInstanceProfiles") => vec![call.on("*")],
        ("events", "DescribeRule" | "ListRuleNamesByTarget" | "ListTargetsByRule") => vec![call.on("*")],
        ("events", "PutRule") => vec![call.on(&scene.rule(&param("Name")))],
        ("events", "PutTargets") => {
            let target = params["Targets"][0]["Arn"].as_str().unwrap_or_default();
            vec![call.on(&scene.rule(&param("Rule"))).with("events:TargetArn", target)]
        }
        ("sqs", "GetQueueUrl") => vec![call.on(&scene.queue_arn(&param("QueueName")))],
        ("sqs", _) => {
            let url = param("QueueUrl");
            vec![call.on(&scene.queue_arn(url.rsplit('/').next().unwrap_or_default()))]
        }
        ("eks", "DescribeCluster") => vec![call.on(&scene.cluster_arn())],
        ("arc-zonal-shift", "GetManagedResource") => {
            let about = scene.cluster_arn();
            vec![call.on("*").with("arc-zonal-shift:ResourceIdentifier", &about)]
        }
        ("ssm", "GetParameter") => {
            vec![call.on(&format!("arn:aws:ssm:{}::parameter{}", scene.region, param("Name")))]
        }
        ("ec2", "CreateLaunchTemplate") => {
            made.templates = tagged(params, "launch-template").context("a template has tags")?;
            call.creating(params)
        }
        ("ec2", "CreateFleet" | "RunInstances") => {
            if let Some(tags) = tagged(params, "instance") {
                made.instances = tags;
            }
            let mut all = call.creating(params);
            if params.to_string().contains("LaunchTemplate") {
                all.push(call.on(&scene.ec2("launch-template/lt-1")).tagged("Resource", &made.templates));
            }
            for used in ["subnet/subnet-1", "security-group/sg-1"] {
                all.push(call.on(&scene.ec2(used)));
            }
            all.push(call.on(&format!("arn:aws:ec2:{}::image/ami-1", scene.region)));
            all
        }
        ("ec2", "DeleteLaunchTemplate") => {
            vec![call.on(&scene.ec2("launch-template/lt-1")).tagged("Resource", &made.templates)]
        }
        ("ec2", "CreateTags") => {
            let sent = sent_tags(params);
            vec![
                call.on(&scene.ec2("instance/i-1"))
                    .tagged("Resource", &made.instances)
                    .tagged("Request", &sent),
            ]
        }
        ("ec2", "TerminateInstances") => {
            vec![call.on(&scene.ec2("instance/i-1")).tagged("Resource", &made.instances)]
        }
        ("iam", "CreateInstanceProfile") => {
            let (name, tags) = (param("InstanceProfileName"), sent_tags(params));
            let arn = scene.profile(&param("Path"), &name);
            made.profiles.insert(name, tags.clone());
            let tagging = Call { action: "iam:TagInstanceProfile".to_owned(), ..call.clone() };
            // A profile that is made with tags carries them when its tagging is judged.
            vec![
                call.on(&arn).tagged("Request", &tags),
                tagging.on(&arn).tagged("Request", &tags).tagged("Resource", &tags),
            ]
        }
        ("iam", "GetInstanceProfile") => vec![call.on(&scene.profile("/", &param("InstanceProfileName")))],
        ("iam", "AddRoleToInstanceProfile" | "RemoveRoleFromInstanceProfile" | "DeleteInstanceProfile") => {
            let name = param("InstanceProfileName");
            let tags = made.profiles.get(&name).cloned().unwrap_or_default();
            let mut all = vec![call.on(&scene.profile("/", &name)).tagged("Resource", &tags)];
            if action == "AddRoleToInstanceProfile" {
                let passing = Call { action: "iam:PassRole".to_owned(), ..call.clone() };
                let role = format!("arn:aws:iam::{ACCOUNT}:role/{}", param("RoleName"));
                all.push(passing.on(&role).with("iam:PassedToService", "ec2.amazonaws.com"));
            }
            all
        }
        _ => bail!("this test does not know what {service}:{action} needs"),
    })
}

/// The permission that a call needs, where it has another name.
fn permission(service: &str, action: &str) -> String {
    match action {
        "DeleteMessageBatch" => "sqs:DeleteMessage".to_owned(),
        "ChangeMessageVisibilityBatch" => "sqs:ChangeMessageVisibility".to_owned(),
        other => format!("{service}:{other}"),
    }
}

#[derive(Clone)]
struct Call<'a> {
    scene: &'a Scene,
    action: String,
    region: &'a str,
}

impl Call<'_> {
    fn on(&self, resource: &str) -> Authorization {
        let (action, resource) = (self.action.clone(), resource.to_owned());
        Authorization { action, resource, context: BTreeMap::new() }.with("aws:RequestedRegion", self.region)
    }

    /// One check for each kind of resource that the request tags, and one for tagging it while it is made.
    fn creating(&self, params: &Value) -> Vec<Authorization> {
        let mut all = Vec::new();
        let create = self.action.rsplit(':').next().unwrap_or_default();
        for specification in params["TagSpecifications"].as_array().into_iter().flatten() {
            let kind = specification["ResourceType"].as_str().unwrap_or_default();
            let (resource, tags) = (self.scene.ec2(&format!("{kind}/new")), listed_tags(specification));
            all.push(self.on(&resource).tagged("Request", &tags));
            let tagging = Call { action: "ec2:CreateTags".to_owned(), ..self.clone() };
            all.push(tagging.on(&resource).tagged("Request", &tags).with("ec2:CreateAction", create));
        }
        all
    }
}

impl Authorization {
    pub(super) fn with(mut self, key: &str, value: &str) -> Self {
        self.context.entry(key.to_owned()).or_default().insert(value.to_owned());
        self
    }

    /// `side`: `Request` for tags that are sent, `Resource` for those that are there.
    pub(super) fn tagged(mut self, side: &str, tags: &Tags) -> Self {
        for (key, value) in tags {
            self = self.with(&format!("aws:{side}Tag/{key}"), value);
            if side == "Request" {
                self = self.with("aws:TagKeys", key);
            }
        }
        self
    }
}

impl Scene {
    pub(super) fn ec2(&self, resource: &str) -> String {
        format!("arn:aws:ec2:{}:{ACCOUNT}:{resource}", self.region)
    }

    pub(super) fn rule(&self, name: &str) -> String {
        format!("arn:aws:events:{}:{ACCOUNT}:rule/{name}", self.region)
    }

    fn queue_arn(&self, name: &str) -> String {
        format!("arn:aws:sqs:{}:{ACCOUNT}:{name}", self.region)
    }

    pub(super) fn profile(&self, path: &str, name: &str) -> String {
        format!("arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}")
    }
}

/// Tags that the request gives to resources of this kind.
fn tagged(params: &Value, kind: &str) -> Option<Tags> {
    let all = params["TagSpecifications"].as_array()?;
    all.iter().find(|one| one["ResourceType"] == kind).map(listed_tags)
}

fn listed_tags(specification: &Value) -> Tags {
    let pair = |tag: &Value| Some((tag["Key"].as_str()?.to_owned(), tag["Value"].as_str()?.to_owned()));
    specification["Tags"].as_array().into_iter().flatten().filter_map(pair).collect()
}

/// Tags of a request about one resource, recorded as nested data or as `Tags.member.2.Key`.
fn sent_tags(params: &Value) -> Tags {
    let mut tags = listed_tags(params);
    let flat = params.as_object().into_iter().flatten();
    let keys: BTreeSet<(&String, &str)> = flat
        .filter(|(name, _)| name.starts_with("Tag") && name.ends_with(".Key"))
        .filter_map(|(name, key)| Some((name, key.as_str()?)))
        .collect();
    for (name, key) in keys {
        let value = params[name.replace(".Key", ".Value")].as_str().unwrap_or_default();
        tags.insert(key.to_owned(), value.to_owned());
    }
    tags
}
