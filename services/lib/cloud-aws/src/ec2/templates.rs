//! Launch templates.

use aws_sdk_ec2::types::{
    self as sdk, CapacityReservationPreference, CapacityReservationTarget,
    ConnectionTrackingSpecificationRequest, InstanceNetworkInterfaceSpecification,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateCpuOptionsRequest, LaunchTemplateEbsBlockDeviceRequest,
    LaunchTemplateEnclaveOptionsRequest, LaunchTemplateHttpTokensState,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMarketOptionsRequest,
    LaunchTemplateInstanceMetadataEndpointState, LaunchTemplateInstanceMetadataOptionsRequest,
    LaunchTemplateInstanceMetadataProtocolIpv6, LaunchTemplateInstanceMetadataTagsState,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, LaunchTemplatePlacementRequest,
    LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest, MarketType,
    NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType,
};
use cloud::error::CloudError;
use cloud::select::TagFilter;
use cloud::template::{
    BlockDevice, ConnectionTracking, Interface, LaunchTemplate, Market, MetadataOptions, ReservationChoice,
    TemplateData, TemplateRef,
};

use super::fleet::tag_specifications;
use super::{Calls, Ec2, paced, pages};
use crate::convert::{ec2_tags, figure, tag_filters};

const DESCRIBE: &str = "DescribeLaunchTemplates";
const PAGE: i32 = 200;

impl Ec2 {
    pub(crate) async fn create_launch_template(
        &self,
        template: &LaunchTemplate,
    ) -> Result<TemplateRef, CloudError> {
        const OPERATION: &str = "CreateLaunchTemplate";
        let Calls { client, paces } = &self.calls;
        let call = client
            .create_launch_template()
            .launch_template_name(&template.name)
            .launch_template_data(data(&template.data))
            .set_tag_specifications(tag_specifications(&[ResourceType::LaunchTemplate], &template.tags));
        // The SDK keeps the whole template in the future of the call.
        let answer = Box::pin(paced(&paces.launch_template, OPERATION, call.send())).await?;
        let created = answer.launch_template().and_then(reference);
        created.ok_or_else(|| CloudError::malformed(OPERATION, "the answer names no template"))
    }

    pub(crate) async fn launch_template(&self, name: &str) -> Result<Option<TemplateRef>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.describe_launch_templates().launch_template_names(name);
        match paced(&paces.describe, DESCRIBE, call.send()).await {
            Ok(answer) => Ok(answer.launch_templates().iter().find_map(reference)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn launch_templates(&self, tags: &[TagFilter]) -> Result<Vec<TemplateRef>, CloudError> {
        if tags.is_empty() {
            return Err(CloudError::invalid(DESCRIBE, "no tag is named: that would be every template"));
        }
        let Calls { client, paces } = &self.calls;
        let call = client.describe_launch_templates().set_filters(Some(tag_filters(tags)));
        let mut all = Vec::new();
        pages!(paces.describe, DESCRIBE, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.launch_templates().iter().filter_map(reference));
        });
        all.sort();
        all.dedup();
        Ok(all)
    }

    pub(crate) async fn delete_launch_template(&self, id: &str) -> Result<(), CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.delete_launch_template().launch_template_id(id);
        match paced(&paces.launch_template, "DeleteLaunchTemplate", call.send()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn reference(found: &sdk::LaunchTemplate) -> Option<TemplateRef> {
    let (id, name) = (found.launch_template_id()?, found.launch_template_name()?);
    Some(TemplateRef { id: id.to_owned(), name: name.to_owned() })
}

fn data(data: &TemplateData) -> RequestLaunchTemplateData {
    let profile = data
        .instance_profile
        .as_ref()
        .map(|name| LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(name).build());
    let placement = LaunchTemplatePlacementRequest::builder()
        .tenancy(data.tenancy.as_str().into())
        .set_group_id(data.placement_group_id.clone())
        .set_partition_number(data.partition.map(figure))
        .build();
    let cpu = data.nested_virtualization.map(|on| {
        let nested = if on {
            NestedVirtualizationSpecification::Enabled
        } else {
            NestedVirtualizationSpecification::Disabled
        };
        LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build()
    });
    let devices =
        (!data.block_devices.is_empty()).then(|| data.block_devices.iter().map(block_device).collect());
    RequestLaunchTemplateData::builder()
        .image_id(&data.image_id)
        .set_iam_instance_profile(profile)
        .set_user_data(data.user_data.clone())
        .monitoring(LaunchTemplatesMonitoringRequest::builder().enabled(data.detailed_monitoring).build())
        .set_block_device_mappings(devices)
        .set_metadata_options(data.metadata.as_ref().map(metadata))
        .set_cpu_options(cpu)
        .set_network_interfaces(Some(data.interfaces.iter().map(interface).collect()))
        .placement(placement)
        .set_enclave_options(
            data.enclave.then(|| LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build()),
        )
        .set_capacity_reservation_specification(reservation(&data.reservation))
        .set_instance_market_options(data.market.map(market))
        .set_tag_specifications(resource_tags(data))
        .build()
}

fn resource_tags(data: &TemplateData) -> Option<Vec<LaunchTemplateTagSpecificationRequest>> {
    let spot = data.spot.then_some(ResourceType::SpotInstancesRequest);
    let kinds = std::iter::once(ResourceType::NetworkInterface).chain(spot);
    let of = |kind| {
        LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(kind)
            .set_tags(Some(ec2_tags(&data.tags)))
            .build()
    };
    (!data.tags.is_empty()).then(|| kinds.map(of).collect())
}

fn reservation(choice: &ReservationChoice) -> Option<LaunchTemplateCapacityReservationSpecificationRequest> {
    let builder = LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match choice {
        ReservationChoice::Open => None,
        ReservationChoice::Avoid => {
            Some(builder.capacity_reservation_preference(CapacityReservationPreference::None).build())
        }
        ReservationChoice::Only(id) => Some(
            builder
                .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
                .capacity_reservation_target(
                    CapacityReservationTarget::builder().capacity_reservation_id(id).build(),
                )
                .build(),
        ),
    }
}

fn market(market: Market) -> LaunchTemplateInstanceMarketOptionsRequest {
    let kind = match market {
        Market::CapacityBlock => MarketType::CapacityBlock,
        Market::InterruptibleReservation => MarketType::InterruptibleCapacityReservation,
    };
    LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind).build()
}

fn block_device(device: &BlockDevice) -> LaunchTemplateBlockDeviceMappingRequest {
    // Zero means "not set" in a node class; EC2 would refuse it.
    let given = |n: Option<u32>| n.filter(|n| *n > 0).map(figure);
    let ebs = device.ebs.as_ref().map(|ebs| {
        LaunchTemplateEbsBlockDeviceRequest::builder()
            .set_delete_on_termination(ebs.delete_on_termination)
            .set_encrypted(ebs.encrypted)
            .set_iops(given(ebs.iops))
            .set_kms_key_id(ebs.kms_key_id.clone())
            .set_snapshot_id(ebs.snapshot_id.clone())
            .set_throughput(given(ebs.throughput))
            .set_volume_initialization_rate(given(ebs.initialization_rate))
            .set_volume_size(given(ebs.size_gib))
            .set_volume_type(ebs.volume_type.as_deref().map(Into::into))
            .build()
    });
    LaunchTemplateBlockDeviceMappingRequest::builder().device_name(&device.device_name).set_ebs(ebs).build()
}

fn metadata(options: &MetadataOptions) -> LaunchTemplateInstanceMetadataOptionsRequest {
    use LaunchTemplateInstanceMetadataEndpointState as Endpoint;
    use LaunchTemplateInstanceMetadataProtocolIpv6 as Ipv6;
    let tokens = if options.tokens_required {
        LaunchTemplateHttpTokensState::Required
    } else {
        LaunchTemplateHttpTokensState::Optional
    };
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(if options.endpoint { Endpoint::Enabled } else { Endpoint::Disabled })
        .set_http_protocol_ipv6(options.ipv6.map(|on| if on { Ipv6::Enabled } else { Ipv6::Disabled }))
        .http_put_response_hop_limit(figure(options.hop_limit))
        .http_tokens(tokens)
        .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn interface(own: &Interface) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(own.card_index.map(figure))
        .device_index(figure(own.device_index))
        .set_interface_type(own.kind.as_str().map(str::to_owned))
        .set_groups(Some(own.security_group_ids.clone()))
        .set_associate_public_ip_address(own.public_ip)
        .set_ipv4_prefix_count(own.ipv4_prefixes.map(figure))
        .set_ipv6_prefix_count(own.ipv6_prefixes.map(figure))
        .set_ipv6_address_count(own.ipv6_addresses.map(figure))
        .set_primary_ipv6(own.primary_ipv6)
        .set_connection_tracking_specification(own.connection_tracking.map(tracking))
        .build()
}

/// The same interface as RunInstances wants it, in a subnet.
pub(super) fn run_interface(own: &Interface, subnet_id: &str) -> InstanceNetworkInterfaceSpecification {
    InstanceNetworkInterfaceSpecification::builder()
        .set_network_card_index(own.card_index.map(figure))
        .device_index(figure(own.device_index))
        .set_interface_type(own.kind.as_str().map(str::to_owned))
        .set_groups(Some(own.security_group_ids.clone()))
        .subnet_id(subnet_id)
        .set_associate_public_ip_address(own.public_ip)
        .set_ipv4_prefix_count(own.ipv4_prefixes.map(figure))
        .set_ipv6_prefix_count(own.ipv6_prefixes.map(figure))
        .set_ipv6_address_count(own.ipv6_addresses.map(figure))
        .set_primary_ipv6(own.primary_ipv6)
        .set_connection_tracking_specification(own.connection_tracking.map(tracking))
        .build()
}

fn tracking(own: ConnectionTracking) -> ConnectionTrackingSpecificationRequest {
    ConnectionTrackingSpecificationRequest::builder()
        .set_tcp_established_timeout(own.tcp_established.map(figure))
        .set_udp_stream_timeout(own.udp_stream.map(figure))
        .set_udp_timeout(own.udp.map(figure))
        .build()
}
