//! Decides about pods that wait, window by window, while this replica leads: asks the solver, creates claims, tells people.

mod decisions;
mod placeholders;
mod plan_check;
mod report;
mod solving;
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use runtime::{Leadership, MinValuesPolicy, PreferencePolicy, Settings, Shell};
use solver::{Effort, Options, Plan};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info, warn};

use crate::batch::{Batches, Window};
use crate::buffers::BuffersHandle;
use crate::claims::{self, Creator, NewClaim, Order};
use crate::cluster::{ClusterView, Probes, nomination_window};
use crate::deps::Deps;
use crate::metrics::Metrics;
use decisions::{Decisions, PodId};
pub(crate) use decisions::{Verdict, Verdicts};
pub(crate) use placeholders::HeldNodes;
use plan_check::CheckedPlan;
use report::Reporter;
use solving::{Solved, Solving};

/// Reason of claims made for pods, as in the reference's metric.
const PROVISIONED: &str = "provisioned";

/// What the last decision came to; for questions.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) verdicts: Verdicts,
    /// Nodes that have room for placeholder pods of CapacityBuffers: they are not empty.
    pub(crate) held: HeldNodes,
}

/// What pods were told last; for questions.
pub(crate) type VerdictsHandle = watch::Receiver<Arc<Decided>>;

pub(crate) struct Scheduler {
    deps: Deps,
    metrics: Metrics,
    creator: Creator,
    windows: mpsc::Receiver<Window>,
    /// Changes when pods have stopped coming into a window.
    lulls: watch::Receiver<u64>,
    ahead: Option<Solving>,
    decisions: Decisions,
    probes: Probes,
    verdicts: watch::Sender<Arc<Decided>>,
    reporter: Reporter,
    buffers: BuffersHandle,
}

pub(crate) fn spawn(
    shell: &mut Shell,
    deps: Deps,
    metrics: Metrics,
    creator: Creator,
    from: Batches,
    buffers: BuffersHandle,
) -> VerdictsHandle {
    let (verdicts, seen) = watch::channel(Arc::default());
    let reporter = Reporter::new(deps.recorder.clone());
    let decisions = Decisions::default();
    let Batches { windows, lulls } = from;
    let ahead = None;
    let probes = Probes::default();
    let scheduler = Scheduler {
        deps,
        metrics,
        creator,
        windows,
        lulls,
        ahead,
        decisions,
        probes,
        verdicts,
        reporter,
        buffers,
    };
    let stop = shell.stop();
    shell.process.spawn("schedule", scheduler.run(stop));
    seen
}

/// The settings that decide how pods are placed.
pub(crate) fn options(settings: &Settings) -> Options {
    Options {
        preferences: match settings.preference_policy {
            PreferencePolicy::Respect => solver::PreferencePolicy::Respect,
            PreferencePolicy::Ignore => solver::PreferencePolicy::Ignore,
        },
        min_values: match settings.min_values_policy {
            MinValuesPolicy::Strict => solver::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => solver::MinValuesPolicy::BestEffort,
        },
        use_reserved: settings.feature_gates.reserved_capacity,
        effort: Effort::Full,
        ..Options::default()
    }
}

impl Scheduler {
    async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut leadership: Leadership = self.deps.leadership.clone();
        let mut leads = false;
        loop {
            let window = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                now = leadership.changed(), if !leads || leadership.is_leader() => {
                    leads = now;
                    if !now {
                        continue;
                    }
                    None
                }
                Some(window) = self.windows.recv() => Some(window),
                Ok(()) = self.lulls.changed() => {
                    // What the leader before made must be known first.
                    if leads {
                        self.solve_ahead().await;
                    }
                    continue;
                }
            };
            // Followers keep their state warm and decide nothing.
            if !leadership.is_leader() {
                leads = false;
                continue;
            }
            let term = leadership.term().await;
            let window = window.unwrap_or_else(|| {
                let span = tracing::info_span!(parent: None, "provision", pods = tracing::field::Empty, nodeclaims = tracing::field::Empty);
                Window { span, opened: Instant::now(), closed: Instant::now(), size: 0 }
            });
            if (!std::mem::replace(&mut leads, true) || window.size == 0)
                && !self.creator.catch_up(&term.lost()).await
            {
                continue;
            }
            let span = window.span.clone();
            self.decide(window, &term.lost()).instrument(span).await?;
        }
    }

    async fn decide(&mut self, window: Window, lost: &CancellationToken) -> anyhow::Result<()> {
        self.deps.catalog.settled().await;
        let view = self.deps.cluster.fresh().await;
        if !view.synced {
            info!("waiting for the cluster's state to be complete");
            return Ok(());
        }
        let made = self.ahead.take().filter(|made| made.is_about(&view));
        let solving = made.unwrap_or_else(|| Solving::start(&view, options(&self.deps.settings), lost));
        let waiting = view.pending.iter().filter(|p| p.nominated.is_none()).count();
        let ignored = view.pending.iter().filter(|p| p.rejected.is_some()).count();
        if waiting > 0 {
            info!(
                pods = waiting,
                window = ?window.closed.duration_since(window.opened),
                ahead = solving.is_ahead,
                closed_ms_ago = window.closed.elapsed().as_micros() as f64 / 1e3,
                "found provisionable pod(s)"
            );
        }
        self.metrics.batch_size.observe(window.size as f64);
        self.metrics.begin(view.version, waiting);
        let began = Instant::now();
        let Solved { vetted, zones, checked_in } = self.solve(&view, solving).await?;
        let CheckedPlan { plan, held, unsound } = vetted;
        let seconds = began.elapsed().as_secs_f64();
        self.metrics.decided(view.version, seconds, plan.unschedulable.len(), ignored);
        self.metrics.zones(&zones);
        self.metrics.unsound(unsound);
        if lost.is_cancelled() {
            return Ok(());
        }
        let pods = self.decisions.note(&view, &plan, &self.metrics);
        for held in &held {
            self.hold(pods.get(&held.pod), &plan_check::explained(held), "checker");
        }
        if !plan.new_nodes.is_empty() {
            info!(
                nodeclaims = plan.new_nodes.len(),
                pods = plan.new_nodes.iter().map(|n| n.pods.len()).sum::<usize>(),
                micro_usd_per_hour = plan.cost.get(),
                lower_bound = plan.lower_bound.map(|b| b.get()),
                took = ?began.elapsed(),
                ?checked_in,
                "computed new nodeclaim(s) to fit pod(s)"
            );
        }
        let created = self.carry_out(&view, &plan, &pods, lost).await;
        if !plan.new_nodes.is_empty() {
            self.metrics.decided_to_created.observe(window.closed.elapsed().as_secs_f64());
        }
        self.nominate(&view, &plan).await;
        let (placed, held) = placeholders::of(&view, &plan, &created, &self.verdicts.borrow().held);
        self.buffers.decided(placed);
        self.reporter.unplaced(&view, &plan, &pods);
        self.verdicts.send_replace(Arc::new(Decided { verdicts: self.decisions.verdicts(), held }));
        Ok(())
    }

    async fn solve(&self, view: &ClusterView, solving: Solving) -> anyhow::Result<Solved> {
        let span = tracing::info_span!(
            "solve",
            pods = view.snapshot.pending_count(),
            classes = view.snapshot.class_count(),
            ahead = solving.is_ahead
        );
        solving.solved().instrument(span).await
    }

    /// Pods have stopped coming, the window is still open.
    async fn solve_ahead(&mut self) {
        let Some(lost) = self.deps.leadership.until_lost() else { return };
        self.deps.catalog.settled().await;
        let view = self.deps.cluster.fresh().await;
        if view.synced && !self.ahead.as_ref().is_some_and(|made| made.is_about(&view)) {
            let solving = Solving::start(&view, options(&self.deps.settings), &lost);
            self.ahead = Some(solving.ahead());
        }
    }

    /// Creates the NodeClaims of the plan; returns their names by new node, `None` where none was created.
    async fn carry_out(
        &mut self,
        view: &ClusterView,
        plan: &Plan,
        pods: &PodIds,
        lost: &CancellationToken,
    ) -> Vec<Option<Arc<str>>> {
        let mut names = vec![None; plan.new_nodes.len()];
        let (mut orders, mut of_order) = (Vec::new(), Vec::new());
        for (index, node) in plan.new_nodes.iter().enumerate() {
            let Some(pool) = view.pool_objects.get(&*node.pool) else { continue };
            if let Some(error) = claims::over_limit(pool, view.pools.get(&node.pool)) {
                self.refused(node, &error, pods);
                continue;
            }
            let uids = node.pods.iter().filter_map(|pod| pods.get(pod)).map(|pod| &*pod.uid);
            let order = Order {
                pool: Arc::clone(pool),
                wanted: NewClaim {
                    requirements: (*node.requirements).clone(),
                    instance_types: Some(node.instance_types.iter().map(|t| t.to_string()).collect()),
                    requests: node.requests.clone(),
                    min_values_relaxed: node.min_values_relaxed,
                    annotations: claims::nomination_annotation(uids),
                },
                command: None,
                reason: PROVISIONED,
            };
            if !view.backoff.is_empty()
                && let Err(pause) = self.probes.admit(&view.backoff, &order.shape(), Timestamp::now())
            {
                let why = Arc::from(pause.explained(&node.pool));
                self.hold(node.pods.iter().filter_map(|pod| pods.get(pod)), &why, "backoff");
                self.reporter.backoff(pool, &why);
                continue;
            }
            orders.push(order);
            of_order.push((index, node));
        }
        tracing::Span::current().record("nodeclaims", orders.len());
        let span = tracing::info_span!("create", nodeclaims = orders.len());
        let created = self.creator.create(orders, lost).instrument(span).await;
        for ((index, node), created) in of_order.into_iter().zip(created) {
            match created {
                Ok(made) => {
                    let name = made.claim.metadata.name.as_deref().unwrap_or_default();
                    self.decisions.made(node, name, pods);
                    self.reporter.nominated(node.pods.iter().filter_map(|p| pods.get(p)), name, true);
                    names[index] = Some(Arc::from(name));
                }
                Err(claims::Error::Unanswered { claim, why }) => {
                    let name = claim.metadata.name.as_deref().unwrap_or_default();
                    warn!(
                        nodeclaim = name,
                        error = why,
                        "create not answered, the nodeclaim counts as created"
                    );
                    self.decisions.made(node, name, pods);
                    names[index] = Some(Arc::from(name));
                }
                Err(error) => {
                    warn!(
                        nodepool = &*node.pool,
                        error = chain(&error),
                        "nodeclaim not created, its pods are tried again"
                    );
                    self.refused(node, &error, pods);
                }
            }
        }
        names
    }

    /// Pods that get no node now, though the solver has one for them.
    fn hold<'a>(&mut self, pods: impl IntoIterator<Item = &'a PodId>, why: &Arc<str>, kind: &str) {
        let pods: Vec<&PodId> = pods.into_iter().collect();
        self.decisions.held(pods.iter().copied(), why);
        self.reporter.failed(pods.into_iter(), why, kind);
    }

    fn refused(&mut self, node: &solver::NewNode, error: &claims::Error, pods: &PodIds) {
        let reason = error.to_string();
        self.decisions.failed(node, &reason, pods);
        self.reporter.failed(node.pods.iter().filter_map(|p| pods.get(p)), &reason, "creation");
    }

    /// Nodes that are there and have room: nobody should take them away before the scheduler has bound the pods.
    async fn nominate(&mut self, view: &ClusterView, plan: &Plan) {
        let real = |node: &&solver::ExistingNode| node.pods.iter().any(|pod| !view.is_placeholder(pod));
        let nodes: Vec<_> = plan.existing.iter().filter(real).map(|n| Arc::clone(&n.node)).collect();
        if nodes.is_empty() {
            return;
        }
        let window = nomination_window(&self.deps.settings);
        let until = Timestamp::now().checked_add(window).unwrap_or(Timestamp::MAX);
        self.deps.cluster.nominate(nodes, until).await;
    }
}

/// Pods of a plan by their name in it.
pub(crate) type PodIds = BTreeMap<solver::PodRef, PodId>;

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
