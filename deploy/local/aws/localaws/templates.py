"""Launch templates: create, versions, default version, describe and delete, by id or by name."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from . import ACCOUNT
from .actions import Call, ec2
from .errors import AwsError, dry_run, missing
from .filters import Matcher, tag_list, tags_for
from .wire import when

NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
CREATED_BY = f"arn:aws:iam::{ACCOUNT}:root"


@dataclass
class Template:
    id: str
    name: str
    created: float
    tags: dict[str, str]
    versions: dict[int, tuple[float, str, dict[str, Any]]] = field(default_factory=dict)
    default: int = 1

    @property
    def latest(self) -> int:
        return max(self.versions)

    def describe(self) -> dict[str, Any]:
        return {
            "LaunchTemplateId": self.id,
            "LaunchTemplateName": self.name,
            "CreateTime": when(self.created),
            "CreatedBy": CREATED_BY,
            "DefaultVersionNumber": self.default,
            "LatestVersionNumber": self.latest,
            "Tags": tag_list(self.tags),
        }

    def describe_version(self, number: int) -> dict[str, Any]:
        created, description, data = self.versions[number]
        return {
            "LaunchTemplateId": self.id,
            "LaunchTemplateName": self.name,
            "VersionNumber": number,
            "VersionDescription": description or None,
            "CreateTime": when(created),
            "CreatedBy": CREATED_BY,
            "DefaultVersion": number == self.default,
            "LaunchTemplateData": data,
        }

    def number(self, version: str | None) -> int:
        if version in (None, "", "$Default"):
            return self.default
        if version == "$Latest":
            return self.latest
        if not version.isdigit() or int(version) not in self.versions:
            raise AwsError(
                "InvalidLaunchTemplateId.VersionNotFound",
                f"Could not find the specified version {version} for the launch template with ID {self.id}.",
            )
        return int(version)


class Templates:
    def __init__(self) -> None:
        self.by_id: dict[str, Template] = {}
        self.by_name: dict[str, Template] = {}
        self.tokens: dict[str, Template] = {}

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]

    def find(self, template_id: str | None, name: str | None) -> Template:
        if bool(template_id) == bool(name):
            raise AwsError(
                "InvalidParameterCombination",
                "Exactly one of the launch template id and the launch template name must be given.",
            )
        if template_id:
            template = self.by_id.get(template_id)
            if template is None:
                raise AwsError(
                    "InvalidLaunchTemplateId.NotFound",
                    f"The specified launch template, with template ID {template_id}, does not exist.",
                )
            return template
        template = self.by_name.get(name or "")
        if template is None:
            raise AwsError(
                "InvalidLaunchTemplateName.NotFoundException",
                f"The specified launch template, with template name {name}, does not exist.",
            )
        return template


@ec2("CreateLaunchTemplate", checks_first=True)
def create_launch_template(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    templates, name = call.world.templates, params.get("LaunchTemplateName")
    if not name:
        raise missing("LaunchTemplateName")
    if not NAME.fullmatch(name):
        raise AwsError(
            "InvalidLaunchTemplateName.MalformedException",
            "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: - ( ) . / _",
        )
    if "LaunchTemplateData" not in params:
        raise missing("LaunchTemplateData")
    token = params.get("ClientToken")
    if token and token in templates.tokens and templates.tokens[token].id in templates.by_id:
        return {"LaunchTemplate": templates.tokens[token].describe()}
    if name in templates.by_name:
        raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
    if params.get("DryRun"):
        raise dry_run()
    now = time.time()
    template = Template(call.world.new_id("lt"), name, now, tags_for(params.get("TagSpecifications"), "launch-template"))
    template.versions[1] = (now, params.get("VersionDescription", ""), params["LaunchTemplateData"])
    templates.by_id[template.id] = templates.by_name[name] = template
    if token:
        templates.tokens[token] = template
    return {"LaunchTemplate": template.describe()}


@ec2("CreateLaunchTemplateVersion")
def create_launch_template_version(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    template = call.world.templates.find(params.get("LaunchTemplateId"), params.get("LaunchTemplateName"))
    data = params.get("LaunchTemplateData", {})
    if params.get("SourceVersion"):
        data = {**template.versions[template.number(params["SourceVersion"])][2], **data}
    number = template.latest + 1
    template.versions[number] = (time.time(), params.get("VersionDescription", ""), data)
    return {"LaunchTemplateVersion": template.describe_version(number)}


@ec2("ModifyLaunchTemplate")
def modify_launch_template(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    template = call.world.templates.find(params.get("LaunchTemplateId"), params.get("LaunchTemplateName"))
    template.default = template.number(params.get("DefaultVersion"))
    return {"LaunchTemplate": template.describe()}


@ec2("DeleteLaunchTemplate")
def delete_launch_template(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    templates = call.world.templates
    template = templates.find(params.get("LaunchTemplateId"), params.get("LaunchTemplateName"))
    del templates.by_id[template.id]
    del templates.by_name[template.name]
    return {"LaunchTemplate": template.describe()}


FIELDS = {
    "launch-template-name": lambda t: t.name,
    "create-time": lambda t: when(t.created).isoformat(),
}


@ec2("DescribeLaunchTemplates")
def describe_launch_templates(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    templates = call.world.templates
    ids, names = params.get("LaunchTemplateIds"), params.get("LaunchTemplateNames")
    if ids or names:
        chosen = [templates.find(i, None) for i in ids or []] + [templates.find(None, n) for n in names or []]
    else:
        chosen = list(templates.by_id.values())
    chosen = [t for t in chosen if call.world.is_visible(t.id, t.created, call.access_key)]
    matches = Matcher(params.get("Filters"), FIELDS, lambda t: t.tags)
    chosen = sorted((t for t in chosen if matches(t)), key=lambda t: t.id)
    page, token = call.world.pager.page(call.action, chosen, lambda t: t.id, params, 1, 200, default=200)
    return {"LaunchTemplates": [t.describe() for t in page], "NextToken": token}


@ec2("DescribeLaunchTemplateVersions")
def describe_launch_template_versions(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    templates = call.world.templates
    wanted = params.get("Versions") or []
    if params.get("LaunchTemplateId") or params.get("LaunchTemplateName"):
        chosen = [templates.find(params.get("LaunchTemplateId"), params.get("LaunchTemplateName"))]
    elif wanted:
        chosen = list(templates.by_id.values())
    else:
        raise missing("LaunchTemplateId")
    rows = []
    for template in chosen:
        numbers = {template.number(v) for v in wanted} if wanted else set(template.versions)
        low, high = int(params.get("MinVersion") or 0), int(params.get("MaxVersion") or 1 << 30)
        rows += [template.describe_version(n) for n in numbers if low <= n <= high]
    rows.sort(key=version_key)
    page, token = call.world.pager.page(call.action, rows, version_key, params, 1, 200, default=200)
    return {"LaunchTemplateVersions": page, "NextToken": token}


def version_key(row: dict[str, Any]) -> str:
    return f"{row['LaunchTemplateId']}/{1_000_000 - row['VersionNumber']:07d}"
