//! The local AWS's control path: switches faults on and off, and tells which calls were made.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::stack::Stack;

/// Switches that change what AWS answers to everybody on a cluster.
const FAULTS: [&str; 9] = [
    "/ice",
    "/errors",
    "/boot",
    "/latency",
    "/throttle",
    "/partial-pages",
    "/odd-answers",
    "/permissions",
    "/settings",
];

pub fn get(stack: &Stack, path: &str) -> Result<Value> {
    let url = url(stack, path)?;
    Ok(ureq::get(&url).call().with_context(|| format!("GET {url}"))?.body_mut().read_json()?)
}

pub fn put(stack: &Stack, path: &str, body: &Value) -> Result<Value> {
    ensure!(
        stack.may_switch_faults() || !FAULTS.contains(&path),
        "a test that switches {path} must be alone on its cluster"
    );
    let url = url(stack, path)?;
    let mut answer = ureq::put(&url).send_json(body).with_context(|| format!("PUT {url} {body}"))?;
    Ok(answer.body_mut().read_json()?)
}

pub fn delete(stack: &Stack, path: &str) -> Result<()> {
    let url = url(stack, path)?;
    ureq::delete(&url).call().map(drop).with_context(|| format!("DELETE {url}"))
}

fn url(stack: &Stack, path: &str) -> Result<String> {
    Ok(format!("{}{path}", stack.var("AWS_CONTROL_URL")?))
}

pub fn post(stack: &Stack, path: &str, body: &Value) -> Result<Value> {
    let url = url(stack, path)?;
    let mut answer = ureq::post(&url).send_json(body).with_context(|| format!("POST {url} {body}"))?;
    Ok(answer.body_mut().read_json()?)
}

/// Faults, prices and settings as they are at the start; instances stay.
pub(crate) fn reset(stack: &Stack) -> Result<()> {
    post(stack, "/reset", &json!({})).map(drop)
}
