# SPDX-License-Identifier: MIT
"""What is compared: each case with its peers and the ratio that rlx should reach against them."""
from collections import namedtuple

# section   where the case is shown
# label     its name in tables
# request   what every worker is asked to open; "fast" and "copies=N" may follow
# goals     {peer: the least peer time / rlx time}; None: shown without a goal
# size      place on the axis of the plot "speed against size"; None: not drawn there
# quick     part of --quick
# kernels   its time by kernel is drawn
Case = namedtuple("Case", "section label request goals size quick kernels",
                  defaults=(None, False, False))

PACKED = ("q4_0", "q4_1", "q8_0", "q4_k", "q6_k")
COPIES = 4  # of a matrix that is read once a run: together larger than the caches


def sgemm_cases():
    sizes = [(17, True), (64, True), (100, False), (129, False), (512, False), (1024, True)]
    for n, quick in sizes:
        least = 0.95 if n == 1024 else 1.0
        yield Case("sgemm", f"{n}^3", f"matmul:f32:{n}x{n}x{n}",
                   {"numpy": least, "onnxruntime": 1.0, "torch": None}, n, quick)
    yield Case("sgemm", "384x128x1536", "matmul:f32:384x128x1536",
               {"numpy": 1.0, "onnxruntime": 1.0, "torch": None})


def packed_cases():
    for policy, least in ((" fast", 1.0), ("", 0.5)):
        name = policy.strip() or "exact"
        for t in PACKED:
            quick = t == "q4_0" and bool(policy)
            yield Case("packed matmul", f"{t} 1024^3 {name}",
                       f"dequant_matmul:{t}:1024x1024x1024{policy}", {"llama.cpp": least}, None,
                       quick)
        for t in PACKED:
            quick = t == "q4_0" and bool(policy)
            yield Case("packed GEMV", f"{t} 14336x4096 {name}",
                       f"dequant_matmul:{t}:1x14336x4096 copies={COPIES}{policy}",
                       {"llama.cpp": least}, None, quick)


def row_cases():
    rows = (("softmax", "softmax:f32:4096x4096"), ("rms norm", "rms_norm:f32:4096x4096"),
            ("rope", "rope:f32:1x32x4096x128:interleaved=true"))
    for label, request in rows:
        yield Case("rows", f"{label} 4096^2", request, {"llama.cpp": 2.0, "torch": None}, None,
                   label == "softmax")
    yield Case("rows", "layer norm 1024x1024", "layer_norm:f32:1024x1024",
               {"onnxruntime": 1.0, "torch": None})
    yield Case("rows", "gelu 1024x1024", "gelu:f32:1024x1024",
               {"onnxruntime": 1.0, "torch": None})


def fft_cases():
    for rows, n in ((256, 1024), (256, 1000), (64, 4096), (256, 997), (4, 65536)):
        yield Case("FFT", f"{rows} x {n}", f"fft:f32:{rows}x{n}x2",
                   {"numpy": 1 / 1.5, "torch": None}, None, n == 1024)


def place_cases():
    """What takes elements from places or puts them there."""
    rows = (("gather elements 1024^2", "gather_elements:f32:1024x1024,1024x1024"),
            ("gather nd 100,000 of 1024^2", "gather_nd:f32:1024x1024,100000x2"),
            ("scatter nd 100,000 of 1024^2", "scatter_nd:f32:1024x1024,100000x2,100000"),
            ("scatter add 4096x64", "scatter_add:f32:1024x64,4096,4096x64"),
            ("im2col 3x3, 64x56x56", "im2col:f32:1x64x56x56"),
            ("nonzero 1024^2", "nonzero:f32:1024x1024"), ("histogram 1M", "histogram:f32:1048576"))
    for label, request in rows:
        yield Case("places", label, request, {"numpy": 1.0, "torch": 1.0})


def reduce_cases():
    rows = (("product 1024^2", "reduce_prod:f32:1024x1024"),
            ("any 1024^2", "reduce_any:bool:1024x1024"),
            ("maximum of 2x2x2, 32x32^3", "pool3d:f32:1x32x32x32x32"),
            ("8 nearest of 1024", "knn:f32:1024x1024"),
            ("8 of 256 experts in 8 groups", "group_limited_gate:f32:512x256"))
    for label, request in rows:
        yield Case("selections", label, request, {"numpy": 1.0, "torch": 1.0})


def norm_cases():
    rows = (("layer norm 2d 64x56x56", "layer_norm2d:f32:1x64x56x56"),
            ("adaptive layer norm 1024^2", "ada_layer_norm:f32:1024x1024,1024,1024"),
            ("gated residual 1024^2", "gated_residual:f32:1024x1024,1024x1024,1024"))
    for label, request in rows:
        yield Case("norms", label, request, {"numpy": 1.0, "torch": 1.0})


def expert_cases():
    """Products of rows with the matrix that each chooses; peers sort the rows by it beforehand."""
    shape = "256x512x512,8"
    yield Case("experts", "256 rows, 8 of 512^2 f32", f"grouped_matmul:f32:{shape}",
               {"numpy": 1.0, "torch": 1.0})
    yield Case("experts", "256 rows, 8 of 512^2 f16", f"dequant_grouped_matmul:f16:{shape}",
               {"torch": 1.0})
    yield Case("experts", "4 of 8 f16 to f32", "dequant_moe_weights:f16:8x512x512,4",
               {"numpy": 1.0, "torch": 1.0})
    yield Case("experts", "paged attention, 8 of 1024", "ragged_attention:f32:8x8x1024x64",
               {"torch": 1.0})


def number_cases():
    """Types and random numbers."""
    rows = (("quantize 1024^2", "quantize:f32:1024x1024"),
            ("dequantize 1024^2", "dequantize:i8:1024x1024"),
            ("uniform 1M", "random_uniform:f32:1048576"))
    for label, request in rows:
        yield Case("numbers", label, request, {"numpy": 1.0, "torch": 1.0})


def spectrum_cases():
    rows = (("stft 16 x 16,000", "stft:f32:16x16000"),
            ("log mel 1000 x 80", "log_mel:f32:1000x201x2,80x201"),
            ("peaks of 64 spectra", "welch_peaks:f32:64x513x2"))
    for label, request in rows:
        yield Case("spectra", label, request, {"numpy": 1.0, "torch": 1.0})


def conv_cases():
    convs = (("3x3, 64 to 64, 56x56", "1x64x56x56:64x3x3"),
             ("depthwise 3x3, 64, 56x56", "1x64x56x56:64x3x3:groups=64"),
             ("1x1, 64 to 256, 56x56", "1x64x56x56:256x1x1"))
    for label, shape in convs:
        yield Case("convolution", label, f"conv2d:f32:{shape}",
                   {"onnxruntime": 1.0, "torch": None}, None, "3x3, 64 to" in label)


def attention_cases():
    for label, shape in (("12 heads of 32, 512 tokens", "1x12x512x32"),
                         ("causal, 9 heads of 64, 1024 tokens", "1x9x1024x64:causal=true")):
        yield Case("attention", label, f"attention:f32:{shape}", {"torch": None}, None,
                   "causal" not in label)


def model_cases(smollm2):
    for n in (16, 128, 512):
        yield Case("models", f"MiniLM-L6, {n} tokens", f"minilm:f32:1x{n}",
                   {"onnxruntime": 1.0, "torch": None}, None, n == 128, True)
    for policy, least in ((" fast", 1.5), ("", None)):
        if not smollm2:
            break
        name = policy.strip() or "exact"
        yield Case("models", f"SmolLM2 prompt 512 {name}", f"prompt 512 {smollm2}{policy}",
                   {"llama.cpp": least})
        yield Case("models", f"SmolLM2 decode {name}", f"decode 32 {smollm2}{policy}",
                   {"llama.cpp": least}, None, bool(policy))


def onnx_cases(models, peers=("onnxruntime",)):
    """Models in ONNX files: {section: rows of onnx_models.prepare}."""
    for section, rows in models.items():
        for label, path, folder in rows:
            yield Case(section, label, f"onnx {path} {folder}", {p: 1.0 for p in peers}, None,
                       label == "orientation", section == "ONNX")


def sequence_cases(model, name, counts=(1, 2, 4, 8, 16, 32, 64)):
    """Steps of several sequences at once; a row is the time of a step."""
    for n in counts if model else ():
        yield Case("sequences", f"{name}, {n} at once fast", f"sequences {n}x32 {model} fast",
                   {"llama.cpp": 1.0}, None, n == 8)


# Drawn by kernel although no peer runs them: the same networks with random weights.
KERNEL_MODELS = (("SmolLM2 prompt 512 fast", "smollm2_prompt:q4_1:512 fast"),
                 ("SmolLM2 decode fast", "smollm2_decode:q4_1:512 fast"),
                 ("ResNet-50", "resnet50:f32:1"))


def cpu_cases(smollm2=None, models=None):
    for cases in (sgemm_cases(), packed_cases(), model_cases(smollm2),
                  onnx_cases(models or {}),
                  sequence_cases(smollm2, "SmolLM2"), attention_cases(), row_cases(), fft_cases(),
                  spectrum_cases(), place_cases(), reduce_cases(), norm_cases(), expert_cases(),
                  number_cases(), conv_cases()):
        yield from cases


def gpu_cases(model=None, models=None):
    """Against PyTorch on the same GPU, llama.cpp for a model, ONNX Runtime for ONNX models."""
    flat = 1 << 26
    yield from onnx_cases(models or {}, ("onnxruntime", "torch"))
    yield from sequence_cases(model, "model")

    def case(section, label, request, quick=True, size=None):
        return Case(section, label, request, {"torch": 1.0}, size, quick)

    for t in ("f32", "f16", "bf16"):
        for n in (1024, 4096, 8192):
            yield case(f"matmul {t}", f"{t} {n}^3", f"matmul:{t}:{n}x{n}x{n}", n > 1024, n)
    for n in (512, 4096):
        yield case("attention", f"f16 causal, 32 heads, {n} tokens",
                   f"attention:f16:1x32x{n}x128:causal=true")
    for op in ("softmax", "layer_norm", "cumsum"):
        yield case("rows", f"{op} 4096^2", f"{op}:f32:4096x4096")
    yield case("rows", "top-64 of 4096^2", "top_k:f32:4096x4096:k=64")
    yield case("memory", "gelu 64M", f"gelu:f32:{flat}")
    yield case("memory", "sum 64M", f"reduce_sum:f32:{flat}")
    yield case("memory", "transpose 8192^2", "transpose:f32:8192x8192")
    yield case("convolution", "3x3 f16 16x64x56x56", "conv2d:f16:16x64x56x56:64x3x3")
    yield case("FFT", "4096 x 4096", "fft:f32:4096x4096x2", False)
