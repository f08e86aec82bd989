"""Pages for Describe calls that moto answers whole: it ignores MaxResults and NextToken, and a client
whose paging is wrong would never find out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from typing import Any

from .filters import Pager
from .httpd import Response
from .wire import NAMESPACE

ACTIONS = ("DescribeSubnets", "DescribeSecurityGroups", "DescribeVpcs", "DescribeSecurityGroupRules")
PAGING = re.compile(r"&?(MaxResults|NextToken)=[^&]*")

tree.register_namespace("", NAMESPACE)


def without_paging(body: bytes) -> bytes:
    """The request as moto should see it: it must give everything."""
    return PAGING.sub("", body.decode()).encode()


def cut(action: str, response: Response, params: dict[str, Any], pager: Pager) -> Response:
    root = tree.fromstring(response.body)
    found = next((child for child in root if len(child) and child[0].tag.endswith("}item")), None)
    if found is None:
        return response
    # moto lists in a stable order; positions of fixed width sort as text.
    items = [(f"{i:09d}", item) for i, item in enumerate(list(found))]
    page, token = pager.page(action, items, lambda entry: entry[0], params, 5, 1000)
    for item in list(found):
        found.remove(item)
    found.extend(item for _, item in page)
    for old in [child for child in root if child.tag.endswith("}nextToken")]:
        root.remove(old)
    if token:
        tree.SubElement(root, f"{{{NAMESPACE}}}nextToken").text = token
    return Response(response.status, response.headers, tree.tostring(root, encoding="utf-8", xml_declaration=True))
