//! The IAM policies in `deploy/aws/policies`, and whether they allow something: action, resource and every condition, as IAM
//! decides for statements that only allow.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use integration::Stack;
use integration::stack::root;
use runtime::Service;
use serde::Deserialize;
use serde_json::Value;

pub(super) const ACCOUNT: &str = "123456789012";

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

#[derive(Deserialize)]
struct Policy {
    #[serde(rename = "Statement")]
    statements: Vec<Statement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Statement {
    #[expect(dead_code, reason = "must be there")]
    sid: String,
    effect: String,
    pub(super) action: Vec<String>,
    resource: Vec<String>,
    /// Operator to key to what is wanted.
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, Value>>,
}

/// What one call must be allowed to do: one action on one resource, in a context of condition keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Authorization {
    pub(super) action: String,
    pub(super) resource: String,
    pub(super) context: BTreeMap<String, BTreeSet<String>>,
}

/// Of whom the policies speak.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) cluster: String,
    pub(super) region: String,
    pub(super) queue: String,
}

impl Scene {
    pub(super) fn of(stack: &Stack) -> Result<Self> {
        let region = stack.var("AWS_REGION")?.to_owned();
        let queue = format!("arn:aws:sqs:{region}:{ACCOUNT}:{}", stack.var("INTERRUPTION_QUEUE")?);
        Ok(Self { cluster: stack.var("CLUSTER_NAME")?.to_owned(), region, queue })
    }

    pub(super) fn cluster_arn(&self) -> String {
        format!("arn:aws:eks:{}:{ACCOUNT}:cluster/{}", self.region, self.cluster)
    }

    pub(super) fn node_role_arn(&self) -> String {
        format!("arn:aws:iam::{ACCOUNT}:role/KarpenterNodeRole-{}", self.cluster)
    }

    /// The service's policies with every value filled in.
    pub(super) fn policies(&self, service: Service) -> Result<Vec<Statement>> {
        let values = [
            ("${Partition}", "aws".to_owned()),
            ("${Region}", self.region.clone()),
            ("${Account}", ACCOUNT.to_owned()),
            ("${ClusterName}", self.cluster.clone()),
            ("${ClusterArn}", self.cluster_arn()),
            ("${NodeRoleArns}", self.node_role_arn()),
            ("${QueueArn}", self.queue.clone()),
            ("${RulePrefix}", self.cluster.clone()),
        ];
        let mut statements = Vec::new();
        for file in files(service) {
            let path = root().join(format!("deploy/aws/policies/{file}.json"));
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let text = values.iter().fold(text, |text, (name, value)| text.replace(name, value));
            ensure!(!text.contains("${"), "{}: a value is missing", path.display());
            let policy: Policy =
                serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
            statements.extend(policy.statements);
        }
        Ok(statements)
    }
}

/// IAM allows what any statement allows, and these deny nothing.
pub(super) fn allows(statements: &[Statement], wanted: &Authorization) -> Result<bool> {
    for statement in statements {
        ensure!(statement.effect == "Allow", "a statement with effect {}", statement.effect);
        let meant = statement.action.contains(&wanted.action)
            && statement.resource.iter().any(|pattern| like(pattern, &wanted.resource));
        if meant && holds(&statement.condition, &wanted.context)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(
    condition: &BTreeMap<String, BTreeMap<String, Value>>,
    context: &BTreeMap<String, BTreeSet<String>>,
) -> Result<bool> {
    for (operator, keys) in condition {
        for (key, wanted) in keys {
            let wanted = strings(wanted)?;
            let given = context.get(key);
            let any = |found: &String, matches: fn(&str, &str) -> bool| {
                wanted.iter().any(|pattern| matches(pattern, found))
            };
            let equal = |pattern: &str, found: &str| pattern == found;
            let good = match operator.as_str() {
                "StringEquals" => given.is_some_and(|all| all.iter().any(|one| any(one, equal))),
                "StringLike" | "ArnEquals" => given.is_some_and(|all| all.iter().any(|one| any(one, like))),
                "StringEqualsIfExists" => given.is_none_or(|all| all.iter().any(|one| any(one, equal))),
                "ForAllValues:StringEquals" => given.is_none_or(|all| all.iter().all(|one| any(one, equal))),
                other => bail!("this test does not know the operator {other}"),
            };
            if !good {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn strings(value: &Value) -> Result<Vec<String>> {
    match value {
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(all) => all.iter().map(|one| Ok(one.as_str().context("a string")?.to_owned())).collect(),
        other => bail!("{other} is no value of a condition"),
    }
}

/// `*` stands for any text, also of several parts of an ARN.
fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last: Option<&str> = None;
    for part in parts {
        if let Some(before) = last {
            let Some(at) = rest.find(before) else { return false };
            rest = &rest[at + before.len()..];
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

/// The pure part proves itself before it judges.
pub(super) fn wildcards_match_as_iam_says() -> Result<()> {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*c", "abc", true),
        ("a*c", "ab", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c", false),
        ("rule/prod-Rule", "rule/prod-eu-Rule", false),
        ("arn:aws:ec2:r:*:instance/*", "arn:aws:ec2:r:1:instance/i-1", true),
        ("arn:aws:ec2:r:*:instance/*", "arn:aws:ec2:q:1:instance/i-1", false),
    ] {
        ensure!(like(pattern, text) == expected, "{pattern} and {text}");
    }
    Ok(())
}
