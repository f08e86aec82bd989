"""The AMIs that EKS publishes and those a test adds; DescribeImages and the registration calls.

Several releases of each family exist so that drift can be tried: `publish` adds a new one, after
which the SSM aliases (see ssm.py) point at it.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import Any

from . import ACCOUNT
from .actions import Call, ec2
from .errors import AwsError
from .filters import Matcher, tag_dict, tag_list, tags_for
from .wire import format_time, parse_time

EKS_OWNER, BOTTLEROCKET_OWNER, WINDOWS_OWNER = "602401143452", "092701018921", "801119661308"
KUBERNETES = tuple(f"1.{minor}" for minor in range(29, 38))
EKS_RELEASES = ("v20260611", "v20260723", "v20260902")
BOTTLEROCKET_RELEASES = ("1.44.0", "1.45.1", "1.46.0")
WINDOWS_RELEASES = ("2026.06.10", "2026.07.15", "2026.08.12")
CREATED = ("2026-06-12T08:00:00.000Z", "2026-07-24T08:00:00.000Z", "2026-09-03T08:00:00.000Z")


@dataclass
class Image:
    id: str
    name: str
    architecture: str
    owner: str
    created: str
    devices: list[tuple[str, int]]
    platform: str = ""
    state: str = "available"
    deprecated_at: float | None = None
    tags: dict[str, str] = field(default_factory=dict)
    parameter: str = ""  # SSM path of this release without the trailing /image_id, if it has one
    alias: str = ""  # SSM path that follows the newest release
    release: str = ""

    def mappings(self) -> list[dict[str, Any]]:
        snapshot = "snap-" + self.id[4:]
        return [
            {
                "DeviceName": device,
                "Ebs": {
                    "DeleteOnTermination": True,
                    "Encrypted": False,
                    "SnapshotId": snapshot,
                    "VolumeSize": size,
                    "VolumeType": "gp3" if not self.platform else "gp2",
                },
            }
            for device, size in self.devices
        ]

    def describe(self) -> dict[str, Any]:
        return {
            "ImageId": self.id,
            "Name": self.name,
            "Description": self.name,
            "Architecture": self.architecture,
            "OwnerId": self.owner,
            "ImageOwnerAlias": None if self.owner == ACCOUNT else "amazon",
            "ImageLocation": f"{self.owner}/{self.name}",
            "CreationDate": self.created,
            "DeprecationTime": None if self.deprecated_at is None else format_time(self.deprecated_at),
            "State": self.state,
            "Public": self.owner != ACCOUNT,
            "ImageType": "machine",
            "Platform": self.platform or None,
            "PlatformDetails": "Windows" if self.platform else "Linux/UNIX",
            "UsageOperation": "RunInstances:0002" if self.platform else "RunInstances",
            "Hypervisor": "xen",
            "VirtualizationType": "hvm",
            "EnaSupport": True,
            "SriovNetSupport": "simple",
            "RootDeviceName": self.devices[0][0],
            "RootDeviceType": "ebs",
            "BlockDeviceMappings": self.mappings(),
            "Tags": tag_list(self.tags),
        }


class ImageCatalogue:
    def __init__(self, region: str):
        self.region = region
        self.reset()

    def reset(self) -> None:
        self.images: dict[str, Image] = {}
        self.aliases: dict[str, Image] = {}
        self.parameters: dict[str, Image] = {}
        for kubernetes in KUBERNETES:
            for i, created in enumerate(CREATED):
                self.publish_eks(kubernetes, EKS_RELEASES[i], created)
                self.publish_bottlerocket(kubernetes, BOTTLEROCKET_RELEASES[i], created)
                self.publish_windows(kubernetes, WINDOWS_RELEASES[i], created)

    def add(self, image: Image) -> Image:
        self.images[image.id] = image
        if image.alias:
            self.aliases[image.alias] = image
        if image.parameter:
            self.parameters[image.parameter] = image
        return image

    def _id(self, name: str) -> str:
        return "ami-" + hashlib.sha256(f"{self.region}/{name}".encode()).hexdigest()[:17]

    def publish(self, family: str, release: str, kubernetes: str | None = None) -> list[Image]:
        """A new release of a family (al2, al2023, bottlerocket, windows) for one Kubernetes version
        or for all; aliases move to it."""
        publishers = {
            "al2": lambda k, r, c: self.publish_eks(k, r, c, ("al2",)),
            "al2023": lambda k, r, c: self.publish_eks(k, r, c, ("al2023",)),
            "bottlerocket": self.publish_bottlerocket,
            "windows": self.publish_windows,
        }
        if family not in publishers:
            raise AwsError("InvalidParameterValue", f"unknown family {family}, use one of {', '.join(publishers)}")
        before = set(self.images)
        for version in (kubernetes,) if kubernetes else KUBERNETES:
            publishers[family](version, release.removeprefix("v") if family == "bottlerocket" else release, now())
        return [image for id, image in self.images.items() if id not in before]

    def publish_eks(self, k8s: str, release: str, created: str, families=("al2", "al2023")) -> None:
        root = f"/aws/service/eks/optimized-ami/{k8s}"
        entries: list[tuple[str, str, str]] = []
        if "al2023" in families:
            for arch, variants in (("x86_64", ("standard", "nvidia", "neuron")), ("arm64", ("standard", "nvidia"))):
                for variant in variants:
                    name = f"amazon-eks-node-al2023-{arch}-{variant}-{k8s}-{release}"
                    entries.append((name, arch, f"{root}/amazon-linux-2023/{arch}/{variant}"))
        # Amazon Linux 2 ended with Kubernetes 1.32.
        if "al2" in families and int(k8s.split(".")[1]) <= 32:
            entries.append((f"amazon-eks-node-{k8s}-{release}", "x86_64", f"{root}/amazon-linux-2"))
            entries.append((f"amazon-eks-arm64-node-{k8s}-{release}", "arm64", f"{root}/amazon-linux-2-arm64"))
            entries.append((f"amazon-eks-gpu-node-{k8s}-{release}", "x86_64", f"{root}/amazon-linux-2-gpu"))
        for name, arch, path in entries:
            self.add(
                Image(
                    id=self._id(name), name=name, architecture=arch, owner=EKS_OWNER, created=created,
                    devices=[("/dev/xvda", 20)], parameter=f"{path}/{name}", alias=f"{path}/recommended",
                    release=f"{k8s}-{release.removeprefix('v')}",
                )
            )  # fmt: skip

    def publish_bottlerocket(self, k8s: str, release: str, created: str) -> None:
        for flavour in ("", "-nvidia"):
            for arch in ("x86_64", "arm64"):
                variant = f"aws-k8s-{k8s}{flavour}"
                commit = hashlib.sha256(release.encode()).hexdigest()[:8]
                name = f"bottlerocket-{variant}-{arch}-v{release}-{commit}"
                path = f"/aws/service/bottlerocket/{variant}/{arch}"
                self.add(
                    Image(
                        id=self._id(name), name=name, architecture=arch, owner=BOTTLEROCKET_OWNER, created=created,
                        devices=[("/dev/xvda", 2), ("/dev/xvdb", 20)], parameter=f"{path}/{release}",
                        alias=f"{path}/latest", release=f"{release}-{commit}",
                    )
                )  # fmt: skip

    def publish_windows(self, k8s: str, release: str, created: str) -> None:
        for year in ("2019", "2022", "2025"):
            if year == "2025" and int(k8s.split(".")[1]) < 35:
                continue
            for edition in ("Core", "Full"):
                base = f"Windows_Server-{year}-English-{edition}-EKS_Optimized-{k8s}"
                name = f"{base}-{release}"
                self.add(
                    Image(
                        id=self._id(name), name=name, architecture="x86_64", owner=WINDOWS_OWNER, created=created,
                        devices=[("/dev/sda1", 50)], platform="windows",
                        alias=f"/aws/service/ami-windows-latest/{base}", release=release,
                    )
                )  # fmt: skip

    def get(self, image_id: str) -> Image:
        image = self.images.get(image_id)
        if image is None:
            raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        return image


def now() -> str:
    return format_time(time.time())


def image_key(image: Image) -> str:
    return image.id


FIELDS = {
    "image-id": lambda i: i.id,
    "name": lambda i: i.name,
    "architecture": lambda i: i.architecture,
    "owner-id": lambda i: i.owner,
    "owner-alias": lambda i: None if i.owner == ACCOUNT else "amazon",
    "state": lambda i: i.state,
    "is-public": lambda i: i.owner != ACCOUNT,
    "platform": lambda i: i.platform or None,
    "image-type": lambda i: "machine",
    "virtualization-type": lambda i: "hvm",
    "root-device-type": lambda i: "ebs",
    "description": lambda i: i.name,
    "creation-date": lambda i: i.created,
}


@ec2("DescribeImages")
def describe_images(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    catalogue = call.world.images
    images = list(catalogue.images.values())
    wanted = params.get("ImageIds")
    if wanted:
        for image_id in wanted:
            catalogue.get(image_id)
        images = [i for i in images if i.id in set(wanted)]
    owners = params.get("Owners")
    if owners:
        accepted = {ACCOUNT if o == "self" else o for o in owners}
        images = [i for i in images if i.owner in accepted or ("amazon" in accepted and i.owner != ACCOUNT)]
    moment = time.time()
    if not params.get("IncludeDeprecated") and not wanted:
        images = [i for i in images if i.deprecated_at is None or i.deprecated_at > moment or i.owner == ACCOUNT]
    matches = Matcher(params.get("Filters"), FIELDS, lambda i: i.tags)
    images = sorted((i for i in images if matches(i)), key=image_key)
    page, token = call.world.pager.page(call.action, images, image_key, params, 1, 1000)
    return {"Images": [i.describe() for i in page], "NextToken": token}


@ec2("RegisterImage")
def register_image(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    image = Image(
        id=call.world.new_id("ami"),
        name=params["Name"],
        architecture=params.get("Architecture", "x86_64"),
        owner=ACCOUNT,
        created=now(),
        devices=[
            (m["DeviceName"], m.get("Ebs", {}).get("VolumeSize", 8)) for m in params.get("BlockDeviceMappings") or []
        ]
        or [(params.get("RootDeviceName", "/dev/xvda"), 8)],
        tags=tags_for(params.get("TagSpecifications"), "image"),
    )
    return {"ImageId": call.world.images.add(image).id}


@ec2("DeregisterImage")
def deregister_image(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    call.world.images.get(params["ImageId"])
    del call.world.images.images[params["ImageId"]]
    return {"Return": True}


@ec2("EnableImageDeprecation")
def enable_image_deprecation(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    call.world.images.get(params["ImageId"]).deprecated_at = params["DeprecateAt"]
    return {"Return": True}


def custom_image(world: Any, body: dict[str, Any]) -> Image:
    """An image as the control path asks for it: any name, owner, architecture and tags."""
    return world.images.add(
        Image(
            id=body.get("id") or world.new_id("ami"),
            name=body["name"],
            architecture=body.get("architecture", "x86_64"),
            owner=body.get("owner", ACCOUNT),
            created=body.get("created", now()),
            devices=[(d["device"], d["sizeGiB"]) for d in body.get("devices", [])] or [("/dev/xvda", 20)],
            platform=body.get("platform", ""),
            deprecated_at=parse_time(body["deprecatedAt"]) if body.get("deprecatedAt") else None,
            tags=tag_dict(tag_list(body.get("tags", {}))),
        )
    )
