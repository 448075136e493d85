#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx in a headless Chromium: op cases on both devices, the JavaScript API with and without a
worker and JSPI, and the demo page, which must give the tokens of the command line.

A share of the op cases is run, as ops/share.sh takes it. RLX_WEB_SHOTS=DIR keeps pictures of the
page.
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import wasm
from browser import Browser, BrowserError, find_browser

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "web"))
sys.path.append(str(HERE.parent / "support"))
import serve  # noqa: E402  the server of the demo
from share import optest_share  # noqa: E402

MODELS = wasm.SOURCE / ".cache" / "models"
CHAT_MODEL = MODELS / "smollm2-135m-instruct.gguf"
EMBED_MODEL = MODELS / "all-minilm-l6-v2"
PROMPT = "The capital of France is"
N_TOKENS = 24

failures = []
names = []


def report(name, ok, text=""):
    names.append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + text if text else ''}", flush=True)
    if not ok:
        failures.append(name)


def call(page, function, *args, timeout=600):
    """A function of page.mjs with plain data."""
    arguments = ", ".join(json.dumps(arg) for arg in args)
    return page.evaluate(f"import('/tests/page.mjs').then(m => m.{function}({arguments}))",
                         timeout=timeout)


# ---- Op cases and the API ------------------------------------------------------------------------


FAMILIES = ("elementwise matrix quant norm attention shape index reduce order signal random conv "
            "recurrent graphs").split()


def check_ops(page, device, args, name):
    result = call(page, "runOpCases", args, {"device": device})
    if "skip" in result:
        print(f"skip {name}: {result['skip']}")
        return
    lines = result["output"].strip().split("\n")
    if result["status"]:
        print("\n".join(lines[:60]))
    report(name, result["status"] == 0, lines[-1])


def check_gpu_ops(page):
    every, few = optest_share(181), optest_share(61)  # there are fewer graphs than 181
    for family in FAMILIES:
        share = few if family == "graphs" else every
        check_ops(page, "webgpu", ["--family", family, *share], f"op cases on webgpu, {family}")


def check_api(page):
    ways = {
        "worker": {},
        "no worker": {"worker": False},
        "no worker, no JSPI": {"worker": False, "gpu": {"jspi": False}},
    }
    for device in ("cpu", "webgpu"):
        for way, options in ways.items():
            name = f"API on {device}, {way}"
            result = call(page, "runApi", options, device)
            if "skip" in result:
                print(f"skip {name}: {result['skip']}")
                continue
            report(name, not result["failures"],
                   "; ".join(result["failures"]) or f"{result['count']} checks")


def check_loss(page):
    if not page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
        print("skip a lost device: there is no WebGPU adapter")
        return
    result = call(page, "loseDevice")
    report("a lost device is a status, the next one works",
           result == {"status": "device lost", "y": [-5, -6]}, json.dumps(result))


# ---- Generation ----------------------------------------------------------------------------------


def native_result(command, *arguments):
    """What a command of rlx prints as JSON, on the CPU; None with a printed reason. Exact, unless
    the arguments name another policy."""
    tool = os.environ.get("RLX_TOOL", str(wasm.SOURCE / "build" / "rlx"))
    if not os.access(tool, os.X_OK):
        print(f"skip the comparison with rlx {command}: there is no {tool}")
        return None
    done = subprocess.run([tool, command, "--policy", "exact", *arguments, "--device", "cpu",
                           "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        report(f"rlx {command}", False, done.stderr.strip()[-300:])
        return None
    return json.loads(done.stdout)


def native_tokens(prompt, n, *options):
    return native_result("generate", "--model", str(CHAT_MODEL), "--prompt", prompt,
                         "--max-tokens", str(n), "--temperature", "0", *options)


def check_generation(page, expected, device, options):
    """Greedy tokens in the page are those of the command line."""
    n = options["maxTokens"]
    result = call(page, "generateTokens", f"/models/{CHAT_MODEL.name}", PROMPT,
                  {"device": device, **options})
    same = result["tokenIds"] == expected["tokens"][:n]
    threads = options.get("init", {}).get("threads", result["threads"])
    report(f"threads: {json.dumps(options)}", result["threads"] == threads,
           f"{result['threads']} of {threads}")
    report(f"generation on {device}: {json.dumps(options)}",
           same and result["streamed"] == result["text"] and result["stored"],
           f"{n} tokens" if same else f"{result['tokenIds']} is not {expected['tokens'][:n]}")
    if device == "webgpu":
        report("the weights are not in the memory of the module",
               result["memory"] < result["weights"],
               f"{result['memory']} bytes, {result['weights']} of weights")


def check_generations(page):
    expected = native_tokens(PROMPT, N_TOKENS)
    if expected is None:
        return
    check_generation(page, expected, "cpu", {"maxTokens": N_TOKENS, "init": {"threads": 2}})
    check_generation(page, expected, "cpu", {"maxTokens": 4, "init": {"wasm": "/rlx.wasm"}})
    early = call(page, "closeEarly", f"/models/{CHAT_MODEL.name}")
    report("a model that is closed while it generates",
           early == {"finish": "cancelled", "isShort": True, "after": "invalid"}, json.dumps(early))
    if page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
        check_generation(page, expected, "webgpu", {"maxTokens": 3})
        check_generation(page, expected, "webgpu",
                         {"maxTokens": 2, "init": {"gpu": {"jspi": False}},
                          "load": {"cache": False}})


def check_readme(page, base):
    """The script of README.md writes an answer to the page; its begin is enough."""
    text = (wasm.SOURCE / "README.md").read_text(encoding="utf-8")
    script = re.search(r"^```js\n(.*?)^```$", text, re.M | re.S).group(1)
    head = "import { init } from './rlx.mjs';"
    report("README.md imports the module", script.startswith(head))
    page.open(f"{base}/tests/page.html")
    page.evaluate("history.replaceState(null, '', '/'), document.body.replaceChildren()")
    script = script.replace(head, "const { init } = await import('/rlx.mjs');")
    page.evaluate(f"void (async () => {{ {script} }})()"
                  ".catch(e => document.body.append(`failed: ${e}`.padEnd(99)))")
    page.wait_for("document.body.textContent.length > 80", timeout=300)
    said = page.evaluate("document.body.textContent")
    report("the script of README.md", "sky" in said and not said.startswith("failed"), said)


# ---- Embeddings ----------------------------------------------------------------------------------

TEXTS = ["Where is the station?", "A recipe for soup with lentils and carrots, for four people.",
         "Trains leave every hour.", "wood"]


def check_embedding(page, expected, device, options):
    result = call(page, "embedTexts", f"/models/{EMBED_MODEL.name}/", TEXTS,
                  {"device": device, "init": options})
    pairs = zip(result["vectors"], [*expected, expected[-1]], strict=True)
    worst = max(abs(a - b) for got, want in pairs for a, b in zip(got, want, strict=True))
    report(f"embeddings on {device}: {json.dumps(options)}",
           worst < 1e-4 and result["device"] == device and result["progress"][-1] == len(TEXTS),
           f"{worst:.1e} from the command line")


def check_embeddings(page):
    expected = native_result("embed", "--model", str(EMBED_MODEL), *TEXTS)
    if expected is None:
        return
    check_embedding(page, expected["embeddings"], "cpu", {})
    if page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
        check_embedding(page, expected["embeddings"], "webgpu", {})
        check_embedding(page, expected["embeddings"], "webgpu", {"gpu": {"jspi": False}})
        check_embedding(page, expected["embeddings"], "webgpu",
                        {"worker": False, "gpu": {"jspi": False}})


# ---- The demo page -------------------------------------------------------------------------------

SIZES = {"phone": (390, 844, 2), "desktop": (1280, 800, 1)}


def picture(page, name):
    folder = os.environ.get("RLX_WEB_SHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(Path(folder) / f"{name}.png")


def state_is(state):
    return f"document.body.dataset.state === '{state}'"


def open_demo(page, base, size, where="", dark=False):
    width, height, scale = SIZES[size]
    page.resize(width, height, scale, dark=dark, mobile=size == "phone")
    page.open("about:blank")
    page.open(f"{base}/demo/{where}")
    page.wait_for("document.body.dataset.state !== 'starting'")


def check_layout(page, base):
    for size in SIZES:
        for dark in (False, True):
            open_demo(page, base, size, dark=dark)
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            report(f"demo page on a {size}{', dark' if dark else ''}", not wide
                   and page.evaluate(state_is("idle")), "wider than the screen" if wide else "")
            picture(page, f"start-{size}{'-dark' if dark else ''}")


def check_chat(page, base):
    open_demo(page, base, "desktop", "?device=cpu&load")
    page.wait_for(f"{state_is('ready')} || {state_is('failed')}", timeout=120)
    if not page.evaluate(state_is("ready")):
        report("demo page loads the model", False,
               page.evaluate("document.querySelector('.problem p').textContent"))
        return
    page.evaluate("""document.querySelector('#max-tokens').value = 48;
        document.querySelector('#max-tokens').dispatchEvent(new Event('input'));
        document.querySelector('.examples button').click()""")
    page.wait_for(state_is("generating"))
    page.wait_for(state_is("ready"), timeout=300)
    answer = page.evaluate("document.querySelector('.message.assistant .text').textContent")
    tokens = page.evaluate("document.querySelector('.message.assistant').dataset.tokens")
    question = page.evaluate("document.querySelector('.message.user').textContent")
    expected = native_tokens(question, 48, "--chat", "--policy", "fast")
    report("demo page answers as rlx generate does",
           not expected or tokens == " ".join(map(str, expected["tokens"])),
           answer[:80].replace("\n", " "))
    picture(page, "chat-desktop")
    check_stop(page)
    page.resize(*SIZES["phone"], mobile=True)
    picture(page, "chat-phone")


def check_stop(page):
    page.evaluate("""document.querySelector('#max-tokens').value = 512;
        document.querySelector('#prompt').value = 'Tell me a long story about a dragon.';
        document.querySelector('.chat form').requestSubmit()""")
    page.wait_for("document.querySelector('.message.busy .text')?.textContent.length > 10",
                  timeout=120)
    page.evaluate("document.querySelector('.stop').click()")
    page.wait_for(state_is("ready"), timeout=20)
    note = page.evaluate("document.querySelector('.message:last-child .note')?.textContent")
    report("demo page stops", note == "stopped", str(note))


def check_search(page, base, device):
    open_demo(page, base, "desktop", f"?device={device}&load#search")
    page.wait_for(f"{state_is('ready')} || {state_is('failed')}", timeout=300)
    if not page.evaluate(state_is("ready")):
        report("demo page loads the encoder", False,
               page.evaluate("document.querySelector('#panel-search .problem p').textContent"))
        return
    page.evaluate("document.querySelector('#query-examples button').click()")
    page.wait_for(f"{state_is('ready')} && document.querySelector('.results li')", timeout=60)
    first = page.evaluate("document.querySelector('.results li span').textContent")
    report(f"demo page finds by meaning on {device}", any(word in first for word in
           ("Lentil", "vegetables", "Potatoes")), first)
    picture(page, f"search-desktop-{device}")


PAGE_CACHES = "caches.keys().then(names => names.filter(name => name.startsWith('rlx-page-')))"


def check_update(page, base):
    """A set of files with another hash is replaced, and the page says so."""
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.wait_for("navigator.serviceWorker.controller")
    first = page.evaluate(PAGE_CACHES)
    page.evaluate(f"""(async () => {{
        const [name] = await {PAGE_CACHES}, old = await caches.open('rlx-page-old');
        const from = await caches.open(name);
        for (const key of await from.keys()) await old.put(key, await from.match(key));
        await caches.delete(name);
    }})()""")
    open_demo(page, base, "phone")
    page.wait_for("!document.querySelector('#update').hidden")
    open_demo(page, base, "phone") # two visits may look for a newer set at the same time
    end = time.monotonic() + 20
    while (after := page.evaluate(PAGE_CACHES)) != first and time.monotonic() < end:
        time.sleep(0.2)
    report("a newer page is stored and announced", after == first and len(first) == 1,
           f"{', '.join(first)}, then {', '.join(after)}")


def check_offline(page, base, server):
    """With the server gone, the page starts and the stored model answers."""
    open_demo(page, base, "phone")
    check_update(page, base)
    server.shutdown()
    server.server_close()
    open_demo(page, base, "phone", "?device=cpu#search")
    note = page.evaluate("document.querySelector('#panel-search .facts').textContent")
    report("the page starts offline", page.evaluate(state_is("idle")), note)
    picture(page, "offline-phone")
    if not page.evaluate("document.querySelector('#panel-search .load').disabled"):
        page.evaluate("document.querySelector('#panel-search .load').click()")
        page.wait_for(f"{state_is('ready')} || {state_is('failed')}", timeout=300)
        report("a stored model loads offline", page.evaluate(state_is("ready")))


def check_without_gpu(program, base):
    with Browser(program, gpu=False) as page:
        open_demo(page, base, "phone")
        note = page.evaluate("document.querySelector('#notice').textContent")
        chosen = page.evaluate("document.querySelector('#device-cpu').checked")
        report("demo page without WebGPU", chosen and "WebGPU is missing" in note, note)
        picture(page, "no-webgpu-phone")


def main():
    program = find_browser()
    if not program:
        wasm.skip("there is no Chromium; apt-get install chromium")
    build = wasm.build()
    site = serve.Site(build, MODELS, {"tests": HERE, "web": wasm.SOURCE / "web"})
    server = serve.make_server(site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    check_without_gpu(program, base)
    with Browser(program) as page:
        page.open(f"{base}/tests/page.html")
        check_api(page)
        check_loss(page)
        check_ops(page, "cpu", optest_share(101), "op cases on cpu")
        check_gpu_ops(page)
        check_layout(page, base)
        if CHAT_MODEL.exists():
            page.open(f"{base}/tests/page.html")
            check_generations(page)
            check_readme(page, base)
            check_chat(page, base)
        else:
            print(f"skip generation: there is no {CHAT_MODEL}; tools/fetch/models.sh fetches it")
        if EMBED_MODEL.exists():
            page.open(f"{base}/tests/page.html")
            check_embeddings(page)
            check_search(page, base, "cpu")
            if page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
                check_search(page, base, "webgpu")
        for line in page.console:
            report("nothing is logged", False, line)
        check_offline(page, base, server)
    print(f"{len(names)} checks, {len(failures)} failed")
    return 1 if failures or not names else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrowserError as error:
        sys.exit(f"FAIL {error}")
