"""SQS standard queues (JSON protocol), and the way EventBridge's events get into them.

moto's queues recount all messages at each send and receive, which makes a storm of a few thousand
interruption messages take minutes. These are heaps ordered by the time at which a message becomes
visible; a long poll sleeps until there is something to give. FIFO queues are not served.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import itertools
import json
import struct
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.core.utils import iso_8601_datetime_without_milliseconds, utcfromtimestamp
from moto.events.models import Rule

from . import ACCOUNT
from .errors import AwsError

DEFAULTS = {
    "VisibilityTimeout": "30",
    "MaximumMessageSize": "262144",
    "MessageRetentionPeriod": "345600",
    "DelaySeconds": "0",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
}


@dataclass
class Message:
    id: str
    body: str
    attributes: dict[str, Any]
    sent: float
    visible_at: float
    receives: int = 0
    first_received: float = 0
    handle: str = ""

    def describe(self, names: set[str], attribute_names: set[str]) -> dict[str, Any]:
        system = {
            "SentTimestamp": str(int(self.sent * 1000)),
            "ApproximateReceiveCount": str(self.receives),
            "ApproximateFirstReceiveTimestamp": str(int(self.first_received * 1000)),
            "SenderId": ACCOUNT,
        }
        answer: dict[str, Any] = {
            "MessageId": self.id,
            "ReceiptHandle": self.handle,
            "MD5OfBody": hashlib.md5(self.body.encode()).hexdigest(),
            "Body": self.body,
        }
        shown = system if "All" in names else {k: v for k, v in system.items() if k in names}
        if shown:
            answer["Attributes"] = shown
        every = attribute_names & {"All", ".*"}
        custom = {k: v for k, v in self.attributes.items() if every or k in attribute_names}
        if custom:
            answer["MessageAttributes"] = custom
            answer["MD5OfMessageAttributes"] = attributes_md5(custom)
        return answer


@dataclass
class Queue:
    name: str
    region: str
    attributes: dict[str, str]
    created: float = field(default_factory=time.time)
    messages: dict[str, Message] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    _heap: list[tuple[float, int, str]] = field(default_factory=list)
    _ties: Any = field(default_factory=itertools.count)

    @property
    def arn(self) -> str:
        return f"arn:aws:sqs:{self.region}:{ACCOUNT}:{self.name}"

    def number(self, attribute: str) -> float:
        return float(self.attributes.get(attribute, DEFAULTS.get(attribute, "0")))

    def send(self, body: str, attributes: dict[str, Any] | None = None, delay: float | None = None) -> Message:
        if len(body.encode()) > self.number("MaximumMessageSize"):
            raise AwsError("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes.")
        now = time.time()
        wait = self.number("DelaySeconds") if delay is None else delay
        message = Message(str(uuid.uuid4()), body, attributes or {}, now, now + wait)
        with self.changed:
            self.messages[message.id] = message
            self._push(message)
            self.changed.notify()
        return message

    def _push(self, message: Message) -> None:
        heapq.heappush(self._heap, (message.visible_at, next(self._ties), message.id))

    def receive(self, most: int, wait: float, visibility: float, dead_letters: "Queue | None") -> list[Message]:
        deadline = time.time() + wait
        with self.changed:
            while True:
                found = self._take(most, visibility, dead_letters)
                now = time.time()
                if found or now >= deadline:
                    return found
                until = min(deadline, self._heap[0][0]) if self._heap else deadline
                self.changed.wait(max(until - now, 0.001))

    def _take(self, most: int, visibility: float, dead_letters: "Queue | None") -> list[Message]:
        now = time.time()
        oldest = now - self.number("MessageRetentionPeriod")
        found: list[Message] = []
        while self._heap and len(found) < most and self._heap[0][0] <= now:
            visible_at, _, message_id = heapq.heappop(self._heap)
            message = self.messages.get(message_id)
            if message is None or message.visible_at != visible_at:
                continue
            if message.sent < oldest:
                del self.messages[message_id]
                continue
            if dead_letters is not None and message.receives >= self.redrive()["maxReceiveCount"]:
                del self.messages[message_id]
                dead_letters.send(message.body, message.attributes)
                continue
            message.receives += 1
            message.first_received = message.first_received or now
            message.handle = f"{message_id}#{message.receives}#{uuid.uuid4().hex}"
            message.visible_at = now + visibility
            self._push(message)
            found.append(message)
        return found

    def redrive(self) -> dict[str, Any]:
        policy = json.loads(self.attributes.get("RedrivePolicy") or "{}")
        return {**policy, "maxReceiveCount": int(policy.get("maxReceiveCount", 1 << 30))}

    def delete(self, handle: str) -> None:
        """An old handle still deletes, as on a standard queue; a handle of a gone message is fine."""
        if "#" not in handle:
            raise AwsError("ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.')
        with self.changed:
            self.messages.pop(handle.split("#")[0], None)

    def set_visibility(self, handle: str, seconds: float) -> None:
        with self.changed:
            message = self.messages.get(handle.split("#")[0])
            if message is None:
                raise AwsError("MessageNotInflight", "The specified message isn't in flight.")
            message.visible_at = time.time() + seconds
            self._push(message)
            self.changed.notify()

    def describe(self) -> dict[str, str]:
        now = time.time()
        with self.changed:
            visible = sum(m.visible_at <= now for m in self.messages.values())
            hidden = sum(m.visible_at > now and m.receives > 0 for m in self.messages.values())
            return {
                **DEFAULTS,
                **self.attributes,
                "QueueArn": self.arn,
                "CreatedTimestamp": str(int(self.created)),
                "LastModifiedTimestamp": str(int(self.created)),
                "ApproximateNumberOfMessages": str(visible),
                "ApproximateNumberOfMessagesNotVisible": str(hidden),
                "ApproximateNumberOfMessagesDelayed": str(len(self.messages) - visible - hidden),
            }


class Queues:
    """The queues of all regions, and the SQS actions on them."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Queue] = {}

    def find(self, region: str, url: str) -> Queue:
        queue = self.by_name.get((region, url.rstrip("/").rsplit("/", 1)[-1]))
        if queue is None:
            raise AwsError("QueueDoesNotExist", "The specified queue does not exist.")
        return queue

    def deliver(self, region: str, name: str, body: str) -> None:
        queue = self.by_name.get((region, name))
        if queue is not None:
            queue.send(body)

    def install(self) -> None:
        """Lets moto's EventBridge rules deliver into these queues."""
        queues = self

        def send(rule: Rule, resource_id: str, event: dict[str, Any], group_id: str | None = None) -> None:
            event["time"] = iso_8601_datetime_without_milliseconds(utcfromtimestamp(float(event["time"])))
            queues.deliver(rule.region_name, resource_id, json.dumps(event))

        Rule._send_to_sqs_queue = send  # type: ignore[method-assign]

    def handle(self, region: str, host: str, action: str, p: dict[str, Any]) -> dict[str, Any]:
        url = lambda name: f"http://{host}/{ACCOUNT}/{name}"  # noqa: E731
        if action == "CreateQueue":
            name = p["QueueName"]
            if name.endswith(".fifo"):
                raise AwsError("InvalidParameterValue", "FIFO queues are not served here.")
            given = {k: str(v) for k, v in (p.get("Attributes") or {}).items()}
            self.by_name.setdefault((region, name), Queue(name, region, given))
            return {"QueueUrl": url(name)}
        if action == "GetQueueUrl":
            return {"QueueUrl": url(self.find(region, p["QueueName"]).name)}
        if action == "ListQueues":
            prefix = p.get("QueueNamePrefix", "")
            return {"QueueUrls": [url(n) for r, n in sorted(self.by_name) if r == region and n.startswith(prefix)]}
        queue = self.find(region, p.get("QueueUrl", ""))
        handler = getattr(self, "_" + action, None)
        if handler is None:
            raise AwsError("UnsupportedOperation", f"{action} is not served here.")
        return handler(queue, p)

    def _DeleteQueue(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        del self.by_name[(queue.region, queue.name)]
        return {}

    def _PurgeQueue(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        with queue.changed:
            queue.messages.clear()
        return {}

    def _GetQueueAttributes(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        names = set(p.get("AttributeNames") or [])
        return {"Attributes": {k: v for k, v in queue.describe().items() if "All" in names or k in names}}

    def _SetQueueAttributes(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        queue.attributes.update({k: str(v) for k, v in p["Attributes"].items()})
        return {}

    def _SendMessage(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        attributes = p.get("MessageAttributes") or {}
        message = queue.send(p["MessageBody"], attributes, p.get("DelaySeconds"))
        answer = {"MessageId": message.id, "MD5OfMessageBody": hashlib.md5(message.body.encode()).hexdigest()}
        if attributes:
            answer["MD5OfMessageAttributes"] = attributes_md5(attributes)
        return answer

    def _SendMessageBatch(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        check_batch(p["Entries"])
        return {"Successful": [{"Id": e["Id"], **self._SendMessage(queue, e)} for e in p["Entries"]], "Failed": []}

    def _ReceiveMessage(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        most = p.get("MaxNumberOfMessages", 1)
        if not 1 <= most <= 10:
            raise AwsError(
                "InvalidParameterValue",
                f"Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
            )
        wait = p.get("WaitTimeSeconds", queue.number("ReceiveMessageWaitTimeSeconds"))
        visibility = p.get("VisibilityTimeout", queue.number("VisibilityTimeout"))
        target = queue.redrive().get("deadLetterTargetArn")
        dead_letters = self.find(queue.region, target.rsplit(":", 1)[-1]) if target else None
        found = queue.receive(most, wait, visibility, dead_letters)
        names = set(p.get("MessageSystemAttributeNames") or []) | set(p.get("AttributeNames") or [])
        custom = set(p.get("MessageAttributeNames") or [])
        return {"Messages": [m.describe(names, custom) for m in found]} if found else {}

    def _DeleteMessage(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        queue.delete(p["ReceiptHandle"])
        return {}

    def _DeleteMessageBatch(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        return each_entry(p, lambda entry: queue.delete(entry["ReceiptHandle"]))

    def _ChangeMessageVisibility(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        queue.set_visibility(p["ReceiptHandle"], float(p["VisibilityTimeout"]))
        return {}

    def _ChangeMessageVisibilityBatch(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        return each_entry(
            p, lambda entry: queue.set_visibility(entry["ReceiptHandle"], float(entry.get("VisibilityTimeout", 0)))
        )

    def _TagQueue(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _ListQueueTags(self, queue: Queue, p: dict[str, Any]) -> dict[str, Any]:
        return {"Tags": {}}


def each_entry(p: dict[str, Any], act: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """A batch call: entries succeed and fail one by one."""
    check_batch(p["Entries"])
    done, failed = [], []
    for entry in p["Entries"]:
        try:
            act(entry)
            done.append({"Id": entry["Id"]})
        except AwsError as error:
            failed.append({"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message})
    return {"Successful": done, "Failed": failed}


def check_batch(entries: list[dict[str, Any]]) -> None:
    if not entries:
        raise AwsError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > 10:
        raise AwsError("TooManyEntriesInBatchRequest", f"Maximum number of entries per request are 10. You have sent {len(entries)}.")
    if len({e["Id"] for e in entries}) < len(entries):
        raise AwsError("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")


def attributes_md5(attributes: dict[str, Any]) -> str:
    """The digest that SDKs check: each name, type and value with its length, in order of name."""
    digest = hashlib.md5()
    for name in sorted(attributes):
        value = attributes[name]
        for text in (name, value["DataType"]):
            digest.update(struct.pack(">I", len(text.encode())) + text.encode())
        if "StringValue" in value:
            data = value["StringValue"].encode()
            digest.update(b"\x01" + struct.pack(">I", len(data)) + data)
        else:
            data = base64.b64decode(value.get("BinaryValue", ""))
            digest.update(b"\x02" + struct.pack(">I", len(data)) + data)
    return digest.hexdigest()
