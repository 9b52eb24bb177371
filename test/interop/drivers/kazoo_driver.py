"""kazoo's recipes, told by lines what to do: test/interop/peer.ts says how. One session, and a thread for each thing.

Arguments: connect string, session timeout in ms.
"""

import queue
import sys
import threading

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
saying = threading.Lock()


def answer(identifier, how, values):
    line = "\t".join([identifier, how, *(str(value).replace("\n", "\\n") for value in values)])
    with saying:
        print(line, flush=True)


def lock(recipe):
    return {
        "acquire": lambda: [recipe.acquire()],
        "try": lambda ms: [recipe.acquire(blocking=False)],
        "release": lambda: [recipe.release()],
    }


def barrier(recipe):
    return {
        "raise": lambda: [recipe.create()],
        "wait": lambda: [recipe.wait()],
        "lift": lambda: [recipe.remove()],
    }


def double_barrier(recipe):
    return {"enter": lambda: [recipe.enter()], "leave": lambda: [recipe.leave()]}


def party(recipe):
    return {
        "join": lambda: [recipe.join()],
        "leave": lambda: [recipe.leave()],
        "members": lambda: sorted(recipe),
    }


def election(path, name, *patterns):
    recipe = client.Election(path, name)
    if patterns:
        recipe.lock = client.Lock(path, name, extra_lock_patterns=patterns)
    return lock(recipe.lock)


MAKERS = {
    "lock": lambda path, *patterns: lock(client.Lock(path, "kazoo", extra_lock_patterns=patterns)),
    "read": lambda path, *patterns: lock(client.ReadLock(path, "kazoo", extra_lock_patterns=patterns)),
    "write": lambda path, *patterns: lock(client.WriteLock(path, "kazoo", extra_lock_patterns=patterns)),
    "semaphore": lambda path, limit: lock(client.Semaphore(path, "kazoo", max_leases=int(limit))),
    "election": election,
    "barrier": lambda path: barrier(client.Barrier(path)),
    "double": lambda path, size: double_barrier(client.DoubleBarrier(path, int(size))),
    "party": lambda path, name: party(client.Party(path, name)),
    "shallow-party": lambda path, name: party(client.ShallowParty(path, name)),
}


def work(orders):
    thing = {}
    while True:
        identifier, verb, args = orders.get()
        try:
            if verb == "make":
                thing = MAKERS[args[0]](*args[1:])
                answer(identifier, "ok", [])
            else:
                answer(identifier, "ok", thing[verb](*args))
        except Exception as error:
            answer(identifier, "error", [" ".join(repr(error).split())])


client.start(timeout=30)
threads = {}
answer("0", "ok", [])
for line in sys.stdin:
    identifier, name, verb, *args = line.rstrip("\n").split("\t")
    if name not in threads:
        threads[name] = queue.Queue()
        threading.Thread(target=work, args=(threads[name],), daemon=True).start()
    threads[name].put((identifier, verb, args))
