#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Several models in one server: a memory budget, models that are loaded on demand and closed to
make room while others ask; ranking by an encoder."""
import shutil
import threading
from serving import *

skip_without_server()
COMPLETE = "/v1/completions"
files = [TMP / f"{name}.gguf" for name in ("red", "green", "blue")]
for f in files:
    shutil.copy(MODEL, f)
ASK = {"prompt": "Once", "max_tokens": 8, "temperature": 0, "ignore_eos": True}


def loaded(s):
    return [m["id"] for m in s.ask("GET", "/v1/models")[2]["data"] if m["loaded"]]


# Without a budget all of them are there from the begin.
with Server("--ctx", 256, "--sequences", 2, models=files) as s:
    check(loaded(s) == ["red", "green", "blue"], f"without a budget: {loaded(s)}")
    one = s.metrics()["rlx_model_bytes"] / 3

# Room for two of three.
mib = int(one * 2.5 / 2 ** 20) + 1
check(2 * one < mib * 2 ** 20 < 3 * one, f"the sizes of this test: {one} bytes, {mib} MiB")
with Server("--ctx", 256, "--sequences", 2, "--memory", mib, models=files) as s:
    check(loaded(s) == ["red"], f"at the begin: {loaded(s)}")
    text = s.post(COMPLETE, ASK)["choices"][0]["text"]
    for name, expected in (("green", ["red", "green"]), ("blue", ["green", "blue"]),
                           ("green", ["green", "blue"]), ("red", ["red", "green"])):
        answer = s.post(COMPLETE, {**ASK, "model": name})
        check(answer["model"] == name and answer["choices"][0]["text"] == text, str(answer))
        check(loaded(s) == expected, f"after {name}: {loaded(s)}, expected {expected}")
    m = s.metrics()
    check(m["rlx_model_loads_total"] == 4 and m["rlx_model_evictions_total"] == 2, str(m))
    check(m["rlx_model_bytes"] <= mib * 2 ** 20, "more than the budget is used")

    # Many clients that want all of them: each gets its answer, from the model that it named.
    wrong = []

    def client(number):
        for i in range(6):
            name = files[(number + i) % 3].stem
            status, _, answer = s.ask("POST", COMPLETE, {**ASK, "model": name})
            if (status, answer.get("model")) != (200, name) or \
                    answer["choices"][0]["text"] != text:
                wrong.append((name, status, answer))
    threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, f"{len(wrong)} wrong answers: {wrong[:2]}")
    check(s.metrics()["rlx_model_bytes"] <= mib * 2 ** 20, "more than the budget after the clients")

    # A model that is gone: an error, and the others go on.
    files[2].unlink()
    for name in ("red", "green"):
        s.post(COMPLETE, {**ASK, "model": name})
    if "blue" not in loaded(s):
        error = s.post(COMPLETE, {**ASK, "model": "blue"}, 500)["error"]
        check(error["code"] == "model_not_loaded", str(error))
    s.post(COMPLETE, ASK)

encoder = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models")) / "all-minilm-l6-v2"
if encoder.is_dir():
    with Server(models=(MODEL, encoder)) as s:
        body = {"query": "What do cats eat?", "documents": [
            "The train leaves at noon.", "A cat likes fish and mice.", {"text": "Dogs bark."}]}
        answer = s.post("/v1/rerank", body)
        results = answer["results"]
        check([r["index"] for r in results] == [1, 2, 0], f"ranks: {results}")
        check(results[0]["document"]["text"] == body["documents"][1]
              and 1 >= results[0]["relevance_score"] > results[1]["relevance_score"], str(results))
        results = s.post("/v1/rerank", {**body, "top_n": 1, "return_documents": False})["results"]
        check(len(results) == 1 and "document" not in results[0], str(results))
        for wrong in ({"query": "x"}, {"documents": ["x"]}, {**body, "documents": []},
                      {**body, "documents": [1]}, {**body, "model": "tiny-stories"}):
            s.post("/v1/rerank", wrong, 400)
else:
    print(f"ranking is not tested: no {encoder}")

finish()
