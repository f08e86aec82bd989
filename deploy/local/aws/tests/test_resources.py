"""Launch templates, capacity reservations, placement groups, the EKS cluster, zonal shifts, events."""

from __future__ import annotations

import base64
import json

from .local_aws import CLUSTER, LocalAws, client, control


class Templates(LocalAws):
    def test_a_template_is_found_by_name_id_and_tag_and_deleted_once(self) -> None:
        tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}]
        made = self.ec2.create_launch_template(
            LaunchTemplateName="karpenter.k8s.aws/1", LaunchTemplateData={"ImageId": "ami-1"}, TagSpecifications=tags
        )["LaunchTemplate"]
        by_tag = [{"Name": "tag:eks:eks-cluster-name", "Values": [CLUSTER]}]
        for arguments in (
            {"LaunchTemplateNames": ["karpenter.k8s.aws/1"]},
            {"LaunchTemplateIds": [made["LaunchTemplateId"]]},
            {"Filters": by_tag},
        ):
            found = self.ec2.describe_launch_templates(**arguments)["LaunchTemplates"]
            self.assertEqual([made["LaunchTemplateId"]], [t["LaunchTemplateId"] for t in found])
        self.ec2.delete_launch_template(LaunchTemplateId=made["LaunchTemplateId"])
        code = self.refused(self.ec2.delete_launch_template, LaunchTemplateId=made["LaunchTemplateId"])
        self.assertEqual("InvalidLaunchTemplateId.NotFound", code)
        code = self.refused(self.ec2.describe_launch_templates, LaunchTemplateNames=["karpenter.k8s.aws/1"])
        self.assertEqual("InvalidLaunchTemplateName.NotFoundException", code)

    def test_a_name_can_be_used_once(self) -> None:
        self.template("unit/twice")
        self.assertEqual("InvalidLaunchTemplateName.AlreadyExistsException", self.refused(self.template, "unit/twice"))

    def test_versions_hold_the_data_that_was_sent(self) -> None:
        self.template("unit/versions")
        self.ec2.create_launch_template_version(
            LaunchTemplateName="unit/versions", SourceVersion="1", LaunchTemplateData={"InstanceType": "m5.large"}
        )
        answer = self.ec2.describe_launch_template_versions(LaunchTemplateName="unit/versions", Versions=["$Latest"])
        (latest,) = answer["LaunchTemplateVersions"]
        self.assertEqual((2, "m5.large"), (latest["VersionNumber"], latest["LaunchTemplateData"]["InstanceType"]))
        self.assertEqual(b"#!/bin/sh\n", base64.b64decode(latest["LaunchTemplateData"]["UserData"]))

    def test_templates_are_paged(self) -> None:
        for i in range(7):
            self.template(f"unit/page-{i}")
        pages = list(self.ec2.get_paginator("describe_launch_templates").paginate(PaginationConfig={"PageSize": 3}))
        self.assertEqual([3, 3, 1], [len(p["LaunchTemplates"]) for p in pages])


class Reservations(LocalAws):
    def reserve(self, **more: object) -> str:
        body = {"instanceType": "m5.large", "zone": "us-west-2a", "total": 1, **more}
        return control("PUT", "/capacity-reservation", body)["id"]

    def available(self, reservation: str) -> int:
        found = self.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"]
        return found[0]["AvailableInstanceCount"]

    def test_a_targeted_launch_uses_the_reservation_until_it_is_full(self) -> None:
        reservation = self.reserve(criteria="targeted", total=2)
        target = {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        }
        self.template(CapacityReservationSpecification=target)
        overrides = [{"InstanceType": "m5.large", "SubnetId": self.subnets["us-west-2a"]}]
        # Reserved capacity is there even when the open pool is dry.
        control("PUT", "/ice", instanceType="m5.large")
        answer = self.fleet([], count=3, overrides=overrides)
        self.assertEqual(2, len(answer["Ids"]))
        self.assertEqual(["ReservationCapacityExceeded"], [e["ErrorCode"] for e in answer["Errors"]])
        found = self.describe(answer["Ids"][0])
        self.assertEqual(reservation, found["CapacityReservationId"])
        self.assertEqual("capacity-reservations-only", found["CapacityReservationSpecification"]["CapacityReservationPreference"])
        self.assertEqual(0, self.available(reservation))
        self.ec2.terminate_instances(InstanceIds=answer["Ids"][:1])
        self.assertEqual(1, self.available(reservation))

    def test_an_open_reservation_is_used_without_asking_unless_opted_out(self) -> None:
        reservation = self.reserve()
        overrides = [{"InstanceType": "m5.large", "SubnetId": self.subnets["us-west-2a"]}]
        self.template("unit/out", CapacityReservationSpecification={"CapacityReservationPreference": "none"})
        self.fleet([], overrides=overrides, template="unit/out")
        self.assertEqual(1, self.available(reservation))
        self.template()
        self.fleet([], overrides=overrides)
        self.assertEqual(0, self.available(reservation))

    def test_reservations_first_prefers_a_dearer_reserved_pool(self) -> None:
        self.reserve(instanceType="m5.xlarge", zone="us-west-2b")
        self.template()
        options = {"CapacityReservationOptions": {"UsageStrategy": "use-capacity-reservations-first"}}
        answer = self.fleet(["c5.large", "m5.xlarge"], OnDemandOptions=options)
        self.assertEqual("m5.xlarge", answer["Instances"][0]["InstanceType"])

    def test_instances_of_a_cancelled_reservation_run_on_without_it(self) -> None:
        overrides = [{"InstanceType": "m5.large", "SubnetId": self.subnets["us-west-2a"]}]
        self.template()
        for cancel in (
            lambda id: self.ec2.cancel_capacity_reservation(CapacityReservationId=id),
            lambda id: control("PUT", "/capacity-reservation", id=id, state="cancelled"),
        ):
            reservation = self.reserve()
            (instance_id,) = self.fleet([], overrides=overrides)["Ids"]
            self.assertEqual(reservation, self.describe(instance_id)["CapacityReservationId"])
            cancel(reservation)
            found = self.describe(instance_id)
            self.assertNotIn("CapacityReservationId", found)
            self.assertEqual("running", found["State"]["Name"])

    def test_filters_and_unknown_ids(self) -> None:
        mine = self.reserve(tags={"team": "a"}, criteria="targeted")
        self.reserve()
        filters = [{"Name": "tag:team", "Values": ["a"]}, {"Name": "state", "Values": ["active"]}]
        found = self.ec2.describe_capacity_reservations(Filters=filters)["CapacityReservations"]
        self.assertEqual([mine], [r["CapacityReservationId"] for r in found])
        code = self.refused(self.ec2.describe_capacity_reservations, CapacityReservationIds=["cr-0123456789abcdef0"])
        self.assertEqual("InvalidCapacityReservationId.NotFound", code)


class PlacementGroups(LocalAws):
    def test_groups_are_described_and_unknown_ones_are_an_error(self) -> None:
        made = self.ec2.create_placement_group(GroupName="parts", Strategy="partition", PartitionCount=3)["PlacementGroup"]
        (found,) = self.ec2.describe_placement_groups(GroupIds=[made["GroupId"]])["PlacementGroups"]
        self.assertEqual(("partition", 3, "available"), (found["Strategy"], found["PartitionCount"], found["State"]))
        code = self.refused(self.ec2.describe_placement_groups, GroupNames=["none"])
        self.assertEqual("InvalidPlacementGroup.Unknown", code)

    def test_partitions_are_filled_evenly_and_spread_groups_have_a_limit(self) -> None:
        parts = self.ec2.create_placement_group(GroupName="parts", Strategy="partition", PartitionCount=3)["PlacementGroup"]
        self.template("unit/parts", Placement={"GroupId": parts["GroupId"]})
        ids = self.fleet(["m5.large"], count=3, template="unit/parts")["Ids"]
        numbers = {self.describe(i)["Placement"]["PartitionNumber"] for i in ids}
        self.assertEqual({1, 2, 3}, numbers)
        self.ec2.create_placement_group(GroupName="wide", Strategy="spread")
        self.template("unit/wide", Placement={"GroupName": "wide"})
        overrides = [{"InstanceType": "m5.large", "SubnetId": self.subnets["us-west-2a"]}]
        answer = self.fleet([], count=8, overrides=overrides, template="unit/wide")
        self.assertEqual(7, len(answer["Ids"]))
        self.assertIn("limit of instances in this spread placement group", answer["Errors"][0]["ErrorMessage"])


class Network(LocalAws):
    def test_subnets_and_groups_are_paged_like_everything_else(self) -> None:
        everything = [s["SubnetId"] for s in self.ec2.describe_subnets()["Subnets"]]
        pages = list(self.ec2.get_paginator("describe_subnets").paginate(PaginationConfig={"PageSize": 5}))
        self.assertGreater(len(pages), 1)
        self.assertEqual(everything, [s["SubnetId"] for p in pages for s in p["Subnets"]])
        control("PUT", "/partial-pages", action="DescribeSecurityGroups", size=1)
        filters = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]
        pages = list(self.ec2.get_paginator("describe_security_groups").paginate(Filters=filters))
        self.assertEqual([[g] for g in self.groups], [[g["GroupId"] for g in p["SecurityGroups"]] for p in pages])

    def test_profiles_carry_path_tags_and_role(self) -> None:
        iam, name, path = client("iam"), "unit_profile", f"/karpenter/us-west-2/{CLUSTER}/uid/"
        iam.create_instance_profile(InstanceProfileName=name, Path=path, Tags=[{"Key": "a", "Value": "b"}])
        try:
            code = self.refused(iam.add_role_to_instance_profile, InstanceProfileName=name, RoleName="nobody")
            self.assertEqual("NoSuchEntity", code)
            self.assertIn("ole", self.message)
            role = f"KarpenterNodeRole-{CLUSTER}"
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
            listed = iam.list_instance_profiles(PathPrefix=f"/karpenter/us-west-2/{CLUSTER}/")["InstanceProfiles"]
            self.assertEqual([name], [p["InstanceProfileName"] for p in listed])
            pages = list(iam.get_paginator("list_instance_profiles").paginate(PaginationConfig={"PageSize": 1}))
            self.assertGreater(len(pages), 1)
            found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
            self.assertEqual([role], [r["RoleName"] for r in found["Roles"]])
            self.assertEqual([{"Key": "a", "Value": "b"}], found["Tags"])
            self.assertEqual("EntityAlreadyExists", self.refused(iam.create_instance_profile, InstanceProfileName=name))
            self.assertEqual("DeleteConflict", self.refused(iam.delete_instance_profile, InstanceProfileName=name))
        finally:
            for attached in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
                iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=attached["RoleName"])
            iam.delete_instance_profile(InstanceProfileName=name)


    def test_a_node_role_has_the_policies_of_aws(self) -> None:
        attached = client("iam").list_attached_role_policies(RoleName=f"KarpenterNodeRole-{CLUSTER}")["AttachedPolicies"]
        self.assertIn("arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly", [p["PolicyArn"] for p in attached])


class Cluster(LocalAws):
    def test_the_cluster_has_its_real_endpoint_and_certificate(self) -> None:
        cluster = client("eks").describe_cluster(name=CLUSTER)["cluster"]
        self.assertEqual(("https://127.0.0.1:6443", "1.35"), (cluster["endpoint"], cluster["version"]))
        self.assertIn(b"BEGIN CERTIFICATE", base64.b64decode(cluster["certificateAuthority"]["data"]))
        self.assertEqual("10.96.0.0/16", cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"])
        self.assertEqual("ResourceNotFoundException", self.refused(client("eks").describe_cluster, name="other"))

    def test_a_zonal_shift_is_seen_until_it_is_cancelled(self) -> None:
        arn = client("eks").describe_cluster(name=CLUSTER)["cluster"]["arn"]
        shift = client("arc-zonal-shift")
        self.assertEqual([], shift.get_managed_resource(resourceIdentifier=arn)["zonalShifts"])
        control("PUT", "/zonal-shift", zoneId="usw2-az1")
        (found,) = shift.get_managed_resource(resourceIdentifier=arn)["zonalShifts"]
        self.assertEqual(("usw2-az1", "APPLIED"), (found["awayFrom"], found["appliedStatus"]))
        shift.cancel_zonal_shift(zonalShiftId=found["zonalShiftId"])
        self.assertEqual([], shift.get_managed_resource(resourceIdentifier=arn)["zonalShifts"])

    def test_seeding_again_changes_nothing(self) -> None:
        from seed import Seed

        from .local_aws import REGION, server

        self.assertEqual(self.seeded, Seed(server()["endpoint"], REGION, CLUSTER).run())


class Events(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.sqs = client("sqs")
        self.queue = self.seeded["queue"]
        self.sqs.purge_queue(QueueUrl=self.queue)

    def receive(self) -> list[dict]:
        """Waits up to the longest poll for a message and deletes what came."""
        found = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=20).get("Messages", [])
        for message in found:
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(m["Body"]) for m in found]

    def test_what_is_put_on_the_bus_arrives_whole(self) -> None:
        detail = {"instance-id": "i-1", "instance-action": "terminate"}
        entry = {"Source": "aws.ec2", "DetailType": "EC2 Spot Instance Interruption Warning", "Detail": json.dumps(detail)}
        client("events").put_events(Entries=[entry, {**entry, "DetailType": "nobody wants this"}])
        (event,) = self.receive()
        self.assertEqual(("0", "aws.ec2", detail), (event["version"], event["source"], event["detail"]))
        self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(event["account"] and event["region"] == "us-west-2" and event["id"])

    def test_an_interrupted_instance_is_warned_and_then_ends(self) -> None:
        self.template()
        (instance_id,) = self.fleet(["m5.large"], kind="spot")["Ids"]
        control("POST", "/interrupt", id=instance_id, graceMs=1)
        seen = []
        while "terminated" not in seen:
            for event in self.receive():
                self.assertEqual(instance_id, event["detail"]["instance-id"])
                seen.append(event["detail"].get("instance-action") and "warned" or event["detail"]["state"])
        self.assertEqual(["warned", "shutting-down", "terminated"], seen)

    def test_a_message_that_is_not_deleted_comes_again(self) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody="again")
        first = self.sqs.receive_message(QueueUrl=self.queue, VisibilityTimeout=1)["Messages"][0]
        self.assertNotIn("Messages", self.sqs.receive_message(QueueUrl=self.queue))
        second = self.sqs.receive_message(
            QueueUrl=self.queue, WaitTimeSeconds=20, MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"]
        )["Messages"][0]
        self.assertEqual((first["MessageId"], "2"), (second["MessageId"], second["Attributes"]["ApproximateReceiveCount"]))
        self.assertIn("SentTimestamp", second["Attributes"])

    def test_visibility_is_changed_in_batches_entry_by_entry(self) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody="held")
        held = self.sqs.receive_message(QueueUrl=self.queue, VisibilityTimeout=600)["Messages"][0]
        answer = self.sqs.change_message_visibility_batch(
            QueueUrl=self.queue,
            Entries=[
                {"Id": "a", "ReceiptHandle": held["ReceiptHandle"], "VisibilityTimeout": 0},
                {"Id": "b", "ReceiptHandle": "unknown", "VisibilityTimeout": 0},
            ],
        )
        self.assertEqual(["a"], [entry["Id"] for entry in answer["Successful"]])
        self.assertEqual(["b"], [entry["Id"] for entry in answer["Failed"]])
        again = self.sqs.receive_message(QueueUrl=self.queue, WaitTimeSeconds=20)["Messages"][0]
        self.assertEqual(held["MessageId"], again["MessageId"])

    def test_a_missing_queue_has_the_right_error(self) -> None:
        with self.assertRaises(self.sqs.exceptions.QueueDoesNotExist):
            self.sqs.get_queue_url(QueueName="none")
