"""The front door: works out which AWS call a request is, applies what tests have switched on, logs
it, and answers it here or hands it to moto."""

from __future__ import annotations

import io
import json
import time
import traceback
import uuid
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from . import describe, fleet, images, instance_types, interfaces, motopages, placement, reservations, run_instances, spot, status, tags, templates
from .actions import EC2, Call
from .eks import Cluster
from .errors import AwsError
from .faults import SPARED
from .httpd import Request, Response
from .pricing import PriceList
from .queues import Queues
from .rates import Rates
from .requestlog import RequestLog
from .wire import error_xml
from .world import Worlds
from .zonalshift import ZonalShifts

# Importing these modules registers their handlers.
HANDLERS = (describe, fleet, images, instance_types, interfaces, placement, reservations, run_instances, spot, status, tags, templates)
JSON_SERVICES = ("ssm", "sqs", "events", "pricing", "eks", "arc-zonal-shift")


class Gateway:
    def __init__(self, worlds: Worlds, log: RequestLog, cluster: Cluster):
        self.worlds, self.log, self.cluster = worlds, log, cluster
        shared = worlds.shared
        self.faults, self.wire = shared.faults, shared.wire
        self.price_list = PriceList(shared.prices, shared.types, shared.pager)
        self.shifts = ZonalShifts(cluster)
        self._rates: Rates | None = None
        self.control_url = ""  # set when the control path listens; tells the node joiner where it is
        self.queues = Queues()
        self.queues.install()
        self.moto = DomainDispatcherApplication(create_backend_app)

    def _limit(self, action: str, access_key: str) -> None:
        """The rates of an account, where they are switched on. Buckets are full when that happens."""
        share = self.worlds.shared.settings.request_rates
        if self._rates is None or self._rates.share != share:
            self._rates = Rates(share)
        if share and access_key not in SPARED and not self._rates.allows(action):
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)

    def __call__(self, request: Request) -> Response:
        if request.path == "/_local/control":
            return json_response({"url": self.control_url}, "", "application/json")
        started = time.perf_counter()
        access_key, region, service = credentials(request)
        action, form = self._action(service, request)
        request_id = str(uuid.uuid4())
        params: dict[str, Any] = {}
        code = ""
        try:
            if service == "ec2" and action in EC2:
                params = self.wire.parse(action, form)
            else:
                params = loose(request, form)
            self.faults.apply(action, access_key, service in JSON_SERVICES)
            if service == "ec2":
                self._limit(action, access_key)
            response = self._answer(request, service, action, region, access_key, params, request_id)
            if response.status >= 400:
                code = "moto"
            response = spoilt(self.faults.oddity(action), response)
        except AwsError as error:
            code = error.code
            response = render_error(service, error, request_id)
        except Exception as error:
            traceback.print_exc()
            code = "InternalError"
            problem = AwsError("InternalError", f"{type(error).__name__}: {error}")
            response = render_error(service, problem, request_id)
        ms = (time.perf_counter() - started) * 1000
        self.log.record(service, action, region, access_key, params, response.status, code, ms)
        return response

    def warm(self, region: str) -> None:
        """Makes once what every client lists first; called from a thread at start so that none of them waits for it."""
        shared, world = self.worlds.shared, self.worlds.get(region)
        shared.types.warm()
        for action, params in (
            ("DescribeInstanceTypeOfferings", {"LocationType": "availability-zone"}),
            ("DescribeSpotPriceHistory", {"StartTime": time.time()}),
        ):
            with world.lock:
                EC2[action](Call(world, region, "warm", action), params)
        self.price_list.warm(region)
        signed = f"AWS4-HMAC-SHA256 Credential=warm/20260101/{region}/ec2/aws4_request"
        headers = {"authorization": signed, "content-type": "application/x-www-form-urlencoded", "host": "ec2"}
        self._moto(Request("POST", "/", headers, b"Action=DescribeAvailabilityZones&Version=2016-11-15"))

    def _action(self, service: str, request: Request) -> tuple[str, list[tuple[str, str]]]:
        target = request.headers.get("x-amz-target")
        if target:
            return target.rsplit(".", 1)[-1], []
        form: list[tuple[str, str]] = []
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            form = parse_qsl(request.body.decode(), keep_blank_values=True)
        elif "Action=" in request.query:
            form = parse_qsl(request.query, keep_blank_values=True)
        for key, value in form:
            if key == "Action":
                return value, form
        return rest_action(service, request), form

    def _answer(self, request, service, action, region, access_key, params, request_id) -> Response:
        if service == "ec2" and action in EC2:
            world = self.worlds.get(region)
            with world.lock:
                nothing = self.faults.oddity(action) == "nothing"
                result = {} if nothing else EC2[action](Call(world, region, access_key, action), params)
                body = self.wire.render(action, result, request_id)
            return Response(200, [("Content-Type", "text/xml;charset=UTF-8"), ("x-amzn-requestid", request_id)], body)
        if service == "pricing":
            if action != "GetProducts":
                raise AwsError("InvalidParameterException", f"{action} is not served here; GetProducts is.")
            nothing = self.faults.oddity(action) == "nothing"
            answer = {"FormatVersion": "aws_v1", "PriceList": []} if nothing else self.price_list.get_products(params)
            return json_response(answer, request_id)
        if service == "ssm":
            answer = self.worlds.get(region).parameters.handle(action, params)
            if answer is not None:
                return json_response(answer, request_id)
        if service == "sqs":
            host = request.headers.get("host", "127.0.0.1")
            return json_response(self.queues.handle(region, host, action, params), request_id, "application/x-amz-json-1.0")
        if service == "eks" and self.cluster.answers(request.method, request.path):
            return json_response(self.cluster.describe(region), request_id, "application/json")
        if service == "arc-zonal-shift":
            zones = sorted(self.worlds.get(region).network.zone_ids().values())
            answer = self.shifts.handle(region, zones, request.method, request.path, params)
            return json_response(answer, request_id, "application/json")
        if service == "ec2" and action in motopages.ACTIONS:
            paging = {k: v for k, v in params.items() if k in ("MaxResults", "NextToken")}
            if paging or self.faults.page_limit(action) is not None:
                if "MaxResults" in paging:
                    paging["MaxResults"] = int(paging["MaxResults"])
                request.body = motopages.without_paging(request.body)
                answer = self._moto(request)
                if answer.status != 200:
                    return answer
                return motopages.cut(action, answer, paging, self.worlds.shared.pager)
        return self._moto(request)

    def _moto(self, request: Request) -> Response:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote(request.path),
            "RAW_URI": request.target,
            "REQUEST_URI": request.target,
            "QUERY_STRING": request.query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(request.body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(request.body),
            "wsgi.input_terminated": True,
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in request.headers.items():
            if name not in ("content-type", "content-length"):
                environ["HTTP_" + name.upper().replace("-", "_")] = value
        out: dict[str, Any] = {}

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            out["status"], out["headers"] = int(status.split()[0]), headers
            return lambda data: None

        chunks = self.moto(environ, start)
        try:
            body = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return Response(out["status"], out["headers"], body)


def spoilt(kind: str, response: Response) -> Response:
    """The answer as something on the way may leave it."""
    if kind == "empty":
        return Response(200, response.headers, b"")
    if kind == "cut":
        return Response(200, response.headers, response.body[: len(response.body) // 2])
    if kind == "garbage":
        return Response(200, [("Content-Type", "text/html")], b"<html><body>Sign in to the network</body></html>")
    return response


def credentials(request: Request) -> tuple[str, str, str]:
    """(access key, region, service) from the SigV4 Authorization header."""
    header = request.headers.get("authorization", "")
    if "Credential=" in header:
        scope = header.split("Credential=", 1)[1].split(",", 1)[0].split("/")
        if len(scope) >= 5:
            service = scope[-2].lower()
            return "/".join(scope[:-4]), scope[-3], {"eventbridge": "events"}.get(service, service)
    return "", "us-east-1", ""


def rest_action(service: str, request: Request) -> str:
    parts = request.path.strip("/").split("/")
    if service == "eks" and parts[0] == "clusters" and request.method == "GET":
        return "ListClusters" if len(parts) == 1 else "DescribeCluster" if len(parts) == 2 else f"GET {request.path}"
    if service == "arc-zonal-shift":
        names = {
            ("GET", "managedresources"): "GetManagedResource" if len(parts) > 1 else "ListManagedResources",
            ("GET", "zonalshifts"): "ListZonalShifts",
            ("POST", "zonalshifts"): "StartZonalShift",
            ("DELETE", "zonalshifts"): "CancelZonalShift",
        }
        return names.get((request.method, parts[0]), f"{request.method} {request.path}")
    return f"{request.method} {request.path}"


def loose(request: Request, form: list[tuple[str, str]]) -> dict[str, Any]:
    """Parameters of a call whose model we do not read: JSON as it is, forms as a flat dict."""
    if form:
        return {k: v for k, v in form if k not in ("Action", "Version")}
    if request.body[:1] == b"{":
        try:
            return json.loads(request.body)
        except ValueError:
            return {}
    if request.path.startswith("/clusters/"):
        return {"name": unquote(request.path.split("/")[2])}
    return {}


def json_response(answer: dict[str, Any], request_id: str, kind: str = "application/x-amz-json-1.1") -> Response:
    return Response(200, [("Content-Type", kind), ("x-amzn-RequestId", request_id)], json.dumps(answer).encode())


def render_error(service: str, error: AwsError, request_id: str) -> Response:
    if service in JSON_SERVICES:
        body = json.dumps({"__type": error.code, "message": error.message, "Message": error.message}).encode()
        headers = [("Content-Type", "application/x-amz-json-1.1"), ("x-amzn-RequestId", request_id), ("x-amzn-ErrorType", error.code)]
        return Response(error.status, headers, body)
    headers = [("Content-Type", "text/xml;charset=UTF-8"), ("x-amzn-requestid", request_id)]
    if service == "ec2":
        return Response(error.status, headers, error_xml(error.code, error.message, request_id))
    body = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{escape(error.code)}</Code>"
        f"<Message>{escape(error.message)}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()
    return Response(error.status, headers, body)
