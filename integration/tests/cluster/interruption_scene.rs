//! A removal scene with an interruption-watcher in it: nodes that EC2 may take back, and a queue to put messages into.

use std::path::Path;

use anyhow::{Context, Result, bail};
use integration::{Service, Stack, aws, eventually};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::removal_scene::{Options, Scene};

pub(crate) const SERVICE: &str = "interruption-watcher";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) struct Interruptions {
    pub(crate) scene: Scene,
    pub(crate) watcher: Service,
    arguments: Vec<String>,
}

impl Interruptions {
    pub(crate) async fn new(stack: Stack, name: &str, arguments: &[&str]) -> Result<Self> {
        purge(&stack)?;
        let scene = Scene::alone(stack, name).await?;
        let watcher = Service::start(&scene.stack, SERVICE, 1, arguments)?;
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Ok(Self { scene, watcher, arguments })
    }

    pub(crate) fn end(self) -> Result<()> {
        self.watcher.stop(&self.scene.stack)?;
        self.scene.end()
    }

    /// kill -9, and another process in its place.
    pub(crate) fn kill_and_restart(&mut self) -> Result<()> {
        self.watcher.kill(&self.scene.stack)?;
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.watcher = Service::start(&self.scene.stack, SERVICE, 1, &words)?;
        Ok(())
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.scene.stack
    }

    /// A spot node with instance and claim; returns the instance's id.
    /// A node that the watcher knows: it does nothing about an instance whose NodeClaim it has not seen yet.
    pub(crate) async fn spot_node(&self, name: &str) -> Result<String> {
        let id = self.unseen_spot_node(name).await?;
        eventually("the watcher to know the NodeClaim and its labels", || async {
            let answer = self.call("Replay", &json!({"body": spot_warning(self.stack(), &id)?}))?;
            let words = answer["explanation"].as_str().unwrap_or_default();
            Ok((words.contains(name) && words.contains("marked unavailable")).then_some(()))
        })
        .await?;
        Ok(id)
    }

    pub(crate) async fn unseen_spot_node(&self, name: &str) -> Result<String> {
        let id = self.scene.node(name, &Options::default()).await?;
        self.label(name, json!({"karpenter.sh/capacity-type": "spot"})).await?;
        Ok(id)
    }

    pub(crate) async fn label(&self, name: &str, labels: Value) -> Result<()> {
        let mut all = json!({"node.kubernetes.io/instance-type": "m5.large"});
        for (key, value) in labels.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let patch = json!({"metadata": {"labels": all, "annotations": {"karpenter.sh/traceparent": TRACE}}});
        self.claims().await?.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// What a test leaves would be drained in the middle of the next one.
    pub(crate) async fn remove(&self, name: &str, instance: &str) -> Result<()> {
        self.scene.delete_claim(name).await?;
        self.scene.is_gone(name, instance).await
    }

    pub(crate) fn trace_id() -> &'static str {
        &TRACE[3..35]
    }

    pub(crate) async fn claims(&self) -> Result<Api<DynamicObject>> {
        Ok(self.scene.claims())
    }

    /// The event that EC2 or AWS Health would send, through EventBridge. Does not end the instance.
    pub(crate) fn warn(&self, kind: &str, instance: &str) -> Result<()> {
        let body = json!({"ids": [instance], "kind": kind, "terminate": false});
        aws::put(self.stack(), "/interrupt", &body).map(drop)
    }

    /// Answer of one of the watcher's own methods.
    pub(crate) fn call(&self, method: &str, request: &Value) -> Result<Value> {
        call(self.stack(), &self.watcher, method, request)
    }

    /// What the journal says about an instance, newest first.
    pub(crate) fn told(&self, instance: &str) -> Result<Vec<Value>> {
        let answer = self.call("ListEvents", &json!({"instanceId": instance, "limit": 1000}))?;
        Ok(answer["events"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn told_once(&self, instance: &str, kind: &str) -> Result<Value> {
        eventually(&format!("{kind} about {instance} in the journal"), || async {
            Ok(self.told(instance)?.into_iter().find(|event| event["kind"] == kind))
        })
        .await
    }

    /// Waits until nothing is left in the queue, hidden or not.
    pub(crate) async fn queue_is_empty(&self) -> Result<()> {
        eventually("the queue to be empty", || async { Ok((queued(self.stack())? == 0).then_some(())) }).await
    }
}

pub(crate) fn call(stack: &Stack, watcher: &Service, method: &str, request: &Value) -> Result<Value> {
    let token = stack.var("GRPCURL_AUTHORIZATION")?.trim_start_matches("Bearer ").to_owned();
    let method = format!("karpenter.interruptionwatcher.v1.InterruptionWatcher/{method}");
    // A body may be longer than a command line.
    let file = stack.dir().join("request.json");
    std::fs::write(&file, request.to_string())?;
    let output = grpcurl_with_input(stack, &token, &file, &watcher.grpc, &method)?;
    if !output.status.success() {
        bail!("{method}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn grpcurl_with_input(
    stack: &Stack,
    token: &str,
    input: &Path,
    address: &str,
    method: &str,
) -> Result<std::process::Output> {
    let output = std::process::Command::new(stack.var("GRPCURL")?)
        .arg("-cacert")
        .arg(stack.dir().join("trust.pem"))
        .arg("-H")
        .arg(format!("authorization: Bearer {token}"))
        .args(["-d", "@", address, method])
        .stdin(std::fs::File::open(input)?)
        .output();
    output.with_context(|| format!("call {method}"))
}

/// A call of SQS; the local AWS checks no signature, but reads the service and region out of it.
pub(crate) fn sqs(stack: &Stack, action: &str, body: &Value) -> Result<Value> {
    let region = stack.var("AWS_REGION")?;
    let scope = format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/{region}/sqs/aws4_request, SignedHeaders=host, Signature=0"
    );
    let mut answer = ureq::post(stack.var("AWS_ENDPOINT_URL")?)
        .header("authorization", scope)
        .header("x-amz-target", format!("AmazonSQS.{action}"))
        .header("content-type", "application/x-amz-json-1.0")
        .send(body.to_string())
        .with_context(|| format!("{action} {body}"))?;
    Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
}

pub(crate) fn queue_url(stack: &Stack) -> Result<String> {
    let name = stack.var("INTERRUPTION_QUEUE")?;
    let answer = sqs(stack, "GetQueueUrl", &json!({"QueueName": name}))?;
    Ok(answer["QueueUrl"].as_str().context("a URL")?.to_owned())
}

pub(crate) fn send(stack: &Stack, bodies: &[String]) -> Result<()> {
    let url = queue_url(stack)?;
    for some in bodies.chunks(10) {
        let entry = |(id, body): (usize, &String)| json!({"Id": id.to_string(), "MessageBody": body});
        let entries: Vec<Value> = some.iter().enumerate().map(entry).collect();
        let answer = sqs(stack, "SendMessageBatch", &json!({"QueueUrl": url, "Entries": entries}))?;
        let failed = answer["Failed"].as_array().map_or(0, Vec::len);
        if failed > 0 {
            bail!("{failed} messages were refused: {answer}");
        }
    }
    Ok(())
}

/// Messages in the queue, hidden ones included.
pub(crate) fn queued(stack: &Stack) -> Result<u64> {
    let body = json!({"QueueUrl": queue_url(stack)?, "AttributeNames": ["All"]});
    let attributes = sqs(stack, "GetQueueAttributes", &body)?["Attributes"].clone();
    let number =
        |name: &str| attributes[name].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Ok(number("ApproximateNumberOfMessages") + number("ApproximateNumberOfMessagesNotVisible"))
}

/// Other tests' instances ended, and said so.
fn purge(stack: &Stack) -> Result<()> {
    sqs(stack, "PurgeQueue", &json!({"QueueUrl": queue_url(stack)?})).map(drop)
}

/// A spot warning as EventBridge delivers it, given now.
pub(crate) fn spot_warning(stack: &Stack, instance: &str) -> Result<String> {
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())?;
    Ok(json!({
        "version": "0", "id": format!("test-{instance}"), "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning", "account": "123456789012",
        "region": stack.var("AWS_REGION")?, "time": now.to_string(), "resources": [],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    })
    .to_string())
}
