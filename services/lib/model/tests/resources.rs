//! Resource vectors: arithmetic, fit, and what pods ask for in all.

use model::quantity::Quantity;
use model::resources::{CPU, Container, MEMORY, PodParts, Resources};
use proptest::prelude::*;

fn q(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

fn list<const N: usize>(entries: [(&str, &str); N]) -> Resources {
    entries.into_iter().map(|(name, amount)| (name, q(amount))).collect()
}

fn cpu_memory(cpu: &str, memory: &str) -> Resources {
    list([(CPU, cpu), (MEMORY, memory)])
}

fn max_of(lists: &[Resources]) -> Resources {
    let mut all = Resources::new();
    lists.iter().for_each(|one| all.max(one));
    all
}

fn min_of(lists: &[Resources]) -> Resources {
    lists.iter().cloned().reduce(|a, b| a.min(&b)).unwrap_or_default()
}

// Cases: SCH-K-16, SCH-K-17, SCH-K-18, SCH-K-19
#[test]
fn the_largest_of_each_resource_is_kept_whoever_names_it() {
    assert!(max_of(&[]).is_empty());
    let one = cpu_memory("1", "1Gi");
    assert_eq!(max_of(std::slice::from_ref(&one)), one);
    let many = [cpu_memory("1", "4Gi"), cpu_memory("3", "1Gi"), cpu_memory("2", "2Gi")];
    assert_eq!(max_of(&many), cpu_memory("3", "4Gi"));
    let partial = [list([(CPU, "1")]), list([(MEMORY, "2Gi"), ("nvidia.com/gpu", "1")])];
    assert_eq!(max_of(&partial), list([(CPU, "1"), (MEMORY, "2Gi"), ("nvidia.com/gpu", "1")]));
}

// Cases: SCH-K-20, SCH-K-21, SCH-K-22, SCH-K-23
#[test]
fn the_smallest_is_taken_of_resources_that_all_name() {
    assert!(min_of(&[]).is_empty());
    let one = cpu_memory("1", "1Gi");
    assert_eq!(min_of(std::slice::from_ref(&one)), one);
    let many = [cpu_memory("1", "4Gi"), cpu_memory("3", "1Gi"), cpu_memory("2", "2Gi")];
    assert_eq!(min_of(&many), cpu_memory("1", "1Gi"));
    let shared = min_of(&[list([(CPU, "1")]), list([(CPU, "2"), ("nvidia.com/gpu", "1")])]);
    assert_eq!(shared, list([(CPU, "1")]));
    assert!(!shared.contains("nvidia.com/gpu"));
}

#[test]
fn requests_fit_up_to_the_last_unit() {
    let room = cpu_memory("2", "4Gi");
    assert!(cpu_memory("2", "4Gi").fits(&room));
    assert!(!cpu_memory("2001m", "4Gi").fits(&room));
    assert!(!cpu_memory("2", "4294967297").fits(&room));
    assert!(Resources::new().fits(&room));
}

// Cases: SCH-B.7-8
#[test]
fn a_zero_request_fits_even_where_the_resource_is_unknown() {
    let room = list([(CPU, "1")]);
    assert!(list([("nvidia.com/gpu", "0")]).fits(&room));
    assert!(!list([("nvidia.com/gpu", "1")]).fits(&room));
}

#[test]
fn nothing_fits_where_any_amount_is_already_negative() {
    let room = list([(CPU, "4"), (MEMORY, "-1")]);
    assert!(!list([(CPU, "1")]).fits(&room));
    assert!(!Resources::new().fits(&room));
}

#[test]
fn what_does_not_fit_is_named() {
    let room = cpu_memory("1", "1Gi");
    let asked = list([(CPU, "2"), (MEMORY, "1Gi"), ("nvidia.com/gpu", "1")]);
    assert_eq!(asked.exceeding(&room).collect::<Vec<_>>(), [CPU, "nvidia.com/gpu"]);
}

#[test]
fn an_overhead_on_an_unknown_resource_makes_nothing_negative() {
    let mut capacity = cpu_memory("4", "8Gi");
    capacity.sub(&list([(CPU, "100m"), ("ephemeral-storage", "1Gi")]));
    assert_eq!(capacity, cpu_memory("3900m", "8Gi"));
    assert!(!capacity.contains("ephemeral-storage"));

    capacity.sub_all(&list([("ephemeral-storage", "1Gi")]));
    assert_eq!(capacity.get("ephemeral-storage"), q("-1Gi"));
}

#[test]
fn a_zero_entry_equals_an_absent_one() {
    assert_eq!(list([(CPU, "1"), (MEMORY, "0")]), list([(CPU, "1")]));
    assert_ne!(list([(CPU, "1")]), list([(CPU, "2")]));
    assert_ne!(list([(CPU, "1")]), list([(CPU, "1"), (MEMORY, "1")]));
}

#[test]
fn json_is_a_map_of_canonical_quantities() {
    let read: Resources = serde_json::from_str(r#"{"memory":"2048Mi","cpu":1.5,"pods":10}"#).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"cpu":"1500m","memory":"2Gi","pods":"10"}"#);
    assert_eq!(read.to_string(), "cpu=1500m, memory=2Gi, pods=10");
}

fn check(parts: &PodParts, cpu: &str, memory: &str) {
    assert_eq!(parts.requests(), cpu_memory(cpu, memory));
}

fn container(cpu: &str, memory: &str) -> Container {
    Container::new(cpu_memory(cpu, memory))
}

fn sidecar(cpu: &str, memory: &str) -> Container {
    Container::sidecar(cpu_memory(cpu, memory))
}

// Cases: SCH-K-1, SCH-M.2-12, SCH-M.2-16
#[test]
fn containers_and_sidecars_add_up() {
    let parts = PodParts {
        containers: vec![container("2", "1Gi"), container("1", "1Gi")],
        init_containers: vec![sidecar("1", "2Gi")],
        ..PodParts::default()
    };
    check(&parts, "4", "4Gi");
}

// Cases: SCH-B.7-3, SCH-K-2
#[test]
fn a_small_init_container_is_covered_and_overhead_comes_on_top() {
    let parts = PodParts {
        containers: vec![container("2", "1Gi")],
        init_containers: vec![sidecar("1", "1Gi"), container("1", "1Gi")],
        overhead: cpu_memory("5", "1Gi"),
        ..PodParts::default()
    };
    check(&parts, "8", "3Gi");
}

// Cases: SCH-A.2-17, SCH-A.2-18, SCH-K-3, SCH-K-4
#[test]
fn an_init_container_after_a_sidecar_runs_beside_it() {
    let mut parts = PodParts {
        containers: vec![container("1", "1Gi")],
        init_containers: vec![sidecar("4", "4Gi"), container("10", "10Gi")],
        ..PodParts::default()
    };
    check(&parts, "14", "14Gi");
    parts.init_containers[1] = container("500m", "512Mi");
    check(&parts, "5", "5Gi");
}

// Cases: SCH-K-5, SCH-K-6, SCH-M.2-17, SCH-M.2-18
#[test]
fn an_init_container_runs_beside_every_sidecar_started_before_it() {
    let several = vec![sidecar("1", "1Gi"), sidecar("2", "2Gi"), sidecar("3", "3Gi")];
    let mut parts =
        PodParts { containers: vec![container("1", "1Gi")], init_containers: several, ..PodParts::default() };
    parts.init_containers.push(container("20", "20Gi"));
    check(&parts, "26", "26Gi");
    parts.init_containers[3] = container("500m", "512Mi");
    check(&parts, "7", "7Gi");
}

// Cases: SCH-B.7-11, SCH-K-7, SCH-M.2-13, SCH-M.2-19
#[test]
fn a_first_init_container_may_dominate_everything() {
    let parts = PodParts {
        containers: vec![container("3", "3Gi")],
        init_containers: vec![container("25", "25Gi"), sidecar("1", "1Gi"), sidecar("2", "2Gi")],
        ..PodParts::default()
    };
    check(&parts, "25", "25Gi");
}

// Cases: SCH-A.2-16, SCH-K-8, SCH-M.2-15
#[test]
fn sidecars_and_init_containers_may_be_interleaved() {
    let parts = PodParts {
        containers: vec![container("1", "1Gi")],
        init_containers: vec![
            sidecar("1", "1Gi"),
            container("4", "4Gi"),
            sidecar("2", "2Gi"),
            container("6", "6Gi"),
            sidecar("3", "3Gi"),
        ],
        ..PodParts::default()
    };
    // Steps: 1, 1+4, 3, 3+6, 6; all running: 7.
    check(&parts, "9", "9Gi");
}

// Cases: SCH-K-9, SCH-K-10, SCH-K-11, SCH-K-12
#[test]
fn each_resource_has_its_own_dominating_moment() {
    let with_init = |init: Container, before: bool| {
        let mut init_containers = vec![sidecar("1", "1Gi")];
        init_containers.insert(usize::from(before), init);
        PodParts { containers: vec![container("2", "2Gi")], init_containers, ..PodParts::default() }
    };
    check(&with_init(container("10", "1Gi"), false), "10", "3Gi");
    check(&with_init(container("10", "1Gi"), true), "11", "3Gi");
    check(&with_init(container("1", "10Gi"), false), "3", "10Gi");
    check(&with_init(container("1", "10Gi"), true), "3", "11Gi");
}

// Cases: SCH-A.2-19, SCH-K-13, SCH-K-14
#[test]
fn requests_of_the_pod_as_a_whole_win_for_the_resources_they_name() {
    let mut parts = PodParts {
        containers: vec![Container::new(list([(CPU, "1"), (MEMORY, "1Gi"), ("nvidia.com/gpu", "1")]))],
        pod_requests: cpu_memory("3", "5Gi"),
        overhead: list([(CPU, "250m")]),
        ..PodParts::default()
    };
    let expected = list([(CPU, "3250m"), (MEMORY, "5Gi"), ("nvidia.com/gpu", "1")]);
    assert_eq!(parts.requests(), expected);

    parts.pod_requests = list([(CPU, "3"), ("nvidia.com/gpu", "8")]);
    let only_cpu = list([(CPU, "3250m"), (MEMORY, "1Gi"), ("nvidia.com/gpu", "1")]);
    assert_eq!(parts.requests(), only_cpu, "devices cannot be set for a pod");
}

// Cases: SCH-K-15, SCH-K-73
#[test]
fn missing_requests_are_taken_from_limits() {
    let mut parts = PodParts::default();
    parts.default_pod_requests_from(&cpu_memory("2", "2Gi"));
    check(&parts, "2", "2Gi");

    let mut own = Container::new(list([(CPU, "1")]));
    own.default_requests_from(&cpu_memory("4", "4Gi"));
    assert_eq!(own.requests, cpu_memory("1", "4Gi"));
}

// Cases: SCH-K-24, SCH-K-25, SCH-K-26
#[test]
fn during_a_resize_the_larger_of_old_and_new_counts() {
    let mut resized = container("1", "1Gi");
    check_one(&resized, false, "1", "1Gi");
    resized.in_use = Some(cpu_memory("2", "2Gi"));
    check_one(&resized, false, "2", "2Gi");
    resized.in_use = Some(cpu_memory("500m", "512Mi"));
    check_one(&resized, false, "1", "1Gi");
    check_one(&resized, true, "500m", "512Mi");
    resized.in_use = Some(cpu_memory("1", "1Gi"));
    check_one(&resized, false, "1", "1Gi");
}

fn check_one(one: &Container, resize_is_infeasible: bool, cpu: &str, memory: &str) {
    let parts = PodParts { containers: vec![one.clone()], resize_is_infeasible, ..PodParts::default() };
    check(&parts, cpu, memory);
}

fn resources() -> impl Strategy<Value = Resources> {
    let name = prop_oneof![Just(CPU), Just(MEMORY), Just("example.com/device")];
    proptest::collection::vec((name, 0_i64..1000), 0..4)
        .prop_map(|list| list.into_iter().map(|(name, milli)| (name, Quantity::from_milli(milli))).collect())
}

proptest! {
    #[test]
    fn what_fits_still_fits_with_more_room(a in resources(), room in resources(), more in resources()) {
        let mut larger = room.clone();
        larger.add(&more);
        prop_assert!(!a.fits(&room) || a.fits(&larger));
    }

    #[test]
    fn what_fits_leaves_nothing_negative(a in resources(), room in resources()) {
        let mut left = room.clone();
        left.sub_all(&a);
        prop_assert_eq!(a.fits(&room), !left.has_negative());
    }

    #[test]
    fn adding_is_commutative_and_undone_by_subtracting(a in resources(), b in resources()) {
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.add(&b);
        ba.add(&a);
        prop_assert_eq!(&ab, &ba);
        ab.sub_all(&b);
        prop_assert_eq!(ab, a);
    }

    #[test]
    fn the_larger_holds_both_and_no_more(a in resources(), b in resources()) {
        let mut larger = a.clone();
        larger.max(&b);
        prop_assert!(a.fits(&larger) && b.fits(&larger));
        for (name, amount) in larger.iter() {
            prop_assert!(amount == a.get(name) || amount == b.get(name));
        }
    }

    #[test]
    fn a_pod_asks_at_least_for_what_each_of_its_containers_does(
        containers in proptest::collection::vec(resources(), 0..3),
        inits in proptest::collection::vec((resources(), any::<bool>()), 0..4),
    ) {
        let parts = PodParts {
            containers: containers.into_iter().map(Container::new).collect(),
            init_containers: inits
                .into_iter()
                .map(|(requests, is_sidecar)| Container { is_sidecar, ..Container::new(requests) })
                .collect(),
            ..PodParts::default()
        };
        let total = parts.requests();
        for one in parts.containers.iter().chain(&parts.init_containers) {
            prop_assert!(one.requests.fits(&total));
        }
    }
}
