"""Systems Manager's public parameters for EKS, Bottlerocket and Windows images, answered from the
image catalogue so that an alias can never disagree with DescribeImages. Other names are moto's."""

from __future__ import annotations

import json
import time
from typing import Any

from .errors import AwsError
from .images import Image, ImageCatalogue
from .wire import parse_time

OURS = ("/aws/service/eks/", "/aws/service/bottlerocket/", "/aws/service/ami-windows-latest/")


def is_ours(name: str) -> bool:
    return parameter_name(name).startswith(OURS)


def parameter_name(name: str) -> str:
    """A parameter may be named by its ARN: arn:aws:ssm:<region>::parameter/aws/service/…"""
    if name.startswith("arn:"):
        return name.split(":parameter", 1)[-1]
    return name


class Parameters:
    def __init__(self, images: ImageCatalogue, region: str):
        self.images, self.region = images, region

    def handle(self, action: str, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer, or None when the request is about parameters that are not ours."""
        if action == "GetParameter" and is_ours(request.get("Name", "")):
            name = parameter_name(request["Name"])
            value = self.value(name)
            if value is None:
                raise AwsError("ParameterNotFound", "")
            return {"Parameter": self._render(name, *value)}
        if action == "GetParameters" and any(is_ours(n) for n in request.get("Names", [])):
            found, invalid = [], []
            for asked in request["Names"]:
                name = parameter_name(asked)
                value = self.value(name)
                if value:
                    found.append(self._render(name, *value))
                else:
                    invalid.append(asked)
            return {"Parameters": found, "InvalidParameters": invalid}
        if action == "GetParametersByPath" and is_ours(request.get("Path", "").rstrip("/") + "/"):
            prefix = request["Path"].rstrip("/") + "/"
            names = sorted(n for n in self.names() if n.startswith(prefix))
            if not request.get("Recursive"):
                names = [n for n in names if "/" not in n[len(prefix) :]]
            start = int(request.get("NextToken") or 0)
            size = request.get("MaxResults") or 10
            chosen = names[start : start + size]
            answer: dict[str, Any] = {"Parameters": [self._render(n, *self.value(n)) for n in chosen]}
            if start + size < len(names):
                answer["NextToken"] = str(start + size)
            return answer
        return None

    def names(self) -> list[str]:
        bases = [*self.images.aliases, *self.images.parameters]
        return [f"{b}/{leaf}" for b in bases for leaf in ("image_id", "image_name", "release_version")]

    def value(self, name: str) -> tuple[str, Image] | None:
        whole = self._find(name)
        if whole and name.startswith(("/aws/service/eks/", "/aws/service/ami-windows")):
            facts = {"image_id": whole.id, "image_name": whole.name, "release_version": whole.release}
            return json.dumps(facts), whole
        base, _, leaf = name.rpartition("/")
        image = self._find(base)
        if image is None or image.id not in self.images.images:
            return None
        if leaf == "image_id":
            return image.id, image
        if leaf == "image_name":
            return image.name, image
        if leaf in ("release_version", "image_version"):
            return image.release, image
        return None

    def _find(self, path: str) -> Image | None:
        return self.images.aliases.get(path) or self.images.parameters.get(path)

    def _render(self, name: str, value: str, image: Image) -> dict[str, Any]:
        return {
            "Name": name,
            "Type": "String",
            "Value": value,
            "Version": 1,
            "LastModifiedDate": min(parse_time(image.created), time.time()),
            "ARN": f"arn:aws:ssm:{self.region}::parameter{name}",
            "DataType": "text",
        }
