//! How many messages a second one interruption-watcher takes from a queue that can serve them, beside the queue's own limit.
//!
//! The local AWS's queue is made for behaviour, not for speed, so this brings ElasticMQ along: `--elasticmq DIR` names a directory with
//! its jars (`mvn dependency:copy-dependencies` of `org.elasticmq:elasticmq-server_2.13`), or `--queue-endpoint URL` a server that
//! runs already. Not part of any test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use integration::figures::{Figure, FiguresFile, Report};
use integration::{Service, Stack};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

#[derive(Parser)]
struct Arguments {
    /// Directory with ElasticMQ's jars.
    #[arg(long, required_unless_present = "queue_endpoint")]
    elasticmq: Option<PathBuf>,
    /// An SQS server that runs already.
    #[arg(long)]
    queue_endpoint: Option<String>,
    /// Messages that the watcher takes.
    #[arg(long, default_value_t = 20_000)]
    messages: usize,
    /// NodeClaims that a quarter of the messages is about.
    #[arg(long, default_value_t = 200)]
    claims: usize,
    #[command(flatten)]
    figures: FiguresFile,
}

const RECEIVERS: usize = 16;

/// Ends the server with us.
struct Server(Option<Child>);

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Nothing is left to do about a process that cannot be ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (server, endpoint) = match (&arguments.queue_endpoint, &arguments.elasticmq) {
        (Some(endpoint), _) => (Server(None), endpoint.clone()),
        (None, Some(jars)) => start(jars)?,
        (None, None) => bail!("--elasticmq or --queue-endpoint"),
    };
    let stack = Stack::up_in("bench-interruption")?;
    let mut report = Report::default();
    let measured = measure(&stack, &endpoint, &arguments, &mut report);
    let outcome = tokio::runtime::Runtime::new()?.block_on(measured);
    drop(server);
    stack.down()?;
    report.write(&arguments.figures)?;
    outcome
}

fn start(jars: &std::path::Path) -> Result<(Server, String)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let child = Command::new("java")
        .arg("-Drest-sqs.bind-hostname=127.0.0.1")
        .arg(format!("-Drest-sqs.bind-port={port}"))
        .arg(format!("-Dnode-address.port={port}"))
        .arg("-Drest-stats.enabled=false")
        .args(["-cp", &format!("{}/*", jars.display()), "org.elasticmq.server.Main"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start java")?;
    let server = Server(Some(child));
    let endpoint = format!("http://127.0.0.1:{port}");
    let began = Instant::now();
    while sqs(&endpoint, "ListQueues", &json!({})).is_err() {
        if began.elapsed() > Duration::from_secs(120) {
            bail!("ElasticMQ does not answer at {endpoint}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok((server, endpoint))
}

fn sqs(endpoint: &str, action: &str, body: &Value) -> Result<Value> {
    let mut answer = ureq::post(endpoint)
        .header("x-amz-target", format!("AmazonSQS.{action}"))
        .header("content-type", "application/x-amz-json-1.0")
        .send(body.to_string())
        .with_context(|| format!("{action} at {endpoint}"))?;
    let text = answer.body_mut().read_to_string()?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn create(endpoint: &str, name: &str) -> Result<String> {
    let made = sqs(endpoint, "CreateQueue", &json!({"QueueName": name}))?;
    Ok(made["QueueUrl"].as_str().context("a URL")?.to_owned())
}

fn send(endpoint: &str, url: &str, bodies: &[String]) -> Result<()> {
    std::thread::scope(|scope| {
        let senders: Vec<_> = bodies
            .chunks(bodies.len().div_ceil(4))
            .map(|part| {
                scope.spawn(move || {
                    for some in part.chunks(10) {
                        let entry =
                            |(id, body): (usize, &String)| json!({"Id": id.to_string(), "MessageBody": body});
                        let entries: Vec<Value> = some.iter().enumerate().map(entry).collect();
                        sqs(endpoint, "SendMessageBatch", &json!({"QueueUrl": url, "Entries": entries}))?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        senders.into_iter().try_for_each(|sender| sender.join().expect("a sender does not panic"))
    })
}

/// Receives and deletes and does nothing else.
fn drain(endpoint: &str, url: &str, messages: usize) -> Result<Duration> {
    let (done, began) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..RECEIVERS {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < messages {
                    let request = json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1});
                    let Ok(answer) = sqs(endpoint, "ReceiveMessage", &request) else { continue };
                    let found = answer["Messages"].as_array().cloned().unwrap_or_default();
                    let entry = |(id, message): (usize, &Value)| json!({"Id": id.to_string(), "ReceiptHandle": message["ReceiptHandle"]});
                    let entries: Vec<Value> = found.iter().enumerate().map(entry).collect();
                    let request = json!({"QueueUrl": url, "Entries": entries});
                    if !entries.is_empty() && sqs(endpoint, "DeleteMessageBatch", &request).is_ok() {
                        done.fetch_add(found.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(began.elapsed())
}

async fn measure(stack: &Stack, endpoint: &str, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let Arguments { messages, claims, .. } = *arguments;
    let url = create(endpoint, stack.var("INTERRUPTION_QUEUE")?)?;
    let bodies = bodies(stack, messages, claims)?;
    send(endpoint, &url, &bodies)?;
    let limit = drain(endpoint, &url, messages)?;
    let limit = messages as f64 / limit.as_secs_f64();
    report.add(
        Figure::new("messages taken from the queue by 16 plain receivers", limit, "/s").more_is_better(),
    );

    make_claims(stack, claims).await?;
    // Binaries of the same build as this program.
    let own = std::env::current_exe()?;
    let directory = format!("--bin-dir={}", own.parent().context("a directory")?.display());
    let options = [directory.as_str()];
    Service::start_with(stack, "termination", 1, &options)?;
    send(endpoint, &url, &bodies)?;
    let setting = format!("--env=AWS_ENDPOINT_URL_SQS={endpoint}");
    let options: Vec<&str> = options.into_iter().chain([setting.as_str()]).collect();
    let watcher = Service::start_with(stack, "interruption-watcher", 1, &options)?;
    let deleted = || watcher.metric("karpenter_interruption_deleted_messages_total", "");
    let before = deleted()?;
    let (began, mut most) = (Instant::now(), 0);
    while deleted()? < messages as f64 {
        most = most.max(watcher.resident_bytes()?);
        if began.elapsed() > Duration::from_secs(600) {
            bail!("only {} of {messages} messages were taken", deleted()?);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let rate = (messages as f64 - before) / began.elapsed().as_secs_f64();
    report.add(Figure::new("messages taken by one interruption-watcher", rate, "/s").at_least(1_000.0));
    report.add(Figure::new("most resident meanwhile", most as f64 / 1e6, "MB").at_most(60.0));
    let disrupted = watcher.metric("karpenter_nodeclaims_disrupted_total", "")?;
    ensure!(disrupted == claims as f64, "{disrupted} claims were handed over, not {claims}");
    Ok(())
}

fn bodies(stack: &Stack, messages: usize, claims: usize) -> Result<Vec<String>> {
    let region = stack.var("AWS_REGION")?;
    let body = |number: usize| {
        let instance = match number % 4 {
            0 => instance(number / 4 % claims.max(1)),
            _ => format!("i-0{number:016x}"),
        };
        json!({
            "version": "0", "id": number.to_string(), "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning", "region": region,
            "time": "2026-01-01T00:00:00Z", "resources": [],
            "detail": {"instance-id": instance, "instance-action": "terminate"},
        })
        .to_string()
    };
    Ok((0..messages).map(body).collect())
}

fn instance(number: usize) -> String {
    format!("i-f{number:016x}")
}

async fn make_claims(stack: &Stack, claims: usize) -> Result<()> {
    let kind = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"});
    let api: Api<DynamicObject> = integration::kubernetes::api_of(&stack.admin().await?, &kind).await?;
    for number in 0..claims {
        let name = format!("bench-{number}");
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "bench", "karpenter.sh/capacity-type": "spot"},
                         "finalizers": ["karpenter.sh/termination"]},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "bench"},
                     "requirements": [], "expireAfter": "Never"},
        });
        api.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
        let status = json!({"status": {"providerID": format!("aws:///us-west-2a/{}", instance(number))}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}
