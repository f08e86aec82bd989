//! What helps against a call that AWS denied: the statement of the shipped IAM policies that allows it. Roles that people wrote
//! themselves, or took over from Karpenter, lack some of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::reason::denied_by;

const POLICIES: [(&str, &str); 6] = [
    ("interruption-rules.json", include_str!("../../../../../deploy/aws/policies/interruption-rules.json")),
    (
        "interruption-watcher.json",
        include_str!("../../../../../deploy/aws/policies/interruption-watcher.json"),
    ),
    ("pricing-cache.json", include_str!("../../../../../deploy/aws/policies/pricing-cache.json")),
    ("provisioner.json", include_str!("../../../../../deploy/aws/policies/provisioner.json")),
    (
        "provisioner-profiles.json",
        include_str!("../../../../../deploy/aws/policies/provisioner-profiles.json"),
    ),
    ("termination.json", include_str!("../../../../../deploy/aws/policies/termination.json")),
];

/// A denial for want of a grant. Other codes of the same kind mean credentials that are invalid or have expired.
const DENIALS: [&str; 3] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"];

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
}

/// Actions, such as `ec2:CreateFleet`, with the files that grant them and the statements there.
type Grants = BTreeMap<String, BTreeMap<&'static str, Vec<String>>>;

static GRANTS: LazyLock<Grants> = LazyLock::new(|| {
    let mut grants = Grants::new();
    for (file, text) in POLICIES {
        // A test reads them all.
        let Ok(policy) = serde_json::from_str::<Policy>(text) else { continue };
        for statement in policy.statement {
            for action in statement.action {
                let files = grants.entry(action).or_default();
                files.entry(file).or_default().push(statement.sid.clone());
            }
        }
    }
    grants
});

/// What somebody must do about this denial of a call; nothing where it is none, or where no policy knows the call.
pub(super) fn remedy(operation: &str, code: &str, message: &str) -> Option<String> {
    if !DENIALS.contains(&code) || message.contains("Not authorized for images") {
        return None;
    }
    let (action, files) = grants_of(operation, message)?;
    if let Some(denier) = denied_by(message) {
        let denier = if denier.is_empty() { "policy" } else { denier };
        return Some(format!(
            "a {denier} denies {action} explicitly, and no grant helps until it is changed"
        ));
    }
    let files: Vec<String> =
        files.iter().map(|(file, statements)| format!("{file} ({})", statements.join(", "))).collect();
    Some(format!(
        "this service's role lacks {action}, which deploy/aws/policies grants in {}",
        files.join(", ")
    ))
}

/// The action that AWS names, else the one of the operation. They differ where a call needs more than its own action:
/// CreateFleet is denied for want of `iam:PassRole`.
fn grants_of(
    operation: &str,
    message: &str,
) -> Option<(&'static str, &'static BTreeMap<&'static str, Vec<String>>)> {
    let grants: &'static Grants = &GRANTS;
    let named = message.split_once("not authorized to perform: ").and_then(|(_, rest)| {
        let end = rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
        grants.get_key_value(rest[..end].trim_end_matches(['.', ',']))
    });
    let own = || {
        let name = operation.strip_suffix("Batch").unwrap_or(operation);
        grants.iter().find(|(action, _)| action.split_once(':').is_some_and(|(_, own)| own == name))
    };
    named.or_else(own).map(|(action, files)| (action.as_str(), files))
}

#[cfg(test)]
mod tests {
    use super::super::{CloudError, ErrorKind, Fault};
    use super::*;

    /// Never called by themselves: AWS demands them of other calls and names them in its message.
    const OF_OTHER_CALLS: [&str; 2] = ["iam:PassRole", "iam:TagInstanceProfile"];

    fn denied(operation: &'static str, code: &str, message: &str) -> String {
        let error = CloudError::new(operation, code, message, Fault::Client);
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        error.to_string()
    }

    #[test]
    fn every_action_that_is_denied_is_reported_with_the_statement_that_grants_it() {
        let mut count = 0;
        for (file, text) in POLICIES {
            let policy: Policy = serde_json::from_str(text).unwrap();
            for statement in &policy.statement {
                for action in &statement.action {
                    count += 1;
                    let (service, operation) = action.split_once(':').unwrap();
                    let operation: &'static str = operation.to_owned().leak();
                    let code = match service {
                        "ec2" => "UnauthorizedOperation",
                        "sqs" | "iam" => "AccessDenied",
                        _ => "AccessDeniedException",
                    };
                    let message = format!(
                        "User: arn:aws:sts::123456789012:assumed-role/r/s is not authorized to perform: {action} on resource: x because no identity-based policy allows the {action} action"
                    );
                    let mut reports = vec![denied("CreateFleet", code, &message)];
                    if !OF_OTHER_CALLS.contains(&action.as_str()) {
                        // SQS and older EC2 endpoints name no action.
                        reports.push(denied(operation, code, ""));
                    }
                    for report in reports {
                        for part in [action.as_str(), file, statement.sid.as_str()] {
                            assert!(report.contains(part), "{action}: no {part} in {report}");
                        }
                    }
                }
            }
        }
        assert!(count > 45, "only {count} actions");
    }

    #[test]
    fn batches_need_the_right_to_the_single_call() {
        let report = denied("DeleteMessageBatch", "AccessDenied", "");
        assert!(report.contains("lacks sqs:DeleteMessage,"), "{report}");
    }

    #[test]
    fn a_grant_is_not_advised_where_it_would_not_help() {
        let message =
            "not authorized to perform: ec2:RunInstances with an explicit deny in a service control policy";
        let report = denied("RunInstances", "UnauthorizedOperation", message);
        assert!(report.contains("a service control policy denies ec2:RunInstances explicitly"), "{report}");
        for (code, message) in [
            ("ExpiredToken", "the token has expired"),
            ("AuthFailure", "AWS was not able to validate the credentials"),
            ("UnauthorizedOperation", "Not authorized for images: [ami-1]"),
        ] {
            assert_eq!(remedy("RunInstances", code, message), None, "{code}");
        }
        assert_eq!(remedy("GetCallerIdentity", "AccessDenied", ""), None);
    }

    #[test]
    fn the_remedy_comes_before_what_aws_said_which_may_be_cut_off() {
        let report = denied("DescribeImages", "UnauthorizedOperation", "You are not authorized.");
        let expected = "DescribeImages: UnauthorizedOperation: this service's role lacks ec2:DescribeImages, which deploy/aws/policies grants in provisioner.json (AllowRegionalReadActions): You are not authorized.";
        assert_eq!(report, expected);
    }
}
