#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Test suites of others against the server, unmodified and pinned: the chat tests of openai's
source package (those that create something: the others, and those of all parameters at once, want
the values of a mock), and langchain-tests through ChatOpenAI with SmolLM2, of which each run takes
a share. Skipped where packages or models cannot be had."""
import shutil
import tarfile
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from packages import fetch  # noqa: E402
from share import share  # noqa: E402

skip_without_server()
PACKAGES = """openai langchain-tests langchain-openai langchain-core langchain-protocol langsmith
annotated-types anyio certifi charset-normalizer distro h11 httpcore httpcore2 httpx httpx2 idna
iniconfig jiter jsonpatch jsonpointer markdown-it-py mdurl numpy orjson packaging pluggy pydantic
pydantic-core pygments pytest pytest-asyncio pytest-benchmark pytest-codspeed pytest-recording
pytest-socket py-cpuinfo2 pyyaml regex requests requests-toolbelt rich sniffio syrupy tenacity
tiktoken truststore typing-inspection typing_extensions urllib3 uuid-utils vcrpy websockets wrapt
xxhash zstandard""".split()
SITE = (fetch(*PACKAGES, label="langchain") / "site").resolve()
LANGCHAIN = '''
import os
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestServer(ChatModelIntegrationTests):
    chat_model_class = ChatOpenAI
    # The penalty keeps a small model from saying the same for ever.
    chat_model_params = {"model": "smollm2", "base_url": os.environ["TEST_API_BASE_URL"],
                         "api_key": "none", "temperature": 0, "frequency_penalty": 1,
                         "max_tokens": 200, "seed": 1, "stream_usage": True,
                         "use_responses_api": False}
    supports_image_inputs = False
    model_override_value = "smollm2"
'''
# An agent needs a model that calls a tool of its own accord, which one of this size does not.
NOT_FOR_SMALL_MODELS = ["--deselect", "test_langchain.py::TestServer::test_agent_loop"]


def run_pytest(server, folder, *args):
    """(passed, failed, skipped) of a suite; what failed is shown."""
    env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    env |= {"PYTHONPATH": str(SITE), "TEST_API_BASE_URL": f"{server.url}/v1",
            "LANGSMITH_TRACING": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    r = subprocess.run([sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short",
                        "-p", "no:cacheprovider", "-o", "addopts=", "-o", "asyncio_mode=auto",
                        "-o", "asyncio_default_test_loop_scope=session", *args],
                       cwd=folder, env=env, capture_output=True, text=True, timeout=900)
    counts = [int((re.search(rf"(\d+) {word}", r.stdout) or [0, 0])[1])
              for word in ("passed", "failed|error", "skipped")]
    if r.returncode or counts[1]:
        print(r.stdout[-6000:], r.stderr[-2000:], flush=True)
    check(r.returncode == 0, f"pytest ended with {r.returncode}")
    return counts


def test_openai():
    folder = fetch("sdist:openai", label="sdist-openai")
    source = folder / "openai-3.49.0"
    if not source.exists():
        with tarfile.open(folder / "openai-3.49.0.tar.gz") as tar:
            tar.extractall(folder, [m for m in tar.getmembers()
                                    if "/tests/" in m.name or m.name.endswith("pyproject.toml")])
    models = [TMP / f"{name}.gguf" for name in ("gpt-6-astra", "gpt-3.5-turbo-instruct", "model")]
    for m in models:
        shutil.copy(MODEL, m)
    with Server("--max-tokens", 64, models=models) as s:
        passed, failed, _ = run_pytest(
            s, source, "-k", "not aiohttp and not with_all_params and "
            "(create or TestModels or TestAsyncModels) and not delete",
            *(f"tests/api_resources/{name}" for name in (
                "chat/test_completions.py", "test_completions.py", "test_models.py")))
        print(f"openai: {passed} passed, {failed} failed", flush=True)
        check(passed >= 70, f"only {passed} tests of openai")


def test_langchain():
    models = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
    smollm2 = models / "smollm2-135m-instruct.gguf"
    if not smollm2.is_file():
        print(f"langchain-tests are not run: no {smollm2}")
        return
    name = TMP / "smollm2.gguf"
    name.symlink_to(smollm2.resolve())
    (TMP / "test_langchain.py").write_text(LANGCHAIN)
    with Server("--threads", 2, models=(name,)) as s:
        names = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
             *NOT_FOR_SMALL_MODELS, "test_langchain.py"], cwd=TMP, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(SITE), "TEST_API_BASE_URL": s.url}).stdout
        names = [line for line in names.splitlines() if line.startswith("test_langchain.py::")]
        check(len(names) > 40, f"{len(names)} tests of langchain were found")
        every, first = share(4)
        passed, failed, skipped = run_pytest(s, TMP, *names[first::every])
        print(f"langchain: {passed} passed, {failed} failed, {skipped} skipped by the suite "
              f"(images and the like) of {len(names[first::every])}", flush=True)
        check(passed > 0, "no test of langchain passed")


test_openai()
test_langchain()
finish()
