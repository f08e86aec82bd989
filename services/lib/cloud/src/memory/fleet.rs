use model::price::MicroDollars;

use super::{MemoryCloud, State, client_error};
use crate::error::CloudError;
use crate::instance::{Instance, InstanceState, Lifecycle};
use crate::launch::{
    FleetAnswer, FleetError, FleetRequest, FleetTarget, FleetTemplate, InstanceDryRun, Launched, Launcher,
    Override,
};
use crate::select::TagFilter;
use crate::template::{InterfaceKind, LaunchTemplate, ReservationChoice, TemplateData, TemplateRef};
use crate::{Answer, Tags};

impl Launcher for MemoryCloud {
    fn create_fleet(&self, request: FleetRequest) -> Answer<'_, FleetAnswer> {
        self.answer("CreateFleet", |state| {
            let known = request.client_token.as_ref().and_then(|t| state.tokens.get(t));
            match known {
                Some((before, answer)) if *before == request => return Ok(answer.clone()),
                Some(_) => {
                    let code = "IdempotentParameterMismatch";
                    return Err(client_error("CreateFleet", code, "another request had this token"));
                }
                None => {}
            }
            let answer = state.launch(&request)?;
            if let Some(token) = request.client_token.clone() {
                state.tokens.insert(token, (request, answer.clone()));
            }
            Ok(answer)
        })
    }

    fn dry_run_fleet(&self, request: FleetRequest) -> Answer<'_, ()> {
        self.answer("CreateFleet", |state| state.templates_of(&request).map(drop))
    }

    fn dry_run_instance(&self, request: InstanceDryRun) -> Answer<'_, ()> {
        self.answer("RunInstances", |state| state.template(&request.template, "RunInstances").map(drop))
    }

    fn create_launch_template(&self, template: LaunchTemplate) -> Answer<'_, TemplateRef> {
        self.answer("CreateLaunchTemplate", |state| {
            if state.template(&template.name, "CreateLaunchTemplate").is_ok() {
                let code = "InvalidLaunchTemplateName.AlreadyExistsException";
                return Err(client_error("CreateLaunchTemplate", code, template.name));
            }
            let id = state.id("lt");
            let reference = TemplateRef { id: id.clone(), name: template.name.clone() };
            state.templates.insert(id, template);
            Ok(reference)
        })
    }

    fn launch_template<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TemplateRef>> {
        self.answer("DescribeLaunchTemplates", |state| {
            let found = state.templates.iter().find(|(_, t)| t.name == name);
            Ok(found.map(|(id, t)| TemplateRef { id: id.clone(), name: t.name.clone() }))
        })
    }

    fn launch_templates(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<TemplateRef>> {
        self.answer("DescribeLaunchTemplates", |state| {
            let tagged = state.templates.iter().filter(|(_, t)| tags.iter().all(|f| f.matches(&t.tags)));
            Ok(tagged.map(|(id, t)| TemplateRef { id: id.clone(), name: t.name.clone() }).collect())
        })
    }

    fn delete_launch_template<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.answer("DeleteLaunchTemplate", |state| {
            state.templates.remove(id);
            Ok(())
        })
    }

    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        self.answer("DescribeInstances", |state| Ok(state.by_id(&ids)))
    }

    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        self.answer("DescribeInstances", |state| {
            let mut found = state.by_tags(&tags);
            found.retain(|instance| match state.unseen.get_mut(&instance.id) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    false
                }
                _ => true,
            });
            Ok(found)
        })
    }

    fn tag_instance<'a>(&'a self, id: &'a str, tags: Tags) -> Answer<'a, ()> {
        self.answer("CreateTags", |state| match state.instances.get_mut(id) {
            Some(instance) if instance.state != InstanceState::Terminated => {
                instance.tags.extend(tags);
                Ok(())
            }
            _ => Err(client_error("CreateTags", "InvalidInstanceID.NotFound", id)),
        })
    }
}

impl State {
    fn template(&self, name: &str, operation: &'static str) -> Result<&LaunchTemplate, CloudError> {
        self.templates.values().find(|t| t.name == name).ok_or_else(|| {
            client_error(
                operation,
                "InvalidLaunchTemplateName.NotFoundException",
                format!("no template {name}"),
            )
        })
    }

    fn templates_of<'r>(
        &self,
        request: &'r FleetRequest,
    ) -> Result<Vec<(&'r FleetTemplate, TemplateData)>, CloudError> {
        let used = request.templates.iter().filter(|t| !t.overrides.is_empty());
        let found: Result<Vec<_>, _> =
            used.map(|t| Ok((t, self.template(&t.name, "CreateFleet")?.data.clone()))).collect();
        match found {
            Ok(none) if none.is_empty() => {
                Err(client_error("CreateFleet", "InvalidParameterValue", "no overrides"))
            }
            other => other,
        }
    }

    /// The cheapest overrides that have capacity give the instances.
    fn launch(&mut self, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
        let spot = request.target == FleetTarget::Spot;
        let templates = self.templates_of(request)?;
        let mut choices: Vec<(MicroDollars, &FleetTemplate, &TemplateData, &Override)> = templates
            .iter()
            .flat_map(|(template, data)| template.overrides.iter().map(move |o| (*template, data, o)))
            .map(|(template, data, o)| (self.rank(request, spot, o), template, data, o))
            .collect();
        choices.sort_by(|a, b| (a.0, a.3).cmp(&(b.0, b.3)));
        let mut answer = FleetAnswer { fleet_id: Some(self.id("fleet")), ..FleetAnswer::default() };
        let wanted = usize::try_from(request.count).unwrap_or(usize::MAX);
        for (_, template, data, place) in choices {
            let pool = (spot, place.instance_type.clone(), place.zone.clone());
            let refused = loop {
                if answer.launched.len() >= wanted {
                    return Ok(answer);
                }
                match self.room.get_mut(&pool) {
                    Some(0) => break "InsufficientInstanceCapacity",
                    room => room.into_iter().for_each(|room| *room -= 1),
                }
                if let Some(code) = self.refusal(data, spot, place) {
                    break code;
                }
                answer.launched.push(self.start(request, data, spot, place));
            };
            answer.errors.push(FleetError {
                code: refused.to_owned(),
                message: format!("no capacity for {} in {}", place.instance_type, place.zone),
                instance_type: Some(place.instance_type.clone()),
                zone: Some(place.zone.clone()),
                subnet_id: Some(place.subnet_id.clone()),
                template: Some(template.name.clone()),
                spot,
            });
        }
        Ok(answer)
    }

    fn rank(&self, request: &FleetRequest, spot: bool, o: &Override) -> MicroDollars {
        let known = if spot {
            self.spot.get(&(o.instance_type.clone(), o.zone.clone()))
        } else {
            self.on_demand.get(&o.instance_type)
        };
        let own = o.priority.filter(|_| request.prioritized);
        own.or_else(|| known.copied()).unwrap_or(MicroDollars::MAX)
    }

    fn refusal(&self, data: &TemplateData, spot: bool, o: &Override) -> Option<&'static str> {
        let reservation = match &data.reservation {
            ReservationChoice::Only(id) => Some(self.reservations.iter().find(|r| r.id == *id)),
            _ => None,
        };
        if self.exhausted.contains(&(spot, o.instance_type.clone(), o.zone.clone())) {
            Some("InsufficientInstanceCapacity")
        } else if self.subnets.iter().any(|s| s.id == o.subnet_id && s.free_addresses == 0) {
            Some("InsufficientFreeAddressesInSubnet")
        } else if reservation.is_some_and(|r| r.is_none_or(|r| r.available == 0)) {
            Some("ReservationCapacityExceeded")
        } else {
            None
        }
    }

    fn start(&mut self, request: &FleetRequest, data: &TemplateData, spot: bool, o: &Override) -> Launched {
        let id = self.id("i");
        let reservation_id = match &data.reservation {
            ReservationChoice::Only(id) => Some(id.clone()),
            _ => None,
        };
        if let Some(held) = self.reservations.iter_mut().find(|r| Some(&r.id) == reservation_id.as_ref()) {
            held.available = held.available.saturating_sub(1);
        }
        let facts = self.types.iter().find(|t| t.name == o.instance_type);
        let architecture = facts.and_then(|t| t.architectures.last().cloned()).unwrap_or_default();
        let host = self.next_id;
        let efa = data.interfaces.iter().filter(|i| i.kind != InterfaceKind::Interface).count();
        let instance = Instance {
            id: id.clone(),
            state: InstanceState::Pending,
            instance_type: o.instance_type.clone(),
            image_id: o.image_id.clone().unwrap_or_else(|| data.image_id.clone()),
            architecture,
            zone: o.zone.clone(),
            zone_id: self.zone_id(&o.zone),
            subnet_id: Some(o.subnet_id.clone()),
            security_group_ids: data
                .interfaces
                .first()
                .map(|i| i.security_group_ids.clone())
                .unwrap_or_default(),
            private_dns_name: Some(format!("ip-10-0-{}-{}.internal", host / 256 % 256, host % 256)),
            private_ip: Some(format!("10.0.{}.{}", host / 256 % 256, host % 256)),
            launched_at: Some(self.now),
            lifecycle: match request.target {
                FleetTarget::Spot => Lifecycle::Spot,
                FleetTarget::OnDemand => Lifecycle::OnDemand,
                FleetTarget::CapacityBlock => Lifecycle::CapacityBlock,
                FleetTarget::InterruptibleReservation => Lifecycle::InterruptibleReservation,
            },
            spot_request_id: spot.then(|| format!("sir-{host}")),
            reservations_only: reservation_id.is_some(),
            reservation_id,
            tenancy: data.tenancy.clone(),
            placement_group_id: data.placement_group_id.clone(),
            partition: data.partition,
            efa_interfaces: u32::try_from(efa).unwrap_or(u32::MAX),
            instance_profile: data.instance_profile.clone(),
            tags: request.tags.clone(),
        };
        self.instances.insert(id.clone(), instance);
        self.unseen.insert(id.clone(), self.lag);
        Launched {
            id,
            instance_type: o.instance_type.clone(),
            zone: o.zone.clone(),
            subnet_id: Some(o.subnet_id.clone()),
            spot,
        }
    }
}
