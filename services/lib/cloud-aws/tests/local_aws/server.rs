//! Starts the local AWS and talks to its control path.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use cloud::Tags;
use cloud::instance::{CLUSTER_TAG, NODECLASS_TAG, NODEPOOL_TAG, ownership_tag};
use cloud::launch::{FleetRequest, FleetTarget, FleetTemplate, Launcher, Override};
use cloud::nodeclass::{NodeClassSource, Subnet};
use cloud::select::{Select, TagFilter};
use cloud::template::{
    BlockDevice, Ebs, Interface, LaunchTemplate, MetadataOptions, ReservationChoice, TemplateData,
};
use cloud_aws::{Aws, Keys, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where the cluster is seeded.
pub(crate) const REGION: &str = "us-west-2";
pub(crate) const CLUSTER: &str = "adapter-test";

struct Server {
    api: String,
    control: String,
}

/// Ends with this process: it is told by the end of the pipe it reads.
const SCRIPT: &str = r#""$0" "$1" --port 0 --control-port 0 --region us-west-2 --cluster-name "$2" --cluster-endpoint https://127.0.0.1:6443 &
server=$!
cat >/dev/null
kill $server
wait $server"#;

fn server() -> &'static Server {
    static STARTED: OnceLock<Server> = OnceLock::new();
    STARTED.get_or_init(|| start().expect("the local AWS starts"))
}

fn start() -> Result<Server> {
    let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let python = cache_dir()?.join("venv/bin/python");
    if !python.exists() {
        bail!(
            "{} is missing: run `make test` once, which builds it, or set KARPENTER_CACHE",
            python.display()
        );
    }
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(SCRIPT)
        .arg(&python)
        .arg(top.join("deploy/local/aws/server.py"))
        .arg(CLUSTER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting a shell for the local AWS")?;
    // Held open until this process ends.
    std::mem::forget(child.stdin.take());
    let mut lines = BufReader::new(child.stdout.take().context("the server has an output")?).lines();
    let line = lines.next().context("the local AWS ended before it listened; its errors are above")??;
    // What the server says later is read too: a server whose output goes nowhere fails where it should only complain.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
    let mut urls = line.split_whitespace().filter(|word| word.starts_with("http://")).map(str::to_owned);
    let (Some(api), Some(control)) = (urls.next(), urls.next()) else {
        bail!("the local AWS said {line:?} instead of its addresses");
    };
    let seeded = Command::new(&python)
        .arg(top.join("deploy/local/aws/seed.py"))
        .args(["--endpoint", &api, "--cluster-name", CLUSTER, "--region", REGION])
        .stdout(Stdio::null())
        .status()
        .context("starting seed.py")?;
    if !seeded.success() {
        bail!("seed.py failed; its errors are above");
    }
    Ok(Server { api, control })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no Config; this is where `make` puts what it builds"
)]
fn cache_dir() -> Result<PathBuf> {
    if let Ok(dir) = std::env::var("KARPENTER_CACHE") {
        return Ok(dir.into());
    }
    Ok(PathBuf::from(std::env::var("HOME").context("HOME is set")?).join(".cache/karpenter"))
}

/// A connection with an access key of its own.
pub(crate) struct Local {
    pub(crate) aws: Aws,
    pub(crate) region: &'static str,
    pub(crate) key: &'static str,
}

pub(crate) async fn connect(region: &'static str, key: &'static str) -> Local {
    connect_with(region, key, |_| {}).await
}

pub(crate) async fn connect_with(
    region: &'static str,
    key: &'static str,
    change: impl FnOnce(&mut Options),
) -> Local {
    // The server's output is waited for, which must not stop the runtime's other tasks.
    let api = tokio::task::spawn_blocking(|| server().api.clone()).await.expect("the local AWS starts");
    let keys = Keys { access_key_id: key.into(), secret_access_key: "unused".into() };
    let mut options =
        Options { region: Some(region.into()), endpoint: Some(api), keys: Some(keys), ..Options::default() };
    change(&mut options);
    Local { aws: Aws::connect(options).await.expect("a region is given"), region, key }
}

impl Local {
    /// A request to the control path, with this test's region.
    pub(crate) async fn control(&self, method: &str, path: &str, mut body: Value) -> Value {
        if body.get("region").is_none() && path != "/settings" {
            body["region"] = json!(self.region);
        }
        control(method, path, &body).await.unwrap_or_else(|e| panic!("{method} {path} {body}: {e:#}"))
    }

    /// EC2 as its owner uses it, to make what the adapter only reads.
    pub(crate) fn ec2(&self) -> aws_sdk_ec2::Client {
        let keys = aws_sdk_ec2::config::Credentials::builder()
            .access_key_id("owner")
            .secret_access_key("unused")
            .provider_name("test")
            .build();
        let config = aws_sdk_ec2::Config::builder()
            .behavior_version_latest()
            .region(aws_sdk_ec2::config::Region::new(self.region))
            .endpoint_url(&server().api)
            .credentials_provider(keys);
        aws_sdk_ec2::Client::from_conf(config.build())
    }

    /// Calls of `action` made with this test's key.
    pub(crate) async fn calls(&self, action: &str) -> u64 {
        let path = format!("/calls?action={action}&accessKey={}&limit=1000", self.key);
        let answer = self.control("GET", &path, json!({})).await;
        answer["requests"].as_array().expect("the log lists requests").len() as u64
    }

    /// The cluster's private subnets by zone, and its security groups.
    pub(crate) async fn network(&self) -> Network {
        let discovery = || Select::Tags(vec![TagFilter::is("karpenter.sh/discovery", CLUSTER)]);
        let subnets = self.aws.subnets(discovery()).await.expect("subnets are listed");
        let groups = self.aws.security_groups(discovery()).await.expect("security groups are listed");
        Network { subnets, groups: groups.into_iter().map(|g| g.id).collect() }
    }

    /// Creates the template `name` for the default image of the cluster.
    pub(crate) async fn template(&self, name: &str) -> Network {
        let network = self.network().await;
        let template = launch_template(name, &self.image().await, &network.groups);
        self.aws.create_launch_template(template).await.expect("the template is created");
        network
    }

    pub(crate) async fn image(&self) -> String {
        let path =
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
        self.aws.parameter(path).await.expect("SSM answers").expect("the parameter exists")
    }
}

pub(crate) struct Network {
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) groups: Vec<String>,
}

impl Network {
    /// Every type in every zone.
    pub(crate) fn fleet(&self, template: &str, target: FleetTarget, types: &[&str]) -> FleetRequest {
        let place = |t: &&str, subnet: &Subnet| Override {
            instance_type: (*t).to_owned(),
            zone: subnet.zone.clone(),
            subnet_id: subnet.id.clone(),
            image_id: None,
            priority: None,
        };
        let overrides = types.iter().flat_map(|t| self.subnets.iter().map(move |s| place(t, s))).collect();
        FleetRequest {
            count: 1,
            client_token: None,
            target,
            prioritized: false,
            context: None,
            tags: node_tags(),
            templates: vec![FleetTemplate { name: template.to_owned(), overrides }],
        }
    }
}

pub(crate) fn node_tags() -> Tags {
    Tags::from([
        (ownership_tag(CLUSTER), "owned".into()),
        (CLUSTER_TAG.into(), CLUSTER.into()),
        (NODEPOOL_TAG.into(), "default".into()),
        (NODECLASS_TAG.into(), "default".into()),
    ])
}

pub(crate) fn launch_template(name: &str, image_id: &str, groups: &[String]) -> LaunchTemplate {
    LaunchTemplate {
        name: name.to_owned(),
        tags: node_tags(),
        data: TemplateData {
            image_id: image_id.to_owned(),
            instance_profile: Some(format!("KarpenterNodeInstanceProfile-{CLUSTER}")),
            user_data: Some("aGVsbG8=".into()),
            detailed_monitoring: true,
            block_devices: vec![BlockDevice {
                device_name: "/dev/xvda".into(),
                ebs: Some(Ebs {
                    encrypted: Some(true),
                    iops: Some(0),
                    size_gib: Some(30),
                    volume_type: Some("gp3".into()),
                    ..Ebs::default()
                }),
            }],
            metadata: Some(MetadataOptions {
                endpoint: true,
                ipv6: Some(false),
                hop_limit: 1,
                tokens_required: true,
            }),
            nested_virtualization: None,
            interfaces: vec![Interface { security_group_ids: groups.to_vec(), ..Interface::default() }],
            tenancy: "default".into(),
            placement_group_id: None,
            partition: None,
            enclave: false,
            reservation: ReservationChoice::Avoid,
            market: None,
            tags: node_tags(),
            spot: false,
        },
    }
}

async fn control(method: &str, path: &str, body: &Value) -> Result<Value> {
    let address = server().control.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.context("connecting to the control path")?;
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an HTTP answer")?;
    if !head.lines().next().is_some_and(|status| status.contains(" 200 ")) {
        bail!("{head}\n{body}");
    }
    Ok(serde_json::from_str(body)?)
}
