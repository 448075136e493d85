/* SPDX-License-Identifier: MIT */
/* Cases of the element types that only some kernels compute with: f64, i16, u16, u32 and u64, in
 * every operation that takes them. CASES.md has the language. */
#include "ops/names.h"
#include "ops/optest.h"

#define INTS "i16|u16|u32|u64"
#define NUMBERS "f64|" INTS
#define EVERY "f64|f32|f16|bf16|i8|u8|i16|u16|i32|u32|i64|u64|bool"

const char *const rx_cases_types[] = {
    /* ---- elementwise ---- */
    "$F=" ANYWHERE " : $F(f64[7,33]:normal(0,3))",
    "$F=relu|neg|abs|sign|round|floor|ceil|is_nan|is_inf|sqrt : $F(f64[129]:extreme)",
    "$F=" POSITIVE " : $F(f64[5,31]:range(0.01,20))",
    "$F=" UNIT " : $F(f64[3,65]:range(-1,1))",
    "acosh(f64[3,65]:range(1,50))",
    "$F=relu|neg|abs|sign|not $T=" INTS " $R=extreme|int(0,100) : $F($T[65]:$R)",
    "$F=" ARITHMETIC " $T=" NUMBERS " : $F($T[5,33], $T[5,33])",
    "$F=" ARITHMETIC " $T=" NUMBERS " : $F($T[129]:extreme, $T[129]:extreme)",
    "$F=" COMPARE " $T=" NUMBERS " $R=ties|extreme : $F($T[5,33]:$R, $T[5,33]:$R)",
    "$F=pow|atan2|mod : $F(f64[65]:range(0.5,2), f64[65]:range(-2,2))",
    "$F=pow|and|or|xor $T=" INTS " : $F($T[65]:int(0,120), $T[65]:int(0,120))",
    "$F=and|or|xor $T=" INTS " : $F($T[129]:extreme, $T[129]:extreme)",
    "$L=true|false $T=" NUMBERS " : mod($T[65]:int(0,100), $T[65]:int(1,9)) {floored=$L}",
    "$L=true|false $T=" INTS " : mod($T[129]:extreme, $T[129]:extreme) {floored=$L}",
    "$F=shl|shr $T=" INTS " : $F($T[129]:extreme, $T[129]:int(0,70))",
    "$F=shl|shr $T=" INTS " : $F($T[129]:extreme, $T[129]:extreme)",
    "$F=add|mul|lt $T=" NUMBERS " : $F($T[17,9]:strided, $T[1,9])",
    "$F=add|max $T=" NUMBERS " : $F($T[seq<=16,5], $T[5])",
    "$T=" NUMBERS " : clamp($T[65]:extreme) {lo=2, hi=40}",
    "$T=" INTS " : clamp($T[65]:extreme) {lo=-inf, hi=30000}",
    "$T=" INTS " : clamp($T[65]) {lo=0.5, hi=3} !> must be whole numbers",
    "$T=" NUMBERS " : where(bool[5,33], $T[5,33], $T[33])",
    "fma(f64[5,33], f64[5,33], f64[33])",
    "fma(f64[129]:extreme, f64[129]:wide, f64[129]:wide)",
    "$T=" INTS " : gelu($T[3]) !> operand 0 (x) expected of type",
    "$T=" INTS " : add($T[3], i32[3]) !> of the same type",

    /* ---- casts: each pair, values that do not fit too ---- */
    "$T=" EVERY " $O=" NUMBERS " : cast($T[129]:extreme) {to=$O}",
    "$T=" NUMBERS " $O=" EVERY " : cast($T[129]:extreme) {to=$O}",
    "$T=" NUMBERS " $O=f32|f16|bf16|i32 : cast($T[3,33]:int(0,60000)) {to=$O}",
    "$T=f64|f32 $O=" INTS " : cast($T[129]:range(-70000,70000)) {to=$O}",
    "$O=f32|f64|f16 : cast(u64[65]:int(9007199254740990,9007199254740999)) {to=$O}",
    "$O=f32|f16|bf16 : cast(f64[257]:wide) {to=$O}",
    "$T=" NUMBERS " : cast($T[5,7]:strided) {to=i32}",
    "cast(f64[3]) {to=q8_0} !> attribute to: expected f32",

    /* ---- movement ---- */
    "$T=" NUMBERS " : transpose($T[3,36,17]) {perm=[2,0,1]}",
    "$T=" NUMBERS " : reshape($T[4,6]:strided) {shape=[3,8]}",
    "$T=" NUMBERS " : copy($T[5,17]:strided)",
    "$T=" NUMBERS " : concat($T[2,3], $T[2,4], $T[2,1]:strided) {axis=1}",
    "$T=" NUMBERS " : concat($T[3,5], $T[2,5]) {axis=0}",
    "$T=" NUMBERS " : split($T[6,5]) {axis=0, sizes=[2,4]}",
    "$T=" NUMBERS " : tile($T[3,5]) {repeats=[2,3]}",
    "$T=" NUMBERS " : pad($T[3,5]) {before=[1,2], after=[0,1], value=7}",
    "$T=" NUMBERS " $M=edge|reflect : pad($T[3,5]) {before=[1,2], after=[0,1], mode=$M}",
    "$T=" NUMBERS " : slice($T[9,7]) {axes=[0,1], starts=[1,6], stops=[8,0], steps=[2,-1]}",
    "$T=" NUMBERS " : narrow($T[9,7]) {axis=1, start=2, length=3}",
    "$T=" NUMBERS " : expand($T[1,7]) {shape=[3,7]}",
    "$T=" NUMBERS " : reverse($T[5,7]) {axes=[1]}",
    "$T=" NUMBERS " : roll($T[5,7]) {axis=1, shift=3}",
    "$T=" NUMBERS " $U=true|false : trilu($T[5,7]) {upper=$U, k=1}",
    "$T=" NUMBERS " : im2col($T[2,3,5,6]) {kernel=[3,2], pads=[1,0,2,1]}",
    "$T=" NUMBERS " : resize_nearest_2x($T[2,3,5,7])",
    "$T=" NUMBERS " : resize($T[1,2,4,5]) {sizes=[1,2,7,3]}",
    "$T=" NUMBERS " $A=0|1 : gather($T[5,7], i32[4]:int(0,5)) {axis=$A}",
    "$T=" NUMBERS " : gather_elements($T[5,7], i64[3,7]:int(0,5)) {axis=0}",
    "$T=" NUMBERS " : gather_nd($T[5,7], i32[4,2]:int(0,5))",
    "$T=" NUMBERS " : scatter_elements($T[5,7], i32[2,7]:perm, $T[2,7]) {axis=1}",
    "$T=" NUMBERS " $M=add|mul|min|max : scatter_elements($T[5,7], i32[3,7]:int(0,5), $T[3,7]) "
    "{axis=0, mode=$M}",
    "$T=" NUMBERS " : scatter_nd($T[8,3], i32[4,1]:perm, $T[4,3])",
    "$T=" NUMBERS " : scatter_add($T[5,3], i32[9]:int(0,5), $T[9,3]) {axis=0}",

    /* ---- reductions ---- */
    "$K=sum|mean|max|min|prod|l1|sum_square $T=" NUMBERS " $A=[0]|[1]|[0,1] : "
    "reduce_$K($T[7,33]) {axes=$A}",
    "$K=sum|mean|max|min|prod|l1|sum_square $T=" INTS " : reduce_$K($T[7,33]:extreme) {axes=[1]}",
    "$K=max|min : reduce_$K(f64[7,33]:extreme) {axes=[1]}",
    "$K=l2|log_sum_exp : reduce_$K(f64[5,33]) {axes=[1]}",
    "reduce_log_sum(f64[5,33]:range(0.1,2)) {axes=[1]}",
    "$T=" INTS " : reduce_l2($T[5,33]) {axes=[1]} !> operand 0 (x) expected of type",
    "$O=argmax|argmin $T=" NUMBERS " $L=true|false : $O($T[5,9]:ties) {axis=1, last=$L}",
    "$O=argmax|argmin $T=" NUMBERS " : $O($T[5,9]:extreme) {axis=0}",
    "$O=cumsum|cumprod|cummax $T=" NUMBERS " $R=true|false : $O($T[6,9]) {axis=1, reverse=$R}",
    "$O=cumsum|cumprod|cummax $T=" INTS " : $O($T[6,9]:extreme) {axis=1, exclusive=true}",

    /* ---- order ---- */
    "$T=" NUMBERS " $S=true|false : top_k($T[9,9]:extreme) {k=5, axis=1, smallest=$S}",
    "$T=" NUMBERS " : top_k($T[3,4]:ties) {k=4, axis=1}",
    "$O=sort|argsort $T=" NUMBERS " $D=true|false : $O($T[5,9]:extreme) {axis=1, descending=$D}",
    "$O=sort|argsort $T=" NUMBERS " : $O($T[5,300]:ties) {axis=1}",
    "$T=" NUMBERS " : histogram($T[129]:int(0,40)) {bins=7, lo=0, hi=35}",
    "$T=" INTS " $O=" NUMBERS " : one_hot($T[7]:int(0,6)) {depth=5, axis=-1, on=3, off=1, out=$O}",
    "one_hot(u64[9]:extreme) {depth=3, axis=-1}",
    "$T=" NUMBERS " : range() {start=3, step=2, n=70, out=$T}",
    "$T=i16|u64 : range() {start=3, step=-2, n=70, out=$T}",
    "$T=" NUMBERS " : nonzero($T[3,4,5]:ties)",

    /* ---- products ---- */
    "$T=" NUMBERS "|i32|i64 $M=1|3|17 $X=true|false : matmul($T[2,$M,9], $T[9,9]) {trans_b=$X}",
    "$T=" INTS "|i32|i64 : matmul($T[5,9]:extreme, $T[9,6]:extreme)",
    "$T=" NUMBERS "|i32|i64 : matmul($T[5,9]:strided, $T[9,6], $T[6], $T[5,6])",
    "$C=relu|gelu|tanh : matmul(f64[5,33], f64[33,6], f64[6]) {act=$C}",
    "$T=" NUMBERS "|i64 : dot_general($T[2,5,7], $T[2,7,3]) "
    "{batch_a=[0], batch_b=[0], contract_a=[2], contract_b=[1]}",
    "matmul(f64[3,4], f32[4,6]) !> of the same type",
    "matmul(i32[3,4], i32[4,6]) {act=relu} !> takes no activation",

    /* ---- f64: the families that compute with floats ---- */
    "$O=softmax|log_softmax $A=0|1 : $O(f64[5,33]) {axis=$A}",
    "$O=layer_norm|rms_norm : $O(f64[5,33], f64[33], f64[33]) {axis=-1}",
    "group_norm(f64[2,6,5], f64[6], f64[6]) {groups=3}",
    "instance_norm(f64[2,6,5], f64[6], f64[6])",
    "batch_norm_inference(f64[2,6,5], f64[6], f64[6], f64[6], f64[6]:range(0.5,2))",
    "swiglu(f64[5,12])",
    "conv1d(f64[2,3,11], f64[4,3,3], f64[4]) {pads=[1,1]}",
    "conv2d(f64[2,4,7,6], f64[6,2,3,3], f64[6]) {pads=[1,1,1,1], stride=[2,1], groups=2}",
    "conv3d(f64[1,2,4,5,4], f64[3,2,2,3,2])",
    "conv_transpose2d(f64[1,3,4,5], f64[3,2,3,3]) {stride=[2,2]}",
    "$K=max|average : pool2d(f64[1,3,7,8]) {kernel=[3,2], stride=[2,2], kind=$K}",
    "resize(f64[1,2,4,5]) {sizes=[1,2,7,9], mode=linear}",
    "fft(f64[3,12,2])",
    "rfft(f64[3,16])",
    /* so large that slices are shared by threads */
    "$O=softmax|log_softmax : $O(f64[5,31,40]:strided) {axis=1}",
    "$O=layer_norm|rms_norm : $O(f64[7,31,40], f64[40], f64[40]) {axis=-1}",
    "$O=cumsum|cumprod|cummax $T=f64|i64 : $O($T[1,7,31,40]:range(-2,2)) {axis=2, reverse=true}",
    "$O=sort|argsort $T=f64|u64 : $O($T[7,1300]:ties) {axis=-1}",
    "$O=argmax|argmin $T=f64|i64 $K=true|false : $O($T[7,31,40]:ties) {axis=1, keepdims=$K}",
    "top_k(f64[7,1300]:ties) {k=9, axis=-1}",
    "$K=true|false : reduce_log_sum_exp(f64[1,7,31,40]) {axes=[0,3], keepdims=$K}",
    "$K=max|average : pool2d(f64[1,7,33,34]) {kernel=[3,2], stride=[2,2], kind=$K}",
    "resize_nearest_2x(f64[2,3,33,34])",
    "$M=nearest|linear : resize(f64[5,1,33,34]) {sizes=[5,1,40,60], mode=$M}",
    "lstm(f64[4,2,3], _, _, f64[1,20,3], f64[1,20,5], f64[1,20], f64[1,20]) {hidden=5}",
    "gru(f64[4,2,3], _, f64[1,15,3], f64[1,15,5], f64[1,15], f64[1,15]) {hidden=5}",
    NULL
};
