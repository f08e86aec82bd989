//! The local AWS's record beside the policies in `deploy/aws/policies`: every call is allowed to its caller, every action that is
//! allowed is called, and what IAM will demand of tags is really sent.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use integration::stack::root;
use integration::{Stack, aws};
use runtime::Service;
use serde::Deserialize;
use serde_json::Value;

/// Policy files of a service.
fn files(service: Service) -> &'static [&'static str] {
    match service {
        Service::Provisioner => &["provisioner", "provisioner-profiles"],
        Service::Disruption => &[],
        Service::Termination => &["termination"],
        Service::InterruptionWatcher => &["interruption-watcher", "interruption-rules"],
        Service::PricingCache => &["pricing-cache"],
    }
}

/// Allowed, and not to be seen as a call of its own or not in this record; why.
const NOT_RECORDED: &[(&str, &str)] = &[
    ("iam:PassRole", "checked by AWS when an instance profile gets its role and when it is launched"),
    ("iam:TagInstanceProfile", "checked by AWS when a profile is made with tags"),
    ("iam:GetInstanceProfile", "only for a class with spec.instanceProfile, or after a profile vanished"),
    ("ec2:DescribePlacementGroups", "only for a class with a placement group"),
    ("events:PutRule", "only with --manage-rules where a rule is missing; the local AWS has all five"),
    ("events:PutTargets", "as above"),
    ("sqs:ChangeMessageVisibility", "only for a message that could not be handled"),
];

/// Needs no permission.
const FREE: &[&str] = &["sts:GetCallerIdentity"];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Policy {
    statement: Vec<Statement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    sid: String,
    action: Vec<String>,
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, Value>>,
}

fn policies(stack: &Stack, service: Service) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    for file in files(service) {
        let path = root().join(format!("deploy/aws/policies/{file}.json"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let text = text
            .replace("${ClusterName}", stack.var("CLUSTER_NAME")?)
            .replace("${Region}", stack.var("AWS_REGION")?);
        let policy: Policy =
            serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
        statements.extend(policy.statement);
    }
    Ok(statements)
}

/// The permission that a call needs, where it has another name.
fn permission(call: &str) -> String {
    match call {
        "sqs:DeleteMessageBatch" => "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibilityBatch" => "sqs:ChangeMessageVisibility",
        other => other,
    }
    .to_owned()
}

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
    let mut complaints = Vec::new();
    for service in Service::ALL {
        let statements = policies(stack, service)?;
        let allowed: BTreeSet<String> = statements.iter().flat_map(|each| each.action.clone()).collect();
        let made = calls.by_key.get(service.as_str()).cloned().unwrap_or_default();
        let needed: BTreeSet<String> =
            made.keys().map(|call| permission(call)).filter(|call| !FREE.contains(&call.as_str())).collect();
        for action in needed.difference(&allowed) {
            complaints.push(format!("{service}: calls {action}, which its policy does not allow"));
        }
        for action in allowed.difference(&needed) {
            if !NOT_RECORDED.iter().any(|(name, _)| name == action) {
                complaints.push(format!("{service}: its policy allows {action}, which it never calls"));
            }
        }
        let of_service = calls.requests.iter().filter(|request| request["accessKey"] == service.as_str());
        for request in of_service {
            complaints.extend(
                missing_tags(&statements, request).into_iter().map(|what| format!("{service}: {what}")),
            );
        }
    }
    complaints.sort();
    complaints.dedup();
    Ok(complaints)
}

/// Conditions on the request's tags that a call does not meet.
fn missing_tags(statements: &[Statement], request: &Value) -> Vec<String> {
    let action = format!(
        "{}:{}",
        request["service"].as_str().unwrap_or_default(),
        request["action"].as_str().unwrap_or_default()
    );
    let tags = sent_tags(&request["params"]);
    let demanding: Vec<&Statement> = statements
        .iter()
        .filter(|statement| statement.action.contains(&action))
        .filter(|statement| {
            statement
                .condition
                .values()
                .flat_map(BTreeMap::keys)
                .any(|key| key.starts_with("aws:RequestTag/"))
        })
        .collect();
    // Tags of an existing instance: which keys may be touched is the condition there.
    if demanding.is_empty() || action == "ec2:CreateTags" || action == "ec2:RunInstances" {
        return Vec::new();
    }
    let unmet = |statement: &&Statement| -> Vec<String> {
        let mut unmet = Vec::new();
        for (operator, keys) in &statement.condition {
            for (key, wanted) in keys {
                let Some(tag) = key.strip_prefix("aws:RequestTag/") else { continue };
                let sent = tags.get(tag);
                let good = match (operator.as_str(), sent, wanted.as_str()) {
                    ("StringEquals", Some(sent), Some(wanted)) => sent == wanted,
                    ("StringLike", Some(_), Some("*")) => true,
                    ("StringEqualsIfExists", sent, wanted) => {
                        sent.map(String::as_str).is_none_or(|sent| Some(sent) == wanted)
                    }
                    _ => false,
                };
                if !good {
                    unmet.push(format!(
                        "{action} sends tag {tag} = {sent:?}, {} wants {wanted}",
                        statement.sid
                    ));
                }
            }
        }
        unmet
    };
    let all: Vec<Vec<String>> = demanding.iter().map(unmet).collect();
    if all.iter().any(Vec::is_empty) { Vec::new() } else { all.into_iter().flatten().collect() }
}

/// Tags anywhere in a request, whether it is recorded as nested data or as `TagSpecification.1.Tag.2.Key`.
fn sent_tags(params: &Value) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    collect(params, &mut tags);
    if let Some(flat) = params.as_object() {
        for (name, key) in flat.iter().filter(|(name, _)| name.contains("Tag") && name.ends_with(".Key")) {
            let value = flat.get(&name.replace(".Key", ".Value")).and_then(Value::as_str).unwrap_or_default();
            tags.insert(key.as_str().unwrap_or_default().to_owned(), value.to_owned());
        }
    }
    tags
}

fn collect(value: &Value, tags: &mut BTreeMap<String, String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, tags)),
        Value::Object(fields) => {
            if let (Some(Value::String(key)), Some(Value::String(value))) =
                (fields.get("Key"), fields.get("Value"))
            {
                tags.insert(key.clone(), value.clone());
            }
            fields.values().for_each(|field| collect(field, tags));
        }
        _ => {}
    }
}
