"""What the control path switches on: latency, throttling, errors, rights; and what it tells of calls."""

from __future__ import annotations

import time
import urllib.error

from botocore.parsers import ResponseParserError

from .local_aws import LocalAws, client, control, until


class Faults(LocalAws):
    def test_latency_delays_only_the_named_action(self) -> None:
        control("PUT", "/latency", action="DescribeImages", ms=300)
        began = time.monotonic()
        self.ec2.describe_images(ImageIds=[self.image()])
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        log = control("GET", "/calls")["requests"]
        took = {r["action"]: r["ms"] for r in log}
        self.assertGreaterEqual(took["DescribeImages"], 300)
        self.assertLess(took["GetParameter"], took["DescribeImages"])

    def test_request_limits_refuse_what_exceeds_a_bucket(self) -> None:
        control("PUT", "/settings", requestRates=0.0001)
        for _ in range(100):
            self.ec2.describe_placement_groups()
        self.assertEqual("RequestLimitExceeded", self.refused(self.ec2.describe_placement_groups))
        control("PUT", "/settings", requestRates=0)
        self.ec2.describe_placement_groups()

    def test_errors_come_as_often_as_asked(self) -> None:
        control("PUT", "/errors", action="DescribeSubnets", code="InternalError", message="broken", count=2)
        for _ in range(2):
            self.assertEqual("InternalError", self.refused(self.ec2.describe_subnets))
            self.assertEqual("broken", self.message)
        self.ec2.describe_subnets()

    def test_an_answer_can_be_none_although_its_status_is_200(self) -> None:
        whole = self.ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"]
        self.assertEqual(1, len(whole))
        for kind in ("empty", "cut", "garbage"):
            control("PUT", "/odd-answers", action="DescribeInstanceTypes", kind=kind)
            with self.subTest(kind), self.assertRaises(ResponseParserError):
                answer = self.ec2.describe_instance_types(InstanceTypes=["m5.large"])
                if "InstanceTypes" not in answer:
                    raise ResponseParserError("nothing in it")
        control("PUT", "/odd-answers", action="DescribeInstanceTypes", kind="nothing")
        self.assertEqual([], self.ec2.describe_instance_types().get("InstanceTypes", []))
        control("DELETE", "/odd-answers")
        self.assertEqual(whole, self.ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"])

    def test_a_share_of_the_calls_fails_evenly_spread(self) -> None:
        control("PUT", "/errors", action="DescribeSubnets", code="InternalError", percent=30)
        failed = 0
        for _ in range(20):
            try:
                self.ec2.describe_subnets()
            except Exception:
                failed += 1
        self.assertEqual(6, failed)

    def test_errors_of_json_services_have_their_form(self) -> None:
        control("PUT", "/errors", action="GetParameter", code="InternalServerError")
        self.assertEqual("InternalServerError", self.refused(self.image))
        control("PUT", "/errors", action="GetProducts", code="ThrottlingException")
        self.assertEqual("ThrottlingException", self.refused(client("pricing").get_products, ServiceCode="AmazonEC2"))
        control("PUT", "/errors", action="ReceiveMessage", code="OverLimit")
        self.assertEqual("OverLimit", self.refused(client("sqs").receive_message, QueueUrl=self.seeded["queue"]))
        control("PUT", "/errors", action="GetInstanceProfile", code="ServiceFailure")
        self.assertEqual("ServiceFailure", self.refused(client("iam").get_instance_profile, InstanceProfileName="x"))

    def test_throttling_refuses_what_is_above_the_rate(self) -> None:
        control("PUT", "/throttle", action="DescribeSubnets", rate=0.001, burst=2)
        self.ec2.describe_subnets()
        self.ec2.describe_subnets()
        self.assertEqual("RequestLimitExceeded", self.refused(self.ec2.describe_subnets))
        control("DELETE", "/throttle", action="DescribeSubnets")
        self.ec2.describe_subnets()

    def test_an_access_key_may_be_limited_to_some_actions(self) -> None:
        control("PUT", "/permissions", accessKey="reader", actions=["Describe*"])
        reader = client("ec2", access_key="reader")
        reader.describe_subnets()
        self.assertEqual("UnauthorizedOperation", self.refused(reader.terminate_instances, InstanceIds=["i-0123456789abcdef0"]))
        self.assertEqual("InvalidInstanceID.NotFound", self.refused(self.ec2.terminate_instances, InstanceIds=["i-0123456789abcdef0"]))

    def test_calls_are_told_by_key_with_parameters(self) -> None:
        caller = client("ec2", access_key="who")
        self.refused(caller.terminate_instances, InstanceIds=["i-0123456789abcdef0"])
        told = control("GET", "/calls?accessKey=who&limit=5")
        self.assertEqual({"ec2:TerminateInstances": 1}, told["byAccessKey"]["who"])
        (request,) = told["requests"]
        self.assertEqual(["i-0123456789abcdef0"], request["resources"])
        self.assertEqual("InvalidInstanceID.NotFound", request["code"])

    def test_wrong_control_requests_say_what_is_wrong(self) -> None:
        for method, path, body in (
            ("PUT", "/settings", {"speed": 1}),
            ("PUT", "/latency", {"action": "X"}),
            ("PUT", "/instance", {"id": "i-none"}),
            ("GET", "/nothing", {}),
        ):
            with self.subTest(path), self.assertRaises(urllib.error.HTTPError) as caught:
                control(method, path, body)
            self.assertIn(b"message", caught.exception.read())


class DryRuns(LocalAws):
    def run_instances(self, **more: object) -> object:
        arguments = {"MinCount": 1, "MaxCount": 1, "DryRun": True, "SubnetId": self.subnets["us-west-2a"], "InstanceType": "m5.large"}
        return self.ec2.run_instances(**{**arguments, **more})

    def test_run_instances_checks_before_it_says_that_it_would_have_worked(self) -> None:
        self.template()
        template = {"LaunchTemplateName": "unit/template", "Version": "$Latest"}
        self.assertEqual("DryRunOperation", self.refused(self.run_instances, LaunchTemplate=template))
        self.template("unit/no-profile", IamInstanceProfile={"Name": "nobody"})
        code = self.refused(self.run_instances, LaunchTemplate={**template, "LaunchTemplateName": "unit/no-profile"})
        self.assertEqual("InvalidParameterValue", code)
        self.assertIn("Invalid IAM Instance Profile name", self.message)

    def test_groups_of_another_network_are_refused(self) -> None:
        self.template()
        other = self.ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["default"]}])["SecurityGroups"]
        foreign = next(g for g in other if g["VpcId"] != self.seeded["vpc"])
        code = self.refused(self.run_instances, ImageId=self.image(), SecurityGroupIds=[foreign["GroupId"]])
        self.assertEqual("InvalidParameter", code)
        self.assertIn("belong to different networks", self.message)


class Unkind(LocalAws):
    """Settings that make the local AWS as slow, late and mean as EC2 can be. All are off by default."""

    def setUp(self) -> None:
        super().setUp()
        self.template()

    def test_new_instances_are_unknown_for_a_while_each_for_a_time_of_its_own(self) -> None:
        ids = self.fleet(["m5.large"], count=5)["Ids"]
        control("PUT", "/settings", visibleAfterMs=3_600_000)
        self.assertEqual([], self.ec2.describe_instances()["Reservations"])
        self.assertEqual("InvalidInstanceID.NotFound", self.refused(self.ec2.describe_instances, InstanceIds=ids))
        self.assertEqual("InvalidInstanceID.NotFound", self.refused(self.ec2.terminate_instances, InstanceIds=ids))
        tags = [{"Key": "a", "Value": "b"}]
        self.assertEqual("InvalidInstanceID.NotFound", self.refused(self.ec2.create_tags, Resources=ids, Tags=tags))
        joiner = client("ec2", access_key="joiner")
        self.assertEqual(5, len(joiner.describe_instances(InstanceIds=ids)["Reservations"]))
        control("PUT", "/settings", visibleAfterMs=1)
        until(lambda: len(self.ec2.describe_instances(InstanceIds=ids)["Reservations"]) == 5)

    def test_a_new_template_cannot_be_launched_from_for_a_while(self) -> None:
        control("PUT", "/settings", visibleAfterMs=3_600_000)
        self.assertEqual("InvalidLaunchTemplateName.NotFoundException", self.refused(self.fleet, ["m5.large"]))

    def test_a_new_profile_is_refused_by_launches_for_a_while(self) -> None:
        control("PUT", "/settings", profileUsableAfterMs=360_000_000)
        answer = self.fleet(["m5.large"])
        self.assertEqual([], answer["Ids"])
        self.assertEqual({"InvalidParameterValue"}, {e["ErrorCode"] for e in answer["Errors"]})
        self.assertIn("iamInstanceProfile", answer["Errors"][0]["ErrorMessage"])

    def test_spot_by_capacity_seldom_takes_the_cheapest(self) -> None:
        types = ["m5.large", "m5.xlarge", "r5.large", "c5.xlarge", "m5.2xlarge"]
        options = {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
        cheapest = self.fleet(types, kind="spot", **options)["Instances"][0]["InstanceType"]
        control("PUT", "/settings", spotByCapacity=True)
        deepest = [self.fleet(types, kind="spot", **options)["Instances"][0]["InstanceType"] for _ in range(2)]
        self.assertEqual(deepest[0], deepest[1])
        self.assertNotEqual(cheapest, deepest[0])

    def test_quotas_count_vcpus_by_kind_of_capacity(self) -> None:
        control("PUT", "/settings", onDemandVcpuQuota=5, spotVcpuQuota=2)
        answer = self.fleet(["m5.large"], count=3)
        self.assertEqual(2, len(answer["Ids"]))
        self.assertEqual({"VcpuLimitExceeded"}, {e["ErrorCode"] for e in answer["Errors"]})
        answer = self.fleet(["m5.large"], count=2, kind="spot")
        self.assertEqual(1, len(answer["Ids"]))
        self.assertEqual({"MaxSpotInstanceCountExceeded"}, {e["ErrorCode"] for e in answer["Errors"]})
