"""What is sold and what it costs: types, offerings, on-demand and spot prices, images, parameters."""

from __future__ import annotations

import datetime
import json

from .local_aws import LocalAws, client, control


class Types(LocalAws):
    def test_all_types_come_in_pages_of_at_most_a_hundred(self) -> None:
        pages = list(self.ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100}))
        names = [t["InstanceType"] for p in pages for t in p["InstanceTypes"]]
        self.assertGreater(len(names), 1200)
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(len(p["InstanceTypes"]) <= 100 for p in pages))

    def test_filters_and_figures_are_those_of_ec2(self) -> None:
        filters = [
            {"Name": "processor-info.supported-architecture", "Values": ["arm64"]},
            {"Name": "instance-type", "Values": ["m6g.*", "m5.large"]},
        ]
        found = self.ec2.describe_instance_types(Filters=filters)["InstanceTypes"]
        self.assertTrue(found and all(t["InstanceType"].startswith("m6g.") for t in found))
        (large,) = self.ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"]
        self.assertEqual((2, 8192), (large["VCpuInfo"]["DefaultVCpus"], large["MemoryInfo"]["SizeInMiB"]))

    def test_a_page_size_out_of_range_is_refused(self) -> None:
        self.assertEqual("InvalidParameterValue", self.refused(self.ec2.describe_instance_types, MaxResults=101))

    def test_a_dry_run_says_so(self) -> None:
        self.assertEqual("DryRunOperation", self.refused(self.ec2.describe_instance_types, DryRun=True))

    def test_offerings_by_zone_are_paged(self) -> None:
        pages = list(
            self.ec2.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="availability-zone", PaginationConfig={"PageSize": 1000}
            )
        )
        self.assertGreater(len(pages), 4)
        rows = [(o["InstanceType"], o["Location"]) for p in pages for o in p["InstanceTypeOfferings"]]
        self.assertEqual(len(rows), len(set(rows)))
        self.assertIn(("m5.large", "us-west-2a"), rows)

    def test_zones_have_ids_and_a_type(self) -> None:
        zones = self.ec2.describe_availability_zones()["AvailabilityZones"]
        self.assertEqual({"availability-zone"}, {z["ZoneType"] for z in zones})
        self.assertTrue(all(z["ZoneId"].startswith("usw2-az") for z in zones))


class Prices(LocalAws):
    def spot(self, **more: object) -> list[dict]:
        now = datetime.datetime.now(datetime.timezone.utc)
        arguments = {"ProductDescriptions": ["Linux/UNIX"], "StartTime": now, **more}
        pages = self.ec2.get_paginator("describe_spot_price_history").paginate(**arguments)
        return [row for page in pages for row in page["SpotPriceHistory"]]

    def on_demand(self, **changed: str) -> dict[str, float]:
        terms = {
            "regionCode": "us-west-2", "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux",
            "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": "Shared", "productFamily": "Compute Instance",
            **changed,
        }  # fmt: skip
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in terms.items()]
        pages = client("pricing", region="us-east-1").get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
        found = {}
        for page in pages:
            for text in page["PriceList"]:
                product = json.loads(text)
                (term,) = product["terms"]["OnDemand"].values()
                (dimension,) = term["priceDimensions"].values()
                found[product["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
        return found

    def test_every_pool_has_one_current_spot_price_below_on_demand(self) -> None:
        rows = self.spot()
        pools = [(r["InstanceType"], r["AvailabilityZone"]) for r in rows]
        self.assertEqual(len(pools), len(set(pools)))
        self.assertGreater(len(pools), 4000)
        on_demand = self.on_demand()
        dearer = [r for r in rows if r["InstanceType"] in on_demand and float(r["SpotPrice"]) > on_demand[r["InstanceType"]]]
        self.assertEqual([], dearer)
        now = datetime.datetime.now(datetime.timezone.utc)
        self.assertTrue(all(now - r["Timestamp"] < datetime.timedelta(hours=7) for r in rows))

    def test_zones_differ_and_a_test_can_set_a_price(self) -> None:
        prices = {r["AvailabilityZone"]: r["SpotPrice"] for r in self.spot(InstanceTypes=["m5.large"])}
        self.assertEqual(len(prices), len(set(prices.values())))
        control("PUT", "/spot-price", instanceType="m5.large", zone="us-west-2b", price=0.0123)
        (row,) = self.spot(InstanceTypes=["m5.large"], AvailabilityZone="us-west-2b")
        self.assertEqual(0.0123, float(row["SpotPrice"]))

    def test_an_earlier_start_shows_history(self) -> None:
        day = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
        rows = self.spot(InstanceTypes=["m5.large"], AvailabilityZone="us-west-2a", StartTime=day)
        self.assertGreaterEqual(len(rows), 4)
        self.assertEqual(sorted((r["Timestamp"] for r in rows), reverse=True), [r["Timestamp"] for r in rows])

    def test_on_demand_prices_are_the_known_ones(self) -> None:
        prices = self.on_demand()
        self.assertEqual(0.096, prices["m5.large"])
        self.assertGreater(len(prices), 1000)
        self.assertNotIn("m5.metal", prices)

    def test_bare_metal_is_its_own_product_family(self) -> None:
        prices = self.on_demand(tenancy="Dedicated", productFamily="Compute Instance (bare metal)")
        self.assertEqual(4.608, prices["m5.metal"])
        self.assertNotIn("m5.large", prices)

    def test_a_test_can_write_what_is_no_price(self) -> None:
        control("PUT", "/spot-price", instanceType="m5.large", zone="us-west-2b", text="<free>")
        prices = {r["AvailabilityZone"]: r["SpotPrice"] for r in self.spot(InstanceTypes=["m5.large"])}
        self.assertEqual("<free>", prices["us-west-2b"])
        self.assertGreater(float(prices["us-west-2a"]), 0)
        control("PUT", "/on-demand-price", instanceType="m5.large", texts={"USD": "1.5"})
        self.assertEqual(1.5, self.on_demand()["m5.large"])
        control("DELETE", "/spot-price")
        self.assertEqual(0.096, self.on_demand()["m5.large"])

    def test_another_operating_system_has_no_products(self) -> None:
        self.assertEqual({}, self.on_demand(operatingSystem="Windows"))


class Images(LocalAws):
    PATHS = (
        ("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id", "x86_64"),
        ("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended/image_id", "arm64"),
        ("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/recommended/image_id", "x86_64"),
        ("/aws/service/eks/optimized-ami/1.31/amazon-linux-2-gpu/recommended/image_id", "x86_64"),
        ("/aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id", "arm64"),
        ("/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id", "x86_64"),
        ("/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id", "x86_64"),
        ("/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id", "x86_64"),
    )

    def parameter(self, name: str) -> str:
        return client("ssm").get_parameter(Name=name)["Parameter"]["Value"]

    def test_every_alias_names_an_image_of_its_architecture(self) -> None:
        for path, architecture in self.PATHS:
            with self.subTest(path):
                (image,) = self.ec2.describe_images(ImageIds=[self.parameter(path)])["Images"]
                self.assertEqual((architecture, "available", "amazon"), (image["Architecture"], image["State"], image["ImageOwnerAlias"]))

    def test_what_aws_does_not_publish_is_not_found(self) -> None:
        for path in (
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id",
            "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.34/image_id",
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/neuron/recommended/image_id",
        ):
            with self.subTest(path):
                self.assertEqual("ParameterNotFound", self.refused(self.parameter, path))

    def test_a_published_release_moves_the_alias_and_keeps_the_old_version(self) -> None:
        path = self.PATHS[0][0]
        before = self.parameter(path)
        (old,) = self.ec2.describe_images(ImageIds=[before])["Images"]
        control("PUT", "/ami", family="al2023", version="v20270101")
        after = self.parameter(path)
        self.assertNotEqual(before, after)
        pinned = path.replace("recommended", old["Name"])
        self.assertEqual(before, self.parameter(pinned))
        (new,) = self.ec2.describe_images(ImageIds=[after])["Images"]
        self.assertGreater(new["CreationDate"], old["CreationDate"])

    def test_names_owners_and_tags_select_images(self) -> None:
        control("PUT", "/ami", name="golden-1", architecture="arm64", tags={"team": "a"})
        mine = self.ec2.describe_images(Owners=["self", "amazon"], Filters=[{"Name": "name", "Values": ["golden-*"]}])["Images"]
        self.assertEqual(["golden-1"], [i["Name"] for i in mine])
        by_tag = self.ec2.describe_images(Filters=[{"Name": "tag:team", "Values": ["a"]}])["Images"]
        self.assertEqual(mine[0]["ImageId"], by_tag[0]["ImageId"])
        self.assertEqual([], self.ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "name", "Values": ["golden-*"]}])["Images"])

    def test_a_deprecated_image_shows_only_when_asked_for(self) -> None:
        made = control("PUT", "/ami", name="old-1", owner="602401143452")["images"][0]["id"]
        control("PUT", "/ami", id=made, deprecate=True)
        by_name = [{"Name": "name", "Values": ["old-1"]}]
        self.assertEqual([], self.ec2.describe_images(Filters=by_name)["Images"])
        (image,) = self.ec2.describe_images(Filters=by_name, IncludeDeprecated=True)["Images"]
        self.assertIn("DeprecationTime", image)

    def test_parameters_by_path_are_paged(self) -> None:
        path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"
        pages = client("ssm").get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
        names = [p["Name"] for page in pages for p in page["Parameters"]]
        self.assertIn(f"{path}/standard/recommended/image_id", names)
        self.assertGreater(len(names), 10)
