//! Asking EC2: launch templates, the fleet request with its token, and what to do when a template or a token is gone.

use std::collections::BTreeMap;

use cloud::error::ErrorKind;
use cloud::launch::{FleetAnswer, FleetRequest, FleetTemplate};
use futures::future::try_join_all;
use model::catalog::CapacityType;
use tracing::{Instrument as _, info, info_span, warn};

use super::attempts::MISMATCH;
use super::error::{self, LaunchError};
use super::fleet::{self, Place};
use super::shares::Shares;
use super::template::{self, Setting};
use super::{Inner, Job, Launch, metrics, userdata};
use crate::nodeclass::Chosen;

/// How asking EC2 ended.
pub(super) enum Asking<'a> {
    /// The places that were asked for, each with its template.
    Answered(FleetAnswer, Vec<(String, Place<'a>)>),
    /// Earlier requests had launched enough for all.
    Served,
}

impl Launch {
    /// Makes templates and calls. A template that is gone is made again, once; a token that is taken leads to the
    /// instances, and to the next token for those that get none.
    pub(super) async fn ask<'a>(
        &self,
        job: &Job<'_>,
        shares: &mut Shares,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'a>>>,
        buying: CapacityType,
        chosen: &Chosen,
    ) -> Result<Asking<'a>, LaunchError> {
        let Inner { parts, attempts, .. } = &*self.inner;
        let id = job.key.id.as_str();
        let mut made_again = false;
        loop {
            let (templates, places) = self.prepare(job, shapes, buying, chosen).await?;
            let names: Vec<String> = templates.iter().map(|t| t.name.clone()).collect();
            let count = shares.open().len();
            let request = self.request(job, count, shapes, buying, templates);
            let gone = |kind: ErrorKind| kind == ErrorKind::LaunchTemplateNotFound && !made_again;
            attempts.began(id);
            let span = info_span!("create_fleet", capacity_type = %buying, overrides = places.len(), count);
            match parts.launcher.create_fleet(request).instrument(span).await {
                Ok(answer) if answer.launched.is_empty() && answer.errors.iter().any(|e| gone(e.kind())) => {
                    attempts.used_up(id);
                }
                Ok(answer) => return Ok(Asking::Answered(answer, places)),
                Err(error) if gone(error.kind) => attempts.refused(id),
                Err(error) if error.code == MISMATCH => {
                    shares.unsure = true;
                    self.recover_patiently(job, shares).await?;
                    attempts.used_up(id);
                    if shares.open().is_empty() {
                        return Ok(Asking::Served);
                    }
                    continue;
                }
                Err(error) => {
                    if !error::outcome_unknown(&error) {
                        attempts.refused(id);
                    }
                    return Err(LaunchError::of_call(&error));
                }
            }
            made_again = true;
            parts.templates.forget(names.iter().map(String::as_str));
        }
    }

    async fn prepare<'a>(
        &self,
        job: &Job<'_>,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'a>>>,
        buying: CapacityType,
        chosen: &Chosen,
    ) -> Result<(Vec<FleetTemplate>, Vec<(String, Place<'a>)>), LaunchError> {
        let parts = &self.inner.parts;
        let setting = Setting {
            class: job.class,
            cluster: &parts.cluster,
            wanted: &job.wanted,
            buying,
            placement_group: job.group.as_ref(),
            reserved_capacity: parts.reserved_capacity,
        };
        let class = job.class.metadata.name.clone().unwrap_or_default();
        let (mut templates, mut asked, mut making) = (Vec::new(), Vec::new(), Vec::new());
        for (shape, places) in shapes {
            let overrides = fleet::overrides(places, &shape.image_id, &chosen.by_zone);
            if overrides.is_empty() {
                continue;
            }
            let rendered = template::render(&setting, shape).map_err(|error| match error {
                userdata::Unrenderable::NoServiceCidr => LaunchError::not_ready(error.to_string()),
                _ => LaunchError::retryable("LaunchFailed", error.to_string()),
            })?;
            let size = rendered.user_data_bytes;
            let labels = metrics::ClassLabels { nodeclass: class.clone() };
            parts.metrics.user_data_bytes.get_or_create(&labels).set(size as u64);
            if size >= userdata::WARN_BYTES {
                warn!(
                    ec2nodeclass = class,
                    bytes = size,
                    limit = userdata::LIMIT_BYTES,
                    "user data is near EC2's limit"
                );
            }
            if !rendered.dropped_settings.is_empty() {
                info!(ec2nodeclass = class, settings = ?rendered.dropped_settings, "settings that Bottlerocket does not know are left out");
            }
            let name = rendered.template.name.clone();
            making.push(parts.templates.ensure(rendered.template));
            asked.extend(places.iter().map(|place| (name.clone(), *place)));
            templates.push(FleetTemplate { name, overrides });
        }
        if templates.is_empty() {
            let text = "no capacity offerings are currently available given the constraints";
            return Err(LaunchError::retryable("LaunchFailed", text));
        }
        try_join_all(making).await.map_err(|error| LaunchError::of_call(&error))?;
        Ok((templates, asked))
    }

    fn request(
        &self,
        job: &Job<'_>,
        count: usize,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'_>>>,
        buying: CapacityType,
        templates: Vec<FleetTemplate>,
    ) -> FleetRequest {
        let Inner { parts, attempts, .. } = &*self.inner;
        let mut tags = template::tags(job.class, &job.wanted.pool, &parts.cluster.name);
        let (key, value) = &job.key.tag;
        tags.insert((*key).to_owned(), value.clone());
        let reservation = shapes.keys().find_map(|shape| shape.reservation.as_ref().map(|(_, kind)| *kind));
        FleetRequest {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            client_token: Some(attempts.token(&job.key.id)),
            target: fleet::target(buying, reservation),
            prioritized: job.wanted.overlaid.price,
            context: job.class.spec.context.clone().filter(|_| !job.wanted.min_values_relaxed),
            tags,
            templates,
        }
    }
}
