"""What the joiner asks EC2 about an instance, over the real API. Instances of one template version,
image and type boot alike, so what the first of them showed is kept for the others."""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

# The device whose volume holds containers and logs, by family.
DISKS = {"AL2": "/dev/xvda", "AL2023": "/dev/xvda", "Bottlerocket": "/dev/xvdb", "Windows": "/dev/sda1"}


@dataclass
class Machine:
    """All that boot depends on besides the instance's own name and place."""

    user_data: bytes
    image_name: str
    disks: dict[str, int]  # device name to GiB
    root_device: str
    efa: int
    info: dict[str, Any]  # the instance type as DescribeInstanceTypes gives it

    def disk(self, family: str) -> int:
        return self.disks.get(DISKS.get(family, ""), self.disks.get(self.root_device, 20))


class Cloud:
    def __init__(self, endpoint: str, region: str):
        session = boto3.Session(
            # A name of its own: the local AWS spares it from faults and tells its calls from others'.
            aws_access_key_id="joiner",
            aws_secret_access_key="joiner",
            region_name=region,
        )
        config = Config(max_pool_connections=32, retries={"max_attempts": 5, "mode": "standard"})
        self.ec2 = session.client("ec2", endpoint_url=endpoint, config=config)
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, ...], threading.Lock] = {}
        self._types: dict[str, dict[str, Any]] = {}
        self._images: dict[str, str] = {}
        self._machines: dict[tuple[str, ...], Machine] = {}

    def machine(self, instance_id: str, instance_type: str, image_id: str, tags: dict[str, str]) -> Machine:
        template = tags.get("aws:ec2launchtemplate:id", "")
        # Without a template nothing says that two instances are alike.
        key = (template or instance_id, tags.get("aws:ec2launchtemplate:version", ""), image_id, instance_type)
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        # A fleet's instances come all at once: one of them is read, the others wait for what it showed.
        with turn:
            found = self._machines.get(key)
            if found is None:
                found = self._machines[key] = self._read(instance_id, instance_type, image_id)
            return found

    def _read(self, instance_id: str, instance_type: str, image_id: str) -> Machine:
        attribute = self.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        encoded = (attribute.get("UserData") or {}).get("Value") or ""
        filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        volumes = [v for p in self.ec2.get_paginator("describe_volumes").paginate(Filters=filters) for v in p["Volumes"]]
        instance = self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
        interfaces = instance.get("NetworkInterfaces") or []
        return Machine(
            user_data=base64.b64decode(encoded),
            image_name=self._image(image_id),
            disks={v["Attachments"][0]["Device"]: v["Size"] for v in volumes},
            root_device=instance.get("RootDeviceName", ""),
            efa=sum(i.get("InterfaceType") in ("efa", "efa-only") for i in interfaces),
            info=self._type(instance_type),
        )

    def _image(self, image_id: str) -> str:
        if image_id not in self._images:
            images = self.ec2.describe_images(ImageIds=[image_id])["Images"]
            self._images[image_id] = images[0]["Name"] if images else ""
        return self._images[image_id]

    def _type(self, name: str) -> dict[str, Any]:
        if name not in self._types:
            self._types[name] = self.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0]
        return self._types[name]

    def instances(self) -> list[dict[str, Any]]:
        """All instances in the form of the change feed, by the public API."""
        found = []
        for page in self.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 1000}):
            for reservation in page["Reservations"]:
                for i in reservation["Instances"]:
                    found.append(
                        {
                            "id": i["InstanceId"],
                            "state": i["State"]["Name"],
                            "instanceType": i["InstanceType"],
                            "zone": i["Placement"]["AvailabilityZone"],
                            "zoneId": i["Placement"].get("AvailabilityZoneId", ""),
                            "privateDnsName": i.get("PrivateDnsName", ""),
                            "privateIp": i.get("PrivateIpAddress", ""),
                            "imageId": i["ImageId"],
                            "architecture": i.get("Architecture", "x86_64"),
                            "launched": i["LaunchTime"].timestamp(),
                            "tags": {t["Key"]: t["Value"] for t in i.get("Tags", [])},
                        }
                    )
        return found
