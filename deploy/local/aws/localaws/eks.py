"""EKS DescribeCluster for the local cluster, with the endpoint, CA and network it really has.
Everything else of EKS is moto's."""

from __future__ import annotations

import base64
import pathlib
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from . import ACCOUNT


@dataclass
class Cluster:
    name: str
    endpoint: str
    ca_file: str
    version: str
    service_cidr: str
    created: float = field(default_factory=time.time)

    def answers(self, method: str, path: str) -> bool:
        return bool(self.name) and method == "GET" and unquote(path).rstrip("/") == f"/clusters/{self.name}"

    def describe(self, region: str) -> dict[str, Any]:
        # Read each time: the cluster's certificates may be made after this server starts.
        file = pathlib.Path(self.ca_file) if self.ca_file else None
        authority = base64.b64encode(file.read_bytes()).decode() if file and file.exists() else ""
        return {
            "cluster": {
                "name": self.name,
                "arn": self.arn(region),
                "createdAt": self.created,
                "version": self.version,
                "platformVersion": "eks.1",
                "endpoint": self.endpoint,
                "status": "ACTIVE",
                "certificateAuthority": {"data": authority},
                "roleArn": f"arn:aws:iam::{ACCOUNT}:role/eks-{self.name}",
                "kubernetesNetworkConfig": {"serviceIpv4Cidr": self.service_cidr, "ipFamily": "ipv4"},
                "resourcesVpcConfig": {
                    "subnetIds": [],
                    "securityGroupIds": [],
                    "endpointPublicAccess": True,
                    "endpointPrivateAccess": True,
                    "publicAccessCidrs": ["0.0.0.0/0"],
                },
                "logging": {"clusterLogging": []},
                "tags": {},
                "health": {"issues": []},
                "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
            }
        }

    def arn(self, region: str) -> str:
        return f"arn:aws:eks:{region}:{ACCOUNT}:cluster/{self.name}"
