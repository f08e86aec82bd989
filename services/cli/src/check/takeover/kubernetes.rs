//! Whether the cluster is new enough for the chart.

use k8s_openapi::apimachinery::pkg::version::Info;

use super::super::finding::Finding;
use super::AREA;

/// The only place that says which Kubernetes is the oldest supported one: `kubeVersion: ">=1.31.0-0"`.
const CHART: &str = include_str!("../../../../../charts/karpenter/Chart.yaml");

/// The minor version of 1 that the chart asks for.
fn oldest_minor() -> Option<u32> {
    let line = CHART.lines().find_map(|line| line.strip_prefix("kubeVersion:"))?;
    let version = line.trim().trim_matches('"').strip_prefix(">=1.")?;
    version.split('.').next()?.parse().ok()
}

pub(super) fn judge(version: &Info) -> Finding {
    let subject = "Kubernetes version";
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    match (digits.parse::<u32>(), oldest_minor()) {
        (Ok(minor), Some(oldest)) if minor >= oldest => {
            Finding::good(AREA, subject, version.git_version.clone())
        }
        (Ok(_), Some(oldest)) => {
            let detail = format!("{} is older than 1.{oldest}", version.git_version);
            let fix = format!("upgrade the cluster first: the chart refuses Kubernetes before 1.{oldest}");
            Finding::wrong(AREA, subject, detail, fix)
        }
        _ => {
            let detail = format!("unknown: the API server calls itself {:?}", version.minor);
            Finding::note(
                AREA,
                subject,
                detail,
                "compare it with the chart: helm show chart <charts>/karpenter",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::finding::Verdict;
    use super::*;

    fn of(minor: &str) -> Verdict {
        judge(&Info { minor: minor.to_owned(), ..Info::default() }).verdict
    }

    #[test]
    fn the_cluster_must_be_as_new_as_the_chart_asks() {
        let oldest = oldest_minor().expect("the chart says it");
        // EKS adds a plus sign.
        assert_eq!(of(&format!("{oldest}+")), Verdict::Good);
        assert_eq!(of(&(oldest - 1).to_string()), Verdict::Wrong);
        assert_eq!(of(""), Verdict::Note);
    }

    /// `1.31` of every `1.31 or newer` in a line about Kubernetes.
    fn claims(directory: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                claims(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                for line in text.lines().filter(|line| line.contains("Kubernetes") || line.contains("EKS")) {
                    let words: Vec<&str> =
                        line.split([' ', '(', ')', ',']).filter(|word| !word.is_empty()).collect();
                    for window in
                        words.windows(3).filter(|words| words[0].starts_with("1.") && words[2] == "newer")
                    {
                        found.push((path.display().to_string(), window[0].to_owned()));
                    }
                }
            }
        }
    }

    #[test]
    fn every_page_names_the_version_that_the_chart_asks_for() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Vec::new();
        claims(&root.join("deploy/docs"), &mut found);
        assert!(found.len() >= 2, "{found:?}");
        let oldest = format!("1.{}", oldest_minor().expect("the chart says it"));
        let others: Vec<&(String, String)> = found.iter().filter(|(_, version)| *version != oldest).collect();
        assert!(others.is_empty(), "the chart asks for {oldest}: {others:?}");
    }
}
