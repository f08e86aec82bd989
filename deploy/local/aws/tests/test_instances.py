"""Instances: what they carry, how their state moves, and the calls about them."""

from __future__ import annotations

from .local_aws import CLUSTER, LocalAws, client, control, until


class Launched(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template(
            BlockDeviceMappings=[
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": 57, "VolumeType": "gp3", "Encrypted": True, "Iops": 4000, "Throughput": 200},
                }
            ],
            MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 3},
            Monitoring={"Enabled": True},
            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}]}],
        )

    def test_an_instance_carries_what_its_template_and_the_request_said(self) -> None:
        tags = [{"Key": "karpenter.sh/nodepool", "Value": "default"}]
        specs = [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")]
        (instance_id,) = self.fleet(["m5.large"], TagSpecifications=specs)["Ids"]
        found = self.describe(instance_id)
        self.assertEqual("running", found["State"]["Name"])
        self.assertEqual(self.image(), found["ImageId"])
        self.assertEqual("x86_64", found["Architecture"])
        self.assertTrue(found["IamInstanceProfile"]["Arn"].endswith(f"/KarpenterNodeInstanceProfile-{CLUSTER}"))
        self.assertEqual(set(self.groups), {g["GroupId"] for g in found["SecurityGroups"]})
        self.assertEqual(("required", 3), (found["MetadataOptions"]["HttpTokens"], found["MetadataOptions"]["HttpPutResponseHopLimit"]))
        self.assertEqual("enabled", found["Monitoring"]["State"])
        zone = found["Placement"]["AvailabilityZone"]
        self.assertEqual(self.subnets[zone], found["SubnetId"])
        zones = self.ec2.describe_availability_zones(ZoneNames=[zone])["AvailabilityZones"]
        self.assertEqual(zones[0]["ZoneId"], found["Placement"]["AvailabilityZoneId"])
        address = found["PrivateIpAddress"].replace(".", "-")
        self.assertEqual(f"ip-{address}.us-west-2.compute.internal", found["PrivateDnsName"])
        by_key = {t["Key"]: t["Value"] for t in found["Tags"]}
        self.assertEqual(("template", "default"), (by_key["from"], by_key["karpenter.sh/nodepool"]))
        self.assertNotIn("SpotInstanceRequestId", found)
        (volume,) = self.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance_id]}])["Volumes"]
        self.assertEqual((57, "gp3", True, 4000, 200), tuple(volume[k] for k in ("Size", "VolumeType", "Encrypted", "Iops", "Throughput")))
        self.assertEqual(tags, volume["Tags"])

    def test_a_spot_instance_has_its_request(self) -> None:
        (instance_id,) = self.fleet(["m5.large"], kind="spot")["Ids"]
        found = self.describe(instance_id)
        self.assertEqual("spot", found["InstanceLifecycle"])
        self.assertTrue(found["SpotInstanceRequestId"].startswith("sir-"))
        mine = [{"Name": "instance-id", "Values": [instance_id]}]
        (request,) = self.ec2.describe_spot_instance_requests(Filters=mine)["SpotInstanceRequests"]
        self.assertEqual((found["SpotInstanceRequestId"], "fulfilled"), (request["SpotInstanceRequestId"], request["Status"]["Code"]))
        control("POST", "/interrupt", id=instance_id, terminate=False)
        marked = [*mine, {"Name": "status-code", "Values": ["marked-for-termination"]}]
        self.assertEqual(1, len(self.ec2.describe_spot_instance_requests(Filters=marked)["SpotInstanceRequests"]))

    def test_interfaces_and_spot_requests_of_a_launch_are_listed_with_their_tags(self) -> None:
        tags = [{"Key": "team", "Value": "a"}]
        kinds = ("network-interface", "spot-instances-request")
        self.template(
            name="unit/interfaces",
            NetworkInterfaces=[
                {
                    "DeviceIndex": 0,
                    "Groups": self.groups,
                    "AssociatePublicIpAddress": True,
                    "ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 90},
                }
            ],
            TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in kinds],
        )
        (instance_id,) = self.fleet(["m5.large"], kind="spot", template="unit/interfaces")["Ids"]
        found = self.describe(instance_id)
        (interface_id,) = [i["NetworkInterfaceId"] for i in found["NetworkInterfaces"]]
        (interface,) = self.ec2.describe_network_interfaces(NetworkInterfaceIds=[interface_id])["NetworkInterfaces"]
        self.assertEqual((instance_id, tags), (interface["Attachment"]["InstanceId"], interface["TagSet"]))
        self.assertEqual(90, interface["ConnectionTrackingConfiguration"]["TcpEstablishedTimeout"])
        self.assertEqual(found["PublicIpAddress"], interface["Association"]["PublicIp"])
        self.assertIn(found["PublicIpAddress"].replace(".", "-"), found["PublicDnsName"])
        by_instance = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        self.assertEqual(1, len(self.ec2.describe_network_interfaces(Filters=by_instance)["NetworkInterfaces"]))
        sir = found["SpotInstanceRequestId"]
        (request,) = self.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[sir])["SpotInstanceRequests"]
        self.assertEqual((instance_id, tags), (request["InstanceId"], request["Tags"]))
        self.ec2.create_tags(Resources=[interface_id, sir], Tags=[{"Key": "later", "Value": "b"}])
        later = self.ec2.describe_tags(Filters=[{"Name": "key", "Values": ["later"]}])["Tags"]
        self.assertEqual({interface_id, sir}, {t["ResourceId"] for t in later})
        control("PUT", "/settings", terminatedAfterMs=0)
        self.ec2.terminate_instances(InstanceIds=[instance_id])
        code = self.refused(self.ec2.describe_network_interfaces, NetworkInterfaceIds=[interface_id])
        self.assertEqual("InvalidNetworkInterfaceID.NotFound", code)

    def test_a_private_instance_has_no_public_address(self) -> None:
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        self.assertNotIn("PublicIpAddress", self.describe(instance_id))

    def test_user_data_can_be_read_back(self) -> None:
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        answer = self.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        self.assertEqual("IyEvYmluL3NoCg==", answer["UserData"]["Value"])

    def test_launches_take_addresses_and_ends_give_them_back(self) -> None:
        subnet = self.subnets["us-west-2a"]
        count = lambda: self.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"]  # noqa: E731
        before = count()
        ids = self.fleet([], count=3, overrides=[{"InstanceType": "m5.large", "SubnetId": subnet}])["Ids"]
        self.assertEqual(before - 3, count())
        control("PUT", "/settings", terminatedAfterMs=0)
        self.ec2.terminate_instances(InstanceIds=ids)
        self.assertEqual(before, count())


class States(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()

    def state(self, instance_id: str) -> str:
        return self.describe(instance_id)["State"]["Name"]

    def test_an_instance_stays_pending_as_long_as_a_test_wants(self) -> None:
        control("PUT", "/settings", runningAfterMs=3_600_000)
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        self.assertEqual("pending", self.state(instance_id))
        control("PUT", "/instance", id=instance_id, state="running")
        self.assertEqual("running", self.state(instance_id))

    def test_termination_goes_through_shutting_down_and_stays_listed(self) -> None:
        control("PUT", "/settings", terminatedAfterMs=3_600_000)
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        (change,) = self.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"]
        self.assertEqual(("running", "shutting-down"), (change["PreviousState"]["Name"], change["CurrentState"]["Name"]))
        self.assertEqual("shutting-down", self.state(instance_id))
        control("PUT", "/instance", id=instance_id, state="terminated")
        self.assertEqual("terminated", self.state(instance_id))
        (again,) = self.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"]
        self.assertEqual("terminated", again["CurrentState"]["Name"])

    def test_a_terminated_instance_is_forgotten_at_last(self) -> None:
        control("PUT", "/settings", terminatedAfterMs=0, terminatedListedMs=1)
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        self.ec2.terminate_instances(InstanceIds=[instance_id])
        until(lambda: not self.ec2.describe_instances()["Reservations"])
        self.assertEqual("InvalidInstanceID.NotFound", self.refused(self.describe, instance_id))

    def test_one_unknown_id_fails_the_whole_termination(self) -> None:
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        code = self.refused(self.ec2.terminate_instances, InstanceIds=[instance_id, "i-0123456789abcdef0"])
        self.assertEqual("InvalidInstanceID.NotFound", code)
        self.assertIn("i-0123456789abcdef0", self.message)
        self.assertEqual("running", self.state(instance_id))

    def test_stop_and_start(self) -> None:
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        self.ec2.stop_instances(InstanceIds=[instance_id])
        until(lambda: self.state(instance_id) == "stopped")
        self.ec2.start_instances(InstanceIds=[instance_id])
        self.assertEqual("running", self.state(instance_id))

    def test_a_one_time_spot_instance_cannot_be_stopped(self) -> None:
        (instance_id,) = self.fleet(["m5.large"], kind="spot")["Ids"]
        self.assertEqual("UnsupportedOperation", self.refused(self.ec2.stop_instances, InstanceIds=[instance_id]))


class Describe(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()

    def test_filters_choose_by_tag_key_tag_value_and_state(self) -> None:
        def tagged(value: str) -> list[str]:
            tags = [{"Key": "eks:eks-cluster-name", "Value": value}]
            return self.fleet(["m5.large"], TagSpecifications=[{"ResourceType": "instance", "Tags": tags}])["Ids"]

        (mine,), (other,), (bare,) = tagged("mine"), tagged("other"), self.fleet(["m5.large"])["Ids"]
        self.ec2.terminate_instances(InstanceIds=[bare])

        def ids(name: str, *values: str) -> set[str]:
            found = self.ec2.describe_instances(Filters=[{"Name": name, "Values": list(values)}])["Reservations"]
            return {r["Instances"][0]["InstanceId"] for r in found}

        self.assertEqual({mine, other}, ids("tag-key", "eks:eks-cluster-name"))
        self.assertEqual({mine}, ids("tag:eks:eks-cluster-name", "mine"))
        self.assertEqual({mine, other}, ids("tag:eks:eks-cluster-name", "mi*", "?ther"))
        self.assertEqual({mine, other}, ids("instance-state-name", "pending", "running"))

    def test_pages_are_real_and_complete(self) -> None:
        ids = self.fleet(["m5.large"], count=23)["Ids"]
        pages = list(self.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 10}))
        self.assertEqual([10, 10, 3], [len(p["Reservations"]) for p in pages])
        self.assertEqual(ids, [r["Instances"][0]["InstanceId"] for p in pages for r in p["Reservations"]])

    def test_an_instance_that_ends_between_pages_hides_no_other(self) -> None:
        ids = self.fleet(["m5.large"], count=12)["Ids"]
        first = self.ec2.describe_instances(MaxResults=5)
        control("DELETE", "/instance", id=ids[1])
        second = self.ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])
        self.assertEqual(ids[5:10], [r["Instances"][0]["InstanceId"] for r in second["Reservations"]])

    def test_a_test_can_shorten_pages_even_to_none(self) -> None:
        self.fleet(["m5.large"], count=4)
        control("PUT", "/partial-pages", action="DescribeInstances", size=0)
        pages = list(self.ec2.get_paginator("describe_instances").paginate())
        self.assertEqual([0, 1, 1, 1, 1], [len(p["Reservations"]) for p in pages])

    def test_tags_can_be_added_and_are_seen(self) -> None:
        (instance_id,) = self.fleet(["m5.large"])["Ids"]
        self.ec2.create_tags(Resources=[instance_id, self.groups[0]], Tags=[{"Key": "Name", "Value": "node"}])
        self.assertIn({"Key": "Name", "Value": "node"}, self.describe(instance_id)["Tags"])
        code = self.refused(self.ec2.create_tags, Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])
        self.assertEqual("InvalidInstanceID.NotFound", code)


class Status(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()
        self.ids = self.fleet(["m5.large"], count=2)["Ids"]

    def found(self, name: str, *values: str) -> list[dict]:
        return self.ec2.describe_instance_status(Filters=[{"Name": name, "Values": list(values)}])["InstanceStatuses"]

    def test_healthy_instances_are_ok(self) -> None:
        self.assertEqual(2, len(self.found("instance-status.status", "ok")))
        self.assertEqual([], self.found("instance-status.status", "impaired"))

    def test_a_failed_check_says_since_when(self) -> None:
        control("PUT", "/status-event", id=self.ids[0], impaired=["system"], sinceSeconds=600)
        (status,) = self.found("system-status.status", "impaired")
        self.assertEqual(self.ids[0], status["InstanceId"])
        (detail,) = status["SystemStatus"]["Details"]
        self.assertEqual("failed", detail["Status"])
        self.assertIn("ImpairedSince", detail)
        control("DELETE", "/status-event", id=self.ids[0])
        self.assertEqual([], self.found("system-status.status", "impaired"))

    def test_a_scheduled_event_is_found_by_its_code(self) -> None:
        control("PUT", "/status-event", id=self.ids[1], code="instance-retirement", notBeforeSeconds=60)
        (status,) = self.found("event.code", "instance-retirement", "instance-stop")
        self.assertEqual((self.ids[1], "instance-retirement"), (status["InstanceId"], status["Events"][0]["Code"]))
        control("PUT", "/status-event", id=self.ids[1], complete=True)
        (status,) = self.found("event.code", "instance-retirement")
        self.assertTrue(status["Events"][0]["Description"].startswith("[Completed]"))


class Scale(LocalAws):
    def test_five_thousand_instances_are_all_there_and_all_end(self) -> None:
        self.template()
        control("PUT", "/settings", stateChangeEvents=False, terminatedAfterMs=0)
        ids = [i for _ in range(5) for i in self.fleet(["m5.large"], count=1000)["Ids"]]
        self.assertEqual(5000, len(set(ids)))
        only = self.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": ids[4990:]}])["Reservations"]
        self.assertEqual(10, len(only))
        for start in range(0, 5000, 500):
            changes = self.ec2.terminate_instances(InstanceIds=ids[start : start + 500])["TerminatingInstances"]
            self.assertEqual(500, len(changes))
        alive = [{"Name": "instance-state-name", "Values": ["pending", "running", "shutting-down"]}]
        self.assertEqual([], self.ec2.describe_instances(Filters=alive)["Reservations"])


class Feed(LocalAws):
    def test_the_change_feed_gives_only_what_changed(self) -> None:
        self.template()
        first, second = self.fleet(["m5.large"], count=2)["Ids"]
        version = control("GET", "/instances")["version"]
        client("ec2").create_tags(Resources=[second], Tags=[{"Key": "a", "Value": "b"}])
        changes = control("GET", f"/instances?since={version}&waitMs=1000")
        self.assertEqual([(second, "running", "b")], [(i["id"], i["state"], i["tags"]["a"]) for i in changes["instances"]])
        control("DELETE", "/instance", id=first)
        changes = control("GET", f"/instances?since={changes['version']}")
        self.assertEqual([(first, "gone")], [(i["id"], i["state"]) for i in changes["instances"]])
