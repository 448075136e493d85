#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""deploy/: two replicas behind HAProxy with the rules of deploy/haproxy.cfg. Conversations come
back to the replica that has their begin in its cache; a drained replica ends its streams while new
requests go to the other; a killed one loses no later request. Socket activation as systemd does
it, the units and the manifests. What is not installed is skipped, with a line that says so."""
import shutil
import threading
from serving import *

skip_without_server()
DEPLOY = SOURCE / "deploy"
CHAT = "/v1/chat/completions"
WORDS = "dog cat bird tree house river stone cloud light song bread apple".split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Balancer:
    """HAProxy with the configuration of deploy/, before two replicas."""

    def __init__(self, a, b):
        self.host, self.port = "127.0.0.1", free_port()
        env = {**os.environ, "RLX_BIND": f"127.0.0.1:{self.port}",
               "RLX_A": f"127.0.0.1:{a.port}", "RLX_B": f"127.0.0.1:{b.port}"}
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["haproxy", "-db", "-f", str(DEPLOY / "haproxy.cfg")],
                                        env=env, stdout=self.log, stderr=self.log)
        end = time.time() + 20
        while True:
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.time() > end:
                self.log.seek(0)
                raise RuntimeError(f"no balancer: {self.log.read()}")
            time.sleep(0.1)

    connect, ask, post = Server.connect, Server.ask, Server.post

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def talk(where, number, turns, out):
    """A conversation of its own under a system prompt that all share."""
    messages = [{"role": "system", "content": "You tell stories to children. " * 4},
                {"role": "user", "content": f"Story {number} of a {WORDS[number % 12]}. "
                 + " ".join(WORDS[(number * 7 + i * 5) % 12] for i in range(60))}]
    for turn in range(turns):
        status, _, answer = where.ask("POST", CHAT, {"messages": messages, "max_tokens": 12,
                                                     "temperature": 0})
        if status != 200:
            out.append((turn, None, answer))
            return
        usage = answer["usage"]
        out.append((turn, usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]))
        messages += [answer["choices"][0]["message"],
                     {"role": "user", "content": f"And then, part {turn}?"}]


def all_talk(where, n, turns):
    out = []
    threads = [threading.Thread(target=talk, args=(where, i, turns, out)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def test_prefixes(balancer, a, b):
    """What of a prompt was computed before is found again: on the same replica."""
    out = all_talk(balancer, 12, 4)
    wrong = [o for o in out if o[1] is None]
    check(not wrong and len(out) == 48, f"failed requests: {wrong[:3]}")
    later = [o for o in out if o[0] and o[1] is not None]
    # A page of the cache has 32 tokens: what is new since the last turn and up to a page are not
    # in it. The system prompt alone, which both replicas have, is less than a third.
    hits = [cached >= 0.6 * prompt for _, cached, prompt in later]
    share = sum(hits) / max(1, len(hits))
    print(f"prefix hits: {100 * share:.0f} % of {len(hits)} later turns", flush=True)
    check(share > 0.9, f"prefix hits: {share}: {later}")
    used = [s.metrics()["rlx_generated_tokens_total"] for s in (a, b)]
    check(min(used) > 0, f"one replica did all the work: {used}")


def stream(balancer, number, out):
    c = balancer.connect()
    body = {"messages": [{"role": "user", "content": f"A long story, number {number}."}],
            "max_tokens": 800, "temperature": 0, "ignore_eos": True, "stream": True}
    c.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
    out.append(c.getresponse().read().decode())


def test_drain(balancer, a, b):
    """A replica gets SIGTERM in the middle of streams: all of them end whole."""
    out = []
    threads = [threading.Thread(target=stream, args=(balancer, i, out)) for i in range(8)]
    for t in threads:
        t.start()
    end = time.time() + 20
    while time.time() < end and a.metrics()["rlx_jobs_running"] == 0:
        time.sleep(0.002)
    check(a.metrics()["rlx_jobs_running"] > 0, "no stream runs on the replica")
    a.process.send_signal(signal.SIGTERM)
    answers = [balancer.ask("POST", CHAT, {"messages": [{"role": "user", "content": f"Q {i}"}],
                                           "max_tokens": 3})[0] for i in range(20)]
    check(answers == [200] * 20, f"requests while a replica drains: {answers}")
    for t in threads:
        t.join()
    cut = [text[-200:] for text in out if not text.endswith("data: [DONE]\n\n")]
    check(len(out) == 8 and not cut, f"streams that were cut: {cut}")
    check(a.process.wait(60) == -signal.SIGTERM, "the drained replica has not ended")


def test_kill(balancer, b):
    b.process.kill()
    b.process.wait()
    answers = [balancer.ask("POST", CHAT, {"messages": [{"role": "user", "content": f"R {i}"}],
                                           "max_tokens": 3})[0] for i in range(20)]
    check(answers == [200] * 20, f"requests after a replica was killed: {answers}")


def test_balancer():
    how = ("--ctx", 2048, "--drain", "60", "--sequences", "8")
    a, b = Server(*how), Server(*how)
    balancer = Balancer(a, b)
    try:
        test_prefixes(balancer, a, b)
        test_drain(balancer, a, b)
        # The replica comes back on its port, as systemd restarts it; then the other one dies.
        a = Server(*how, "--port", a.port)
        end = time.time() + 20
        while time.time() < end and a.metrics()["rlx_requests_total"] < 8:
            time.sleep(0.1)  # checks of the balancer
        test_kill(balancer, b)
    finally:
        balancer.stop()
        for s in (a, b):
            s.stop()


def test_activation():
    """The socket listens before the server does, which says when it is ready."""
    port, note = free_port(), str(TMP / "notify")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(note)
    listener.settimeout(60)
    process = subprocess.Popen(
        ["systemd-socket-activate", "-l", f"127.0.0.1:{port}", "-E", f"NOTIFY_SOCKET={note}",
         TOOL, "serve", str(MODEL), "--device", "cpu", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    end = time.time() + 20
    while True:
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.connect()
            break
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.05)
    c.request("GET", "/health")
    check(c.getresponse().status == 200, "health over a socket that was handed over")
    c.close()
    check(process.stdout.readline() == f"listening on http://127.0.0.1:{port}\n", "the address")
    check(listener.recv(100) == b"READY=1", "no READY=1")
    process.terminate()
    check(listener.recv(100) == b"STOPPING=1", "no STOPPING=1")
    check(process.wait(60) == -signal.SIGTERM, "the status after SIGTERM")


def test_files():
    """Both configurations of the balancer have the same rules."""
    rules = [[line.strip() for line in (DEPLOY / name).read_text().splitlines()
              if line.strip().startswith(("http-request set-var", "balance", "hash", "option",
                                          "retr", "default-server", "http-check"))]
             for name in ("haproxy.cfg", "kubernetes/haproxy.cfg")]
    check(rules[0] == rules[1] and len(rules[0]) > 12, f"rules differ: {rules}")
    if shutil.which("kubectl"):
        r = subprocess.run(["kubectl", "kustomize", str(DEPLOY / "kubernetes")],
                           capture_output=True, text=True)
        check(r.returncode == 0 and r.stdout.count("kind: Deployment") == 2, r.stderr)
    else:
        print("the manifests are not read: no kubectl")
    if shutil.which("systemd-analyze"):
        units = []
        for kind in ("service", "socket"):
            text = (DEPLOY / "systemd" / f"rlx@.{kind}").read_text()
            units.append(TMP / f"rlx@8081.{kind}")
            units[-1].write_text(text.replace("/usr/local/bin/rlx", str(Path(TOOL).resolve())))
        r = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, units)],
                           capture_output=True, text=True)
        ours = [line for line in r.stderr.splitlines() if "rlx@" in line]
        check(not ours, f"the units: {ours}")
    else:
        print("the units are not read: no systemd-analyze")


test_files()
if shutil.which("systemd-socket-activate"):
    test_activation()
else:
    print("socket activation is not tested: no systemd-socket-activate")
if shutil.which("haproxy") or os.access("/usr/sbin/haproxy", os.X_OK):
    os.environ["PATH"] += ":/usr/sbin"
    test_balancer()
else:
    print("replicas are not tested: no haproxy")
    if not failures:
        skip("no haproxy")
finish()
