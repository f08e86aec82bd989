//! Whatever bytes come in, reading ends in objects or in an error with a place, never in a panic.

use proptest::prelude::*;

use super::tests::read;

const WHOLE: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  limits: {cpu: 100}
  disruption: {consolidateAfter: 30s, budgets: [{nodes: \"10%\"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  template:
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
      containers:
      - name: c
        resources:
          requests: {cpu: 500m, memory: 1Gi}
---
{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n\"}, \"status\": {\"allocatable\": {\"cpu\": \"4\"}}}]}
";

fn has_a_place(text: &str) -> Result<(), TestCaseError> {
    if let Err(error) = read(text) {
        let lines = text.lines().count().max(1) + 1;
        prop_assert!((1..=lines).contains(&error.line), "line {} of {lines}: {error}", error.line);
        prop_assert!(!error.problem.is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic_and_errors_have_a_line(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        has_a_place(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn arbitrary_punctuation_never_panics(text in "[\\[\\]{}:,\"'&*!|>%@`#\\-? \na-c0-9]{0,120}") {
        has_a_place(&text)?;
    }

    #[test]
    fn mutated_documents_never_panic(
        cuts in prop::collection::vec((0.0..1.0_f64, 0_usize..12, "[ -~\n]{0,4}"), 1..6)
    ) {
        let mut text = WHOLE.to_owned();
        for (place, length, instead) in cuts {
            let at = (place * text.len() as f64) as usize;
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &instead);
        }
        has_a_place(&text)?;
    }
}

#[test]
fn the_document_that_is_mutated_is_sound_itself() {
    let (objects, _) = read(WHOLE).unwrap();
    assert_eq!((objects.node_pools.len(), objects.deployments.len(), objects.nodes.len()), (1, 1, 1));
}
