//! User data of every family against golden files in `tests/userdata/`, and read back as the images would read it. Run with
//! `UPDATE_GOLDEN=1` to write the files anew, then read the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use api::ec2nodeclass::KubeletConfiguration;
use cloud::derive::Family;
use provisioner::launch::userdata::{Boot, BootTaint, LIMIT_BYTES, Unrenderable, render};
use serde_json::{Value, json};

fn boot() -> Boot {
    let taint = |key: &str, value: &str, effect: &str| BootTaint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
    };
    let labels = [
        ("karpenter.sh/capacity-type", "spot"),
        ("karpenter.sh/do-not-sync-taints", "true"),
        ("karpenter.sh/nodepool", "default"),
        ("team", "a"),
    ];
    Boot {
        cluster_name: "blue".to_owned(),
        endpoint: "https://blue.example.com".to_owned(),
        ca_bundle: Some("Y2EtYnVuZGxl".to_owned()),
        service_cidr: Some("10.100.0.0/16".to_owned()),
        kubelet: KubeletConfiguration {
            max_pods: Some(29),
            cluster_dns: Some(vec!["10.100.0.10".to_owned()]),
            ..KubeletConfiguration::default()
        },
        taints: vec![
            // A word that YAML takes for a truth value unless it is quoted.
            taint("dedicated", "yes", "NoSchedule"),
            taint("karpenter.sh/unregistered", "", "NoExecute"),
        ],
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ..Boot::default()
    }
}

fn full_kubelet() -> KubeletConfiguration {
    serde_json::from_value(json!({
        "clusterDNS": ["fd00::a"],
        "maxPods": 110,
        "podsPerCore": 10,
        "systemReserved": {"cpu": "100m", "memory": "200Mi"},
        "kubeReserved": {"cpu": "80m", "ephemeral-storage": "1Gi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
        "evictionSoft": {"memory.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": false,
    }))
    .expect("a kubelet block with every field")
}

fn with(custom: &str) -> Boot {
    Boot { custom: Some(custom.to_owned()), ..boot() }
}

const MULTIPART: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"==OWN==\"\r\n\r\n--==OWN==\r\nContent-Type: text/cloud-config; charset=\"us-ascii\"\r\n\r\npackages: [jq]\r\n--==OWN==\r\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\r\n\r\n#!/bin/bash\r\necho hello\r\n--==OWN==--\r\n";
const OWN_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 5\n      registryPullQPS: 50\n";
const SCRIPT: &str = "#!/bin/bash\necho \"$HOME\"\n";

/// Every golden file, its family and what it is made from.
fn cases() -> Vec<(&'static str, Family, Boot)> {
    let full = || Boot { kubelet: full_kubelet(), raid0: true, bind_named_directories: true, ..boot() };
    vec![
        ("al2023-plain.txt", Family::Al2023, boot()),
        ("al2023-every-setting.txt", Family::Al2023, full()),
        ("al2023-script.txt", Family::Al2023, with(SCRIPT)),
        ("al2023-node-config.txt", Family::Al2023, with(OWN_CONFIG)),
        ("al2023-multipart.txt", Family::Al2023, with(MULTIPART)),
        ("al2-plain.txt", Family::Al2, boot()),
        ("al2-every-setting.txt", Family::Al2, full()),
        ("al2-script.txt", Family::Al2, with(SCRIPT)),
        ("al2-multipart.txt", Family::Al2, with(MULTIPART)),
        ("bottlerocket-plain.toml", Family::Bottlerocket, boot()),
        ("bottlerocket-every-setting.toml", Family::Bottlerocket, full()),
        (
            "bottlerocket-merged.toml",
            Family::Bottlerocket,
            with(
                "[settings.kernel]\nlockdown = \"integrity\"\n[settings.kubernetes]\nmax-pods = 3\nregistry-qps = 20\nmystery = 1\n[settings.kubernetes.node-labels]\nteam = \"b\"\nrack = \"7\"\n[settings.kubernetes.node-taints]\nmine = [\"x:NoSchedule\"]\n[settings.bootstrap-commands.own]\ncommands = [[\"apiclient\", \"set\", \"motd=hi\"]]\nmode = \"once\"\n",
            ),
        ),
        ("windows-plain.txt", Family::Windows2022, boot()),
        ("windows-script.txt", Family::Windows2019, with("<powershell>\nWrite-Host 'hello'\n</powershell>")),
        ("custom.txt", Family::Custom, with("anything\r\nat all")),
    ]
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/userdata").join(name)
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the switch that rewrites golden files is for people, not configuration"
)]
fn user_data_is_as_in_the_golden_files() {
    for (name, family, boot) in cases() {
        let text = render(family, &boot).unwrap().text;
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(golden(name), &text).unwrap();
        }
        let expected = std::fs::read_to_string(golden(name)).unwrap_or_default();
        assert_eq!(text, expected, "{name}");
    }
}

/// Reads user data with the readers of the local stack's joiner, which stand in for the images' own.
fn read_as_image(family: Family, text: &str) -> Value {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = r#"
import json, sys
from joining import userdata
family, text = sys.argv[1], sys.stdin.buffer.read()
b = userdata.parse(text, family)
k = b.kubelet
print(json.dumps({"cluster": b.cluster, "endpoint": b.endpoint, "ca": b.ca, "raid0": b.raid0, "labels": k.labels,
    "taints": [[t.key, t.value, t.effect] for t in k.taints], "maxPods": k.max_pods, "kubeReserved": k.kube_reserved,
    "systemReserved": k.system_reserved, "evictionHard": k.eviction_hard}))
"#;
    let mut child = Command::new(python())
        .args(["-c", script, if family.is_windows() { "Windows" } else { family.as_str() }])
        .env("PYTHONPATH", top.join("deploy/local/joiner"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the local stack's Python is there: `make test` builds it");
    let mut input = child.stdin.take().expect("its input is piped");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("the reader takes its input");
    drop(input);
    let output = child.wait_with_output().expect("the reader ends");
    assert!(output.status.success(), "{family:?} could not boot from:\n{text}");
    serde_json::from_slice(&output.stdout).expect("the reader prints JSON")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no Config; this is where `make` puts what it builds"
)]
fn python() -> PathBuf {
    let cache = std::env::var("KARPENTER_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var("HOME").expect("HOME is set")).join(".cache/karpenter");
    cache.unwrap_or_else(|_| home()).join("venv/bin/python")
}

#[test]
fn every_image_reads_its_user_data_as_it_was_meant() {
    for (name, family, boot) in cases() {
        if family == Family::Custom {
            continue;
        }
        let read = read_as_image(family, &render(family, &boot).unwrap().text);
        assert_eq!(read["cluster"], "blue", "{name}");
        assert_eq!(read["endpoint"], "https://blue.example.com", "{name}");
        assert_eq!(read["ca"], "Y2EtYnVuZGxl", "{name}");
        assert_eq!(read["maxPods"], json!(boot.kubelet.max_pods), "{name}");
        let taints: Vec<Value> = boot.taints.iter().map(|t| json!([t.key, t.value, t.effect])).collect();
        assert_eq!(read["taints"], json!(taints), "{name}");
        for (key, value) in &boot.labels {
            assert_eq!(read["labels"][key], json!(value), "{name} {key}");
        }
        assert_eq!(read["raid0"], json!(boot.raid0 && !family.is_windows()), "{name}");
        let empty = BTreeMap::new();
        for (field, written) in [
            ("kubeReserved", &boot.kubelet.kube_reserved),
            ("systemReserved", &boot.kubelet.system_reserved),
            ("evictionHard", &boot.kubelet.eviction_hard),
        ] {
            assert_eq!(read[field], json!(written.as_ref().unwrap_or(&empty)), "{name} {field}");
        }
    }
}

#[test]
fn settings_that_bottlerocket_does_not_know_are_left_out_and_named() {
    let own = "top = 1\n[settings.kubernetes]\nmystery = 1\nlog-level = 2\n";
    let rendered = render(Family::Bottlerocket, &with(own)).unwrap();
    assert_eq!(rendered.dropped, ["top", "settings.kubernetes.mystery"]);
    assert!(rendered.text.contains("log-level = 2") && !rendered.text.contains("mystery"));
}

#[test]
fn user_data_that_the_family_cannot_take_is_refused() {
    let toml = render(Family::Bottlerocket, &with("not = [toml"));
    assert!(matches!(toml, Err(Unrenderable::Toml(_))), "{toml:?}");
    let mime = render(Family::Al2023, &with("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"));
    assert!(matches!(mime, Err(Unrenderable::Mime(_))), "{mime:?}");
    let cidr = render(Family::Al2023, &Boot { service_cidr: None, ..boot() });
    assert_eq!(cidr, Err(Unrenderable::NoServiceCidr));
}

#[test]
fn what_the_autoscaler_adds_leaves_the_user_most_of_the_limit() {
    for (name, family, boot) in cases() {
        let added = render(family, &Boot { custom: None, ..boot }).unwrap().text.len();
        assert!(added < LIMIT_BYTES / 4, "{name}: {added} bytes");
    }
}
