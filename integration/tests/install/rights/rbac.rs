//! The API server's audit log beside `rights.json` of each service.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};

use anyhow::{Context, Result};
use integration::Stack;
use integration::helm::chart;
use runtime::Service;
use serde::Deserialize;
use serde_json::Value;

/// One thing that may be done to one kind of object: group, resource with sub-resource, verb.
type Right = (String, String, String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    /// For people who review it.
    #[expect(dead_code, reason = "must be there")]
    why: String,
    /// When it is used, where the recorded day does not show it.
    rare: Option<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

type Rules = BTreeMap<String, Vec<Rule>>;

fn rules(path: &str) -> Result<Vec<Rule>> {
    let file = chart("karpenter").join(path);
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let rules: Rules = serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))?;
    Ok(rules.into_values().flatten().collect())
}

fn granted(rules: &[Rule], rare: bool) -> BTreeSet<Right> {
    let mut found = BTreeSet::new();
    for rule in rules.iter().filter(|rule| rare || rule.rare.is_none()) {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                found.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    found
}

#[derive(Default)]
struct Recorded {
    used: BTreeSet<Right>,
    refused: BTreeSet<String>,
}

fn recorded(stack: &Stack) -> Result<BTreeMap<String, Recorded>> {
    let file = stack.dir().join("log/audit.log");
    let lines =
        BufReader::new(std::fs::File::open(&file).with_context(|| format!("open {}", file.display()))?)
            .lines();
    let mut found: BTreeMap<String, Recorded> = BTreeMap::new();
    for line in lines {
        let event: Value = serde_json::from_str(&line?)?;
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let Some(service) = user.rsplit(':').next().and_then(|name| name.strip_prefix("karpenter-")) else {
            continue;
        };
        let recorded = found.entry(service.to_owned()).or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let mut resource = text(&object["resource"]);
        if let Some(sub) = object["subresource"].as_str() {
            resource = format!("{resource}/{sub}");
        }
        if resource.is_empty() {
            // Versions and other paths that everybody may read.
            continue;
        }
        let (group, verb) = (text(&object["apiGroup"]), text(&event["verb"]));
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        if code == 403 {
            recorded.refused.insert(format!("{verb} {resource} {}", text(&object["name"])));
            continue;
        }
        // An apply that makes the object needs the right to create it too.
        if verb == "patch" && code == 201 {
            recorded.used.insert((group.clone(), resource.clone(), "create".to_owned()));
        }
        recorded.used.insert((group, resource, verb));
    }
    Ok(found)
}

pub(super) fn compare(stack: &Stack) -> Result<Vec<String>> {
    let recorded = recorded(stack)?;
    let shared = rules("files/rights.json")?;
    let mut complaints = Vec::new();
    let mut used_by_any = BTreeSet::new();
    for service in Service::ALL {
        let name = service.as_str();
        let own = rules(&format!("charts/{name}/rights.json"))?;
        let empty = Recorded::default();
        let seen = recorded.get(name).unwrap_or(&empty);
        complaints.extend(seen.refused.iter().map(|what| format!("{name}: the right to {what} is missing")));
        let all: BTreeSet<Right> = granted(&own, true).union(&granted(&shared, true)).cloned().collect();
        for (group, resource, verb) in seen.used.difference(&all) {
            complaints
                .push(format!("{name}: used {verb} {resource} ({group}) that rights.json does not give"));
        }
        for (group, resource, verb) in granted(&own, false).difference(&seen.used) {
            complaints.push(format!("{name}: may {verb} {resource} ({group}) and never does"));
        }
        used_by_any.extend(seen.used.iter().cloned());
        for rule in own.iter().filter(|rule| !rule.resource_names.is_empty()) {
            let foreign =
                rule.resource_names.iter().find(|each| !each.contains(name) && each.ends_with("-trust"));
            if let Some(foreign) = foreign {
                complaints.push(format!("{name}: may write {foreign}, which is another's"));
            }
        }
    }
    for (group, resource, verb) in granted(&shared, false).difference(&used_by_any) {
        complaints.push(format!("all: may {verb} {resource} ({group}) and none ever does"));
    }
    Ok(complaints)
}
