//! What the services may do is what they do: a day in the life of a cluster, recorded by the API server's audit log and by the local
//! AWS, compared with the chart's rights and with the IAM policies. A right that is missing fails, and so does one that nobody
//! uses, unless the rule itself says when it is needed (`rare`).

mod iam;
mod policy;
mod rbac;
mod requests;
mod scenario;

use anyhow::{Result, ensure};
use integration::{Stack, Test, test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("rights", alone, what_the_services_may_do_is_what_they_do),
        test!("rights", the_iam_policies_deny_what_nobody_needs),
    ]
}

async fn the_iam_policies_deny_what_nobody_needs(_: Stack) -> Result<()> {
    iam::the_policies_deny_what_nobody_needs()
}

async fn what_the_services_may_do_is_what_they_do(stack: Stack) -> Result<()> {
    let calls = scenario::play(&stack).await?;
    let mut complaints = rbac::compare(&stack)?;
    complaints.extend(iam::compare(&stack, &calls)?);
    ensure!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    Ok(())
}
