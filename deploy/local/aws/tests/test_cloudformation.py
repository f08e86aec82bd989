"""deploy/aws/cloudformation.yaml, applied: its policies are the files in deploy/aws/policies with their values filled in, it joins
what is there, and its names fit for every name of a cluster. The same policies are what Terraform fills in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .local_aws import LocalAws, client

AWS = Path(__file__).resolve().parents[3] / "aws"
ACCOUNT = "123456789012"
ROLES = [f"arn:aws:iam::{ACCOUNT}:role/old", f"arn:aws:iam::{ACCOUNT}:role/older"]
QUEUE = f"arn:aws:sqs:us-west-2:{ACCOUNT}:existing"
PROFILES, RULES = "ProvisionerProfilesPolicy", "InterruptionRulesPolicy"
POLICIES = {
    "ProvisionerPolicy": "provisioner",
    PROFILES: "provisioner-profiles",
    "TerminationPolicy": "termination",
    "InterruptionWatcherPolicy": "interruption-watcher",
    "PricingCachePolicy": "pricing-cache",
}


def text(name: str) -> str:
    return (AWS / "policies" / f"{name}.json").read_text()


def filled(name: str, cluster: str, roles: list[str], queue: str, prefix: str) -> Any:
    values = {
        "Partition": "aws", "Region": "us-west-2", "Account": ACCOUNT, "ClusterName": cluster,
        "ClusterArn": f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/{cluster}", "NodeRoleArns": '", "'.join(roles),
        "QueueArn": queue, "RulePrefix": prefix,
    }  # fmt: skip
    return json.loads(re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text(name)))


class CloudFormation(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.cloudformation = client("cloudformation")
        self.iam = client("iam")

    def apply(self, stack: str, cluster: str, **parameters: str) -> dict[str, str]:
        given = {"ClusterName": cluster, **parameters}
        self.cloudformation.create_stack(
            StackName=stack,
            TemplateBody=(AWS / "cloudformation.yaml").read_text(),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        )
        self.addCleanup(self.cloudformation.delete_stack, StackName=stack)
        made = self.cloudformation.list_stack_resources(StackName=stack)["StackResourceSummaries"]
        return {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in made if r.get("PhysicalResourceId")}

    def policy(self, arn: str) -> Any:
        version = self.iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        return self.iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]

    def test_policies_are_the_files_with_their_values(self) -> None:
        made = self.apply("fresh", "blue")
        role = f"arn:aws:iam::{ACCOUNT}:role/KarpenterNodeRole-blue"
        for resource, file in POLICIES.items():
            wanted = filled(file, "blue", [role], f"arn:aws:sqs:us-west-2:{ACCOUNT}:blue", "blue")
            self.assertEqual(wanted, self.policy(made[resource]), file)
        self.assertNotIn(RULES, made)
        rules = [name for name in made if name.endswith("Rule")]
        self.assertEqual(5, len(rules))

    def test_it_joins_existing_node_roles_and_an_existing_queue(self) -> None:
        made = self.apply(
            "join", "green", NodeRoleArns=",".join(ROLES), QueueArn=QUEUE, ManageRules="true", WindowsNodes="true"
        )
        for resource in ("NodeRole", "InterruptionQueue", "InterruptionQueuePolicy", "SpotInterruptionRule"):
            self.assertNotIn(resource, made)
        roles = [*ROLES, f"arn:aws:iam::{ACCOUNT}:role/KarpenterWindowsNodeRole-green"]
        self.assertEqual(filled("provisioner-profiles", "green", roles, QUEUE, "green"), self.policy(made[PROFILES]))
        self.assertEqual(filled("interruption-rules", "green", roles, QUEUE, "green"), self.policy(made[RULES]))

    def test_boundary_path_and_dead_letters(self) -> None:
        boundary = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
        made = self.apply("more", "red", PermissionsBoundary=boundary, Path="/nodes/", DeadLetterQueue="true")
        for resource in ("NodeRole", "ProvisionerRole", "TerminationRole", "InterruptionWatcherRole", "PricingCacheRole"):
            role = self.iam.get_role(RoleName=made[resource])["Role"]
            self.assertEqual(("/nodes/", boundary), (role["Path"], role["PermissionsBoundary"]["PermissionsBoundaryArn"]))
        self.assertIn("DeadLetters", made)

    def test_names_fit_for_the_longest_name_of_a_cluster(self) -> None:
        cluster = "c" * 100
        made = self.apply("long", cluster, ShortName="c" * 39, WindowsNodes="true", ManageRules="true", RulePrefix="c" * 19 + "-*")
        for name, physical in made.items():
            if name.endswith("Role"):
                self.assertLessEqual(len(physical), 64, physical)
        (put, _) = self.policy(made[RULES])["Statement"]
        self.assertIn(f"arn:aws:events:us-west-2:{ACCOUNT}:rule/{'c' * 19}-*-RebalanceRule", put["Resource"])
        document = json.dumps(self.policy(made["ProvisionerPolicy"]), separators=(",", ":"))
        self.assertLess(len(document), 6144, "IAM's limit for a managed policy")

    def test_terraform_fills_in_the_same_values(self) -> None:
        main = (AWS / "terraform" / "main.tf").read_text()
        given = set(re.findall(r"^    (\w+)\s+= ", main[main.index("policy_values = {") :].split("\n  }")[0], re.M))
        used = {name for file in (AWS / "policies").glob("*.json") for name in re.findall(r"\$\{(\w+)\}", file.read_text())}
        self.assertEqual(used, given)
