"""The Price List API's GetProducts for EC2 on-demand Linux prices, with TERM_MATCH filters and
paging. Other services, operating systems and terms have no products here."""

from __future__ import annotations

import json
from typing import Any

from .errors import AwsError
from .filters import Listings, Pager
from .instance_types import TypeCatalogue
from .prices import PriceBook, dollars


class PriceList:
    def __init__(self, prices: PriceBook, types: TypeCatalogue, pager: Pager):
        self.prices, self.types, self.pager = prices, types, pager
        self._cache: dict[tuple[str, int], list[tuple[dict[str, str], str]]] = {}
        self._listings = Listings()

    def get_products(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("ServiceCode") != "AmazonEC2":
            raise AwsError("NotFoundException", f"Unable to find service: {request.get('ServiceCode')}")
        if request.get("MaxResults") is not None and not 1 <= request["MaxResults"] <= 100:
            raise AwsError("InvalidParameterException", "MaxResults must be between 1 and 100")
        terms: list[tuple[str, str]] = []
        for item in request.get("Filters", []):
            if item.get("Type") != "TERM_MATCH":
                raise AwsError("InvalidParameterException", f"Invalid filter type {item.get('Type')}")
            terms.append((item["Field"].lower(), item["Value"].lower()))
        region = next((v for k, v in terms if k == "regioncode"), "us-east-1")

        def matching() -> list[tuple[dict[str, str], str]]:
            return [
                product
                for product in self._products(region)
                if all(product[0].get(field, "").lower() == value for field, value in terms)
            ]

        found = self._listings.get((region, self.prices.version, tuple(terms)), matching)
        page, token = self.pager.page("GetProducts", found, lambda p: p[0]["sku"], request, 1, 100, default=100)
        answer = {"FormatVersion": "aws_v1", "PriceList": [text for _, text in page]}
        if token:
            answer["NextToken"] = token
        return answer

    def warm(self, region: str) -> None:
        self._products(region)

    def _products(self, region: str) -> list[tuple[dict[str, str], str]]:
        key = (region, self.prices.version)
        if key not in self._cache:
            self._cache = {k: v for k, v in self._cache.items() if k[1] == self.prices.version}
            rows = []
            regional = self.types.in_region(region)
            for name in self.prices.types():
                if name not in regional:
                    continue
                for tenancy in ("Shared", "Dedicated"):
                    rows.append(self._product(region, name, tenancy))
            self._cache[key] = sorted(rows, key=lambda p: p[0]["sku"])
        return self._cache[key]

    def _product(self, region: str, name: str, tenancy: str) -> tuple[dict[str, str], str]:
        info = self.types.types[name]
        metal = info.get("BareMetal", False)
        sku = f"{name.upper().replace('.', '').replace('-', '')}{'S' if tenancy == 'Shared' else 'D'}"
        attributes = {
            "instanceType": name,
            "regionCode": region,
            "servicecode": "AmazonEC2",
            "location": region,
            "locationType": "AWS Region",
            "operatingSystem": "Linux",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
            "tenancy": tenancy,
            "vcpu": str(info["VCpuInfo"]["DefaultVCpus"]),
            "memory": f"{info['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
            "usagetype": f"BoxUsage:{name}",
            "operation": "RunInstances",
            "licenseModel": "No License required",
        }
        family = "Compute Instance (bare metal)" if metal else "Compute Instance"
        price = self.prices.on_demand(region, name) or 0
        if tenancy == "Dedicated" and not metal:
            price = price * 106 // 100
        unit = "CNY" if region.startswith("cn-") else "USD"
        term = f"{sku}.JRTCKXETXF"
        document = {
            "product": {"productFamily": family, "attributes": attributes, "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {
                    term: {
                        "priceDimensions": {
                            f"{term}.6YS6EN2CT7": {
                                "unit": "Hrs",
                                "endRange": "Inf",
                                "beginRange": "0",
                                "description": f"${dollars(price)} per On Demand Linux {name} Instance Hour",
                                "appliesTo": [],
                                "rateCode": f"{term}.6YS6EN2CT7",
                                "pricePerUnit": self.prices.odd_on_demand.get((region, name), {unit: dollars(price, 10)}),
                            }
                        },
                        "sku": sku,
                        "effectiveDate": "2026-08-01T00:00:00Z",
                        "offerTermCode": "JRTCKXETXF",
                        "termAttributes": {},
                    }
                }
            },
            "version": "20260822000000",
            "publicationDate": "2026-08-22T00:00:00Z",
        }
        match = {k.lower(): v for k, v in attributes.items()}
        match.update({"productfamily": family, "sku": sku, "servicecode": "AmazonEC2"})
        return match, json.dumps(document, separators=(",", ":"))
