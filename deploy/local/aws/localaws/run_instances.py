"""RunInstances, mostly for its dry run: the same checks as a fleet's, but any problem fails the call."""

from __future__ import annotations

from typing import Any

from .actions import Call, ec2
from .errors import AwsError, dry_run
from .launch import launch, resolve
from .wire import Raw

# Parameters whose names and shapes are those of a launch template.
SHARED = (
    "ImageId InstanceType KeyName UserData Monitoring Placement BlockDeviceMappings NetworkInterfaces SecurityGroupIds "
    "IamInstanceProfile MetadataOptions CpuOptions CapacityReservationSpecification InstanceMarketOptions EnclaveOptions "
    "DisableApiTermination TagSpecifications"
).split()


@ec2("RunInstances", checks_first=True)
def run_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    least, most = params.get("MinCount", 1), params.get("MaxCount", 1)
    if least < 1 or most < least:
        raise AwsError("InvalidParameterValue", f"Invalid instance counts: MinCount {least}, MaxCount {most}.")
    data: dict[str, Any] = {}
    given = params.get("LaunchTemplate")
    system_tags: dict[str, str] = {}
    if given:
        template = world.templates.find(given.get("LaunchTemplateId"), given.get("LaunchTemplateName"))
        number = template.number(given.get("Version"))
        data = dict(template.versions[number][2])
        system_tags = {"aws:ec2launchtemplate:id": template.id, "aws:ec2launchtemplate:version": str(number)}
    request_tags = params.get("TagSpecifications") or []
    template_tags = data.get("TagSpecifications") or []
    data.update({k: params[k] for k in SHARED if k in params})
    data["TagSpecifications"] = template_tags
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
    lifecycle = market or "on-demand"
    spec = resolve(world, data, {"SubnetId": params.get("SubnetId")}, lifecycle)
    spec.tags, spec.system_tags = request_tags, system_tags
    if params.get("DryRun"):
        raise dry_run()
    launched = []
    try:
        for _ in range(most):
            world.faults.take_capacity(spec.pool, world.network.zone_ids())
            launched.append(launch(world, spec))
    except AwsError:
        if len(launched) < least:
            for instance in launched:
                world.instances.set_state(instance, "shutting-down", "the minimum count was not reached", "Server.InternalError")
            raise
    fragments = [Raw(world.wire.fragment("Instance", i.describe())) for i in launched]
    return {"ReservationId": "r-" + launched[0].id[2:], "OwnerId": world.account, "Groups": [], "Instances": fragments}
