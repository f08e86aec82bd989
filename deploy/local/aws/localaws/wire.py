"""The EC2 query protocol, both ways, driven by botocore's model of the service.

Requests are flat `A.1.B=x` forms, answers are XML. Deriving both from the model means that a field
which an SDK can send or read cannot be forgotten or misspelt here.
"""

from __future__ import annotations

import datetime
from typing import Any
from xml.sax.saxutils import escape

import botocore.session

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Raw(str):
    """XML that was rendered before (the inside of an element), put into an answer as it is."""


class Ec2Wire:
    def __init__(self) -> None:
        self.model = botocore.session.get_session().get_service_model("ec2")
        self._inputs: dict[str, dict[str, tuple[str, Any]]] = {}
        self._outputs: dict[str, list[tuple[str, str, Any]]] = {}

    # ---- requests

    def parse(self, action: str, form: list[tuple[str, str]]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, value in form:
            node = tree
            *path, last = key.split(".")
            for part in path:
                child = node.get(part)
                if not isinstance(child, dict):
                    child = node[part] = {}
                node = child
            node[last] = value
        shape = self.model.operation_model(action).input_shape
        return self._structure(tree, shape) if shape else {}

    def _structure(self, tree: dict[str, Any], shape: Any) -> dict[str, Any]:
        members = self._inputs.get(shape.name)
        if members is None:
            members = {}
            for name, member in shape.members.items():
                serialization = member.serialization
                wire = serialization.get("queryName")
                if not wire:
                    wire = serialization.get("name", name)
                    wire = wire[0].upper() + wire[1:]
                members[wire] = (name, member)
            self._inputs[shape.name] = members
        result = {}
        for wire, value in tree.items():
            known = members.get(wire)
            if known:
                result[known[0]] = self._value(value, known[1])
        return result

    def _value(self, value: Any, shape: Any) -> Any:
        kind = shape.type_name
        if kind == "structure":
            return self._structure(value, shape) if isinstance(value, dict) else {}
        if kind == "list":
            if not isinstance(value, dict):
                return []
            ordered = sorted((int(k), v) for k, v in value.items() if k.isdigit())
            return [self._value(v, shape.member) for _, v in ordered]
        if kind == "boolean":
            return value.lower() == "true"
        if kind in ("integer", "long"):
            return int(value)
        if kind in ("float", "double"):
            return float(value)
        if kind == "timestamp":
            return parse_time(value)
        return value

    # ---- answers

    def render(self, action: str, result: dict[str, Any], request_id: str) -> bytes:
        shape = self.model.operation_model(action).output_shape
        out = [
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{NAMESPACE}">',
            f"<requestId>{request_id}</requestId>",
        ]
        if shape:
            self._render_structure(out, result, shape)
        else:
            out.append("<return>true</return>")
        out.append(f"</{action}Response>")
        return "".join(out).encode()

    def fragment(self, shape_name: str, value: dict[str, Any]) -> Raw:
        """The inside of one element of the named shape, to be kept and reused."""
        out: list[str] = []
        self._render_structure(out, value, self.model.shape_for(shape_name))
        return Raw("".join(out))

    def _members(self, shape: Any) -> list[tuple[str, str, Any]]:
        members = self._outputs.get(shape.name)
        if members is None:
            members = [(n, m.serialization.get("name", n), m) for n, m in shape.members.items()]
            self._outputs[shape.name] = members
        return members

    def _render_structure(self, out: list[str], value: dict[str, Any], shape: Any) -> None:
        if isinstance(value, Raw):
            out.append(value)
            return
        for name, tag, member in self._members(shape):
            inner = value.get(name)
            if inner is None:
                continue
            kind = member.type_name
            if kind == "structure":
                out.append(f"<{tag}>")
                self._render_structure(out, inner, member)
                out.append(f"</{tag}>")
            elif kind == "list":
                item_tag = member.member.serialization.get("name", "item")
                out.append(f"<{tag}>")
                for element in inner:
                    out.append(f"<{item_tag}>")
                    if member.member.type_name == "structure":
                        self._render_structure(out, element, member.member)
                    else:
                        out.append(scalar(element))
                    out.append(f"</{item_tag}>")
                out.append(f"</{tag}>")
            else:
                out.append(f"<{tag}>{scalar(inner)}</{tag}>")


def scalar(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, datetime.datetime):
        return format_time(value.timestamp())
    return escape(str(value))


def format_time(epoch: float) -> str:
    moment = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def when(epoch: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)


def parse_time(text: str) -> float:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp()


def error_xml(code: str, message: str, request_id: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
        f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
        f"<RequestID>{request_id}</RequestID></Response>"
    ).encode()
