use cloud::instance::{CLUSTER_TAG, Lifecycle, NODECLASS_TAG, NODEPOOL_TAG};
use cloud::memory::MemoryCloud;

use super::*;

struct Bench {
    cloud: Arc<MemoryCloud>,
    instances: Instances,
    news: mpsc::Receiver<News>,
    refusals: Family<Zone, Counter>,
    stop: CancellationToken,
    running: JoinSet<anyhow::Result<()>>,
}

fn bench() -> Bench {
    let cloud = Arc::new(MemoryCloud::new("us-east-1"));
    let refusals = Family::default();
    let (actor, instances, news) = InstancesActor::new(cloud.clone(), "blue".to_owned(), refusals.clone());
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(actor.run(stop.clone()));
    Bench { cloud, instances, news, refusals, stop, running }
}

pub(crate) fn instance_in(id: &str, zone: &str, tags: &[(&str, &str)]) -> Ec2Instance {
    Ec2Instance {
        id: id.to_owned(),
        state: InstanceState::Running,
        instance_type: "m5.large".into(),
        image_id: "ami-1".into(),
        architecture: "x86_64".into(),
        zone: zone.into(),
        zone_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        private_dns_name: None,
        private_ip: None,
        launched_at: None,
        lifecycle: Lifecycle::OnDemand,
        spot_request_id: None,
        reservation_id: None,
        reservations_only: false,
        tenancy: "default".into(),
        placement_group_id: None,
        partition: None,
        efa_interfaces: 0,
        instance_profile: None,
        tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

impl Bench {
    fn instance(&self, id: &str, tags: &[(&str, &str)]) {
        self.cloud.state().instances.insert(id.to_owned(), instance_in(id, "us-east-1a", tags));
    }

    fn ours(&self, id: &str) {
        let tags =
            [(NODEPOOL_TAG, "p"), (NODECLASS_TAG, "c"), (CLUSTER_TAG, "blue"), (NODECLAIM_TAG, "claim-1")];
        self.instance(id, &tags);
    }

    fn state(&self, id: &str) -> InstanceState {
        self.cloud.state().instances[id].state
    }

    async fn next(&mut self) -> Instance {
        self.news.recv().await.unwrap().instance
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.running.join_next().await.unwrap().unwrap().unwrap();
    }
}

fn id(text: &str) -> Subject {
    Subject::Id(text.into())
}

// Cases: FIN-10
#[tokio::test(start_paused = true)]
async fn an_instance_is_ended_and_insisted_on_until_it_is_gone() {
    let mut bench = bench();
    bench.ours("i-1");
    assert!(bench.instances.want(id("i-1"), Wish::End, None));
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert_eq!(bench.next().await, Instance::Ending);
    assert_eq!(bench.state("i-1"), InstanceState::ShuttingDown);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bench.news.try_recv().is_err(), "still ending after a minute of looking");
    bench.cloud.settle_instances();
    assert_eq!(bench.next().await, Instance::Gone);
    bench.end().await;
}

// Cases: FIN-9
#[tokio::test(start_paused = true)]
async fn an_instance_that_ec2_does_not_end_is_counted_by_zone_and_asked_for_again() {
    let mut bench = bench();
    bench.ours("i-1");
    bench.cloud.fail_times("TerminateInstances", "InternalError", "not now", 2);
    bench.instances.want(id("i-1"), Wish::End, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert!(matches!(bench.next().await, Instance::Asking(Some(error)) if error.contains("not now")));
    assert_eq!(bench.next().await, Instance::Ending);
    let zone = Zone { zone: "us-east-1a".into(), zone_id: String::new() };
    assert_eq!(bench.refusals.get_or_create(&zone).get(), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_our_tags_is_never_ended() {
    let mut bench = bench();
    bench.instance("i-1", &[(NODEPOOL_TAG, "p"), (NODECLASS_TAG, "c"), (CLUSTER_TAG, "green")]);
    bench.instances.want(id("i-1"), Wish::End, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    let Instance::Untouchable(why) = bench.next().await else { panic!("touched") };
    assert!(why.contains("i-1") && why.contains("eks:eks-cluster-name=blue"), "{why}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.cloud.calls("TerminateInstances"), 0);
    assert_eq!(bench.state("i-1"), InstanceState::Running);
    bench.ours("i-1");
    assert_eq!(bench.next().await, Instance::Ending, "once it carries them, it is ended");
    bench.end().await;
}

/// Its claim's provider id, the claim's name and the cluster's ownership are proof enough; each alone is not.
#[tokio::test(start_paused = true)]
async fn an_instance_without_the_cluster_name_is_ended_when_its_claim_and_owner_prove_it() {
    let owned = "kubernetes.io/cluster/blue";
    let proven: [(&str, &str); 3] = [(NODEPOOL_TAG, "p"), (owned, "owned"), (NODECLAIM_TAG, "claim-1")];
    let mut bench = bench();
    let unproven: [&[(&str, &str)]; 5] = [
        &[(NODEPOOL_TAG, "p"), (owned, "owned")],
        &[(NODEPOOL_TAG, "p"), (NODECLAIM_TAG, "claim-1")],
        &[(NODEPOOL_TAG, "p"), (owned, "owned"), (NODECLAIM_TAG, "claim-2")],
        &[(NODEPOOL_TAG, "p"), (owned, "shared"), (NODECLAIM_TAG, "claim-1")],
        &[(CLUSTER_TAG, "green"), (owned, "owned"), (NODECLAIM_TAG, "claim-1")],
    ];
    for tags in unproven {
        bench.instance("i-1", tags);
        bench.instances.want(id("i-1"), Wish::End, Some("claim-1".into()));
        assert_eq!(bench.next().await, Instance::Asking(None));
        assert!(matches!(bench.next().await, Instance::Untouchable(_)), "{tags:?}");
        bench.instances.forget(id("i-1"));
    }
    bench.instance("i-1", &proven);
    bench.instances.want(id("i-1"), Wish::End, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert!(matches!(bench.next().await, Instance::Untouchable(_)), "no claim names it");
    assert_eq!(bench.cloud.calls("TerminateInstances"), 0);
    bench.instances.forget(id("i-1"));
    bench.instances.want(id("i-1"), Wish::End, Some("claim-1".into()));
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert_eq!(bench.next().await, Instance::Ending);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_is_no_answer_and_two_clean_looks_are_needed_for_one_never_seen() {
    let mut bench = bench();
    bench.cloud.fail("DescribeInstances", "RequestLimitExceeded", "slow down");
    bench.instances.want(id("i-9"), Wish::End, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert!(matches!(bench.next().await, Instance::Asking(Some(error)) if error.contains("slow down")));
    assert_eq!(bench.next().await, Instance::Asking(None), "one clean look");
    assert_eq!(bench.cloud.calls("DescribeInstances"), 2);
    assert_eq!(bench.next().await, Instance::Gone);
    assert_eq!(bench.cloud.calls("DescribeInstances"), 3);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_id_was_never_noted_is_found_by_the_name_of_its_claim() {
    let mut bench = bench();
    bench.ours("i-1");
    let subject = Subject::OfClaim("claim-1".into());
    bench.instances.want(subject.clone(), Wish::Look, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert_eq!(bench.next().await, Instance::Running);
    bench.instances.want(subject, Wish::End, None);
    assert_eq!(bench.next().await, Instance::Asking(None));
    assert_eq!(bench.next().await, Instance::Ending);
    assert_eq!(bench.state("i-1"), InstanceState::ShuttingDown);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_wishes_are_few_calls_and_at_rest_there_are_none() {
    let mut bench = bench();
    for number in 0..400 {
        bench.ours(&format!("i-{number}"));
        bench.instances.want(id(&format!("i-{number}")), Wish::End, None);
    }
    for _ in 0..800 {
        bench.next().await;
    }
    let calls = bench.cloud.calls("DescribeInstances");
    assert!(calls <= 4, "{calls} describes for 400 instances");
    bench.cloud.settle_instances();
    for _ in 0..400 {
        assert_eq!(bench.next().await, Instance::Gone);
    }
    let calls = bench.cloud.calls("DescribeInstances");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(bench.cloud.calls("DescribeInstances"), calls, "nothing is asked about what is gone");
    bench.end().await;
}
