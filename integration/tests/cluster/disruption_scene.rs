//! All services that a node's removal needs, a pool of one test's own, and questions about what became of it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use api::conditions;
use integration::rpc::Impersonation;
use integration::workload::Workload;
use integration::{Service, Stack, eventually};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use model::labels;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::{
    Blocker, Command, CommandPhase, ExplainNodeRequest, ExplainNodeResponse, ListCandidatesRequest,
    ListCandidatesResponse, ListCommandsRequest,
};
use runtime::grpc::Caller;
use serde_json::{Value, json};

/// The second look comes soon, so that a test does not wait for what another shows: that it comes at all.
pub(crate) const QUICK: [&str; 3] = ["--validation-wait=2s", "--look-interval=200ms", "--settle-wait=500ms"];

/// Pools consolidate at once and without limit unless a test says otherwise.
pub(crate) fn pool(disruption: Value) -> Value {
    let mut all = json!({"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]});
    if let (Some(all), Some(own)) = (all.as_object_mut(), disruption.as_object()) {
        all.extend(own.clone());
    }
    json!({"disruption": all})
}

/// On-demand only: spot nodes are not replaced by spot nodes without a gate.
pub(crate) fn on_demand(mut pool: Value) -> Value {
    pool["template"] = json!({"spec": {"requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
        {"key": labels::INSTANCE_GENERATION, "operator": "Gt", "values": ["4"]},
    ]}});
    pool
}

pub(crate) struct Scene {
    pub(crate) stack: Stack,
    pub(crate) workload: Workload,
    pub(crate) disruption: Service,
    pub(crate) others: Vec<Service>,
    caller: Impersonation,
}

impl Scene {
    /// `disruption` is merged over quick settings of the pool; `class` into the EC2NodeClass.
    pub(crate) async fn new(stack: Stack, name: &str, pool: Value) -> Result<Self> {
        Self::with(stack, name, pool, &QUICK).await
    }

    pub(crate) async fn with(stack: Stack, name: &str, pool: Value, flags: &[&str]) -> Result<Self> {
        Self::of(stack, name, pool, json!({}), flags, &[]).await
    }

    /// With a class and flags of the provisioner, too.
    pub(crate) async fn of(
        stack: Stack,
        name: &str,
        pool: Value,
        class: Value,
        flags: &[&str],
        provisioner: &[&str],
    ) -> Result<Self> {
        let others = [("pricing-cache", &[][..]), ("provisioner", provisioner), ("termination", &[])];
        let others: Vec<Service> = others
            .into_iter()
            .map(|(name, flags)| Service::start(&stack, name, 1, flags))
            .collect::<Result<_>>()?;
        let disruption = Service::start(&stack, "disruption", 1, flags)?;
        let workload = Workload::new(&stack, name, pool, class).await?;
        // A person's token: no service has a reason to ask.
        let caller = Impersonation::person(&stack, runtime::Service::Disruption).await?;
        Ok(Self { stack, workload, disruption, others, caller })
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.workload.remove().await?;
        self.disruption.stop(&self.stack)?;
        self.others.iter().rev().try_for_each(|service| service.stop(&self.stack))
    }

    /// Another process in place of the one that decides.
    pub(crate) fn restart(&mut self, flags: &[&str]) -> Result<()> {
        self.disruption.stop(&self.stack)?;
        self.disruption = Service::start(&self.stack, "disruption", 1, flags)?;
        Ok(())
    }

    pub(crate) fn client(&self) -> DisruptionClient<Caller> {
        DisruptionClient::new(self.caller.peers.leader())
    }

    /// Asks one replica of several.
    pub(crate) fn client_of(&self, replica: &str) -> DisruptionClient<Caller> {
        DisruptionClient::new(self.caller.peers.replica(replica))
    }

    pub(crate) fn replicas(&self) -> Vec<String> {
        self.caller.peers.replicas()
    }

    /// Waits until something of this rule holds the node, in these words.
    pub(crate) async fn held_by(&self, node: &str, rule: &str, words: &str) -> Result<()> {
        eventually(&format!("{node} to be held by {rule} that says {words:?}"), || async {
            let candidate = self.explain(node).await?.candidate.context("a candidate")?;
            let holds = |b: &Blocker| b.rule == rule && b.detail.contains(words);
            ensure!(candidate.blockers.iter().any(holds), "{:?}", candidate.blockers);
            ensure!(!candidate.disruptable, "{candidate:?}");
            Ok(Some(()))
        })
        .await
    }

    /// `kubectl karpenter …` as a person runs it, who has a kubeconfig and nothing else.
    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<String> {
        let program = integration::rpc::binary("disruption")?.with_file_name("kubectl-karpenter");
        let mut command = std::process::Command::new(program);
        command.args(words).env("KUBECONFIG", self.stack.var("KUBECONFIG")?);
        let output = command.output().with_context(|| format!("{command:?}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    pub(crate) async fn candidates(&self) -> Result<ListCandidatesResponse> {
        let request = ListCandidatesRequest { node_pool: self.workload.name.clone() };
        Ok(self.client().list_candidates(request).await?.into_inner())
    }

    pub(crate) async fn explain(&self, node: &str) -> Result<ExplainNodeResponse> {
        Ok(self.client().explain_node(ExplainNodeRequest { name: node.to_owned() }).await?.into_inner())
    }

    /// Those of this test's nodes, newest first.
    pub(crate) async fn commands(&self) -> Result<Vec<Command>> {
        Ok(self.client().list_commands(ListCommandsRequest { with_ended: true }).await?.into_inner().commands)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.workload.client.clone())
    }

    pub(crate) fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.workload.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        self.workload.pods()
    }

    pub(crate) async fn node_names(&self) -> Result<BTreeSet<String>> {
        Ok(self.workload.nodes().await?.into_keys().collect())
    }

    pub(crate) async fn patch_pool(&self, spec: Value) -> Result<()> {
        let pools: Api<api::NodePool> = Api::all(self.workload.client.clone());
        pools
            .patch(&self.workload.name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec})))
            .await?;
        Ok(())
    }

    pub(crate) async fn annotate_pool(&self, annotations: Value) -> Result<()> {
        let pools: Api<api::NodePool> = Api::all(self.workload.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        pools.patch(&self.workload.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The condition of the test's NodePool, if it has it.
    pub(crate) async fn pool_condition(&self, type_: &str) -> Result<Option<conditions::Condition>> {
        let pools: Api<api::NodePool> = Api::all(self.workload.client.clone());
        let status = pools.get(&self.workload.name).await?.status.unwrap_or_default();
        Ok(conditions::find(&status.conditions.unwrap_or_default(), type_).cloned())
    }

    pub(crate) async fn annotate_node(&self, node: &str, annotations: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.nodes().patch(node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits for exactly these nodes to be left.
    pub(crate) async fn left(&self, wanted: &BTreeSet<String>) -> Result<()> {
        eventually(&format!("{wanted:?} to be the nodes that are left"), || async {
            Ok((self.node_names().await? == *wanted).then_some(()))
        })
        .await
    }

    /// Waits until so many nodes are left and no claim is on its way.
    pub(crate) async fn settled_at(&self, count: usize) -> Result<BTreeSet<String>> {
        eventually(&format!("{count} nodes to be left"), || async {
            let nodes = self.node_names().await?;
            let claims = self.workload.claims().await?;
            let quiet =
                claims.len() == count && claims.iter().all(|c| c.metadata.deletion_timestamp.is_none());
            Ok((nodes.len() == count && quiet).then_some(nodes))
        })
        .await
    }

    /// Waits for an event of this reason whose message has these words.
    pub(crate) async fn event_about(&self, name: &str, reason: &str, words: &str) -> Result<String> {
        let fields = format!("involvedObject.name={name},reason={reason}");
        let events: Api<Event> = Api::all(self.workload.client.clone());
        eventually(&format!("an event {reason} about {name} that says {words:?}"), || async {
            let found = events.list(&ListParams::default().fields(&fields)).await?.items;
            Ok(found.into_iter().filter_map(|event| event.message).find(|message| message.contains(words)))
        })
        .await
    }

    /// One pod a node: the pods repel each other.
    pub(crate) async fn spread(
        &self,
        name: &str,
        replicas: u32,
        cpu: &str,
        more: Value,
    ) -> Result<Vec<String>> {
        let mut pod = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]}}});
        if let (Some(pod), Some(more)) = (pod.as_object_mut(), more.as_object()) {
            pod.extend(more.clone());
        }
        self.workload.deploy(name, replicas, cpu, pod).await?;
        self.workload.running(name, replicas as usize).await
    }

    /// A pod bound to a node by hand, as if the scheduler had decided before it saw a taint.
    pub(crate) async fn bind(&self, name: &str, node: &str, annotations: Value) -> Result<()> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
                "containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}]},
        }))?;
        self.pods().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    pub(crate) async fn is_tainted(&self, node: &str) -> Result<bool> {
        let node = self.nodes().get(node).await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        Ok(taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT))
    }

    /// Waits for the condition of all claims of the pool.
    pub(crate) async fn all_claims(&self, condition: &str, holds: bool) -> Result<()> {
        eventually(&format!("{condition} to be {holds} on all claims"), || async {
            let claims = self.workload.claims().await?;
            let is = |claim: &NodeClaim| {
                let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
                conditions::is_true(all, condition)
            };
            Ok((!claims.is_empty() && claims.iter().all(|claim| is(claim) == holds)).then_some(()))
        })
        .await
    }

    pub(crate) async fn ended_command(&self, node: &str, phase: CommandPhase) -> Result<Command> {
        eventually(&format!("a command with {node} to end as {phase:?}"), || async {
            let commands = self.commands().await?;
            let is = |c: &Command| c.phase() == phase && c.remove_nodes.iter().any(|name| name == node);
            Ok(commands.into_iter().find(is))
        })
        .await
    }

    /// Waits until a command was taken back because a replacement failed.
    pub(crate) async fn ended_rolled_back(&self) -> Result<Command> {
        eventually("a command to be taken back", || async {
            let is = |c: &Command| c.phase() == CommandPhase::RolledBack && c.detail.contains("replacement");
            Ok(self.commands().await?.into_iter().find(is))
        })
        .await
    }

    /// Every pod of the workload runs on a node that is there.
    pub(crate) async fn all_at_home(&self) -> Result<()> {
        let nodes = self.node_names().await?;
        for pod in self.pods().list(&ListParams::default()).await?.items {
            let node =
                pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a pod without a node")?;
            ensure!(nodes.contains(&node), "pod {} is on {node}, which is gone", pod.name_any());
        }
        Ok(())
    }
}
