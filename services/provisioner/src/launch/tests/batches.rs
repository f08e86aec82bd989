//! Claims of one batch, and processes that are killed: at every point where one waits for something, with EC2 that shows
//! instances late, claims that come late or go, and writes of the dead that arrive after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::NodeClaim;
use cloud::instance::{BATCH_TAG, Instance, NODECLAIM_TAG};
use cloud::launch::{FleetAnswer, FleetRequest, InstanceDryRun, Launcher};
use cloud::memory::MemoryCloud;
use cloud::select::TagFilter;
use cloud::template::{LaunchTemplate, TemplateRef};
use cloud::{Answer, Tags};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use model::catalog::InstanceType;
use model::labels;
use proptest::prelude::*;
use tokio::task::yield_now;

use super::fixture::{Heard, ZONES, buying, claim, class, kind, parts, sold_both_ways};
use crate::launch::{Failure, Launch, Records};

const BATCH: &str = "bcdfg-6";

/// A cloud whose every answer takes a while, before and after its effect.
struct Slow(Arc<MemoryCloud>);

fn slowly<'a, T: Send + 'a>(call: impl FnOnce() -> Answer<'a, T> + Send + 'a) -> Answer<'a, T> {
    async move {
        yield_now().await;
        let answer = call().await;
        yield_now().await;
        answer
    }
    .boxed()
}

impl Launcher for Slow {
    fn create_fleet(&self, request: FleetRequest) -> Answer<'_, FleetAnswer> {
        slowly(|| self.0.create_fleet(request))
    }
    fn dry_run_fleet(&self, request: FleetRequest) -> Answer<'_, ()> {
        self.0.dry_run_fleet(request)
    }
    fn dry_run_instance(&self, request: InstanceDryRun) -> Answer<'_, ()> {
        self.0.dry_run_instance(request)
    }
    fn create_launch_template(&self, template: LaunchTemplate) -> Answer<'_, TemplateRef> {
        slowly(|| self.0.create_launch_template(template))
    }
    fn launch_template<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TemplateRef>> {
        slowly(|| self.0.launch_template(name))
    }
    fn launch_templates(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<TemplateRef>> {
        slowly(|| self.0.launch_templates(tags))
    }
    fn delete_launch_template<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.0.delete_launch_template(id)
    }
    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        slowly(|| Launcher::instances_by_id(&*self.0, ids))
    }
    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        slowly(|| Launcher::instances_by_tags(&*self.0, tags))
    }
    fn tag_instance<'a>(&'a self, id: &'a str, tags: Tags) -> Answer<'a, ()> {
        self.0.tag_instance(id, tags)
    }
}

/// The API server: each claim's version and the instance that its status names, and writes that are under way.
#[derive(Default)]
struct Statuses(Mutex<Server>);

#[derive(Default)]
struct Server {
    claims: BTreeMap<String, (u32, Option<String>)>,
    under_way: VecDeque<(String, u32, String)>,
}

impl Server {
    /// Says whether the oldest write under way was accepted.
    fn arrive(&mut self) -> bool {
        let Some((name, version, instance)) = self.under_way.pop_front() else { return false };
        match self.claims.get_mut(&name) {
            Some((current, status)) if *current == version => {
                (*current, *status) = (version + 1, Some(instance));
                true
            }
            _ => false,
        }
    }
}

impl Statuses {
    fn lock(&self) -> std::sync::MutexGuard<'_, Server> {
        self.0.lock().unwrap()
    }

    /// As lifecycle writes: with the version it knows; after a conflict it reads, and leaves an instance that is there.
    async fn write(&self, name: &str, instance: &str) {
        loop {
            {
                let mut server = self.lock();
                let Some((version, None)) = server.claims.get(name).cloned() else { return };
                server.under_way.push_back((name.to_owned(), version, instance.to_owned()));
            }
            yield_now().await;
            while !self.lock().under_way.is_empty() {
                self.lock().arrive();
            }
            yield_now().await;
        }
    }
}

impl Records for Statuses {
    fn instances_named<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<BTreeSet<String>, String>> {
        async {
            yield_now().await;
            let named = {
                let mut server = self.lock();
                let waiting = server.claims.values_mut().filter(|(_, instance)| instance.is_none());
                waiting.for_each(|(version, _)| *version += 1);
                server.claims.values().filter_map(|(_, instance)| instance.clone()).collect()
            };
            yield_now().await;
            Ok(named)
        }
        .boxed()
    }
}

struct World {
    cloud: Arc<MemoryCloud>,
    server: Arc<Statuses>,
    types: Vec<InstanceType>,
}

fn of_batch(n: usize) -> NodeClaim {
    let mut one = claim(buying(&["spot", "on-demand"]));
    (one.metadata.name, one.metadata.uid) = (Some(format!("claim-{n}")), Some(format!("uid-{n}")));
    one.metadata.annotations = Some([(labels::LAUNCH_BATCH.to_owned(), BATCH.to_owned())].into());
    one
}

impl World {
    fn new(claims: usize, lag: u32) -> Self {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        cloud.state().lag = lag;
        let types = vec![kind("a.large", 4, sold_both_ways(90)), kind("b.large", 4, sold_both_ways(120))];
        let world = Self { cloud, server: Arc::default(), types };
        world.server.lock().claims.extend((0..claims).map(|n| (format!("claim-{n}"), (0, None))));
        world
    }

    fn process(&self) -> Launch {
        let launcher: Arc<dyn Launcher> = Arc::new(Slow(Arc::clone(&self.cloud)));
        Launch::new(parts(launcher, Arc::clone(&self.server) as _, Arc::new(Heard::default())))
    }

    /// One process, from its start until all of these claims have an instance.
    fn run(&self, claims: Vec<usize>) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let launch = self.process();
        let one = move |n: usize| {
            let launch = launch.clone();
            async move {
                let claim = of_batch(n);
                let name = claim.metadata.name.clone().unwrap();
                loop {
                    match self.server.lock().claims.get(&name) {
                        Some((_, None)) => {}
                        _ => return,
                    }
                    match launch.launch(&claim, &class(), Some(&self.types)).await {
                        Ok(launched) => {
                            self.server.write(&name, &launched.instance_id).await;
                            launch.recorded(&claim);
                        }
                        Err(error) => assert_eq!(error.kind, Failure::Retryable, "{error}"),
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        Box::pin(async move {
            join_all(claims.into_iter().map(one)).await;
        })
    }

    /// Polls so often and then kills. Says whether it had come to its end.
    async fn run_for(&self, claims: Vec<usize>, polls: usize) -> bool {
        let mut process = self.run(claims);
        for _ in 0..polls {
            if futures::poll!(process.as_mut()).is_ready() {
                return true;
            }
            tokio::time::advance(Duration::from_millis(20)).await;
        }
        false
    }

    fn named(&self) -> Vec<String> {
        self.server.lock().claims.values().filter_map(|(_, instance)| instance.clone()).collect()
    }

    /// Every claim has an instance, none has that of another, and what is left over is known by the batch's tag only.
    fn check(&self, left_over: usize, told: &str) {
        let named = self.named();
        let distinct: BTreeSet<&String> = named.iter().collect();
        let claims = self.server.lock().claims.len();
        assert_eq!((named.len(), distinct.len()), (claims, claims), "{told}");
        let running = self.cloud.running();
        assert!(
            running.len() <= claims + left_over,
            "{} instances for {claims} claims, {told}",
            running.len()
        );
        for instance in running {
            assert_eq!(instance.tags.get(BATCH_TAG).map(String::as_str), Some(BATCH), "{told}");
            assert!(!instance.tags.contains_key(NODECLAIM_TAG) && instance.belongs_to("blue"), "{told}");
        }
    }
}

fn in_time<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

const ENOUGH: usize = 20_000;

#[test]
fn claims_of_a_batch_share_one_fleet_request() {
    in_time(async {
        let world = World::new(6, 0);
        assert!(world.run_for((0..6).collect(), ENOUGH).await);
        world.check(0, "");
        assert_eq!(world.cloud.calls("CreateFleet"), 1);
        assert_eq!(world.cloud.state().tokens.keys().collect::<Vec<_>>(), [BATCH]);
    });
}

#[test]
fn a_partial_answer_serves_some_and_the_others_ask_on() {
    in_time(async {
        let world = World::new(6, 0);
        {
            let mut state = world.cloud.state();
            for zone in ZONES {
                for kind in &world.types {
                    state.room.insert((true, kind.name.to_string(), zone.to_owned()), 1);
                }
            }
        }
        assert!(world.run_for((0..6).collect(), ENOUGH).await);
        world.check(0, "");
        let spot = world.cloud.running().iter().filter(|i| i.spot_request_id.is_some()).count();
        assert_eq!((spot, world.cloud.calls("CreateFleet")), (4, 2), "four of spot, the rest on demand");
    });
}

#[test]
fn a_kill_at_any_point_leaves_one_instance_a_claim() {
    in_time(async {
        for lag in [0, 1, 4] {
            let mut kill_after = 0;
            loop {
                let world = World::new(4, lag);
                let ended = world.run_for((0..4).collect(), kill_after).await;
                // What was under way arrives now.
                while !world.server.lock().under_way.is_empty() {
                    world.server.lock().arrive();
                }
                assert!(
                    world.run_for((0..4).collect(), ENOUGH).await,
                    "lag {lag}, killed after {kill_after}"
                );
                world.check(0, &format!("lag {lag}, killed after {kill_after} polls"));
                if ended {
                    break;
                }
                kill_after += 1;
            }
            assert!(kill_after > 10, "killed at {kill_after} points only");
        }
    });
}

#[derive(Debug, Clone)]
struct Life {
    polls: usize,
    /// Claims that it knows; the others come later.
    knows: usize,
    /// After so many of its polls a write of the dead arrives.
    arrives: usize,
    deletes: Option<usize>,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let life = (0..60usize, 1..=6usize, 0..40usize, proptest::option::weighted(0.2, 0..6usize))
        .prop_map(|(polls, knows, arrives, deletes)| Life { polls, knows, arrives, deletes });
    proptest::collection::vec(life, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_series_of_kills_gives_two_instances_or_none(
        lives in lives(),
        lag in 0..5u32,
        room in proptest::option::of(0..4u32),
    ) {
        in_time(async {
            let world = World::new(6, lag);
            if let Some(room) = room {
                world.cloud.state().room.insert((true, "a.large".to_owned(), ZONES[0].to_owned()), room);
            }
            let mut deleted = 0;
            for life in &lives {
                let known: Vec<usize> = (0..life.knows).collect();
                let mut process = world.run(known);
                for poll in 0..life.polls {
                    if poll == life.arrives {
                        world.server.lock().arrive();
                    }
                    if futures::poll!(process.as_mut()).is_ready() {
                        break;
                    }
                    tokio::time::advance(Duration::from_millis(20)).await;
                }
                drop(process);
                if let Some(n) = life.deletes {
                    deleted += usize::from(world.server.lock().claims.remove(&format!("claim-{n}")).is_some());
                }
            }
            // A write of the dead that is still under way arrives in the middle of the last process, or never.
            assert!(world.run_for((0..6).collect(), ENOUGH).await, "{lives:?}");
            world.check(deleted, &format!("{lives:?} lag {lag} room {room:?}"));
        });
    }
}
