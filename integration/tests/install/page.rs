//! The page of worked grpcurl commands: every one of them is run as it stands there.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use api::{NodeClaim, NodePool};
use integration::stack::root;
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, helm, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::fenced::{self, Block};
use crate::forwarded::Forwarded;
use crate::people::{OPERATOR, Person};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("page", alone, every_grpcurl_command_of_the_page_works),
        test!("page", alone, an_operator_asks_an_installed_service_through_port_forward),
    ]
}

fn page() -> Result<String> {
    let path = root().join("deploy/docs/grpcurl.md");
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Those for a cluster with pods are run by [`through_port_forward`].
fn blocks(page: &str) -> Vec<Block> {
    fenced::blocks(page).into_iter().filter(|block| block.kind != "cluster").collect()
}

fn is_stream(block: &Block) -> bool {
    block.kind == "stream"
}

async fn every_grpcurl_command_of_the_page_works(stack: Stack) -> Result<()> {
    let services = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let running: Vec<Service> =
        services.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let workload = Workload::new(&stack, "page", json!({}), json!({})).await?;
    workload.deploy("app", 2, "1", json!({})).await?;
    let node = workload.running("app", 2).await?.swap_remove(0);
    let pods = workload.pods().list(&ListParams::default()).await?.items;
    let pod = pods.first().context("a pod")?.name_any();
    let claim = workload.claims().await?.first().context("a claim")?.name_any();

    let blocks = blocks(&page()?);
    ensure!(blocks.len() > 10, "only {} blocks were found", blocks.len());
    let shell = |script: &str| {
        let script = format!("set -euo pipefail; source {}/env\n{script}", stack.dir().display());
        let mut command = Command::new("bash");
        command.args(["-c", &script]);
        command.env("NODE", &node).env("POD", &pod).env("CLAIM", &claim).env("NAMESPACE", &workload.name);
        command
    };
    for block in blocks.iter().filter(|block| !is_stream(block)) {
        let output = shell(&block.script).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && !output.stdout.is_empty(), "{}\n{said}", block.script);
    }
    // Last, because something must happen to the nodes for a stream to have something to tell.
    let streams: Vec<&str> =
        blocks.iter().filter(|block| is_stream(block)).flat_map(|block| block.script.lines()).collect();
    ensure!(streams.len() == 6, "{streams:?}");
    for script in streams {
        let file = stack.dir().join("stream.json");
        let mut command = shell(&format!("exec {script}"));
        let mut child = command.stdin(Stdio::null()).stdout(std::fs::File::create(&file)?).spawn()?;
        let seen = async {
            let expected = provoke(script, &workload).await?;
            eventually(&format!("{expected:?} in the stream of {script}"), || async {
                Ok(std::fs::read_to_string(&file)?.contains(&expected).then_some(()))
            })
            .await
        }
        .await;
        child.kill()?;
        child.wait()?;
        seen?;
    }
    workload.remove().await?;
    running.iter().try_for_each(|service| service.stop(&stack))
}

/// Makes happen what a stream tells of, and returns a word that its messages then have.
async fn provoke(script: &str, workload: &Workload) -> Result<String> {
    // A command of the page terminates the node that was there.
    workload.scale("app", 2).await?;
    workload.running("app", 2).await?;
    let claims: Api<NodeClaim> = Api::all(workload.client.clone());
    let there = workload.claims().await?;
    let claim = there.iter().find(|c| c.metadata.deletion_timestamp.is_none()).context("a claim")?.name_any();
    match script.rsplit('/').next().unwrap_or_default() {
        "WatchCatalog" => Ok("epoch".to_owned()),
        "WatchCluster" | "WatchCandidates" => Ok(claim),
        // Nothing was ever in the queue, and that is told too.
        "WatchEvents" => Ok("kept".to_owned()),
        "WatchDrain" => {
            claims.delete(&claim, &DeleteParams::default()).await?;
            Ok(claim)
        }
        "WatchCommands" => {
            let patch = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
            let pools: Api<NodePool> = Api::all(workload.client.clone());
            pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            workload.scale("app", 0).await?;
            Ok("removeNodes".to_owned())
        }
        other => bail!("what does the stream of {other} contain?"),
    }
}

async fn an_operator_asks_an_installed_service_through_port_forward(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let prices = Service::start(&stack, "pricing-cache", 0, &[])?;
    let provisioner = Service::start(&stack, "provisioner", 0, &[])?;
    let person = Person::new(&stack).await?;
    person.bind(OPERATOR).await?;
    let forwarded = Forwarded::new(&stack, &provisioner).await?;
    let may_forward = eventually("the RoleBinding to count", || async {
        Ok(person.may("create", "", "pods/portforward", "any").await?.then_some(()))
    });
    let outcome = may_forward.await.and_then(|()| through_port_forward(&stack, &person.kubeconfig));
    forwarded.remove().await?;
    person.remove().await?;
    outcome?;
    provisioner.stop(&stack)?;
    prices.stop(&stack)
}

/// What the page says of a cluster with the chart, and then its questions to the provisioner that name no object, in one shell.
pub(crate) fn through_port_forward(stack: &Stack, kubeconfig: &Path) -> Result<()> {
    const PORT: &str = "9090";
    let all = fenced::blocks(&page()?);
    let of_cluster: Vec<&Block> = all.iter().filter(|block| block.kind == "cluster").collect();
    let [setup] = of_cluster[..] else { bail!("{} blocks for a cluster", of_cluster.len()) };
    // Something else may use the page's port on this machine.
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (forwarded, address) = (format!("{PORT}:{PORT}"), format!("127.0.0.1:{PORT}"));
    ensure!(setup.script.contains(&forwarded) && setup.script.contains(&address), "{}", setup.script);
    let setup = setup.script.replace(&forwarded, &format!("{free}:{PORT}"));
    let setup = setup.replace(&address, &format!("127.0.0.1:{free}"));
    let is_asked = |block: &&Block| {
        let named = ["$NODE", "$POD\\", "$GRPC_DISRUPTION"].iter().any(|name| block.script.contains(name));
        block.kind.is_empty() && block.script.contains("$GRPC_PROVISIONER") && !named
    };
    let questions: Vec<&str> = all.iter().filter(is_asked).map(|block| block.script.as_str()).collect();
    ensure!(questions.len() >= 4, "only {} questions: {questions:?}", questions.len());

    let directory = stack.dir().join("grpcurl");
    std::fs::create_dir_all(&directory)?;
    let programs = helm::program(stack, "kubectl")?;
    let programs = programs.parent().context("its directory")?;
    // A person types the next line when the port is open.
    let script = format!(
        "set -euo pipefail; trap 'kill $!' EXIT; PATH={}:$PATH\n{setup}\n\
         until (: < /dev/tcp/127.0.0.1/{free}) 2>/dev/null; do kill -0 $!; sleep 0.2; done\n{}",
        programs.display(),
        questions.join("\n"),
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(directory).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("run {script}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{script}\n{said}\n{answer}");
    for word in ["karpenter.provisioner.v1.Provisioner", "SERVING", "\"snapshot\""] {
        ensure!(answer.contains(word), "no {word:?} in the answers of\n{script}\n{answer}");
    }
    Ok(())
}
