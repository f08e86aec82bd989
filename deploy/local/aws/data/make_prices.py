"""Writes prices.csv: what on-demand and spot capacity costs, in a compact form of our own.

    python make_prices.py FIGURES.csv CATALOG.json > prices.csv

FIGURES.csv has $/vCPU-hour by family, exceptions by type and region multipliers; CATALOG.json has
known prices by type and the vCPU counts come from moto's EC2 data. Rows written:

    type,<name>,<micro-dollars per hour in us-east-1>
    spot,<family>,<typical spot price in thousandths of the on-demand price>
    region,<name>,<price in thousandths of us-east-1's>
"""

from __future__ import annotations

import csv
import json
import sys
from decimal import Decimal

from moto.ec2.models.instance_types import INSTANCE_TYPES


def main(figures_path: str, catalog_path: str) -> None:
    rows: dict[str, dict[str, tuple[str, str]]] = {"family": {}, "type": {}, "region": {}}
    with open(figures_path) as file:
        for row in csv.reader(line for line in file if not line.startswith(("#", "kind,"))):
            rows[row[0]][row[1]] = (row[2], row[3])
    with open(catalog_path) as file:
        catalog = json.load(file)
    known = {
        entry["name"]: Decimal(str(offering["price"]))
        for entry in catalog["instanceTypes"]
        for offering in entry["offerings"]
        if offering["capacityType"] == "on-demand"
    }
    out = csv.writer(sys.stdout, lineterminator="\n")
    for name in sorted(INSTANCE_TYPES):
        family = name.split(".")[0]
        if name in known:
            price = known[name]
        elif name in rows["type"]:
            price = Decimal(rows["type"][name][0])
        elif family in rows["family"]:
            price = Decimal(rows["family"][family][0]) * INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"]
        else:
            continue
        out.writerow(["type", name, int((price * 1_000_000).to_integral_value())])
    for family, (_, ratio) in sorted(rows["family"].items()):
        if ratio:
            out.writerow(["spot", family, int(Decimal(ratio) * 1000)])
    for region, (ratio, _) in sorted(rows["region"].items()):
        out.writerow(["region", region, int(Decimal(ratio) * 1000)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
