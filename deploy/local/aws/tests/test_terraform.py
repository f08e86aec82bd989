"""deploy/aws/terraform as Terraform itself evaluates it, without a provider: what comes from AWS is filled in here. Its policies are
the files in deploy/aws/policies, and its queue takes messages from this account only, as in CloudFormation."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import yaml
from moto.cloudformation.utils import yaml_tag_constructor

from .test_cloudformation import ACCOUNT, AWS, QUEUE, ROLES, filled

TERRAFORM = AWS / "terraform"
OWN_QUEUE = f"arn:aws:sqs:us-west-2:{ACCOUNT}:"
NODE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/KarpenterNodeRole-"
WINDOWS_ROLE = f"arn:aws:iam::{ACCOUNT}:role/KarpenterWindowsNodeRole-"
# What Terraform asks AWS or makes there.
KNOWN_AFTERWARDS = {
    "data.aws_partition.current.partition": '"aws"',
    "data.aws_partition.current.dns_suffix": '"amazonaws.com"',
    "data.aws_region.current.name": '"us-west-2"',
    "data.aws_caller_identity.current.account_id": f'"{ACCOUNT}"',
    "aws_iam_role.node[0].arn": f'"{NODE_ROLE}${{local.node_name}}"',
    "aws_iam_role.windows_node[*].arn": f'[for made in range(var.windows_nodes ? 1 : 0) : "{WINDOWS_ROLE}${{local.node_name}}"]',
    "aws_sqs_queue.interruption[0].arn": f'"{OWN_QUEUE}${{local.queue_name}}"',
}
POLICIES = {file.stem for file in (AWS / "policies").glob("*.json")}


def block(text: str, begin: str, end: str) -> str:
    start = text.index(begin)
    return text[start : text.index(end, start) + len(end)]


def known(text: str) -> str:
    for reference, value in KNOWN_AFTERWARDS.items():
        text = text.replace(reference, value)
    left = re.findall(r"\bdata\.aws_\w+|\baws_\w+\.\w+\[", text)
    if left:
        raise AssertionError(f"no test knows a value of {left}")
    return text


def evaluated(**variables: Any) -> dict[str, Any]:
    """The policies by file, and that of the queue."""
    main, queue = (TERRAFORM / "main.tf").read_text(), (TERRAFORM / "queue.tf").read_text()
    # As the resources have it; path.module is where this copy is.
    template = re.search(r'policy\s+= (templatefile\("\$\{path\.module}/\.\./policies/\$\{each\.key}\.json", local\.policy_values\))', main)
    assert template, "aws_iam_policy.service fills in a file of ../policies"
    call = template[1].replace("${path.module}/..", str(AWS)).replace("each.key", "name")
    statement = block(queue, "policy = jsonencode({", "\n  })").removeprefix("policy = ")
    text = [
        (TERRAFORM / "variables.tf").read_text(),
        known(block(main, "\nlocals {", "\n}")),
        "locals {",
        f"  test_files = {json.dumps(sorted(POLICIES))}",
        f"  test_policies = {{ for name in local.test_files : name => jsondecode({call}) }}",
        f"  test_queue = {known(statement)}",
        "  test_result = jsonencode({ policies = local.test_policies, queue = jsondecode(local.test_queue) })",
        "}",
    ]
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "main.tf").write_text("\n".join(text))
        (Path(home) / "terraform.tfvars.json").write_text(json.dumps(variables))
        done = subprocess.run(
            ["terraform", "console"], cwd=home, input="local.test_result\n", capture_output=True, text=True
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(json.loads(done.stdout))


class WithTags(yaml.SafeLoader):
    """Knows !Ref and the like."""


WithTags.add_multi_constructor("!", lambda loader, suffix, node: yaml_tag_constructor(loader, f"!{suffix}", node))


def queue_policy_of_cloudformation() -> Any:
    template = yaml.load((AWS / "cloudformation.yaml").read_text(), WithTags)

    def plain(value: Any) -> Any:
        match value:
            case {"Ref": "AWS::AccountId"}:
                return ACCOUNT
            case {"Fn::GetAtt": ["InterruptionQueue", "Arn"]}:
                return f"{OWN_QUEUE}blue"
            case dict():
                return {key: plain(each) for key, each in value.items()}
            case list():
                return [plain(each) for each in value]
        return value

    return plain(template["Resources"]["InterruptionQueuePolicy"]["Properties"]["PolicyDocument"])


class QueuePolicy(unittest.TestCase):
    def test_messages_come_from_this_account_only_and_encrypted(self) -> None:
        allow, deny = queue_policy_of_cloudformation()["Statement"]
        self.assertEqual(("Allow", "sqs:SendMessage"), (allow["Effect"], allow["Action"]))
        self.assertEqual({"StringEquals": {"aws:SourceAccount": ACCOUNT}}, allow["Condition"])
        self.assertEqual({"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]}, allow["Principal"])
        self.assertEqual(("Deny", "sqs:*", "*"), (deny["Effect"], deny["Action"], deny["Principal"]))


@unittest.skipUnless(shutil.which("terraform"), "terraform is not installed")
class Terraform(unittest.TestCase):
    def test_policies_are_the_files_with_their_values(self) -> None:
        made = evaluated(cluster_name="blue")["policies"]
        for name in POLICIES:
            self.assertEqual(filled(name, "blue", [f"{NODE_ROLE}blue"], f"{OWN_QUEUE}blue", "blue"), made[name], name)

    def test_it_joins_existing_node_roles_and_an_existing_queue(self) -> None:
        made = evaluated(cluster_name="green", node_role_arns=ROLES, queue_arn=QUEUE, windows_nodes=True)["policies"]
        for name in POLICIES:
            self.assertEqual(filled(name, "green", [*ROLES, f"{WINDOWS_ROLE}green"], QUEUE, "green"), made[name], name)

    def test_a_long_name_of_a_cluster_is_shortened_as_the_rules_are(self) -> None:
        cluster = "c" * 100
        made = evaluated(cluster_name=cluster)["policies"]["interruption-rules"]
        (put, _) = made["Statement"]
        self.assertIn(f"arn:aws:events:us-west-2:{ACCOUNT}:rule/{'c' * 19}-*-RebalanceRule", put["Resource"])

    def test_the_queue_has_the_same_policy_as_that_of_cloudformation(self) -> None:
        self.assertEqual(queue_policy_of_cloudformation(), evaluated(cluster_name="blue")["queue"])


if __name__ == "__main__":
    unittest.main()
