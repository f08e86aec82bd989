"""IAM where moto differs: ListInstanceProfiles with its PathPrefix and paging, without which a cleaner of
the profiles under a path would be shown, and would delete, all others; the AWS-managed policies of node roles; and policies
of a CloudFormation template that are text (`!Sub`), which moto encodes a second time."""

from __future__ import annotations

import json
from typing import Any

from moto.core.responses import ActionResult
from moto.iam.models import AWSManagedPolicy, IAMBackend, ManagedPolicy
from moto.iam.responses import IamResponse

from .filters import Pager

# moto can load all of AWS's policies, which takes seconds at each start. Nothing here evaluates their documents.
MANAGED_POLICIES = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodeMinimalPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonSSMManagedInstanceCore",
)


def install(pager: Pager) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": []})

    def aws_policies(self: IAMBackend) -> list[AWSManagedPolicy]:
        return [AWSManagedPolicy(name, self.account_id, self.region_name, document=document) for name in MANAGED_POLICIES]

    IAMBackend._init_aws_policies = aws_policies  # type: ignore[method-assign,assignment]

    def list_instance_profiles(self: IamResponse) -> ActionResult:
        prefix = self._get_param("PathPrefix") or "/"
        found = [p for p in list(self.backend.get_instance_profiles()) if p.path.startswith(prefix)]
        params = {"NextToken": self._get_param("Marker"), "MaxResults": int(self._get_param("MaxItems") or 100)}
        found.sort(key=lambda p: p.name)
        page, token = pager.page("ListInstanceProfiles", found, lambda p: p.name, params, 1, 1000)
        return ActionResult({"InstanceProfiles": page, "IsTruncated": token is not None, "Marker": token})

    IamResponse.list_instance_profiles = list_instance_profiles  # type: ignore[method-assign]

    parsed = ManagedPolicy.create_from_cloudformation_json.__func__  # type: ignore[attr-defined]

    def create_from_cloudformation_json(cls: Any, name: str, resource: dict[str, Any], *rest: Any, **more: Any) -> Any:
        document = resource["Properties"].get("PolicyDocument")
        if isinstance(document, str):
            resource["Properties"]["PolicyDocument"] = json.loads(document)
        return parsed(cls, name, resource, *rest, **more)

    ManagedPolicy.create_from_cloudformation_json = classmethod(create_from_cloudformation_json)  # type: ignore
