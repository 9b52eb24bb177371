"""Arguments: the gateway's address, a name, and bytes in hexadecimal. Prints what it was told."""

import importlib
import io
import json
import pkgutil
import sys
import uuid

import postern
from postern import Client
from postern.api.configuration import put_config
from postern.api.locks import acquire_lock
from postern.api.queues import push_raw_message
from postern.models import AcquireLockRequest, AcquiredLock, LeaseOfAcquire, Problem, PushedMessage, WrittenKey
from postern.models.put_config_if_none_match import PutConfigIfNoneMatch
from postern.types import File

# All of what was made, not only what is used here.
for module in pkgutil.walk_packages(postern.__path__, "postern."):
    importlib.import_module(module.name)

url, name, hexadecimal = sys.argv[1:]
client = Client(base_url=url, raise_on_unexpected_status=True)


def raw():
    return File(payload=io.BytesIO(bytes.fromhex(hexadecimal)))


def acquire(label):
    request = AcquireLockRequest(lease=LeaseOfAcquire(ttl_ms=15_000, label=label), request_id=str(uuid.uuid4()))
    return acquire_lock.sync(name, client=client, body=request)


def expect(kind, answer):
    if not isinstance(answer, kind):
        raise SystemExit(f"not a {kind.__name__}: {answer}")
    return answer


held = expect(AcquiredLock, acquire("held"))
refused = expect(Problem, acquire("refused"))
pushed = expect(PushedMessage, push_raw_message.sync(name, client=client, body=raw()))
put = expect(
    WrittenKey,
    put_config.sync(f"{name}/primary", client=client, body=raw(), if_none_match=PutConfigIfNoneMatch.VALUE_0),
)
print(
    json.dumps(
        {
            "fencingToken": held.fencing_token,
            "refused": refused.code,
            "pushed": int(pushed.status),
            "etag": put.etag,
        }
    )
)
