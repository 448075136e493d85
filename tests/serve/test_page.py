#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The chat page of the server in a headless browser: an answer that streams, stop, regenerate,
continue, edit, copy, conversations that outlive a reload, settings, a key, Markdown; nothing is
asked of another host. RLX_SHOTS=DIR keeps pictures of it. Skipped without a browser."""
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "web"))
from browser import Browser, find_browser  # noqa: E402

skip_without_server()
program = find_browser()
if not program:
    skip("no Chromium")
SHOTS = os.environ.get("RLX_SHOTS")
models = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
smollm2 = models / "smollm2-135m-instruct.gguf"
model = smollm2 if SHOTS and smollm2.is_file() else MODEL


def js(value):
    return json.dumps(value)


def shot(browser, name):
    if SHOTS:
        browser.screenshot(f"{SHOTS}/{name}.png")


class Page:
    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def value(self, expression):
        return self.browser.evaluate(expression)

    def wait(self, condition, timeout=60):
        self.browser.wait_for(condition, timeout)

    def click(self, selector):
        self.value(f"document.querySelector({js(selector)}).click()")

    def press(self, words):
        """A button of the last message."""
        self.value("[...document.querySelectorAll('.turn:last-child .tools button')]"
                   f".find(b => b.textContent === {js(words)}).click()")

    def send(self, text):
        self.value(f"document.querySelector('#prompt').value = {js(text)}")
        self.click("#send")

    def set(self, selector, value):
        self.value(f"(e => {{ e.value = {js(value)}; e.oninput?.() }})"
                   f"(document.querySelector({js(selector)}))")

    def done(self, n):
        self.wait(f"document.body.dataset.state === 'ready' && "
                  f"document.querySelectorAll('.turn').length === {n}")

    def texts(self):
        return self.value("[...document.querySelectorAll('.turn .message')]"
                          ".map(e => e.textContent.replace('cut at the longest answer', ''))")

    def stored(self):
        return self.value("JSON.parse(localStorage.getItem('rlx.chat'))")


SLOW = """
window.quick = fetch;
window.fetch = async (...request) => {
    const reply = await quick(...request);
    return new Response(reply.body.pipeThrough(new TransformStream({
        async transform(chunk, out) {
            for (let i = 0; i < chunk.length; i += 400) {
                await new Promise(done => setTimeout(done, 50));
                out.enqueue(chunk.slice(i, i + 400));
            }
        } })), reply);
};
"""


def test_chat(page):
    page.wait("document.body.dataset.state === 'ready'")
    check(page.value("document.querySelector('#model').value") == model.stem, "the model")
    shot(page.browser, "welcome")
    page.click("#open-settings")
    page.set("#temperature", "0")
    page.set("#max-tokens", "48")
    page.set("#system", "Be kind.")
    shot(page.browser, "settings")
    page.click("#close-settings")
    page.send("Tell me of a dog.")
    page.wait("document.querySelector('.turn.assistant .message').textContent.length > 5")
    page.done(2)
    first = page.texts()[1]
    kept = page.stored()["conversations"][0]
    check(kept["system"] == "Be kind." and kept["messages"][1]["content"].strip(), str(kept))
    check("tokens/s" in page.value("document.querySelector('.speed').textContent"), "tokens/s")
    check(kept["messages"][1]["stats"]["tokens"] == 48, "the count of tokens")

    # Again, on and on, copied and edited.
    page.press("Regenerate")
    page.done(2)
    check(page.texts()[1] == first, f"regenerated: {page.texts()[1]!r}, {first!r}")
    page.press("Continue")
    page.done(2)
    longer = page.stored()["conversations"][0]["messages"][1]["content"]
    check(longer.startswith(kept["messages"][1]["content"]) and
          len(longer) > len(kept["messages"][1]["content"]) + 10, f"continued: {longer!r}")
    page.value("navigator.clipboard.writeText = async t => { window.copied = t }")
    page.press("Copy")
    check(page.value("window.copied") == longer, "copied")
    page.send("And a cat?")
    page.done(4)
    page.value("document.querySelector('.turn.user .tools button:nth-child(2)').click()")
    page.set(".turn textarea", "Tell me of a bird.")
    shot(page.browser, "edit")
    page.value("document.querySelector('.turn textarea + .tools button').click()")
    page.done(2)
    check(page.texts()[0] == "Tell me of a bird.", f"edited: {page.texts()}")

    # Stopped: what was said stays. The small model is faster than a browser, so its stream is
    # slowed down.
    page.value("document.querySelector('#max-tokens').value = 4096;"
               "document.querySelector('#max-tokens').oninput()")
    page.value(SLOW)
    page.send("A long story, please.")
    page.wait("document.querySelector('.turn:nth-child(4) .message')?.textContent.length > 5")
    shot(page.browser, "generating")
    page.click("#stop")
    page.done(4)
    page.value("window.fetch = window.quick")
    check(page.stored()["conversations"][0]["messages"][3]["note"] == "stopped", "stopped")


def test_conversations(page):
    page.click("#new")
    page.value("document.querySelector('#max-tokens').value = 16;"
               "document.querySelector('#max-tokens').oninput()")
    page.send("Another one.")
    page.done(2)
    titles = page.value("[...document.querySelectorAll('#list .open')].map(e => e.textContent)")
    check(titles == ["Another one.", "Tell me of a dog."], f"conversations: {titles}")
    page.browser.call("Page.reload")
    page.wait("document.body?.dataset.state === 'ready' && document.querySelector('.turn')")
    check(page.texts()[0] == "Another one.", "after a reload")
    page.value("document.querySelectorAll('#list .open')[1].click()")
    check(page.texts()[0] == "Tell me of a bird.", f"another conversation: {page.texts()}")
    page.click("#list li:first-child .remove")
    check(len(page.stored()["conversations"]) == 1, "a removed conversation")


MARKDOWN = """# Title

Some **bold**, *leaning* and `code` with snake_case_names and 2 * 3 * 4.

- one
- two
  1. inner
- three

```python
for x in range(3):
    print("<b>", x)
```

| a | b |
|---|---|
| 1 | 2 |

> a quote

<img src=x onerror="window.bad = 1"> [site](https://example.com/x) [bad](javascript:alert(1))
![picture](https://example.com/p.png)
"""


def test_markdown(page):
    page.value(f"import('/page/markdown.mjs').then(m => {{ window.box = document.createElement("
               f"'div'); box.className = 'message assistant'; m.showMarkdown(box, {js(MARKDOWN)});"
               "document.querySelector('#log').replaceChildren(box) })")
    shot(page.browser, "markdown")
    for expression, expected in (
            ("box.querySelector('h1').textContent", "Title"),
            ("box.querySelector('strong').textContent", "bold"),
            ("box.querySelector('p code').textContent", "code"),
            ("box.querySelector('p').textContent",
             "Some bold, leaning and code with snake_case_names and 2 * 3 * 4."),
            ("box.querySelectorAll('ul > li').length", 3),
            ("box.querySelector('ul li ol li').textContent", "inner"),
            ("box.querySelector('pre code').textContent",
             'for x in range(3):\n    print("<b>", x)'),
            ("box.querySelector('.block header span').textContent", "python"),
            ("box.querySelectorAll('td').length", 2),
            ("box.querySelector('blockquote').textContent", "a quote"),
            ("box.querySelectorAll('img, script').length", 0),
            ("[...box.querySelectorAll('a')].map(a => a.href)",
             ["https://example.com/x", "https://example.com/p.png"]),
            ("window.bad ?? null", None)):
        check(page.value(expression) == expected, f"{expression}: {page.value(expression)!r}")
    page.value("navigator.clipboard.writeText = async t => { window.copied = t }")
    page.click(".copy-code")
    check(page.value("window.copied").startswith("for x"), "the copy of a code block")


with Server("--ctx", 2048, models=(model,)) as s, Browser(program, gpu=False) as browser:
    page = Page(browser, s.url)
    browser.call("Network.enable")
    browser.resize(1280, 800)
    browser.open(s.url + "/")
    asked = []
    note = browser._note

    def watch(event):
        if event.get("method") == "Network.requestWillBeSent":
            asked.append(event["params"]["request"]["url"])
        note(event)
    browser._note = watch
    test_chat(page)
    shot(browser, "desktop")
    test_conversations(page)
    browser.resize(390, 800, scale=2, mobile=True)
    time.sleep(0.5 if SHOTS else 0)
    shot(browser, "mobile")
    page.click("#open-drawer")
    time.sleep(0.4 if SHOTS else 0)
    shot(browser, "drawer")
    page.click("#close-drawer")
    width = page.value("document.documentElement.scrollWidth")
    check(width <= 390, f"the page is {width} wide on a phone of 390")
    test_markdown(page)
    browser.resize(1280, 800, dark=True)
    shot(browser, "dark")
    others = [u for u in asked if not u.startswith((s.url, "data:", "about:"))]
    check(asked and not others, f"other hosts were asked: {others[:3]}")
    check(not [c for c in browser.console if "exception" in c], str(browser.console))
    headers = s.ask("GET", "/")[1]
    check("default-src 'self'" in headers["Content-Security-Policy"], str(headers))
    check(s.ask("GET", "/page/none")[0] == 404 and s.ask("POST", "/", {})[0] == 405, "other files")

# With a key: the page comes without one and asks for it.
with Server("--api-key", "secret") as s, Browser(program, gpu=False) as browser:
    page = Page(browser, s.url)
    browser.open(s.url + "/")
    page.wait("document.querySelector('#settings').open")
    page.set("#key", "secret")
    page.click("#close-settings")
    page.wait("document.querySelector('#model').value")
    page.click("#open-settings")
    page.set("#max-tokens", "16")
    page.click("#close-settings")
    page.send("Hello.")
    page.done(2)
    check(page.texts()[1].strip(), "an answer with a key")

finish()
