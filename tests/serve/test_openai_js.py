#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The server with the package openai of npm, unmodified, in the version of tools/fetch/pins.txt:
openai_client.mjs asks, this program starts servers for it. Skipped without Node or the package."""
import shutil
import tarfile
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from packages import fetch  # noqa: E402

skip_without_server()
if not shutil.which("node"):
    skip("there is no node")


def node_modules():
    """A folder with the packages where Node looks for them, and the program that uses them."""
    folder = fetch("npm:openai", "zod", label="openai-js")
    for file in folder.glob("*.tgz"):
        place = TMP / "node_modules" / file.name.rsplit("-", 1)[0]
        with tarfile.open(file) as tar:
            members = [m for m in tar.getmembers() if m.isfile()]
            for m in members:
                m.name = m.name.split("/", 1)[1]
            tar.extractall(place, members)
    shutil.copy(SOURCE / "tests" / "serve" / "openai_client.mjs", TMP)
    return TMP / "openai_client.mjs"


def ask(program, what, server):
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    r = subprocess.run(["node", str(program), what, f"{server.url}/v1"], env=env, text=True,
                       capture_output=True, timeout=300)
    print(r.stdout, end="")
    found = re.search(r"^(\d+) checks by Node$", r.stdout, re.M)
    check(r.returncode == 0 and found, f"openai for JavaScript, {what}: {r.stdout} {r.stderr}")


PROGRAM = node_modules()
with Server("--ctx", 2048, "--api-key", "secret") as s:
    ask(PROGRAM, "texts", s)
encoder = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models")) / "all-minilm-l6-v2"
if encoder.is_dir():
    with Server("--api-key", "secret", models=(encoder,)) as s:
        ask(PROGRAM, "vectors", s)
else:
    print(f"embeddings are left out: no {encoder}")
finish()
