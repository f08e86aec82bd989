"""IAM's ListInstanceProfiles with its PathPrefix and paging, which moto ignores: whoever cleans up the
profiles under a path would be shown, and would delete, everybody's."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse

from .filters import Pager


def install(pager: Pager) -> None:
    def list_instance_profiles(self: IamResponse) -> ActionResult:
        prefix = self._get_param("PathPrefix") or "/"
        found = [p for p in list(self.backend.get_instance_profiles()) if p.path.startswith(prefix)]
        params = {"NextToken": self._get_param("Marker"), "MaxResults": int(self._get_param("MaxItems") or 100)}
        found.sort(key=lambda p: p.name)
        page, token = pager.page("ListInstanceProfiles", found, lambda p: p.name, params, 1, 1000)
        return ActionResult({"InstanceProfiles": page, "IsTruncated": token is not None, "Marker": token})

    IamResponse.list_instance_profiles = list_instance_profiles  # type: ignore[method-assign]
