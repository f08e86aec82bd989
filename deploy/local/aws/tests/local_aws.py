"""One local AWS for all tests of this directory, as its own process over HTTP, and short ways to use it.
Each test starts from a reset server and a seeded network."""

from __future__ import annotations

import atexit
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

DIRECTORY = pathlib.Path(__file__).parent.parent
REGION, CLUSTER = "us-west-2", "unit"
sys.path.append(str(DIRECTORY))

_server: dict[str, Any] = {}


def server() -> dict[str, Any]:
    if not _server:
        state = tempfile.TemporaryDirectory()
        authority = pathlib.Path(state.name) / "ca.crt"
        authority.write_text("-----BEGIN CERTIFICATE-----\nunit\n-----END CERTIFICATE-----\n")
        command = [
            sys.executable, str(DIRECTORY / "server.py"), "--port", "0", "--control-port", "0", "--state", state.name,
            "--region", REGION, "--cluster-name", CLUSTER, "--cluster-endpoint", "https://127.0.0.1:6443",
            "--cluster-ca", str(authority),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        atexit.register(process.wait)
        atexit.register(process.terminate)
        ports = pathlib.Path(state.name) / "ports.json"
        while not (ports.exists() and ports.read_text().endswith("\n")):
            if process.poll() is not None:
                raise RuntimeError("the local AWS ended at once; see its output above")
            time.sleep(0.05)
        found = json.loads(ports.read_text())
        _server.update(
            keep=state, endpoint=f"http://127.0.0.1:{found['api']}", control=f"http://127.0.0.1:{found['control']}"
        )
    return _server


def client(name: str, access_key: str = "unit-test", region: str = REGION) -> Any:
    return boto3.client(
        name,
        endpoint_url=server()["endpoint"],
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )


def control(method: str, path: str, body: Any = None, **fields: Any) -> Any:
    data = json.dumps(body if body is not None else fields).encode()
    request = urllib.request.Request(server()["control"] + path, data=data, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def until(check: Any) -> Any:
    """Waits until `check` gives something true. It cannot hang: the whole run is bounded outside."""
    while True:
        found = check()
        if found:
            return found
        time.sleep(0.01)


class LocalAws(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.ec2 = client("ec2")
        if "seeded" not in server():
            from seed import Seed

            server()["seeded"] = Seed(server()["endpoint"], REGION, CLUSTER).run()
        cls.seeded = server()["seeded"]

    def setUp(self) -> None:
        control("POST", "/reset", instances=True)
        self.subnets = {
            s["AvailabilityZone"]: s["SubnetId"]
            for s in self.ec2.describe_subnets(SubnetIds=self.seeded["subnets"]["private"])["Subnets"]
        }
        self.groups = self.seeded["securityGroups"]

    def image(self, arch: str = "x86_64") -> str:
        name = f"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{arch}/standard/recommended/image_id"
        return client("ssm").get_parameter(Name=name)["Parameter"]["Value"]

    def template(self, name: str = "unit/template", **more: Any) -> str:
        data = {
            "ImageId": self.image(),
            "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
            "IamInstanceProfile": {"Name": f"KarpenterNodeInstanceProfile-{CLUSTER}"},
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": self.groups}],
            **more,
        }
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return name

    def fleet(self, types: list[str], count: int = 1, kind: str = "on-demand", **more: Any) -> dict[str, Any]:
        """An instant fleet over the given types in all zones, or over `overrides`."""
        overrides = more.pop("overrides", None) or [
            {"InstanceType": t, "SubnetId": s} for t in types for s in self.subnets.values()
        ]
        name = more.pop("template", "unit/template")
        spec = {"LaunchTemplateName": name, "Version": "$Latest"}
        answer = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": spec, "Overrides": overrides}],
            TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": kind},
            **more,
        )
        answer["Ids"] = [i for entry in answer["Instances"] for i in entry["InstanceIds"]]
        return answer

    def describe(self, instance_id: str) -> dict[str, Any]:
        return self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]

    def refused(self, call: Any, *args: Any, **arguments: Any) -> str:
        """The error code with which the call is refused."""
        with self.assertRaises(ClientError) as caught:
            call(*args, **arguments)
        self.message = caught.exception.response["Error"]["Message"]
        return caught.exception.response["Error"]["Code"]
