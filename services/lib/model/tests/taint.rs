//! Taints and tolerations.

use model::taint::{Effect, Taint, Toleration, TolerationOperator, first_untolerated, merge, untolerated};

fn taint(key: &str, value: &str, effect: Effect) -> Taint {
    Taint::new(key, value, effect)
}

fn toleration(key: &str, operator: &str, value: &str, effect: Option<Effect>) -> Toleration {
    Toleration {
        key: key.to_owned(),
        operator: operator.parse().expect("an operator"),
        value: value.to_owned(),
        effect,
        toleration_seconds: None,
    }
}

// Cases: SCH-A.5-6, SCH-C.10-2
#[test]
fn a_toleration_matches_by_key_operator_value_and_effect() {
    let gpu = taint("gpu", "a", Effect::NoSchedule);
    for (key, operator, value, effect, expected) in [
        ("gpu", "Equal", "a", Some(Effect::NoSchedule), true),
        ("gpu", "", "a", Some(Effect::NoSchedule), true),
        ("gpu", "Equal", "a", None, true),
        ("gpu", "Equal", "b", None, false),
        ("gpu", "Equal", "", None, false),
        ("gpu", "Exists", "", None, true),
        ("gpu", "Exists", "", Some(Effect::NoExecute), false),
        ("gpu", "Exists", "", Some(Effect::PreferNoSchedule), false),
        ("cpu", "Exists", "", None, false),
        ("", "Exists", "", None, true),
        ("", "Exists", "", Some(Effect::NoSchedule), true),
        ("", "Exists", "", Some(Effect::NoExecute), false),
    ] {
        let got = toleration(key, operator, value, effect).tolerates(&gpu);
        assert_eq!(got, expected, "{key} {operator} {value} {effect:?}");
    }
}

#[test]
fn numeric_operators_compare_the_taints_value_with_the_tolerations() {
    for (taint_value, operator, value, expected) in [
        ("950", "Gt", "900", true),
        ("900", "Gt", "900", false),
        ("850", "Gt", "900", false),
        ("850", "Lt", "900", true),
        ("900", "Lt", "900", false),
        ("-5", "Lt", "0", true),
        ("high", "Gt", "0", false),
        ("5", "Gt", "low", false),
        ("05", "Gt", "1", false),
        ("+5", "Gt", "1", false),
        ("5", "Gt", "01", false),
        ("", "Gt", "1", false),
        ("9223372036854775808", "Gt", "1", false),
    ] {
        let sla = taint("sla", taint_value, Effect::NoExecute);
        let got = toleration("sla", operator, value, None).tolerates(&sla);
        assert_eq!(got, expected, "{taint_value} {operator} {value}");
    }
}

#[test]
fn every_taint_of_any_effect_must_be_tolerated() {
    let taints = [
        taint("a", "", Effect::NoSchedule),
        taint("b", "", Effect::PreferNoSchedule),
        taint("c", "", Effect::NoExecute),
    ];
    let a = toleration("a", "Exists", "", None);
    assert_eq!(first_untolerated(&taints, &[]), Some(&taints[0]));
    assert_eq!(first_untolerated(&taints, std::slice::from_ref(&a)), Some(&taints[1]));
    assert_eq!(untolerated(&taints, std::slice::from_ref(&a)).count(), 2);
    let every = toleration("", "Exists", "", None);
    assert_eq!(first_untolerated(&taints, &[every]), None);
    assert_eq!(first_untolerated(&[], &[]), None);
}

#[test]
fn relaxation_bears_soft_taints_and_no_others() {
    let soft = Toleration::of_every_soft_taint();
    assert!(soft.tolerates(&taint("a", "x", Effect::PreferNoSchedule)));
    assert!(!soft.tolerates(&taint("a", "x", Effect::NoSchedule)));
    assert!(!soft.tolerates(&taint("a", "x", Effect::NoExecute)));
}

// Cases: CST-56, CST-57, SCH-H.7-2, SCH-I.3-1, SCH-I.3-2, SCH-I.3-3, SCH-I.3-4, SCH-I.3-5
#[test]
fn taints_of_a_starting_node_are_ephemeral() {
    use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
    for (key, value, effect, expected) in [
        ("node.kubernetes.io/not-ready", "", NoSchedule, true),
        ("node.kubernetes.io/not-ready", "", NoExecute, true),
        ("node.kubernetes.io/not-ready", "", PreferNoSchedule, false),
        ("node.kubernetes.io/unreachable", "", NoSchedule, true),
        ("node.kubernetes.io/unreachable", "", NoExecute, false),
        ("node.cloudprovider.kubernetes.io/uninitialized", "true", NoSchedule, true),
        ("node.cloudprovider.kubernetes.io/uninitialized", "", NoSchedule, true),
        ("karpenter.sh/unregistered", "", NoExecute, true),
        ("karpenter.sh/unregistered", "", NoSchedule, false),
        ("readiness.k8s.io/x", "", NoSchedule, true),
        ("readiness.k8s.io/x", "pending", NoExecute, true),
        ("readiness.k8s.io/x", "", PreferNoSchedule, true),
        ("readiness.k8s.io/", "", NoSchedule, true),
        ("readiness.k8s.io", "", NoSchedule, false),
        ("example.com/readiness.k8s.io/x", "", NoSchedule, false),
        ("karpenter.sh/disrupted", "", NoSchedule, false),
        ("example.com/other", "", NoSchedule, false),
    ] {
        assert_eq!(taint(key, value, effect).is_ephemeral(), expected, "{key}:{effect}");
    }
}

#[test]
fn merging_keeps_what_is_there_by_key_and_effect() {
    let mut taints = vec![taint("a", "1", Effect::NoSchedule)];
    merge(
        &mut taints,
        &[
            taint("a", "2", Effect::NoSchedule),
            taint("a", "2", Effect::NoExecute),
            taint("b", "", Effect::NoSchedule),
        ],
    );
    let printed: Vec<String> = taints.iter().map(Taint::to_string).collect();
    assert_eq!(printed, ["a=1:NoSchedule", "a=2:NoExecute", "b:NoSchedule"]);
}

#[test]
fn our_own_taints_have_the_effects_of_the_api() {
    assert_eq!(Taint::unregistered().to_string(), "karpenter.sh/unregistered:NoExecute");
    assert_eq!(Taint::disrupted().to_string(), "karpenter.sh/disrupted:NoSchedule");
}

#[test]
fn json_follows_the_kubernetes_names() {
    let read: Toleration =
        serde_json::from_str(r#"{"key":"a","effect":"NoExecute","tolerationSeconds":300}"#).unwrap();
    assert_eq!(read.operator, TolerationOperator::Equal);
    assert_eq!(read.toleration_seconds, Some(300));
    let taint: Taint = serde_json::from_str(r#"{"key":"a","effect":"NoSchedule"}"#).unwrap();
    assert_eq!(serde_json::to_string(&taint).unwrap(), r#"{"key":"a","effect":"NoSchedule"}"#);
    assert!("Always".parse::<Effect>().unwrap_err().to_string().contains("Always"));
}
