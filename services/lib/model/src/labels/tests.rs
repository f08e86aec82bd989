use super::*;

#[test]
fn the_well_known_set_is_sorted_so_that_it_can_be_searched() {
    assert!(WELL_KNOWN.is_sorted_by(|a, b| a < b));
}

#[test]
fn every_alias_stands_for_a_well_known_key_and_is_none_itself() {
    for (alias, canonical) in ALIASES {
        assert_eq!(normalize(alias), canonical);
        assert_eq!(normalize(canonical), canonical);
        assert!(is_well_known(canonical) && !is_well_known(alias));
    }
}

#[test]
fn keys_that_are_no_alias_stay_as_they_are() {
    assert_eq!(normalize("example.com/team"), "example.com/team");
    assert_eq!(normalize("zone"), "zone");
}

// Cases: SCH-A.5-3, SCH-A.5-4
#[test]
fn the_runtime_check_restricts_hostname_and_what_is_unknown_in_our_domains() {
    for (key, restricted) in [
        (HOSTNAME, true),
        ("karpenter.sh/nodepool", false),
        ("karpenter.sh/capacity-type", false),
        ("karpenter.sh/registered", true),
        ("karpenter.sh/anything", true),
        ("sub.karpenter.sh/anything", true),
        ("notkarpenter.sh/anything", false),
        ("karpenter.sh.example.com/anything", false),
        ("karpenter.k8s.aws/instance-cpu", false),
        ("karpenter.k8s.aws/ec2nodeclass", true),
        ("karpenter.k8s.aws/unheard-of", true),
        ("a.karpenter.k8s.aws/unheard-of", true),
        ("kubernetes.io/anything", false),
        ("node.kubernetes.io/anything", false),
        ("k8s.io/anything", false),
        ("example.com/team", false),
        ("team", false),
        ("karpenter.sh", false),
    ] {
        assert_eq!(is_restricted(key), restricted, "{key}");
    }
}

#[test]
fn the_schema_check_compares_domains_by_text_suffix() {
    use Schema::{NodeClaim, NodeOverlay, NodePool};
    for (key, pool, claim, overlay) in [
        (HOSTNAME, true, true, true),
        ("karpenter.sh/capacity-type", false, false, false),
        ("karpenter.sh/nodepool", true, false, false),
        ("karpenter.sh/registered", true, true, true),
        ("notkarpenter.sh/x", true, true, true),
        ("karpenter.sh", true, true, true),
        ("karpenter.k8s.aws/instance-cpu", false, false, false),
        ("karpenter.k8s.aws/instance-tenancy", false, false, true),
        ("karpenter.k8s.aws/capacity-reservation-id", false, false, true),
        ("karpenter.k8s.aws/placement-group-partition", false, false, true),
        ("karpenter.k8s.aws/ec2nodeclass", false, false, false),
        ("karpenter.k8s.aws/unheard-of", true, true, true),
        ("x.karpenter.k8s.aws/instance-cpu", true, true, true),
        ("topology.k8s.aws/zone-id", false, false, false),
        ("example.com/team", false, false, false),
    ] {
        assert_eq!(is_restricted_by_schema(NodePool, key), pool, "pool {key}");
        assert_eq!(is_restricted_by_schema(NodeClaim, key), claim, "claim {key}");
        assert_eq!(is_restricted_by_schema(NodeOverlay, key), overlay, "overlay {key}");
    }
}

#[test]
fn capacity_type_and_tenancy_have_closed_values() {
    assert_eq!(closed_values(CAPACITY_TYPE), Some(["on-demand", "spot", "reserved"].as_slice()));
    assert_eq!(closed_values(INSTANCE_TENANCY), Some(["default", "dedicated"].as_slice()));
    assert_eq!(closed_values(ZONE), None);
}

#[test]
fn kubernetes_domains_and_their_subdomains_are_recognised() {
    for (key, expected) in [
        ("kubernetes.io/os", true),
        ("topology.kubernetes.io/zone", true),
        ("node.k8s.io/x", true),
        ("mykubernetes.io/x", false),
        ("topology.k8s.aws/zone-id", false),
        ("kubernetes.io", false),
    ] {
        assert_eq!(is_kubernetes_domain(key), expected, "{key}");
    }
}
