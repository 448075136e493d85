#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What clients do to a server: keys, origins, Unix sockets, silent and broken connections, large
bodies, clients that go away, a full queue, deadlines, SIGTERM under load."""
import threading
from serving import *

skip_without_server()
CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
SHORT = {"prompt": "Once", "max_tokens": 3, "temperature": 0}
LONG = {"prompt": "Once", "max_tokens": 450, "ignore_eos": True, "temperature": 0}


def raw(server, data):
    c = socket.create_connection((server.host, server.port), timeout=60)
    c.sendall(data)
    return c


def request_bytes(path, body):
    text = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\n\r\n").encode() + text


def wait_for(what, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


# Keys and origins.
with Server("--api-key", "secret", "--cors", "https://page.example") as s:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer secre"},
                    {"Authorization": "Bearer secrett"}, {"Authorization": "secret"},
                    {"X-API-Key": ""}):
        answer = s.post(COMPLETE, SHORT, 401, headers=headers)
        check(answer["error"]["code"] == "invalid_api_key", str(answer))
    for headers in ({"Authorization": "Bearer secret"}, {"authorization": "bearer secret"},
                    {"X-API-Key": "secret"}):
        s.post(COMPLETE, SHORT, headers=headers)
    check(s.ask("GET", "/health")[0] == 200, "health needs a key")
    check(s.ask("GET", "/v1/models")[0] == 401, "models need no key")
    status, headers, _ = s.ask("OPTIONS", CHAT)
    check(status == 204 and headers["Access-Control-Allow-Origin"] == "https://page.example"
          and "Authorization" in headers["Access-Control-Allow-Headers"], str(headers))
    asked = "authorization, content-type, x-stainless-os, anthropic-version"
    headers = s.ask("OPTIONS", CHAT, headers={"Access-Control-Request-Headers": asked})[1]
    check(headers["Access-Control-Allow-Headers"] == asked and headers["Access-Control-Max-Age"],
          f"headers that clients in browsers send: {headers}")

# A Unix socket: for its user only, removed at the end, taken over from a server that died.
path = TMP / "socket"
for how in (signal.SIGKILL, signal.SIGTERM):
    s = Server("--unix", path)
    check(s.url == f"unix:{path}" and path.stat().st_mode & 0o777 == 0o600, "the socket's mode")
    c = socket.socket(socket.AF_UNIX)
    c.connect(str(path))
    c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    check(b"200 OK" in c.recv(1000), "health over a Unix socket")
    second = subprocess.run([TOOL, "serve", MODEL, "--unix", path], capture_output=True, text=True)
    check(second.returncode == 1 and "another server does" in second.stderr, str(second))
    c.close()
    s.stop(how)
    check(path.exists() == (how == signal.SIGKILL), f"the socket after {how}")

with Server("--timeout", "2", "--max-body", "100000", "--max-connections", "250",
            "--queue", "4", "--sequences", "1") as s:
    busy = subprocess.run([TOOL, "serve", MODEL, "--port", str(s.port)], capture_output=True,
                          text=True)
    check(busy.returncode == 1 and "cannot listen" in busy.stderr, f"a port in use: {busy}")

    # Connections that say nothing, half a request, no HTTP: others are answered meanwhile.
    silent = [socket.create_connection((s.host, s.port)) for _ in range(200)]
    halves = [raw(s, request_bytes(COMPLETE, SHORT)[:n]) for n in (5, 40, 120)]
    begin = time.time()
    s.post(COMPLETE, SHORT)
    check(time.time() - begin < 20, "a request waited for silent connections")
    nonsense = raw(s, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)))
    silent[0].settimeout(30)
    check(silent[0].recv(10) == b"", "a silent connection was kept")
    for c in silent + halves + [nonsense]:
        c.close()

    # Large bodies: refused by their length before they come, and when they come without one.
    c = raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n")
    check(b" 413 " in c.recv(1000), "100 MB by Content-Length")
    c.close()
    c = raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(30):
        c.sendall(b"2000\r\n" + b"x" * 8192 + b"\r\n")
    c.sendall(b"0\r\n\r\n")
    check(b" 413 " in c.recv(1000), "240 KB in chunks")
    c.close()
    c = raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for sent in range(4000):
            c.sendall(b"2000\r\n" + b"x" * 8192 + b"\r\n")
    except OSError:
        pass
    check(sent < 3999, "a body without end was read to 32 MB")
    c.close()
    status = s.ask("GET", "/health", headers={"X-Long": "x" * 60000})[0]
    check(status in (413, 431), f"a header of 60 KB: {status}")

    # Clients that go away, in the middle of a stream or before an answer: their texts end.
    for stream in (True, False):
        before = s.metrics()
        gone = [raw(s, request_bytes(COMPLETE, {**LONG, "stream": stream})) for _ in range(3)]
        wait_for(lambda: s.metrics()["rlx_jobs_running"] == 1)
        if stream:
            gone[0].recv(100)
        for c in gone:
            c.close()
        check(wait_for(lambda: s.metrics()["rlx_jobs_running"] == 0
                       and s.metrics()["rlx_jobs_waiting"] == 0
                       and s.metrics()["rlx_requests_active"] == 1), "texts of clients that left")
        made = s.metrics()["rlx_generated_tokens_total"] - before["rlx_generated_tokens_total"]
        check(made < 3 * 450, f"{made} tokens for clients that left (stream: {stream})")
    s.post(COMPLETE, SHORT)

    # A full queue: 429 with the time to come again, and those in it are answered.
    results = []

    def one():
        results.append(s.ask("POST", COMPLETE, {**LONG, "max_tokens": 60}))
    threads = [threading.Thread(target=one) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    counts = {n: sum(r[0] == n for r in results) for n in (200, 429)}
    check(counts[200] + counts[429] == 16 and counts[200] >= 5, f"a full queue: {counts}")
    check(all(r[1]["Retry-After"] for r in results if r[0] == 429), "Retry-After")

# Limits of time and tokens.
with Server("--max-tokens", "5", "--max-seconds", "1") as s:
    check(s.post(COMPLETE, LONG)["usage"]["completion_tokens"] == 5, "--max-tokens")

# SIGTERM under load: what runs ends whole, new connections are refused, the status is that of the
# signal; with --drain 0 what runs is told.
s = Server("--drain", "60", "--sequences", "1")
answers = []


def long_stream():
    answers.append(s.stream(COMPLETE, LONG))


looks = 0


def under_load():
    global looks
    now = s.metrics()
    looks += 1
    return (now["rlx_requests_total"] >= 8 + looks - 1 and now["rlx_jobs_running"] == 1
            and now["rlx_jobs_waiting"] >= 1)


threads = [threading.Thread(target=long_stream) for _ in range(8)]
for t in threads:
    t.start()
check(wait_for(under_load, 20), "eight streams were over before they were seen")
kept = s.connect()
kept.connect()
s.process.send_signal(signal.SIGTERM)


def refused():
    try:
        socket.create_connection((s.host, s.port), timeout=1).close()
        return False
    except OSError:
        return True


check(wait_for(refused, 5) or s.process.poll() is not None, "connections while draining")
for t in threads:
    t.join()
check(len(answers) == 8 and all(a[-1]["choices"][0]["finish_reason"] == "length" for a in answers),
      "streams were cut by SIGTERM")
check(s.process.wait(30) == -signal.SIGTERM, "the status after SIGTERM")

s = Server("--drain", "0")
c = raw(s, request_bytes(COMPLETE, {**LONG, "stream": True}))
c.recv(100)
begin = time.time()
s.stop()
check(time.time() - begin < 20, "--drain 0 takes long")

finish()
