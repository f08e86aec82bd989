use std::sync::Arc;

use jiff::Timestamp;
use model::node::NodeState;

use super::{Cluster, build};
use crate::catalogue;
use crate::features::Features;
use crate::manifest::{InputError, read};

fn cluster_with(text: &str, gates: &str) -> Result<Cluster, InputError> {
    let directory = std::env::temp_dir().join(format!("cli-cluster-{}-{}", std::process::id(), text.len()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("input.yaml");
    std::fs::write(&file, text).unwrap();
    let (objects, sources) = read(&[file.display().to_string()], &mut |_| {})?;
    let catalogue = catalogue::builtin();
    let features: Features = gates.parse().unwrap();
    let built = build(objects, &sources, &catalogue, &features, Timestamp::UNIX_EPOCH);
    std::fs::remove_dir_all(&directory).unwrap();
    built
}

fn cluster(text: &str) -> Cluster {
    cluster_with(text, "").unwrap()
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
";

#[test]
fn replicas_are_pending_pods_that_share_one_spec() {
    let cluster = cluster(WEB);
    let names: Vec<String> = cluster.input.pods.iter().map(|p| p.key()).collect();
    assert_eq!(names, ["shop/web-0", "shop/web-1", "shop/web-2", "shop/web-3"]);
    assert!(cluster.input.pods.iter().all(|p| Arc::ptr_eq(&p.spec, &cluster.input.pods[0].spec)));
    assert!(cluster.input.pods.iter().all(|p| p.node.is_none() && p.rejected.is_none()));
}

#[test]
fn pods_of_a_workload_that_are_there_count_towards_its_replicas() {
    let text = format!(
        "{WEB}
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web-abc, namespace: shop, ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}}]}}
spec: {{replicas: 4, selector: {{}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web-abc-x, namespace: shop, labels: {{app: web}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: u, controller: true}}]}}
spec: {{containers: []}}
"
    );
    let names: Vec<String> = cluster(&text).input.pods.iter().map(|p| p.key()).collect();
    assert_eq!(names, ["shop/web-abc-x", "shop/web-1", "shop/web-2", "shop/web-3"]);
}

#[test]
fn a_node_of_ours_is_up_and_has_a_claim_unless_it_says_otherwise() {
    let text = "
apiVersion: v1
kind: Node
metadata: {name: ours, labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m5.large}}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 29}}
---
apiVersion: v1
kind: Node
metadata: {name: starting, labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m5.large, karpenter.sh/initialized: \"false\"}}
status: {allocatable: {cpu: 2}, conditions: [{type: Ready, status: \"False\"}]}
---
apiVersion: v1
kind: Node
metadata: {name: other}
status: {allocatable: {cpu: 2}}
";
    let nodes = cluster(text).input.nodes;
    let find = |name: &str| nodes.iter().find(|n| &*n.name == name).unwrap();
    assert!(find("ours").managed() && find("ours").initialized && find("ours").state == NodeState::Ready);
    assert_eq!(find("ours").hostname(), "ours");
    assert_eq!(find("ours").capacity, find("ours").allocatable);
    assert!(find("starting").managed() && !find("starting").initialized);
    assert!(find("starting").state == NodeState::InFlight);
    assert!(!find("other").managed() && find("other").initialized);
}

#[test]
fn a_budget_without_status_gets_the_one_that_its_pods_imply() {
    let pod = |name: &str, label: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {label}}}}}\nspec: {{nodeName: ours, containers: []}}\n---\n"
        )
    };
    let budget = |name: &str, rule: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{{rule}, selector: {{matchLabels: {{app: {name}}}}}}}\n---\n"
        )
    };
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: ours, labels: {karpenter.sh/nodepool: default}}\nstatus: {allocatable: {cpu: 2}}\n---\n";
    let text = [
        node.to_owned(),
        pod("a-0", "tight"),
        pod("a-1", "tight"),
        pod("b-0", "loose"),
        pod("b-1", "loose"),
        budget("tight", "minAvailable: 2"),
        budget("loose", "maxUnavailable: 50%"),
    ];
    let cluster = cluster(&text.concat());
    let held = |name: &str| {
        let key = (Arc::from("default"), Arc::from(name));
        cluster.facts[&key].obstacle.as_ref().map(ToString::to_string)
    };
    assert!(held("a-0").unwrap().contains("default/tight"));
    assert_eq!(held("b-0"), None);
}

#[test]
fn each_pod_of_a_stateful_set_has_its_own_claim() {
    let text = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [us-east-1b]}]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {}
  serviceName: db
  template: {spec: {containers: [{name: c}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: gp3}}]
";
    let pods = cluster(text).input.pods;
    let claims: Vec<&str> = pods.iter().map(|p| &*p.volumes[0].claim).collect();
    assert_eq!(claims, ["default/data-db-0", "default/data-db-1"]);
    assert_eq!(pods[0].volumes[0].driver.as_deref(), Some("ebs.csi.aws.com"));
    let zone = pods[0].volumes[0].alternatives[0].get("topology.kubernetes.io/zone").unwrap();
    assert_eq!(zone.single(), Some("us-east-1b"));
}

#[test]
fn a_pod_whose_claim_is_missing_is_left_out_with_the_reason() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [], volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}]}\n";
    let rejected = cluster(text).input.pods[0].rejected.clone().unwrap();
    assert!(rejected.contains("default/gone"), "{rejected}");
}

#[test]
fn gated_pods_and_pods_of_daemons_are_not_placed() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {containers: [], schedulingGates: [{name: quota}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u}]}
spec: {containers: []}
";
    let pods = cluster(text).input.pods;
    assert!(pods[0].rejected.as_ref().unwrap().contains("gates"));
    assert!(pods[1].rejected.as_ref().unwrap().contains("DaemonSet"));
}

#[test]
fn finished_pods_are_nothing_and_pods_of_unknown_nodes_are_mentioned() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {containers: []}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec: {nodeName: unseen, containers: []}
";
    let cluster = cluster(text);
    assert!(cluster.input.pods.is_empty());
    assert!(cluster.remarks[0].contains("unseen"), "{:?}", cluster.remarks);
}

#[test]
fn a_bad_quantity_in_a_template_is_found_at_its_line() {
    let text = WEB.replace("500m", "half");
    let Err(error) = cluster_with(&text, "") else { panic!("half a core is no quantity") };
    assert_eq!(error.line, 10, "{error}");
    assert_eq!(error.field, "spec.template.spec.containers[0].resources.requests.cpu");
    assert!(error.object.starts_with("Deployment"), "{error}");
}

#[test]
fn overlays_and_buffers_count_only_with_their_gates() {
    let text = format!(
        "{WEB}
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec: {{template: {{spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}}}}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {{name: discount}}
spec:
  requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}}]
  priceAdjustment: \"-50%\"
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {{name: spare, namespace: shop}}
spec: {{scalableRef: {{apiGroup: apps, kind: Deployment, name: web}}, percentage: 50}}
"
    );
    let price = |cluster: &Cluster| {
        let kind = cluster.input.pools[0].instance_types.iter().find(|t| &*t.name == "m5.large").unwrap();
        kind.offerings.iter().map(|o| o.price.get()).max().unwrap()
    };
    let off = cluster(&text);
    assert_eq!((off.input.pods.len(), off.remarks.len()), (4, 2));
    let on = cluster_with(&text, "NodeOverlay=true,CapacityBuffer=true").unwrap();
    assert_eq!(price(&on) * 2, price(&off));
    let spare: Vec<String> = on.input.pods.iter().filter(|p| p.buffer).map(|p| p.key()).collect();
    assert_eq!(spare, ["shop/capacity-buffer-spare-1", "shop/capacity-buffer-spare-2"]);
}

#[test]
fn an_ec2_node_class_changes_what_its_pools_offer() {
    let pool = |name: &str, class: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{nodeClassRef: \
             {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: {class}}}}}}}}}\n---\n"
        )
    };
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: small}\nspec:\n  kubelet: {maxPods: 17, \
                 kubeReserved: {cpu: '1'}}\n  blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: \
                 100Gi}}]\nstatus: {subnets: [{id: subnet-1, zone: us-east-1b}]}\n";
    let cluster = cluster(&format!("{}{}{class}", pool("plain", "default"), pool("small", "small")));
    let of = |pool: &str| {
        let pool = cluster.input.pools.iter().find(|p| &*p.name == pool).unwrap();
        pool.instance_types.iter().find(|t| &*t.name == "m5.xlarge").unwrap().clone()
    };
    let (plain, small) = (of("plain"), of("small"));
    assert_eq!(small.capacity.get("pods"), "17".parse().unwrap());
    assert!(plain.capacity.get("pods") > small.capacity.get("pods"));
    assert_eq!(small.overhead.get("cpu"), "1".parse().unwrap());
    assert_eq!(small.capacity.get("ephemeral-storage"), "100Gi".parse().unwrap());
    assert!(small.offerings.iter().all(|o| &*o.zone == "us-east-1b") && !small.offerings.is_empty());
    assert!(plain.offerings.iter().any(|o| &*o.zone != "us-east-1b"));
}
