//! Launches that fail for a lasting reason, of every kind: ten minutes of one NodePool that cannot launch beside one that can, by
//! the pauses that the cluster's state and the life of a claim keep.

use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim};
use cloud::memory::MemoryCloud;
use jiff::{SignedDuration, Timestamp};
use model::catalog::InstanceType;
use model::labels;
use serde_json::json;

use super::fixture::{NoBatches, ZONES, buying, claim, class, kind, parts, sold_both_ways};
use crate::cluster::{Backoff, LaunchShape, Probes};
use crate::launch::{Failure, Launch};
use crate::lifecycle::launch_backoff;

const LASTS: SignedDuration = SignedDuration::from_mins(10);
const STEP: SignedDuration = SignedDuration::from_millis(250);
/// A claim that is not launched by then is deleted.
const LAUNCH_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// A NodePool with a class of its own, whose pods never stop asking for a node.
struct Pool {
    name: &'static str,
    cloud: Arc<MemoryCloud>,
    launch: Launch,
    class: EC2NodeClass,
    types: Vec<InstanceType>,
    asks: NodeClaim,
    present: Option<Present>,
    created: Vec<Timestamp>,
    launched: usize,
    last_failure: Option<(Failure, &'static str)>,
}

/// The claim that waits for its launch.
struct Present {
    claim: NodeClaim,
    since: Timestamp,
    next: Timestamp,
    failures: u32,
}

impl Pool {
    fn new(name: &'static str) -> Self {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        let launch = Launch::new(parts(Arc::clone(&cloud) as _, Arc::new(NoBatches), Arc::default()));
        launch.term_began();
        let mut asks = claim(buying(&["on-demand"]));
        let own = asks.metadata.labels.get_or_insert_default();
        own.insert(labels::NODEPOOL.to_owned(), name.to_owned());
        Self {
            name,
            cloud,
            launch,
            class: class(),
            types: vec![kind("a.large", 4, sold_both_ways(90)), kind("b.large", 4, sold_both_ways(120))],
            asks,
            present: None,
            created: Vec::new(),
            launched: 0,
            last_failure: None,
        }
    }

    fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn create(&mut self, now: Timestamp) {
        let mut claim = self.asks.clone();
        let number = self.created.len();
        claim.metadata.name = Some(format!("{}-{number}", self.name));
        claim.metadata.uid = Some(format!("uid-{}-{number}", self.name));
        self.created.push(now);
        self.present = Some(Present { claim, since: now, next: now, failures: 0 });
    }

    async fn step(&mut self, backoff: &mut Backoff, probes: &mut Probes, now: Timestamp) {
        let shape = LaunchShape::of(&self.asks);
        self.present.take_if(|present| now.duration_since(present.since) >= LAUNCH_LIMIT);
        if self.present.is_none() && probes.admit(backoff, &shape, now).is_ok() {
            self.create(now);
        }
        let Some(present) = self.present.as_mut().filter(|present| now >= present.next) else { return };
        match self.launch.launch(&present.claim, &self.class, Some(&self.types)).await {
            Ok(_) => {
                self.launched += 1;
                self.present = None;
            }
            Err(error) => {
                self.last_failure = Some((error.kind, error.reason));
                present.failures += 1;
                present.next = now + launch_backoff(present.failures);
                if error.kind != Failure::Retryable {
                    backoff.failed(&shape, present.since, &Arc::from(error.message.as_str()), now);
                    self.present = None;
                }
            }
        }
    }
}

/// Runs the pool beside one that can launch, and says how many CreateFleet calls it made.
async fn ten_minutes(mut broken: Pool) -> (Pool, u64) {
    let mut sound = Pool::new("sound");
    let (mut backoff, mut probes) = (Backoff::default(), Probes::default());
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    let (mut now, mut asked) = (start, 0);
    while now.duration_since(start) < LASTS {
        broken.step(&mut backoff, &mut probes, now).await;
        // A node every ten seconds.
        if now.duration_since(start).as_millis() % 10_000 == 0 {
            asked += 1;
            sound.step(&mut backoff, &mut probes, now).await;
        }
        now += STEP;
    }
    assert_eq!((sound.created.len(), sound.launched), (asked, asked), "the other NodePool is not held up");
    let calls = broken.cloud.calls("CreateFleet");
    (broken, calls)
}

fn assert_bounded(broken: &Pool, calls: u64, what: &str) {
    let created = &broken.created;
    assert_eq!(broken.launched, 0, "{what}");
    assert!((2..=20).contains(&created.len()), "{what}: {} claims", created.len());
    assert!(calls <= 30, "{what}: {calls} calls");
    let pauses: Vec<_> = created.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
    assert!(pauses.iter().all(|pause| *pause >= SignedDuration::from_secs(1)), "{what}: {pauses:?}");
    assert!(pauses.is_sorted(), "{what}: pauses only grow: {pauses:?}");
}

/// EC2 refuses the call itself: the claim is kept and tries again, later each time.
#[tokio::test(start_paused = true)]
async fn calls_that_ec2_refuses_are_few_and_ever_rarer() {
    for (code, message, reason) in [
        ("UnauthorizedOperation", "You are not authorized to perform this operation", "Unauthorized"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        (
            "InvalidParameter",
            "sg-1 and subnet-a belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue",
            "Value (p) for iamInstanceProfile.name is invalid",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist", "AMINotFound"),
        ("InvalidAMIID.Malformed", "Invalid id: \"ami\"", "InvalidAMIID"),
        ("MaxFleetCountExceeded", "Your quota allows for 0 more fleets", "FleetQuotaExceeded"),
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded", "You have requested more vCPU capacity than your limit", "VCPULimitExceeded"),
        (
            "PendingVerification",
            "Your request for accessing resources is being validated",
            "AccountPendingVerification",
        ),
        ("RequestLimitExceeded", "Request limit exceeded.", "RequestLimitExceeded"),
        ("SomethingNew", "a code that this release does not know", "LaunchFailed"),
    ] {
        let broken =
            Pool::new("broken").but(|pool| pool.cloud.fail_times("CreateFleet", code, message, 10_000));
        let (broken, calls) = ten_minutes(broken).await;
        assert_eq!(broken.last_failure, Some((Failure::Retryable, reason)), "{code}");
        assert_bounded(&broken, calls, code);
    }
}

#[tokio::test(start_paused = true)]
async fn launch_templates_that_ec2_refuses_are_few_and_ever_rarer() {
    let refused = |pool: &mut Pool| {
        pool.cloud.fail_times("CreateLaunchTemplate", "UnauthorizedOperation", "not authorized", 10_000);
    };
    let (broken, calls) = ten_minutes(Pool::new("broken").but(refused)).await;
    assert_bounded(&broken, calls, "CreateLaunchTemplate");
    assert!(broken.cloud.calls("CreateLaunchTemplate") <= 30);
}

/// The claim itself, its class or its types allow nothing: it is deleted, and the next waits.
#[tokio::test(start_paused = true)]
async fn claims_that_nothing_can_be_had_for_are_few_and_ever_rarer() {
    let asks = |pool: &mut Pool, patch: serde_json::Value| {
        pool.asks.spec = serde_json::from_value({
            let mut spec = serde_json::to_value(&pool.asks.spec).unwrap();
            spec.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
            spec
        })
        .unwrap();
    };
    let exhausted = Pool::new("broken").but(|pool| {
        for kind in ["a.large", "b.large"] {
            ZONES.iter().for_each(|zone| pool.cloud.exhaust(false, kind, zone));
        }
    });
    let nobody_has_it = Pool::new("broken")
        .but(|pool| asks(pool, json!({"resources": {"requests": {"smarter-devices/fuse": "1"}}})));
    let too_few_values = Pool::new("broken").but(|pool| {
        let family = json!({"key": labels::INSTANCE_FAMILY, "operator": "Exists", "minValues": 3});
        asks(pool, json!({"requirements": [family]}));
    });
    let not_ready = Pool::new("broken").but(|pool| {
        let conditions = pool.class.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.iter_mut().find(|c| c.type_ == "Ready").unwrap().status = "False".into();
    });
    for (what, kind, pool) in [
        ("no capacity anywhere", Failure::InsufficientCapacity, exhausted),
        ("a resource that no type has", Failure::InsufficientCapacity, nobody_has_it),
        ("minValues that the types cannot meet", Failure::InsufficientCapacity, too_few_values),
        ("a class that is not ready", Failure::NodeClassNotReady, not_ready),
    ] {
        let (broken, calls) = ten_minutes(pool).await;
        assert_eq!(broken.last_failure.map(|(kind, _)| kind), Some(kind), "{what}");
        assert_bounded(&broken, calls, what);
    }
}
