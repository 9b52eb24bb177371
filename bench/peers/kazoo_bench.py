"""kazoo's Lock and Queue under load: a thread and a client (a session) for each contender.

Arguments: lock or queue, connect string, base path, threads, locks or depth, hold ms, warm-up s, seconds. Prints "begin" when it starts to
count and one line of JSON at the end.
"""

import json
import sys
import threading
import time

from kazoo.client import KazooClient

what, connect, base = sys.argv[1:4]
threads, things, hold_ms = (int(text) for text in sys.argv[4:7])
warm_up, seconds = (float(text) for text in sys.argv[7:9])

measuring = False
over = False
violations = 0
errors = []
times = []
seen = set()
holders = [0] * max(things, 1)


def lock_worker(client, me):
    lock = client.Lock(f"{base}/{me % things}", str(me))

    def once():
        global violations
        with lock:
            holders[me % things] += 1
            if holders[me % things] != 1:
                violations += 1
            if hold_ms:
                time.sleep(hold_ms / 1000)
            holders[me % things] -= 1

    return once


def queue_worker(client, me):
    queue = client.Queue(base)
    count = 0

    def once():
        global violations
        nonlocal count
        count += 1
        queue.put(f"{me}-{count}".encode())
        message = queue.get()
        if message is None or message in seen:
            violations += 1
        seen.add(message)

    return once


def work(once):
    while not over:
        started = time.perf_counter()
        try:
            once()
        except Exception as error:
            errors.append(repr(error))
            continue
        if measuring:
            times.append(time.perf_counter() - started)


clients = [KazooClient(hosts=connect, timeout=60) for _ in range(threads)]
for client in clients:
    client.start(timeout=60)
if what == "queue":
    for i in range(things):
        clients[0].Queue(base).put(f"fill-{i}".encode())
make = lock_worker if what == "lock" else queue_worker
workers = [threading.Thread(target=work, args=(make(client, i),)) for i, client in enumerate(clients)]
for worker in workers:
    worker.start()
time.sleep(warm_up)
print("begin", flush=True)
started = time.perf_counter()
measuring = True
time.sleep(seconds)
measuring = False
took = time.perf_counter() - started
print("counted", flush=True)
over = True
for worker in workers:
    worker.join()
ordered = sorted(times)


def at(q):
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))] * 1000 if ordered else 0


print(
    json.dumps(
        {
            "operations": len(ordered),
            "seconds": took,
            "p50": at(0.5),
            "p99": at(0.99),
            "errors": len(errors),
            "violations": violations,
            "firstError": errors[0] if errors else "",
        }
    ),
    flush=True,
)
