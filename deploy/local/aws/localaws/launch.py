"""From a launch template and an override to instances that carry everything the template said."""

from __future__ import annotations

import base64
import binascii
import time
from dataclasses import dataclass, field
from typing import Any

from . import ACCOUNT, placement
from .errors import AwsError
from .filters import tag_list, tags_for
from .images import Image
from .instances import Instance
from .network import no_addresses
from .wire import when

USER_DATA_LIMIT = 16384


@dataclass
class Spec:
    """One way to launch: a checked template joined with one override."""

    lifecycle: str  # on-demand, spot, capacity-block, interruptible-capacity-reservation
    instance_type: str
    subnet: Any
    zone: str
    image: Image
    data: dict[str, Any]
    groups: list[dict[str, str]]
    profile: dict[str, str] | None
    group: placement.Group | None
    tags: list[dict[str, Any]] = field(default_factory=list)  # the request's own TagSpecifications
    system_tags: dict[str, str] = field(default_factory=dict)

    @property
    def pool(self) -> tuple[str, str, str]:
        kind = "spot" if self.lifecycle == "spot" else "on-demand"
        return (kind, self.instance_type, self.zone)


def resolve(world: Any, data: dict[str, Any], override: dict[str, Any], lifecycle: str) -> Spec:
    """Checks one launch template with one override as EC2 does before it looks for capacity."""
    instance_type = override.get("InstanceType") or data.get("InstanceType")
    if not instance_type:
        raise AwsError("MissingParameter", "The request must contain the parameter InstanceType")
    info = world.types.types.get(instance_type)
    if info is None:
        raise AwsError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    interfaces = data.get("NetworkInterfaces") or []
    subnet = find_subnet(world, data, override, interfaces)
    zone = subnet.availability_zone
    wanted_zone = override.get("AvailabilityZone")
    if wanted_zone and wanted_zone != zone:
        raise AwsError(
            "InvalidParameterValue", f"The subnet {subnet.id} is in {zone}, not in the Availability Zone {wanted_zone}."
        )
    if not world.types.offered(world.region, instance_type, zone):
        raise AwsError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone}). "
            "Please retry your request by not specifying an Availability Zone or choosing another one.",
        )
    if lifecycle == "spot" and "spot" not in info.get("SupportedUsageClasses", ()):
        raise AwsError("UnsupportedOperation", f"The instance type {instance_type} does not support Spot.")
    image_id = override.get("ImageId") or data.get("ImageId")
    if not image_id:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    if image_id.startswith("resolve:ssm:"):
        found = world.parameters.value(image_id.removeprefix("resolve:ssm:"))
        image_id = found[0] if found else image_id
    if not image_id.startswith("ami-"):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    image = world.images.get(image_id)
    architectures = info["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture not in architectures:
        raise AwsError(
            "InvalidParameterValue",
            f"The architecture '{','.join(architectures)}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
        )
    check_user_data(data.get("UserData"))
    check_interfaces(info, interfaces)
    wanted_groups = next((i["Groups"] for i in interfaces if i.get("Groups")), data.get("SecurityGroupIds") or [])
    place = {**(data.get("Placement") or {}), **(override.get("Placement") or {})}
    group = None
    if place.get("GroupId") or place.get("GroupName"):
        group = world.groups.find(place.get("GroupId"), place.get("GroupName"))
    return Spec(
        lifecycle=lifecycle,
        instance_type=instance_type,
        subnet=subnet,
        zone=zone,
        image=image,
        data=data,
        groups=world.network.security_groups(wanted_groups, subnet.vpc_id, subnet.id),
        profile=world.network.instance_profile(
            override.get("IamInstanceProfile") or data.get("IamInstanceProfile"), world.settings.profile_usable_after_ms
        ),
        group=group,
    )


def find_subnet(world: Any, data: dict[str, Any], override: dict[str, Any], interfaces: list[dict[str, Any]]) -> Any:
    subnet_id = override.get("SubnetId") or next((i["SubnetId"] for i in interfaces if i.get("SubnetId")), None)
    if subnet_id:
        return world.network.subnet(subnet_id)
    zone = override.get("AvailabilityZone") or (data.get("Placement") or {}).get("AvailabilityZone")
    return world.network.default_subnet(zone or sorted(world.network.zone_ids())[0])


def check_user_data(encoded: str | None) -> None:
    if not encoded:
        return
    try:
        size = len(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if size > USER_DATA_LIMIT:
        raise AwsError("InvalidUserData.Malformed", f"User data is limited to {USER_DATA_LIMIT} bytes")


def check_interfaces(info: dict[str, Any], interfaces: list[dict[str, Any]]) -> None:
    network = info["NetworkInfo"]
    efa = [i for i in interfaces if i.get("InterfaceType") in ("efa", "efa-only")]
    if efa and not network.get("EfaSupported"):
        raise AwsError("Unsupported", f"EFA interfaces are not supported on {info['InstanceType']}")
    if len(efa) > network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0):
        raise AwsError(
            "AttachmentLimitExceeded", f"EFA interface count {len(efa)} exceeds the limit for {info['InstanceType']}"
        )
    if len(interfaces) > 1 and any(i.get("AssociatePublicIpAddress") for i in interfaces):
        raise AwsError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        )


def reserve(world: Any, spec: Spec) -> str | None:
    """The capacity reservation this launch draws on, already counted, or None."""
    given = spec.data.get("CapacityReservationSpecification") or {}
    target = (given.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    preference = given.get("CapacityReservationPreference") or ("open" if not target else "")
    if spec.lifecycle == "spot" or preference == "none":
        return None
    if target:
        reservation = world.reservations.targeted(target, spec.instance_type, spec.zone)
    else:
        tenancy = (spec.data.get("Placement") or {}).get("Tenancy") or "default"
        reservation = world.reservations.open_match(spec.instance_type, spec.zone, tenancy)
        if reservation is None:
            if preference == "capacity-reservations-only":
                raise AwsError(
                    "ReservationCapacityExceeded",
                    f"There is no capacity reservation with available capacity for {spec.instance_type} in {spec.zone}.",
                )
            return None
    reservation.available -= 1
    return reservation.id


def launch(world: Any, spec: Spec) -> Instance:
    """One new instance in `pending`. The caller has checked that the pool has capacity."""
    interfaces = spec.data.get("NetworkInterfaces") or [{"DeviceIndex": 0}]
    prefixes = sum(i.get("Ipv4PrefixCount") or 0 for i in interfaces) * 16
    with_address = [i for i in interfaces if i.get("InterfaceType") != "efa-only"]
    if world.network.free(spec.subnet) < len(with_address) + prefixes:
        raise no_addresses(spec.subnet, 1)
    place = spec.data.get("Placement") or {}
    partition = None
    if spec.group:
        partition = placement.place(world, spec.group, spec.zone, place.get("PartitionNumber"))
    reservation_id = reserve(world, spec)
    addresses = [world.network.take_address(spec.subnet) for _ in with_address]
    world.network.take_extra(spec.subnet.id, prefixes)

    instance_id = world.new_id("i")
    tags = all_tags(spec, "instance") | spec.system_tags
    now = time.time()
    instance = Instance(instance_id, world.instances.next_sequence(), {}, tags)
    instance.launched = now
    instance.user_data = spec.data.get("UserData") or ""
    instance.protected = bool(spec.data.get("DisableApiTermination"))
    instance.addresses, instance.extra_addresses = addresses, prefixes
    instance.group_id = spec.group.id if spec.group else None
    instance.partition = partition
    instance.reservation_id = reservation_id
    instance.lifecycle, instance.pool = spec.lifecycle, spec.pool
    instance.volumes = volumes(world, spec, instance_id, now)
    instance.record = record(world, spec, instance, interfaces, now)
    world.instances.add(instance)
    return instance


def dns_name(region: str, address: str) -> str:
    suffix = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{suffix}"


def volumes(world: Any, spec: Spec, instance_id: str, now: float) -> list[dict[str, Any]]:
    devices = {m["DeviceName"]: dict(m["Ebs"]) for m in spec.image.mappings()}
    for mapping in spec.data.get("BlockDeviceMappings") or []:
        name = mapping["DeviceName"]
        if mapping.get("NoDevice") is not None:
            devices.pop(name, None)
        elif mapping.get("Ebs") is not None:
            given = {k: v for k, v in mapping["Ebs"].items() if v is not None}
            devices[name] = {**devices.get(name, {"DeleteOnTermination": True, "VolumeType": "gp2"}), **given}
    tags = all_tags(spec, "volume")
    out = []
    for device, ebs in devices.items():
        kind = ebs.get("VolumeType", "gp2")
        out.append(
            {
                "VolumeId": world.new_id("vol"),
                "Size": ebs.get("VolumeSize", 8),
                "VolumeType": kind,
                "Iops": ebs.get("Iops") or (3000 if kind == "gp3" else None),
                "Throughput": ebs.get("Throughput") or (125 if kind == "gp3" else None),
                "Encrypted": bool(ebs.get("Encrypted")),
                "KmsKeyId": ebs.get("KmsKeyId"),
                "SnapshotId": ebs.get("SnapshotId", ""),
                "AvailabilityZone": spec.zone,
                "State": "in-use",
                "CreateTime": when(now),
                "MultiAttachEnabled": False,
                "Attachments": [
                    {
                        "AttachTime": when(now),
                        "Device": device,
                        "InstanceId": instance_id,
                        "State": "attached",
                        "DeleteOnTermination": ebs.get("DeleteOnTermination", True),
                    }
                ],
                "Tags": tag_list(tags),
            }
        )
        out[-1]["Attachments"][0]["VolumeId"] = out[-1]["VolumeId"]
    return out


def record(world: Any, spec: Spec, instance: Instance, interfaces: list[dict[str, Any]], now: float) -> dict[str, Any]:
    data, info = spec.data, world.types.types[spec.instance_type]
    place = data.get("Placement") or {}
    name = dns_name(world.region, instance.addresses[0])
    metadata = data.get("MetadataOptions") or {}
    public = public_address(world, spec, interfaces)
    answer = {
        "InstanceId": instance.id,
        "ImageId": spec.image.id,
        "InstanceType": spec.instance_type,
        "Architecture": spec.image.architecture,
        "AmiLaunchIndex": 0,
        "LaunchTime": when(now),
        "KeyName": data.get("KeyName"),
        "Platform": spec.image.platform or None,
        "PlatformDetails": "Windows" if spec.image.platform else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if spec.image.platform else "RunInstances",
        "UsageOperationUpdateTime": when(now),
        "Placement": {
            "AvailabilityZone": spec.zone,
            "AvailabilityZoneId": spec.subnet.availability_zone_id,
            "GroupName": spec.group.name if spec.group else "",
            "GroupId": spec.group.id if spec.group else None,
            "PartitionNumber": instance.partition,
            "Tenancy": place.get("Tenancy") or "default",
        },
        "PrivateDnsName": name,
        "PrivateIpAddress": instance.addresses[0],
        "PublicDnsName": public_dns_name(world.region, public) if public else "",
        "PublicIpAddress": public,
        "SubnetId": spec.subnet.id,
        "VpcId": spec.subnet.vpc_id,
        "SecurityGroups": spec.groups,
        "SourceDestCheck": True,
        "IamInstanceProfile": spec.profile,
        "EbsOptimized": info.get("EbsInfo", {}).get("EbsOptimizedSupport") == "default",
        "EnaSupport": True,
        "Hypervisor": "xen",
        "VirtualizationType": "hvm",
        "BootMode": "uefi-preferred",
        "RootDeviceName": spec.image.devices[0][0],
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": [
            {
                "DeviceName": v["Attachments"][0]["Device"],
                "Ebs": {
                    "VolumeId": v["VolumeId"],
                    "Status": "attached",
                    "AttachTime": when(now),
                    "DeleteOnTermination": v["Attachments"][0]["DeleteOnTermination"],
                },
            }
            for v in instance.volumes
        ],
        "Monitoring": {"State": "enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled"},
        "MetadataOptions": {
            "State": "applied",
            "HttpTokens": metadata.get("HttpTokens", "optional"),
            "HttpPutResponseHopLimit": metadata.get("HttpPutResponseHopLimit", 1),
            "HttpEndpoint": metadata.get("HttpEndpoint", "enabled"),
            "HttpProtocolIpv6": metadata.get("HttpProtocolIpv6", "disabled"),
            "InstanceMetadataTags": metadata.get("InstanceMetadataTags", "disabled"),
        },
        "CpuOptions": {
            "CoreCount": info["VCpuInfo"].get("DefaultCores"),
            "ThreadsPerCore": info["VCpuInfo"].get("DefaultThreadsPerCore"),
            "NestedVirtualization": (data.get("CpuOptions") or {}).get("NestedVirtualization"),
        },
        "EnclaveOptions": {"Enabled": bool((data.get("EnclaveOptions") or {}).get("Enabled"))},
        "HibernationOptions": {"Configured": False},
        "MaintenanceOptions": {"AutoRecovery": "default"},
        "PrivateDnsNameOptions": {
            "HostnameType": "ip-name",
            "EnableResourceNameDnsARecord": False,
            "EnableResourceNameDnsAAAARecord": False,
        },
        "CapacityReservationId": instance.reservation_id,
        "CapacityReservationSpecification": capacity_reservation(data, instance),
        "NetworkInterfaces": [
            network_interface(world, spec, instance, interface, i, now, public if i == 0 else None)
            for i, interface in enumerate(interfaces)
        ],
        "ProductCodes": [],
    }
    if spec.lifecycle != "on-demand":
        answer["InstanceLifecycle"] = spec.lifecycle
    if spec.lifecycle == "spot":
        answer["SpotInstanceRequestId"] = "sir-" + instance.id[-8:]
        instance.request_tags = all_tags(spec, "spot-instances-request")
    return answer


def all_tags(spec: Spec, kind: str) -> dict[str, str]:
    """What the template and the request say about resources of this kind."""
    return {**tags_for(spec.data.get("TagSpecifications"), kind), **tags_for(spec.tags, kind)}


def public_address(world: Any, spec: Spec, interfaces: list[dict[str, Any]]) -> str | None:
    """As the first interface asks, else as the subnet does it."""
    wanted = interfaces[0].get("AssociatePublicIpAddress")
    if wanted is None:
        wanted = str(spec.subnet.map_public_ip_on_launch).lower() == "true"
    return world.network.public_address() if wanted else None


def public_dns_name(region: str, address: str) -> str:
    suffix = "compute-1.amazonaws.com" if region == "us-east-1" else f"{region}.compute.amazonaws.com"
    return f"ec2-{address.replace('.', '-')}.{suffix}"


def capacity_reservation(data: dict[str, Any], instance: Instance) -> dict[str, Any]:
    given = data.get("CapacityReservationSpecification") or {}
    target = given.get("CapacityReservationTarget") or {}
    answer: dict[str, Any] = {}
    if given.get("CapacityReservationPreference"):
        answer["CapacityReservationPreference"] = given["CapacityReservationPreference"]
    elif not target:
        answer["CapacityReservationPreference"] = "open"
    if target:
        answer["CapacityReservationTarget"] = target
    return answer


def network_interface(world, spec, instance, given, index, now, public) -> dict[str, Any]:
    kind = given.get("InterfaceType") or "interface"
    interface: dict[str, Any] = {
        "NetworkInterfaceId": world.new_id("eni"),
        "InterfaceType": kind,
        "Status": "in-use",
        "Description": given.get("Description", ""),
        "OwnerId": ACCOUNT,
        "SubnetId": spec.subnet.id,
        "VpcId": spec.subnet.vpc_id,
        "SourceDestCheck": True,
        "Groups": spec.groups,
        "MacAddress": "02:" + ":".join(instance.id[-10:][i : i + 2] for i in range(0, 8, 2)) + f":{index:02x}",
        "Attachment": {
            "AttachmentId": world.new_id("eni-attach"),
            "AttachTime": when(now),
            "DeleteOnTermination": given.get("DeleteOnTermination", True),
            "DeviceIndex": given.get("DeviceIndex", index),
            "NetworkCardIndex": given.get("NetworkCardIndex", 0),
            "Status": "attached",
        },
    }
    if kind != "efa-only":
        position = min(index, len(instance.addresses) - 1)
        address = instance.addresses[position]
        interface["PrivateIpAddress"] = address
        interface["PrivateDnsName"] = dns_name(world.region, address)
        interface["PrivateIpAddresses"] = [
            {"Primary": True, "PrivateIpAddress": address, "PrivateDnsName": dns_name(world.region, address)}
        ]
    if public:
        association = {"PublicIp": public, "PublicDnsName": public_dns_name(world.region, public), "IpOwnerId": "amazon"}
        interface["Association"] = interface["PrivateIpAddresses"][0]["Association"] = association
    tracking = given.get("ConnectionTrackingSpecification")
    if tracking:
        interface["ConnectionTrackingConfiguration"] = tracking
    instance.interface_tags[interface["NetworkInterfaceId"]] = all_tags(spec, "network-interface")
    return interface
