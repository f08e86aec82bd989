//! CreateFleet, and dry runs of launches.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::operation::create_fleet::{CreateFleetError, CreateFleetOutput};
use aws_sdk_ec2::types::{
    self as sdk, DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest,
    FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
    FleetOnDemandAllocationStrategy, FleetReservationType, FleetType, InstanceLifecycle,
    LaunchTemplateAndOverridesResponse, LaunchTemplateSpecification, ResourceType, SpotAllocationStrategy,
    TagSpecification, TargetCapacitySpecificationRequest,
};
use cloud::error::{CloudError, ErrorKind};
use cloud::launch::{
    FleetAnswer, FleetError, FleetRequest, FleetTarget, FleetTemplate, InstanceDryRun, Launched, Override,
};

use super::templates::run_interface;
use super::{Calls, Ec2, paced, unretried};
use crate::convert::{ec2_tags, figure, owned, present};
use crate::error::dry_run;

const OPERATION: &str = "CreateFleet";

/// How often a throttled request waits for another turn; then its caller backs off.
const MOST_TURNS: u32 = 5;

impl Ec2 {
    pub(crate) async fn create_fleet(&self, request: FleetRequest) -> Result<FleetAnswer, CloudError> {
        self.calls.create_fleet(&request).await
    }

    pub(crate) async fn dry_run_fleet(&self, request: FleetRequest) -> Result<(), CloudError> {
        let call = self.calls.fleet_call(&request)?.dry_run(true);
        let call = call.customize().config_override(unretried()).send();
        dry_run(paced(&self.calls.paces.create_fleet, OPERATION, call).await)
    }

    pub(crate) async fn dry_run_instance(&self, request: InstanceDryRun) -> Result<(), CloudError> {
        let Calls { client, paces } = &self.calls;
        let template = LaunchTemplateSpecification::builder()
            .launch_template_name(&request.template)
            .version("$Latest")
            .build();
        let interfaces = request.interfaces.iter().map(|i| run_interface(i, &request.subnet_id)).collect();
        let kinds = [ResourceType::Instance, ResourceType::Volume, ResourceType::NetworkInterface];
        let call = client
            .run_instances()
            .dry_run(true)
            .min_count(1)
            .max_count(1)
            .launch_template(template)
            .instance_type(request.instance_type.as_str().into())
            .image_id(request.image_id)
            .set_network_interfaces(Some(interfaces))
            .set_tag_specifications(tag_specifications(&kinds, &request.tags));
        let call = call.customize().config_override(unretried()).send();
        dry_run(paced(&paces.create_fleet, "RunInstances", call).await)
    }
}

impl Calls {
    /// A throttled call waits for its turn again, which the SDK's own retries would not. Other faults are left to the caller,
    /// who repeats the request with its token.
    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
        let call = self.fleet_call(request)?;
        let mut turns = 1;
        loop {
            let call = call.clone().customize().config_override(unretried()).send();
            let result: Result<CreateFleetOutput, _> =
                paced::<_, CreateFleetError>(&self.paces.create_fleet, OPERATION, call).await;
            match result {
                Err(error) if error.kind == ErrorKind::Throttled && turns < MOST_TURNS => turns += 1,
                result => return result.map(|answer| read(&answer)),
            }
        }
    }

    fn fleet_call(&self, request: &FleetRequest) -> Result<CreateFleetFluentBuilder, CloudError> {
        let configs: Vec<_> =
            request.templates.iter().filter(|t| !t.overrides.is_empty()).map(template_config).collect();
        if configs.is_empty() {
            let text = "no capacity offerings are currently available given the constraints";
            return Err(CloudError::invalid(OPERATION, text));
        }
        let target = TargetCapacitySpecificationRequest::builder()
            .total_target_capacity(figure(request.count))
            .default_target_capacity_type(target_type(request.target))
            .build();
        let kinds = [ResourceType::Instance, ResourceType::Volume, ResourceType::Fleet];
        let call = self
            .client
            .create_fleet()
            .r#type(FleetType::Instant)
            .set_client_token(request.client_token.clone())
            .set_context(request.context.clone())
            .target_capacity_specification(target)
            .set_launch_template_configs(Some(configs))
            .set_tag_specifications(tag_specifications(&kinds, &request.tags));
        Ok(with_strategy(call, request))
    }
}

fn target_type(target: FleetTarget) -> DefaultTargetCapacityType {
    match target {
        FleetTarget::Spot => DefaultTargetCapacityType::Spot,
        FleetTarget::OnDemand => DefaultTargetCapacityType::OnDemand,
        FleetTarget::CapacityBlock => DefaultTargetCapacityType::CapacityBlock,
        FleetTarget::InterruptibleReservation => DefaultTargetCapacityType::ReservedCapacity,
    }
}

fn with_strategy(call: CreateFleetFluentBuilder, request: &FleetRequest) -> CreateFleetFluentBuilder {
    match (request.target, request.prioritized) {
        (FleetTarget::Spot, prioritized) => {
            let strategy = if prioritized {
                SpotAllocationStrategy::CapacityOptimizedPrioritized
            } else {
                SpotAllocationStrategy::PriceCapacityOptimized
            };
            call.spot_options(sdk::SpotOptionsRequest::builder().allocation_strategy(strategy).build())
        }
        (FleetTarget::OnDemand, prioritized) => {
            let strategy = if prioritized {
                FleetOnDemandAllocationStrategy::Prioritized
            } else {
                FleetOnDemandAllocationStrategy::LowestPrice
            };
            call.on_demand_options(
                sdk::OnDemandOptionsRequest::builder().allocation_strategy(strategy).build(),
            )
        }
        (FleetTarget::InterruptibleReservation, _) => call.reserved_capacity_options(
            sdk::ReservedCapacityOptionsRequest::builder()
                .reservation_types(FleetReservationType::InterruptibleCapacityReservation)
                .build(),
        ),
        (FleetTarget::CapacityBlock, _) => call,
    }
}

fn template_config(template: &FleetTemplate) -> FleetLaunchTemplateConfigRequest {
    let specification = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&template.name)
        .version("$Latest")
        .build();
    let place = |o: &Override| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(o.instance_type.as_str().into())
            .subnet_id(&o.subnet_id)
            .availability_zone(&o.zone)
            .set_image_id(o.image_id.clone())
            .set_priority(o.priority.map(|p| p.to_f64()))
            .build()
    };
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(template.overrides.iter().map(place).collect()))
        .build()
}

pub(super) fn tag_specifications(
    kinds: &[ResourceType],
    tags: &cloud::Tags,
) -> Option<Vec<TagSpecification>> {
    let of = |kind: &ResourceType| {
        TagSpecification::builder().resource_type(kind.clone()).set_tags(Some(ec2_tags(tags))).build()
    };
    (!tags.is_empty()).then(|| kinds.iter().map(of).collect())
}

fn read(answer: &CreateFleetOutput) -> FleetAnswer {
    let launched = answer.instances().iter().flat_map(|group| {
        let place = group.launch_template_and_overrides().and_then(|l| l.overrides());
        let zone = group.availability_zone().or_else(|| place.and_then(|p| p.availability_zone()));
        let subnet = group.subnet_id().or_else(|| place.and_then(|p| p.subnet_id()));
        let instance_type = group.instance_type().or_else(|| place.and_then(|p| p.instance_type()));
        let spot = group.lifecycle() == Some(&InstanceLifecycle::Spot);
        group.instance_ids().iter().map(move |id| Launched {
            id: id.clone(),
            instance_type: owned(instance_type.map(|t| t.as_str())),
            zone: owned(zone),
            subnet_id: present(subnet),
            spot,
        })
    });
    let error = |e: &sdk::CreateFleetError| {
        let source = e.launch_template_and_overrides();
        let place = source.and_then(LaunchTemplateAndOverridesResponse::overrides);
        FleetError {
            code: owned(e.error_code()),
            message: owned(e.error_message()),
            instance_type: place.and_then(|p| p.instance_type()).map(|t| t.as_str().to_owned()),
            zone: present(place.and_then(|p| p.availability_zone())),
            subnet_id: present(place.and_then(|p| p.subnet_id())),
            template: present(
                source.and_then(|s| s.launch_template_specification()).and_then(|t| t.launch_template_name()),
            ),
            spot: e.lifecycle() == Some(&InstanceLifecycle::Spot),
        }
    };
    FleetAnswer {
        fleet_id: present(answer.fleet_id()),
        launched: launched.collect(),
        errors: answer.errors().iter().map(error).collect(),
    }
}
