"""Fills a fresh local AWS with what a cluster's owner installs before the autoscaler: network, node
role, EKS cluster, interruption queue and EventBridge rules. Running it again changes nothing.

    python seed.py --endpoint http://127.0.0.1:5555 --cluster-name demo --region us-west-2
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

VPC_RANGE = "10.0.0.0/16"
ZONES = 4
NODE_POLICIES = (
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
# Rule name suffix, event source, detail type, extra pattern. State changes of starting instances
# concern nobody, so only those of ending ones are asked for.
RULES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("ScheduledChangeRule", "aws.health", "AWS Health Event", {}),
    ("SpotInterruptionRule", "aws.ec2", "EC2 Spot Instance Interruption Warning", {}),
    ("RebalanceRule", "aws.ec2", "EC2 Instance Rebalance Recommendation", {}),
    (
        "InstanceStateChangeRule",
        "aws.ec2",
        "EC2 Instance State-change Notification",
        {"detail": {"state": ["stopping", "stopped", "shutting-down", "terminated"]}},
    ),
    ("CapacityReservationInterruptionRule", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", {}),
)


class Seed:
    def __init__(self, endpoint: str, region: str, cluster: str):
        self.region, self.cluster = region, cluster
        session = boto3.Session(
            # A name of its own, so that its calls are told from the services' in the call log.
            aws_access_key_id="seed",
            aws_secret_access_key="seed",
            region_name=region,
        )
        config = Config(retries={"max_attempts": 5}, connect_timeout=5, read_timeout=60)

        def client(name: str) -> Any:
            return session.client(name, endpoint_url=endpoint, config=config)

        self.ec2, self.iam, self.eks = client("ec2"), client("iam"), client("eks")
        self.sqs, self.events, self.sts = client("sqs"), client("events"), client("sts")

    def run(self) -> dict[str, Any]:
        vpc = self.vpc()
        subnets = self.subnets(vpc)
        groups = self.security_groups(vpc)
        role = self.node_role()
        self.eks_cluster(subnets["private"], groups)
        queue = self.queue()
        return {"vpc": vpc, "subnets": subnets, "securityGroups": groups, "nodeRole": role, "queue": queue}

    def tags(self, name: str, **more: str) -> list[dict[str, str]]:
        tags = {"Name": name, f"kubernetes.io/cluster/{self.cluster}": "owned", **more}
        return [{"Key": k, "Value": v} for k, v in tags.items()]

    def discovery(self) -> dict[str, str]:
        return {"karpenter.sh/discovery": self.cluster}

    def vpc(self) -> str:
        name = f"{self.cluster}/vpc"
        found = self.ec2.describe_vpcs(Filters=[{"Name": "tag:Name", "Values": [name]}])["Vpcs"]
        if found:
            return found[0]["VpcId"]
        specification = [{"ResourceType": "vpc", "Tags": self.tags(name)}]
        return self.ec2.create_vpc(CidrBlock=VPC_RANGE, TagSpecifications=specification)["Vpc"]["VpcId"]

    def subnets(self, vpc: str) -> dict[str, list[str]]:
        zones = [z["ZoneName"] for z in self.ec2.describe_availability_zones()["AvailabilityZones"]][:ZONES]
        existing = self.ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
        by_range = {s["CidrBlock"]: s["SubnetId"] for s in existing}
        # The lower half of the range is private (nodes live there), the upper half public.
        lower, upper = ipaddress.IPv4Network(VPC_RANGE).subnets(1)
        private = list(lower.subnets(new_prefix=19))
        public = list(upper.subnets(new_prefix=22))
        made: dict[str, list[str]] = {"private": [], "public": []}
        for i, zone in enumerate(zones):
            kinds = (
                ("private", private[i], {**self.discovery(), "kubernetes.io/role/internal-elb": "1"}),
                ("public", public[i], {"kubernetes.io/role/elb": "1"}),
            )
            for kind, block, extra in kinds:
                subnet = by_range.get(str(block))
                if subnet is None:
                    tags = self.tags(f"{self.cluster}/{kind}-{zone}", **extra)
                    answer = self.ec2.create_subnet(
                        VpcId=vpc,
                        CidrBlock=str(block),
                        AvailabilityZone=zone,
                        TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
                    )
                    subnet = answer["Subnet"]["SubnetId"]
                made[kind].append(subnet)
        return made

    def security_groups(self, vpc: str) -> list[str]:
        made = []
        for name in (f"eks-cluster-sg-{self.cluster}", f"{self.cluster}-node"):
            filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": [name]}]
            found = self.ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
            if found:
                made.append(found[0]["GroupId"])
                continue
            tags = self.tags(name, **self.discovery())
            answer = self.ec2.create_security_group(
                GroupName=name,
                Description=name,
                VpcId=vpc,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
            )
            made.append(answer["GroupId"])
        return made

    def node_role(self) -> str:
        role = f"KarpenterNodeRole-{self.cluster}"
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
        }
        once("EntityAlreadyExists", self.iam.create_role, RoleName=role, AssumeRolePolicyDocument=json.dumps(trust))
        for policy in NODE_POLICIES:
            self.iam.attach_role_policy(RoleName=role, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        profile = f"KarpenterNodeInstanceProfile-{self.cluster}"
        once("EntityAlreadyExists", self.iam.create_instance_profile, InstanceProfileName=profile)
        if not self.iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]:
            self.iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
        return role

    def eks_cluster(self, subnets: list[str], groups: list[str]) -> None:
        account = self.sts.get_caller_identity()["Account"]
        once(
            "ResourceInUseException",
            self.eks.create_cluster,
            name=self.cluster,
            roleArn=f"arn:aws:iam::{account}:role/eks-{self.cluster}",
            resourcesVpcConfig={"subnetIds": subnets, "securityGroupIds": groups},
        )

    def queue(self) -> str:
        attributes = {"MessageRetentionPeriod": "300", "SqsManagedSseEnabled": "true"}
        try:
            url = self.sqs.get_queue_url(QueueName=self.cluster)["QueueUrl"]
        except self.sqs.exceptions.QueueDoesNotExist:
            url = self.sqs.create_queue(QueueName=self.cluster, Attributes=attributes)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        for name, source, detail_type, extra in RULES:
            rule = f"{self.cluster}-{name}"
            pattern = {"source": [source], "detail-type": [detail_type], **extra}
            self.events.put_rule(Name=rule, EventPattern=json.dumps(pattern), State="ENABLED")
            targets = self.events.list_targets_by_rule(Rule=rule)["Targets"]
            if not targets:
                self.events.put_targets(Rule=rule, Targets=[{"Id": "KarpenterInterruptionQueueTarget", "Arn": arn}])
        return url


def once(already: str, call: Any, **arguments: Any) -> None:
    """Calls, and takes the named error for success: the thing is there."""
    try:
        call(**arguments)
    except ClientError as error:
        if already not in error.response["Error"]["Code"]:
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", required=True, help="URL of the local AWS")
    parser.add_argument("--cluster-name", required=True)
    parser.add_argument("--region", default=os.environ.get("AWS_REGION", "us-west-2"))
    args = parser.parse_args()
    print(json.dumps(Seed(args.endpoint, args.region, args.cluster_name).run()))


if __name__ == "__main__":
    main()
