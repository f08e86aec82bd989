//! Values files written for Karpenter, before the chart sees them: what it refuses, and what it takes without effect. Each with the
//! command that removes it.

mod chart;
mod schema;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

use super::finding::Finding;
use schema::{Reason, Refusal};

const AREA: &str = "values";

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<Finding>> {
    let Some(last) = files.last() else { return Ok(Vec::new()) };
    let chart = chart::schema()?;
    let mut findings = Vec::new();
    let mut all = Value::Object(Map::new());
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let values = parse(&text).with_context(|| format!("read {} as YAML", file.display()))?;
        let refused = schema::refusals(&chart, &values);
        findings.extend(refused.iter().map(|refusal| finding(file, refusal)));
        merge(&mut all, values);
    }
    // Rules between values hold for all files together.
    findings.extend(chart::judge(&all, last)?);
    if findings.is_empty() {
        findings.push(Finding::good(AREA, last.display().to_string(), "the chart takes every value"));
    }
    Ok(findings)
}

fn parse(text: &str) -> Result<Value> {
    match serde_saphyr::from_str(text)? {
        values @ Value::Object(_) => Ok(values),
        Value::Null => Ok(Value::Object(Map::new())),
        other => bail!("values are a map of keys, and this is {other}"),
    }
}

/// As Helm does with several files: the last one counts, key by key.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn finding(file: &Path, refusal: &Refusal) -> Finding {
    let path: Vec<&str> = refusal.path.iter().map(String::as_str).collect();
    let subject = path.join(".");
    match &refusal.reason {
        Reason::UnknownKey => {
            let detail = "is refused: this chart has no such value";
            Finding::wrong(AREA, subject, detail, removal(file, &[&path]))
        }
        Reason::Expected(what) => {
            let detail = format!("is refused: it must be {what}");
            Finding::wrong(AREA, subject, detail, assignment(file, &path, "<value>"))
        }
        Reason::MissingKey(key) => {
            let place = [&path[..], &[key.as_str()]].concat();
            let detail = format!("is refused: it has no {key}");
            Finding::wrong(AREA, subject, detail, assignment(file, &place, "<value>"))
        }
    }
}

/// The command that takes values out of a file.
fn removal(file: &Path, paths: &[&[&str]]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| expression(path)).collect();
    format!("yq -i 'del({})' {}", paths.join(", "), file.display())
}

/// The command that writes a value into a file.
fn assignment(file: &Path, path: &[&str], value: &str) -> String {
    format!("yq -i '{} = {value}' {}", expression(path), file.display())
}

/// A path as yq writes it: `.settings["a-b"][0]`.
fn expression(path: &[&str]) -> String {
    let plain = |key: &str| {
        key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !key.starts_with(|first: char| first.is_ascii_digit())
    };
    let mut text = String::new();
    for key in path {
        if plain(key) {
            text.push('.');
            text.push_str(key);
        } else if key.chars().all(|c| c.is_ascii_digit()) {
            text.push_str(&format!("[{key}]"));
        } else {
            text.push_str(&format!("[\"{key}\"]"));
        }
    }
    // A bracket at the beginning needs the dot that stands for the whole file.
    if text.starts_with('[') { format!(".{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    /// What is found in this one file, as `verdict path: fix`.
    fn judged(values: &str) -> Vec<String> {
        let file = Path::new("values.yaml");
        let values = parse(values).unwrap();
        let refused = schema::refusals(&chart::schema().unwrap(), &values);
        let findings = refused.iter().map(|refusal| finding(file, refusal));
        let all = findings.chain(chart::judge(&values, file).unwrap());
        let mut all: Vec<String> =
            all.map(|each| format!("{:?} {}: {}", each.verdict, each.subject, each.fix)).collect();
        all.sort();
        all
    }

    /// Karpenter's own defaults and what its documentation adds.
    const PLAIN: &str = "
settings: {clusterName: demo, interruptionQueue: demo, batchMaxDuration: 10s, featureGates: {nodeRepair: false}}
serviceAccount: {create: false, name: karpenter}
replicas: 2
controller: {resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}
serviceMonitor: {enabled: true, sampleLimit: 0}
";

    #[test]
    fn values_of_karpenter_that_the_chart_takes_are_no_finding() {
        assert_eq!(judged(PLAIN), [""; 0]);
    }

    #[test]
    fn every_refused_value_comes_with_the_command_that_removes_it() {
        let found =
            judged(&format!("{PLAIN}\nsettings2: {{a-b: 1}}\npodDisruptionBudget: {{minAvailable: 1}}\n"));
        assert_eq!(
            found,
            [
                "Wrong podDisruptionBudget.minAvailable: yq -i 'del(.podDisruptionBudget.minAvailable)' values.yaml",
                "Wrong settings2: yq -i 'del(.settings2)' values.yaml",
            ]
        );
        assert_eq!(
            judged("settings: {clusterName: demo, batchMaxDuration: soon}\nreplicas: two"),
            [
                "Wrong replicas: yq -i '.replicas = <value>' values.yaml",
                "Wrong settings.batchMaxDuration: yq -i '.settings.batchMaxDuration = <value>' values.yaml",
            ]
        );
        // Values of one service are judged by that service's own schema.
        assert_eq!(
            judged("settings: {clusterName: demo}\npricing-cache: {replica: 2}"),
            ["Wrong pricing-cache.replica: yq -i 'del(.[\"pricing-cache\"].replica)' values.yaml"]
        );
    }

    #[test]
    fn images_of_karpenter_are_refused_and_mirrors_of_them_noted() {
        let image = |repository: &str| {
            judged(&format!(
                "settings: {{clusterName: demo}}\ncontroller: {{image: {{repository: {repository}, tag: 1.14.1}}}}"
            ))
        };
        let fix = "yq -i 'del(.controller.image.repository, .controller.image.tag, .controller.image.digest)' values.yaml";
        let own = image("public.ecr.aws/karpenter/controller");
        assert_eq!(own, [format!("Wrong controller.image.repository: {fix}")]);
        let mirror = image("registry.example/mirror/karpenter-controller");
        assert_eq!(mirror, [format!("Note controller.image.repository: {fix}")]);
        assert_eq!(
            judged("settings: {clusterName: demo}\ncontroller: {image: {tag: 1.14.1}}"),
            ["Note controller.image.tag: yq -i 'del(.controller.image.tag)' values.yaml"]
        );
        let digest = format!("sha256:{}", "0".repeat(64));
        let digest = judged(&format!(
            "settings: {{clusterName: demo}}\ncontroller: {{image: {{digest: '{digest}'}}}}"
        ));
        assert_eq!(
            digest,
            ["Wrong controller.image.digest: yq -i 'del(.controller.image.digest)' values.yaml"]
        );
    }

    #[test]
    fn rules_between_values_are_those_of_the_templates() {
        let port = |rest: &str| {
            judged(&format!(
                "settings: {{clusterName: demo}}\ncontroller: {{metrics: {{port: 9090}}}}\n{rest}"
            ))
        };
        assert_eq!(
            port(""),
            ["Wrong controller.grpc.port: yq -i '.controller.grpc.port = <port>' values.yaml"]
        );
        let shared =
            judged("settings: {clusterName: demo}\nhostNetwork: true\ncontroller: {grpc: {port: 8100}}");
        assert_eq!(shared.len(), 1, "{shared:?}");
        assert_eq!(
            judged("settings: {interruptionQueue: demo}"),
            ["Wrong settings.clusterName: yq -i '.settings.clusterName = \"<cluster>\"' values.yaml"]
        );
        let lease = "settings: {clusterName: demo}\ncontroller: {env: [{name: LEADER_ELECTION_NAME}]}";
        assert_eq!(judged(lease).len(), 1, "{:?}", judged(lease));
    }

    #[test]
    fn values_without_effect_are_noted() {
        let found = judged(
            "settings: {clusterName: demo, awsFeatureGates: {a: true}}\nwebhook: {enabled: false}\nlogOutputPaths: [/var/log/k]",
        );
        let expected = ["logOutputPaths", "settings.awsFeatureGates", "webhook"];
        let expected: Vec<String> =
            expected.map(|path| format!("Note {path}: yq -i 'del(.{path})' values.yaml")).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn several_files_are_judged_together_and_each_refusal_in_its_own() {
        let directory = std::env::temp_dir();
        let name =
            |index: u32| directory.join(format!("karpenter-values-{index}-{}.yaml", std::process::id()));
        let files = [name(1), name(2)];
        std::fs::write(&files[0], "settings: {clusterName: demo}\nfoo: 1").unwrap();
        std::fs::write(&files[1], "controller: {metrics: {port: 8080}}").unwrap();
        let found = check(&files).unwrap();
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].verdict, found[0].subject.as_str()), (Verdict::Wrong, "foo"));
        assert!(found[0].fix.contains("karpenter-values-1-"), "{}", found[0].fix);
    }
}
