//! Whose credentials AWS sees: those that a pod has through Pod Identity or IRSA, found by the SDK without a flag of ours.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, aws, test};

use crate::pricing_scene::{NAME, forget_everything};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing_credentials", alone, credentials_are_those_that_pod_identity_gives),
        test!(
            "pricing_credentials",
            alone,
            credentials_are_those_of_the_role_that_a_service_account_may_take
        ),
    ]
}

/// Takes the keys away that the local stack gives every service.
const NO_KEYS: [&str; 4] = ["--env", "AWS_ACCESS_KEY_ID=", "--env", "AWS_SECRET_ACCESS_KEY="];

/// Access keys that asked for instance types, and how often a role was taken.
fn callers(stack: &Stack) -> Result<(Vec<String>, u64)> {
    let calls = aws::get(stack, "/calls?limit=0")?;
    let by_key = calls["byAccessKey"].as_object().context("callers")?;
    let asked = by_key.iter().filter(|(_, made)| made["ec2:DescribeInstanceTypes"].is_u64());
    let counts = calls["counts"].as_object().context("counts")?;
    let taken = counts.iter().filter(|(name, _)| name.ends_with(":AssumeRoleWithWebIdentity"));
    Ok((asked.map(|(key, _)| key.clone()).collect(), taken.filter_map(|(_, n)| n.as_u64()).sum()))
}

/// Answers one request as the agent of Pod Identity does, and returns the token that came with it.
fn agent(mut stream: TcpStream) -> Result<String> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part)?;
        ensure!(read > 0, "the request ended early");
        request.extend(&part[..read]);
    }
    let body =
        r#"{"AccessKeyId":"POD","SecretAccessKey":"x","Token":"y","Expiration":"2099-01-01T00:00:00Z"}"#;
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let request = String::from_utf8(request)?;
    let token = request.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    });
    Ok(token.unwrap_or_default())
}

async fn credentials_are_those_that_pod_identity_gives(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::delete(&stack, "/calls")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let uri = format!("AWS_CONTAINER_CREDENTIALS_FULL_URI=http://{}/v1/credentials", listener.local_addr()?);
    let asked = std::thread::spawn(move || -> Result<String> { agent(listener.accept()?.0) });
    let file = stack.dir().join("pod-identity-token");
    std::fs::write(&file, "a token of this pod")?;
    let token = format!("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE={}", file.display());
    let options = [NO_KEYS.as_slice(), &["--env", uri.as_str(), "--env", token.as_str()]].concat();
    let service = Service::start_with(&stack, NAME, 1, &options)?;
    service.stop(&stack)?;
    let shown = asked.join().map_err(|_| anyhow::anyhow!("the agent panicked"))??;
    ensure!(shown == "a token of this pod", "the agent was shown {shown:?}");
    let (callers, _) = callers(&stack)?;
    ensure!(callers == ["POD"], "EC2 was asked by {callers:?}");
    Ok(())
}

async fn credentials_are_those_of_the_role_that_a_service_account_may_take(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::delete(&stack, "/calls")?;
    let file = stack.dir().join("web-identity-token");
    std::fs::write(&file, "e30.e30.e30")?;
    let token = format!("AWS_WEB_IDENTITY_TOKEN_FILE={}", file.display());
    let role = "AWS_ROLE_ARN=arn:aws:iam::123456789012:role/karpenter-pricing-cache";
    let options = [NO_KEYS.as_slice(), &["--env", token.as_str(), "--env", role]].concat();
    let service = Service::start_with(&stack, NAME, 1, &options)?;
    service.stop(&stack)?;
    let (callers, taken) = callers(&stack)?;
    ensure!(taken >= 1, "no role was taken");
    ensure!(callers.len() == 1 && callers[0].starts_with("ASIA"), "EC2 was asked by {callers:?}");
    Ok(())
}
