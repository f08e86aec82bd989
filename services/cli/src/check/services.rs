//! The five services: who runs, whether it is SERVING, and that none of its pods stands on a node it might remove.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use runtime::Service;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::finding::Finding;
use super::right::Right;
use crate::connect::{Connection, dial};

const AREA: &str = "services";

/// What is known of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Replica {
    Serving,
    NotServing(String),
    /// Its address cannot be reached from here; what its pod says of itself, if it is one.
    Unreachable {
        pod_ready: Option<bool>,
    },
}

pub(super) async fn check(connection: &Connection, client: &Client) -> Vec<Finding> {
    let each = Service::ALL.map(|service| check_service(connection, client, service));
    join_all(each).await.concat()
}

async fn check_service(connection: &Connection, client: &Client, service: Service) -> Vec<Finding> {
    let namespace = &connection.namespace;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let published = match maps.get_opt(&service.trust_config_map()).await {
        Ok(published) => published.and_then(|map| map.data).unwrap_or_default(),
        Err(error) => {
            let right = Right::in_namespace::<ConfigMap>("get", namespace);
            return vec![right.not_used(AREA, service.as_str(), &error)];
        }
    };
    let own = ListParams::default().labels(&format!("app.kubernetes.io/component={service}"));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let (pods, mut findings) = match pods.list(&own).await {
        Ok(pods) => (pods.items, Vec::new()),
        Err(error) => {
            let right = Right::in_namespace::<Pod>("list", namespace);
            (Vec::new(), vec![right.not_used(AREA, "pods", &error)])
        }
    };
    let replicas = dial::replicas(&published);
    let asked = replicas.iter().map(|replica| ask(connection, client, service, replica, &pods));
    let answers = join_all(asked).await;
    let replicas = replicas.iter().map(|replica| replica.name.clone()).zip(answers).collect();
    findings.push(judge(service, &replicas, &pods));
    findings.extend(misplaced(client, service, &pods).await);
    findings
}

async fn ask(
    connection: &Connection,
    client: &Client,
    service: Service,
    replica: &dial::Replica,
    pods: &[Pod],
) -> Replica {
    let pod = pods.iter().find(|pod| pod.name_any() == replica.name);
    let pod_ready = pod.map(is_ready);
    let reached = connection.reach_replicas(service, std::slice::from_ref(replica), client).await;
    let Ok(channel) = reached else {
        return Replica::Unreachable { pod_ready };
    };
    match HealthClient::new(channel).check(HealthCheckRequest { service: String::new() }).await {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Replica::Serving,
        Ok(answer) => Replica::NotServing(format!("{:?}", answer.get_ref().status())),
        Err(status) => Replica::NotServing(status.message().to_owned()),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|each| each.type_ == "Ready" && each.status == "True")
}

fn judge(service: Service, replicas: &BTreeMap<String, Replica>, pods: &[Pod]) -> Finding {
    let subject = service.as_str();
    let logs = format!("kubectl logs -n <namespace> -l app.kubernetes.io/component={service} --tail=50");
    if replicas.is_empty() {
        let waiting: Vec<String> =
            pods.iter().filter(|pod| !is_ready(pod)).map(|pod| pod.name_any()).collect();
        if waiting.is_empty() {
            return Finding::wrong(
                AREA,
                subject,
                "is not running: no replica has published its address",
                "install it: helm upgrade --install karpenter <charts>/karpenter …",
            );
        }
        let detail = format!("has published no replica; pods that are not ready: {}", waiting.join(", "));
        return Finding::wrong(AREA, subject, detail, format!("kubectl describe pod {}; {logs}", waiting[0]));
    }
    let good = |replica: &Replica| {
        matches!(replica, Replica::Serving | Replica::Unreachable { pod_ready: Some(true) })
    };
    let bad: Vec<String> = replicas
        .iter()
        .filter(|(_, replica)| !good(replica))
        .map(|(name, replica)| match replica {
            Replica::NotServing(why) => format!("{name} is not serving ({why})"),
            Replica::Unreachable { pod_ready: Some(_) } => format!("{name} is not ready"),
            _ => format!("{name} cannot be reached and is not a pod"),
        })
        .collect();
    let count = replicas.values().filter(|replica| good(replica)).count();
    if count == 0 {
        return Finding::wrong(AREA, subject, bad.join("; "), logs);
    }
    if !bad.is_empty() {
        return Finding::note(AREA, subject, format!("{count} serving; {}", bad.join("; ")), logs);
    }
    let reached = replicas.values().all(|replica| *replica == Replica::Serving);
    let how = if reached { "SERVING" } else { "ready (reachable neither directly nor by port-forward)" };
    Finding::good(AREA, subject, format!("{count} {how}"))
}

/// A pod of ours on a node of a pool would be drained by ourselves.
async fn misplaced(client: &Client, service: Service, pods: &[Pod]) -> Vec<Finding> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut findings = Vec::new();
    for pod in pods {
        let Some(name) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
        let node = match nodes.get_opt(&name).await {
            Ok(node) => node,
            Err(error) => {
                findings.push(Right::in_cluster::<Node>("get").not_used(AREA, "nodes", &error));
                continue;
            }
        };
        if let Some(pool) = node.as_ref().and_then(|node| node.labels().get("karpenter.sh/nodepool")) {
            let detail = format!("{} runs on {name}, a node of pool {pool}", pod.name_any());
            let fix = "run it on a managed node group or Fargate; the chart's affinity ensures it";
            findings.push(Finding::wrong(AREA, service.as_str(), detail, fix));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn judged(replicas: &[(&str, Replica)]) -> Finding {
        let replicas = replicas.iter().map(|(name, replica)| ((*name).to_owned(), replica.clone())).collect();
        judge(Service::Termination, &replicas, &[])
    }

    #[test]
    fn a_service_without_replicas_is_wrong_and_one_of_two_is_noted() {
        assert_eq!(judged(&[]).verdict, Verdict::Wrong);
        assert_eq!(judged(&[("a", Replica::Serving)]).verdict, Verdict::Good);
        let starting = Replica::NotServing("NotServing".into());
        let half = judged(&[("a", Replica::Serving), ("b", starting.clone())]);
        assert_eq!(half.verdict, Verdict::Note);
        assert!(half.detail.contains("b is not serving"), "{}", half.detail);
        assert_eq!(judged(&[("b", starting)]).verdict, Verdict::Wrong);
    }

    #[test]
    fn a_pod_that_is_ready_counts_though_its_address_is_out_of_reach() {
        assert_eq!(judged(&[("a", Replica::Unreachable { pod_ready: Some(true) })]).verdict, Verdict::Good);
        assert_eq!(judged(&[("a", Replica::Unreachable { pod_ready: Some(false) })]).verdict, Verdict::Wrong);
        assert_eq!(judged(&[("a", Replica::Unreachable { pod_ready: None })]).verdict, Verdict::Wrong);
    }
}
