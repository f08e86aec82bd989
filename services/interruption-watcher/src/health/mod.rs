//! Instance health, polled: failed status checks and scheduled events, with or without a queue. Only the leader polls.
//!
//! Unlike the reference, a missing permission does not end the polling until a restart, and failed checks on many nodes at once
//! do not take their budgets away.

mod findings;

use std::sync::Arc;
use std::time::Duration;

use cloud::{ErrorKind, HealthSource};
use jiff::Timestamp;
use runtime::readiness::Note;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::actions::{Actions, Warning};
use crate::claims::{Claim, Claims, Stopping};
use crate::decision::{self, Policy};
use crate::journal::{Entry, Journal};
use crate::message::Kind;
use crate::metrics::{Category, Metrics, Reason};
use findings::{Finding, Known};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) source: Arc<dyn HealthSource>,
    pub(crate) claims: Claims,
    pub(crate) actions: Actions,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) every: Duration,
    pub(crate) note: Note,
}

impl Poller {
    /// Polls until the lead is lost.
    pub(crate) async fn run(self, lost: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(self.every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut known, mut failing) = (Known::default(), false);
        loop {
            tokio::select! {
                biased;
                () = lost.cancelled() => return Ok(()),
                _ = tick.tick() => {}
            }
            let report = match self.source.unhealthy().await {
                Ok(report) => report,
                Err(error) => {
                    self.metrics.health_errors.get_or_create(&Reason { reason: error.kind.as_str() }).inc();
                    if !std::mem::replace(&mut failing, true) {
                        let advice = match error.kind {
                            ErrorKind::Unauthorized => {
                                "allow ec2:DescribeInstanceStatus to this service's role"
                            }
                            _ => "nothing to do but wait",
                        };
                        self.note.set(&format!("instance status is not known: {error}; {advice}"));
                        tracing::error!(%error, advice, "instance status cannot be polled; trying again every {:?}", self.every);
                    }
                    continue;
                }
            };
            if std::mem::take(&mut failing) {
                self.note.clear();
                tracing::info!("instance status can be polled again");
            }
            if self.look(&report, &mut known).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn look(&self, report: &[cloud::queue::InstanceHealth], known: &mut Known) -> Result<(), Stopping> {
        let (now, began) = (Timestamp::now(), Instant::now());
        let all = findings::findings(report, now);
        let ids: Vec<String> = report.iter().map(|health| health.instance_id.clone()).collect();
        let claims = self.claims.of_instances(ids).await?;
        let ours: Vec<(&Finding, &Arc<Claim>)> = all
            .iter()
            .flat_map(|finding| {
                claims
                    .iter()
                    .filter(|claim| *claim.instance == *finding.instance)
                    .map(move |claim| (finding, claim))
            })
            .collect();
        let listed: Vec<&Finding> = ours.iter().map(|(finding, _)| *finding).collect();
        let fresh = known.update(&listed);
        for finding in &fresh {
            self.metrics.unhealthy.get_or_create(&Category { category: finding.category() }).inc();
        }
        let is_impaired = |claim: &&Arc<Claim>| {
            ours.iter().any(|(finding, of)| finding.kind != Kind::EventStatus && of.uid == claim.uid)
        };
        let impaired = claims.iter().filter(|claim| claim.managed).filter(is_impaired).count();
        let force = findings::may_force(impaired, self.claims.count().await?);
        if !force && !fresh.is_empty() {
            tracing::warn!(
                impaired,
                "many nodes fail their status checks at once: they are drained within their budgets"
            );
        }
        let acts = ours.into_iter().map(|(finding, claim)| {
            let is_new = fresh.contains(&finding);
            self.act(finding, claim, force, is_new, now, began)
        });
        futures::future::join_all(acts).await;
        Ok(())
    }

    /// Tried at every look until the removal is stored; told once.
    async fn act(
        &self,
        finding: &Finding,
        claim: &Arc<Claim>,
        force: bool,
        is_new: bool,
        now: Timestamp,
        began: Instant,
    ) {
        let decision = decision::decide(finding.kind, now, claim, Policy::default(), force);
        let removes = !matches!(decision, decision::Decision::Nothing(_));
        if !removes && !is_new {
            return;
        }
        let warning = Warning { kind: finding.kind, claim, decision, id: "", words: &finding.words };
        let acted = self.actions.carry_out(warning).await;
        let detail = match acted.detail.as_str() {
            "" => finding.words.clone(),
            more => format!("{}; {more}", finding.words),
        };
        let entry = Entry {
            id: String::new(),
            kind: Some(finding.kind),
            instances: vec![finding.instance.clone()],
            claims: vec![Arc::clone(claim)],
            done: acted.done,
            detail,
            event_time: None,
            received_at: now,
            handled_in: began.elapsed(),
        };
        self.journal.record(entry).await;
    }
}
