//! The program as people run it: arguments in, plan out, exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn examples(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-karpenter")).arg("plan").args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of its own, gone at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plan-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn placed(plan: &Value) -> usize {
    plan["nodes"].as_array().unwrap().iter().map(|n| n["pods"].as_array().unwrap().len()).sum()
}

#[test]
fn the_inflate_demo_gets_nodes_from_the_built_in_catalogue() {
    let plan = json(&["-f", &examples("inflate")]);
    assert_eq!(placed(&plan), 5);
    assert_eq!(plan["unschedulable"], Value::Array(vec![]));
    let prices: f64 =
        plan["nodes"].as_array().unwrap().iter().map(|n| n["launch"]["price"].as_f64().unwrap()).sum();
    assert!((prices - plan["cost"]["hourly"].as_f64().unwrap()).abs() < 1e-9);
    assert!(plan["cost"]["lowerBound"].as_f64().unwrap() <= prices + 1e-9);
    assert_eq!(plan["nodes"][0]["name"], "new-0");
    assert_eq!(plan["nodes"][0]["nodePool"], "default");
    assert_eq!(plan["stats"]["pods"], 5);
    assert!(plan.get("commands").is_none());
    let first = &plan["nodes"][0];
    let types = first["instanceTypes"].as_array().unwrap();
    assert!(types.contains(&first["launch"]["instanceType"]));
    assert!(first["requests"]["pods"].is_string(), "requests name pods, too: {first}");
}

#[test]
fn equal_input_gives_an_equal_plan() {
    let strip = |mut plan: Value| {
        plan["stats"] = Value::Null;
        plan
    };
    let path = examples("spread");
    assert_eq!(strip(json(&["-f", &path])), strip(json(&["-f", &path])));
}

#[test]
fn zones_are_filled_evenly_and_replicas_kept_apart() {
    let plan = json(&["-f", &examples("spread")]);
    assert_eq!(placed(&plan), 55);
    let mut zones = std::collections::BTreeMap::new();
    for node in plan["nodes"].as_array().unwrap() {
        let pods: Vec<&str> = node["pods"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let of = |prefix: &str| pods.iter().filter(|p| p.starts_with(prefix)).count();
        *zones.entry(node["launch"]["zone"].as_str().unwrap().to_owned()).or_insert(0) += of("shop/web-");
        assert!(of("shop/db-") <= 1, "two databases on one node: {pods:?}");
        assert!(of("shop/db-") == 0 || node["launch"]["capacityType"] == "on-demand");
    }
    assert_eq!(zones.values().filter(|n| **n > 0).copied().collect::<Vec<_>>(), [4, 4, 4]);
}

#[test]
fn what_cannot_be_placed_is_explained_and_disturbs_nothing() {
    let plan = json(&["-f", &examples("gpu")]);
    assert_eq!(placed(&plan), 1);
    assert_eq!(plan["unschedulable"][0]["pod"], "default/greedy");
    let reason = plan["unschedulable"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("nvidia.com/gpu") && reason.contains("64"), "{reason}");
}

// Cases: REP-11, REP-15, DEL-5, DEL-7
#[test]
fn consolidation_removes_what_nothing_protects_and_says_what_it_kept() {
    let plan = json(&["-f", &examples("consolidate"), "--consolidate"]);
    let commands = plan["commands"].as_array().unwrap();
    assert_eq!(
        (commands[0]["reason"].as_str(), commands[0]["remove"][0].as_str()),
        (Some("Empty"), Some("empty"))
    );
    let removed: Vec<&str> =
        commands.iter().flat_map(|c| c["remove"].as_array().unwrap()).filter_map(Value::as_str).collect();
    assert!(removed.contains(&"half-1") && removed.contains(&"half-2"), "{removed:?}");
    assert!(!removed.contains(&"protected") && !removed.contains(&"guarded"), "{removed:?}");
    let reason = |node: &str| {
        let blocked = plan["blocked"].as_array().unwrap();
        blocked.iter().find(|b| b["node"] == node).map(|b| b["reason"].as_str().unwrap().to_owned())
    };
    assert!(reason("protected").unwrap().contains("karpenter.sh/do-not-disrupt"));
    assert!(reason("guarded").unwrap().contains("default/db"));
    let (before, after) =
        (plan["stats"]["hourlyBefore"].as_f64().unwrap(), plan["stats"]["hourlyAfter"].as_f64().unwrap());
    let savings: f64 = commands.iter().map(|c| c["savings"].as_f64().unwrap()).sum();
    assert!((before - after - savings).abs() < 1e-9, "{before} - {savings} is not {after}");
    for step in commands.iter().flat_map(|c| c["moves"].as_array().unwrap()) {
        assert_ne!(step["from"], step["to"]);
    }
}

#[test]
fn the_table_says_nodes_prices_and_what_is_left_over_without_colours_in_a_pipe() {
    let output = run(&["-f", &examples("gpu")]);
    let shown = text(&output.stdout);
    assert!(output.status.success());
    for part in ["1 new node", "$/HOUR", "1 pod left over", "default/greedy", "a month"] {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "a pipe gets no colours");
}

/// What the page of a plan shows, by node: namespace and name of each pod that is drawn with a request of its own.
fn drawn(page: &str) -> Vec<String> {
    let (_, rest) = page.split_once("id=\"data\">").expect("the page has data");
    let (data, _) = rest.split_once("</script>").expect("the data ends");
    let data: serde_json::Value = serde_json::from_str(data).expect("the data is JSON");
    let nodes = data["nodes"].as_object().expect("nodes").values();
    let pods = nodes.flat_map(|node| node["pods"].as_array().into_iter().flatten());
    let asking = pods.filter(|pod| pod[2].as_i64() > Some(0) || pod[3].as_i64() > Some(0));
    asking.map(|pod| format!("{}/{}", pod[0].as_str().unwrap_or(""), pod[1].as_str().unwrap_or(""))).collect()
}

#[test]
fn the_page_is_self_contained_and_draws_every_pod() {
    let output = run(&["-f", &examples("inflate"), "-o", "html"]);
    let page = text(&output.stdout);
    assert!(page.starts_with("<!doctype html>"));
    let drawn = drawn(&page);
    for number in 0..5 {
        assert!(drawn.contains(&format!("default/inflate-{number}")), "pod {number} is not drawn");
    }
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains(" src="));
}

/// Pods that consolidation moves run already; they are drawn by what they ask for, not lumped together with the daemons.
#[test]
fn the_page_draws_the_pods_that_consolidation_moves() {
    let output = run(&["-f", &examples("consolidate"), "--consolidate", "-o", "html"]);
    let drawn = drawn(&text(&output.stdout));
    let json = run(&["-f", &examples("consolidate"), "--consolidate", "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).expect("an answer");
    let commands = answer["commands"].as_array().expect("commands");
    let moved: Vec<&str> = commands
        .iter()
        .flat_map(|command| command["nodes"].as_array().into_iter().flatten())
        .flat_map(|node| node["pods"].as_array().into_iter().flatten())
        .filter_map(serde_json::Value::as_str)
        .collect();
    assert!(!moved.is_empty(), "the example replaces a node");
    for pod in moved {
        assert!(drawn.iter().any(|each| each == pod), "{pod} is not drawn");
    }
}

#[test]
fn a_malformed_manifest_ends_with_file_line_field_and_code_two() {
    let file = Scratch::new(
        "bad.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    resources:\n      requests: {cpu: lots}\n",
    );
    let output = run(&["-f", file.path()]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains(&format!("{}:8:", file.path())), "{error}");
    assert!(error.contains("spec.containers[0].resources.requests.cpu"), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_missing_file_and_a_bad_catalogue_are_input_errors_too() {
    assert_eq!(run(&["-f", "/nowhere/at/all"]).status.code(), Some(2));
    let file = Scratch::new("catalogue.json", "{\"instanceTypes\": [{\"name\": \"a\", \"offerings\": 3}]}");
    let output = run(&["-f", &examples("inflate"), "--catalog", file.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("instanceTypes[0].offerings"), "{}", text(&output.stderr));
}

#[test]
fn standard_input_is_read_and_unknown_kinds_are_named_once() {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-karpenter"))
        .args(["plan", "-f", "-", "-o", "json"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = std::fs::read_to_string(format!("{}/inflate.yaml", examples("inflate"))).unwrap();
    input.push_str("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(placed(&plan), 5);
    assert_eq!(text(&output.stderr).matches("v1 ConfigMap ignored").count(), 1);
}

#[test]
fn without_any_pool_every_pod_is_left_over_with_a_reason() {
    let file = Scratch::new(
        "lonely.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n",
    );
    let plan = json(&["-f", file.path()]);
    assert_eq!(plan["unschedulable"][0]["pod"], "default/a");
    assert!(!plan["unschedulable"][0]["reason"].as_str().unwrap().is_empty());
}

#[test]
fn quantities_at_the_limits_of_their_range_are_answered() {
    let file = Scratch::new(
        "limits.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec: {containers: [{name: c, resources: {requests: {cpu: 9E, memory: 9223372036854775807}}}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: tiny}\nspec: {containers: [{name: c, resources: {requests: {cpu: 1n}}}]}\n",
    );
    let plan = json(&["-f", &examples("inflate"), file.path()]);
    assert_eq!(plan["unschedulable"].as_array().unwrap().len(), 1);
    assert_eq!(plan["unschedulable"][0]["pod"], "default/huge");
    assert_eq!(placed(&plan), 6);
}

#[test]
fn bad_pods_and_pools_are_answered_one_by_one_and_disturb_nobody() {
    let file = Scratch::new(
        "odd.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: hollow}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements:\n      - {key: \
         karpenter.k8s.aws/instance-family, operator: In, values: [none-such]}\n---\napiVersion: v1\nkind: Pod\nmetadata: \
         {name: torn}\nspec:\n  nodeSelector: {kubernetes.io/arch: amd64}\n  affinity: {nodeAffinity: \
         {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: \
         kubernetes.io/arch, operator: In, values: [arm64]}]}]}}}\n  containers: []\n---\napiVersion: v1\nkind: \
         Pod\nmetadata: {name: picky}\nspec: {nodeSelector: {team: nobody}, containers: []}\n",
    );
    let plan = json(&["-f", &examples("inflate"), file.path()]);
    assert_eq!(placed(&plan), 5, "the pods of the demo have their place");
    let reason = |name: &str| {
        let left = plan["unschedulable"].as_array().unwrap();
        left.iter().find(|u| u["pod"] == name).unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("default/torn").contains("contradict each other on label kubernetes.io/arch"));
    let picky = reason("default/picky");
    assert!(picky.contains("pool hollow: its own requirements leave no instance type"), "{picky}");
    assert!(picky.contains("pool default: label \"team\""), "{picky}");
}
