"""CreateFleet: which pool is chosen, what an answer says about the others, and idempotency."""

from __future__ import annotations

import base64

from .local_aws import LocalAws, control


class Choice(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()

    def test_on_demand_takes_the_cheapest_type_whatever_the_order(self) -> None:
        answer = self.fleet(["m5.4xlarge", "c5.large", "m5.large"], OnDemandOptions={"AllocationStrategy": "lowest-price"})
        self.assertEqual(["c5.large"], [i["InstanceType"] for i in answer["Instances"]])
        self.assertEqual([], answer["Errors"])

    def test_spot_takes_the_cheapest_zone(self) -> None:
        for i, zone in enumerate(sorted(self.subnets)):
            control("PUT", "/spot-price", instanceType="m5.large", zone=zone, price=0.05 - i * 0.01)
        answer = self.fleet(["m5.large"], kind="spot", SpotOptions={"AllocationStrategy": "price-capacity-optimized"})
        chosen = answer["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]
        self.assertEqual(self.subnets[max(self.subnets)], chosen["SubnetId"])

    def test_prioritized_follows_the_priority_and_not_the_price(self) -> None:
        zone = self.subnets["us-west-2a"]
        overrides = [
            {"InstanceType": "c5.large", "SubnetId": zone, "Priority": 2.0},
            {"InstanceType": "m5.xlarge", "SubnetId": zone, "Priority": 1.0},
        ]
        for kind, options in (
            ("on-demand", {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}),
            ("spot", {"SpotOptions": {"AllocationStrategy": "capacity-optimized-prioritized"}}),
        ):
            with self.subTest(kind):
                answer = self.fleet([], kind=kind, overrides=overrides, **options)
                self.assertEqual("m5.xlarge", answer["Instances"][0]["InstanceType"])

    def test_the_target_count_is_met_with_one_entry_for_the_pool(self) -> None:
        answer = self.fleet(["c5.large"], count=7)
        self.assertEqual(7, len(set(answer["Ids"])))
        self.assertEqual(1, len(answer["Instances"]))

    def test_on_demand_and_spot_parts_of_a_target_are_both_met(self) -> None:
        spec = {"LaunchTemplateName": "unit/template", "Version": "$Latest"}
        answer = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": spec,
                    "Overrides": [{"InstanceType": "m5.large", "SubnetId": self.subnets["us-west-2b"]}],
                }
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": 5,
                "OnDemandTargetCapacity": 2,
                "SpotTargetCapacity": 1,
                "DefaultTargetCapacityType": "spot",
            },
        )
        counts = {i["Lifecycle"]: len(i["InstanceIds"]) for i in answer["Instances"]}
        self.assertEqual({"on-demand": 2, "spot": 3}, counts)


class Shortage(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()

    def test_a_dry_pool_is_reported_and_the_next_cheapest_launches(self) -> None:
        control("PUT", "/ice", capacityType="on-demand", instanceType="c5.large", zone="*")
        answer = self.fleet(["c5.large", "m5.large"])
        self.assertEqual("m5.large", answer["Instances"][0]["InstanceType"])
        self.assertEqual({"InsufficientInstanceCapacity"}, {e["ErrorCode"] for e in answer["Errors"]})
        failed = {e["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for e in answer["Errors"]}
        self.assertEqual(set(self.subnets.values()), failed)
        self.assertIn("c5.large", answer["Errors"][0]["ErrorMessage"])

    def test_all_pools_dry_gives_errors_and_no_instance(self) -> None:
        control("PUT", "/ice", capacityType="spot", code="UnfulfillableCapacity")
        answer = self.fleet(["c5.large"], kind="spot")
        self.assertEqual([], answer["Instances"])
        self.assertEqual(["UnfulfillableCapacity"] * 4, [e["ErrorCode"] for e in answer["Errors"]])
        self.assertEqual(1, len(self.fleet(["c5.large"])["Ids"]), "on-demand is not concerned")

    def test_a_pool_with_some_capacity_left_fills_partly(self) -> None:
        zone = "us-west-2a"
        control("PUT", "/ice", capacityType="on-demand", instanceType="c5.large", zone=zone, remaining=2)
        answer = self.fleet([], count=3, overrides=[{"InstanceType": "c5.large", "SubnetId": self.subnets[zone]}])
        self.assertEqual(2, len(answer["Ids"]))
        self.assertEqual(["InsufficientInstanceCapacity"], [e["ErrorCode"] for e in answer["Errors"]])

    def test_a_fleet_may_come_in_part(self) -> None:
        control("PUT", "/settings", fleetAtMost=2)
        answer = self.fleet(["m5.large"], count=5)
        self.assertEqual(2, sum(len(i["InstanceIds"]) for i in answer["Instances"]))
        self.assertEqual(["InsufficientInstanceCapacity"], [e["ErrorCode"] for e in answer["Errors"]])

    def test_a_lifted_shortage_launches_again(self) -> None:
        control("PUT", "/ice", instanceType="c5.*")
        self.assertEqual([], self.fleet(["c5.large"])["Ids"])
        control("DELETE", "/ice", instanceType="c5.*")
        self.assertEqual(1, len(self.fleet(["c5.large"])["Ids"]))

    def test_codes_that_a_test_names_come_back_as_they_are(self) -> None:
        for code in ("MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"):
            with self.subTest(code):
                control("PUT", "/ice", capacityType="spot", code=code)
                self.assertEqual({code}, {e["ErrorCode"] for e in self.fleet(["c5.large"], kind="spot")["Errors"]})

    def test_a_full_subnet_refuses_with_its_own_code(self) -> None:
        vpc = self.seeded["vpc"]
        small = self.ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.250.0/28", AvailabilityZone="us-west-2a")["Subnet"]["SubnetId"]
        try:
            answer = self.fleet([], count=12, overrides=[{"InstanceType": "c5.large", "SubnetId": small}])
            self.assertEqual(11, len(answer["Ids"]))
            self.assertEqual(["InsufficientFreeAddressesInSubnet"], [e["ErrorCode"] for e in answer["Errors"]])
            left = self.ec2.describe_subnets(SubnetIds=[small])["Subnets"][0]["AvailableIpAddressCount"]
            self.assertEqual(0, left)
        finally:
            control("POST", "/reset", instances=True)
            self.ec2.delete_subnet(SubnetId=small)


class Refusal(LocalAws):
    def setUp(self) -> None:
        super().setUp()
        self.template()

    def one(self, **override: object) -> dict:
        return self.fleet([], overrides=[{"InstanceType": "c5.large", "SubnetId": self.subnets["us-west-2a"], **override}])

    def test_what_is_wrong_with_one_override_is_an_item_error(self) -> None:
        cases = {
            "InvalidParameterValue": {"InstanceType": "m5.huge"},
            "InvalidSubnetID.NotFound": {"SubnetId": "subnet-0123456789abcdef0"},
            "InvalidAMIID.NotFound": {"ImageId": "ami-0123456789abcdef0"},
        }
        for code, override in cases.items():
            with self.subTest(code):
                answer = self.one(**override)
                self.assertEqual([code], [e["ErrorCode"] for e in answer["Errors"]])
                self.assertEqual([], answer["Instances"])

    def test_an_image_of_another_architecture_is_refused(self) -> None:
        answer = self.one(InstanceType="m6g.large")
        self.assertEqual("InvalidParameterValue", answer["Errors"][0]["ErrorCode"])
        self.assertIn("architecture", answer["Errors"][0]["ErrorMessage"])

    def test_a_type_that_a_zone_does_not_offer_is_unsupported(self) -> None:
        pages = self.ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
        offered = {(o["InstanceType"], o["Location"]) for p in pages for o in p["InstanceTypeOfferings"]}
        # Of what some zone sells, anything that another does not.
        instance_type, zone = min((t, z) for t, _ in offered for z in self.subnets if (t, z) not in offered)
        answer = self.one(InstanceType=instance_type, SubnetId=self.subnets[zone])
        self.assertEqual("Unsupported", answer["Errors"][0]["ErrorCode"])

    def test_an_unknown_template_fails_the_call(self) -> None:
        self.assertEqual("InvalidLaunchTemplateName.NotFoundException", self.refused(self.fleet, ["c5.large"], template="unit/none"))

    def test_an_unknown_profile_or_group_is_an_item_error(self) -> None:
        self.template("unit/no-profile", IamInstanceProfile={"Name": "nobody"})
        error = self.fleet(["c5.large"], template="unit/no-profile")["Errors"][0]
        self.assertIn("Invalid IAM Instance Profile name", error["ErrorMessage"])
        self.template("unit/no-group", NetworkInterfaces=[{"DeviceIndex": 0, "Groups": ["sg-0123456789abcdef0"]}])
        error = self.fleet(["c5.large"], template="unit/no-group")["Errors"][0]
        self.assertEqual("InvalidGroup.NotFound", error["ErrorCode"])

    def test_user_data_over_the_limit_is_refused(self) -> None:
        self.template("unit/long", UserData=base64.b64encode(b"x" * 16385).decode())
        error = self.fleet(["c5.large"], template="unit/long")["Errors"][0]
        self.assertIn("User data is limited to 16384 bytes", error["ErrorMessage"])

    def test_a_dry_run_checks_templates_and_launches_nothing(self) -> None:
        self.assertEqual("DryRunOperation", self.refused(self.fleet, ["c5.large"], DryRun=True))
        self.assertEqual("InvalidLaunchTemplateName.NotFoundException", self.refused(self.fleet, ["c5.large"], DryRun=True, template="unit/none"))
        self.assertEqual([], self.ec2.describe_instances()["Reservations"])


class Idempotency(LocalAws):
    def test_the_same_token_gives_the_same_fleet(self) -> None:
        self.template()
        first = self.fleet(["c5.large"], count=2, ClientToken="once")
        again = self.fleet(["c5.large"], count=2, ClientToken="once")
        self.assertEqual((first["FleetId"], first["Ids"]), (again["FleetId"], again["Ids"]))
        self.assertEqual(2, len(self.ec2.describe_instances()["Reservations"]))

    def test_the_same_token_with_other_parameters_is_a_mismatch(self) -> None:
        self.template()
        self.fleet(["c5.large"], ClientToken="once")
        self.assertEqual("IdempotentParameterMismatch", self.refused(self.fleet, ["c5.large"], count=2, ClientToken="once"))
