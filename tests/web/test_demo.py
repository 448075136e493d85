#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demo page as people use it: Markdown, copy, another answer, going on, instructions, a reload,
notices that leave the input where it is, chips before the sentences are ready; and its server."""
import http.client
import json
import os
import socket
import sys
import threading
from pathlib import Path

import wasm
from browser import Browser, BrowserError, find_browser

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "web"))
import serve  # noqa: E402  the server of the demo

MODELS = wasm.SOURCE / ".cache" / "models"
CHAT_MODEL = MODELS / "smollm2-135m-instruct.gguf"
EMBED_MODEL = MODELS / "all-minilm-l6-v2" / "model.safetensors"
failures, names = [], []


def report(name, ok, detail=""):
    names.append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not ok:
        failures.append(name)


def picture(page, name):
    folder = os.environ.get("RLX_WEB_SHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(Path(folder) / f"{name}.png")


# ---- The server ----------------------------------------------------------------------------------

def ask(port, path):
    """(status, Location) for a path as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", path, skip_host=False)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("Location")


def check_server(server):
    port = server.server_port
    for path, want in (("/?device=cpu&load", (302, "/demo/?device=cpu&load")),
                       ("/demo?load", (302, "/demo/?load")), ("//demo", (302, "/demo/")),
                       ("/%00", (404, None)), ("/" + "a" * 5000, (404, None)),
                       ("/demo/%2e%2e/rlx.mjs", (404, None)), ("//[", (404, None)),
                       ("/demo/%0d%0aX: y", (404, None)), ("/demo/", (200, None))):
        try:
            got = ask(port, path.replace(" ", "%20"))
        except (OSError, http.client.HTTPException) as error:
            got = repr(error)
        report(f"the server answers {path[:20]}", got == want, str(got))
    report("idle clients are left", server.RequestHandlerClass.timeout == 30)
    brief = serve.make_server(server.RequestHandlerClass.site)
    brief.RequestHandlerClass.timeout = 0.3
    threading.Thread(target=brief.serve_forever, daemon=True).start()
    with socket.create_connection(("127.0.0.1", brief.server_port), timeout=10) as idle:
        report("an idle connection ends", idle.recv(1) == b"")
    brief.shutdown()
    brief.server_close()


# ---- The page ------------------------------------------------------------------------------------

def state_is(state):
    return f"document.body.dataset.state === '{state}'"


def open_demo(page, base, where, size=(1280, 800)):
    page.resize(*size)
    page.open("about:blank")
    page.open(f"{base}/demo/{where}")
    page.wait_for("['ready', 'failed', 'idle'].includes(document.body.dataset.state)", timeout=120)


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent")


def count(page, selector):
    return page.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


def say(page, words, tokens):
    page.evaluate(f"""(() => {{
        const most = document.querySelector('#max-tokens');
        most.value = {tokens};
        most.dispatchEvent(new Event('input'));
        document.querySelector('#prompt').value = {json.dumps(words)};
        document.querySelector('.chat form').requestSubmit(); }})()""")
    wait_answer(page)


def wait_answer(page):
    """Asking makes the page busy at once."""
    page.wait_for(state_is("ready"), timeout=300)


def check_markdown(page, base):
    """What a model may write; nothing of it becomes HTML."""
    source = "# T\\n**bold** and `x`\\n\\n- a\\n- b\\n\\n```c\\nint x;\\n```\\n<img src=x>"
    page.evaluate(f"""import('/demo/markdown.mjs').then(m => {{
        window.box = document.createElement('div');
        m.showMarkdown(window.box, "{source}"); }})""")
    kinds = page.evaluate("[...box.querySelectorAll('h1,strong,code,li,pre,button,img')]"
                          ".map(e => e.tagName.toLowerCase()).join(' ')")
    report("Markdown of answers", kinds == "h1 strong code li li button pre code", kinds)


def check_talk(page, base):
    open_demo(page, base, "?device=cpu&load")
    page.wait_for("document.querySelector('#max-tokens').value === '0'")
    report("answers have no limit but the context",
           text(page, "#max-tokens-value") == "no limit", text(page, "#max-tokens-value"))
    page.evaluate("document.querySelector('#system').value = 'You are a pirate.';"
                  "document.querySelector('#system').dispatchEvent(new Event('change'))")
    say(page, "Tell me a long story about a dragon.", 16)
    report("an answer that was cut can go on", count(page, ".message .continue") == 1)
    first = text(page, ".message.assistant .text")
    page.evaluate("document.querySelector('.continue').click()")
    wait_answer(page)
    longer = text(page, ".message.assistant .text")
    report("Continue goes on", longer.startswith(first[:20]) and len(longer) > len(first)
           and count(page, ".message") == 2, longer[:60])
    page.evaluate("document.querySelector('.again').click()")
    wait_answer(page)
    report("Again answers again", count(page, ".message") == 2
           and text(page, ".message.assistant .text") != longer)
    page.evaluate("navigator.clipboard.writeText = async t => { window.copied = t; };"
                  "document.querySelector('.copy').click()")
    page.wait_for("window.copied")
    report("Copy", page.evaluate("window.copied").split() != [])
    for i in range(3):
        say(page, f"Count to {i + 5}, a number in each line.", 24)
    end = page.evaluate("(l => l.scrollHeight - l.scrollTop - l.clientHeight)"
                        "(document.querySelector('.log'))")
    report("the log follows the text", abs(end) < 3 and count(page, ".log .message") == 8,
           f"{end} px from its end")
    report("only the last answer can be changed", count(page, ".message .again") == 1)
    picture(page, "demo-talk")
    # Notices take their room from the log.
    page.evaluate("for (const n of document.querySelectorAll('.notice')) n.hidden = false;"
                  "document.querySelector('#notice').textContent = 'No WebGPU here. '.repeat(20)")
    bottom = page.evaluate("document.querySelector('.chat form').getBoundingClientRect().bottom")
    height = page.evaluate("innerHeight")
    report("notices leave the input in the window", bottom <= height, f"{bottom} of {height}")
    picture(page, "demo-notices")
    open_demo(page, base, "?device=cpu&load")
    report("a reload keeps the conversation", count(page, ".log .message") == 8
           and page.evaluate("document.querySelector('#system').value") == "You are a pirate.",
           f"{count(page, '.log .message')} messages")
    page.evaluate("document.querySelector('#new-chat').click()")
    open_demo(page, base, "?device=cpu")
    report("a new conversation is kept, too", count(page, ".log .message") == 0)


def check_search(page, base):
    open_demo(page, base, "?device=cpu#search")
    # As a visitor who is faster than the model: chips are clicked while sentences are read.
    page.evaluate("""new MutationObserver(() => {
        if (document.body.dataset.state === 'indexing')
            document.querySelectorAll('#query-examples button').forEach(b => b.click());
    }).observe(document.body, { attributes: true });
    document.querySelector('#panel-search .load').click()""")
    page.wait_for(f"{state_is('ready')} || {state_is('failed')}", timeout=300)
    report("chips wait for the sentences", page.evaluate(state_is("ready"))
           and count(page, ".results li") == 0 and not page.evaluate(
               "document.querySelector('#query-examples button').disabled"),
           text(page, "#search-status"))
    page.evaluate("document.querySelector('#query-examples button').click()")
    page.wait_for("document.querySelector('.results li')")


def main():
    build = wasm.build()
    server = serve.make_server(serve.Site(build, MODELS, {"web": wasm.SOURCE / "web"}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    check_server(server)
    program = find_browser()
    if not program:
        print("skip the page: there is no Chromium; apt-get install chromium")
    else:
        with Browser(program, gpu=False) as page:
            page.open(f"{base}/demo/")
            check_markdown(page, base)
            if CHAT_MODEL.exists():
                check_talk(page, base)
            if EMBED_MODEL.exists():
                check_search(page, base)
            if not CHAT_MODEL.exists() or not EMBED_MODEL.exists():
                print("skip what needs models; tools/fetch/models.sh fetches them")
            for line in page.console:
                report("nothing is logged", False, line)
    print(f"{len(names)} checks, {len(failures)} failed")
    return 1 if failures or not names else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrowserError as error:
        sys.exit(f"FAIL {error}")
