/* SPDX-License-Identifier: MIT */
/* Cases of the quantised operations: products with packed weights, with expert banks and with i8
 * and i4 block schemes, i8 products, quantize and dequantize. */
#include "ops/optest.h"

#define BLOCK_32 "q4_0|q4_1|q5_0|q5_1|q8_0|iq4_nl|mxfp4"
#define BLOCK_256                                                                           \
    "q2_k|q3_k|q4_k|q5_k|q6_k|q8_k|iq4_xs|iq1_s|iq1_m|iq2_xxs|iq2_xs|iq2_s|iq3_xxs|iq3_s|" \
    "tq1_0|tq2_0"
#define BLOCK_64 "nvfp4"
/* Fills whose numbers f16 does not hold, and poison that has to stay in its row. */
#define RANGES "range(-300000,300000)|wide|rows|huge|tiny|poison(0.001)|poison_rows(0.2)"
/* Magnitudes near the ends of f32: their reciprocals, and sums times a scale, leave its range. */
#define ENDS "normal(0,2e-35)|normal(0,1e34)"

const char *const rx_cases_quant[] = {
    /* ---- dequant_matmul: block types --------------------------------------------------------- */
    "$W=" BLOCK_32 "|" BLOCK_64 " $X=[1,64]|[3,64]|[33,64]|[64]|[2,3,64] $N=1|5|33 :"
    " dequant_matmul(f32$X, $W[$N,64])",
    "$W=" BLOCK_32 " $K=32|96|160|1056 $M=1|17 : dequant_matmul(f32[$M,$K], $W[7,$K])",
    "$W=" BLOCK_64 " $K=64|192|1088 $M=1|17 : dequant_matmul(f32[$M,$K], $W[7,$K])",
    "$W=" BLOCK_256 " $K=256|768 $M=1|3|17 $N=1|9 : dequant_matmul(f32[$M,$K], $W[$N,$K])",
    "$W=" BLOCK_32 "|" BLOCK_64 "|" BLOCK_256 " $T=f16|bf16 $M=1|5 :"
    " dequant_matmul($T[$M,256], $W[9,256])",
    "$W=q4_0|q8_0|q4_k|q6_k $M=1|65 : dequant_matmul(f32[$M,512], $W[129,512])",
    "$W=q4_0|q8_0|q4_k|q6_k $T=f32|f16 : dequant_matmul($T[8,1024], $W[200,1024])",
    "$W=q4_k|q8_0 : dequant_matmul(f32[1,4096], $W[250,4096])",
    "$W=q4_0|q8_0|q4_k $T=f32|f16 $M=20|150 : dequant_matmul($T[$M,768], $W[192,768]:param)",
    "$W=q4_0|q4_k : dequant_matmul(f32[1,768], $W[9001,768]:param)",
    "$W=q6_k|q8_0 : dequant_matmul(f32[1,256], $W[9001,256]:param)",
    "dequant_matmul(f32[70,1152], q4_0[192,1152]:param, _, _, f32[192]) {act=gelu}",
    /* Rows at which kernels change. */
    "$W=q4_0|q4_1|q5_0|q5_1|q8_0|q4_k|q5_k|q6_k $M=2|7|8|9|16|17|33|64|65 :"
    " dequant_matmul(f32[$M,768], $W[72,768]:param)",
    "$W=q4_0|q5_1|q8_0 $T=f32|f16|bf16 $M=2|9|33 : dequant_matmul($T[$M,1056], $W[77,1056]:param)",
    "$W=q4_0|q4_k|q6_k $M=4|16|48 : dequant_matmul(f32[$M,2048], $W[2308,2048]:param)",
    "$W=f32|f16|bf16 $T=f32|f16|bf16 $X=[17]|[5,17]|[2,3,17] $N=1|9 :"
    " dequant_matmul($T$X, $W[$N,17])",
    "$W=f32|f16|bf16 $T=f32|f16|bf16 : dequant_matmul($T[4,129], $W[33,129]:param)",

    /* ---- dequant_matmul: magnitudes ---------------------------------------------------------- */
    "$A=" RANGES " $W=q4_0|q8_0|q4_k $M=1|20 : dequant_matmul(f32[$M,768]:$A, $W[192,768]:param)",
    "$A=" ENDS " $W=q4_0|q5_1|q8_0|q4_k|q6_k $M=1|5|16|20|150 :"
    " dequant_matmul(f32[$M,768]:$A, $W[72,768]:param)",
    "$A=" ENDS " $W=q4_0|q4_k $L=|:param :"
    " dequant_grouped_matmul(f32[9,256]:$A, $W[3,8,256]$L, i32[9]:int(0,3))",
    /* Scales of mxfp4 and x's are powers of two down to 2^-127: their product is subnormal. */
    "$W=mxfp4 $A=normal(0,3e-36)|normal(0,1e34) $M=1|5|20|150 $L=|:param :"
    " dequant_matmul(f32[$M,768], $W[72,768]:$A$L)",
    "$A=poison(0.001)|poison_rows(0.2) $W=q4_0|q6_k $T=f32|f16|bf16 $M=3|70 $L=|:param :"
    " dequant_matmul($T[$M,768]:$A, $W[72,768]$L, _, _, f32[72]) {act=relu}",
    /* Without relu, which hides that under `fast` an infinity may meet a weight rounded to 0. */
    "$A=poison(0.001)|poison_rows(0.2) $W=q4_k $T=f32|f16|bf16 $M=3|70 $L=|:param :"
    " dequant_matmul($T[$M,768]:$A, $W[72,768]$L, _, _, f32[72])",
    "$A=poison(0.002)|poison_rows(0.3) $W=q4_0|q6_k $T=f32|f16 $L=|:param :"
    " dequant_grouped_matmul($T[40,256]:$A, $W[3,24,256]$L, i32[40]:int(0,3))",
    "$W=q4_1|q5_0|q5_1|q5_k|q6_k $A=poison(0.0005)|poison_rows(0.2)|huge|tiny :"
    " dequant_matmul(f32[5,768]:$A, $W[192,768]:param)",
    "$A=rows|huge|tiny : dequant_matmul(f32[150,768]:$A, q4_0[192,768]:param)",
    "$W=" BLOCK_32 "|" BLOCK_64 "|" BLOCK_256 " $A=huge|tiny :"
    " dequant_matmul(f32[36,768], $W[192,768]:$A)",
    "$W=q4_0|q4_1|q5_1|q8_0|q4_k|q6_k|iq2_s $A=rows|huge|tiny :"
    " dequant_matmul(f32[2,768], $W[192,768]:$A:param)",
    "$W=q4_0|q6_k $A=huge|tiny|rows : dequant_matmul(f32[70,768]:$A, $W[192,768]:$A:param)",
    "$W=f32|f16 $A=rows|huge|tiny : dequant_matmul(f32[70,192], $W[136,192]:$A:param)",
    "$W=q4_0|q8_0|q4_k $A=rows|huge|tiny|poison_rows(0.3) :"
    " dequant_grouped_matmul(f32[9,256]:$A, $W[3,8,256], i32[9]:int(0,3))",

    /* ---- dequant_matmul: no elements, layouts, named dimensions ------------------------------ */
    "$W=q4_0|q8_0|q4_k|f16 : dequant_matmul(f32[0,256], $W[5,256])",
    "$W=q4_0|q8_0|q4_k|f16 : dequant_matmul(f32[3,256], $W[0,256])",
    "$W=q4_0|q4_k|f16 : dequant_matmul(f32[3,0], $W[5,0])",
    "$W=q4_0|q4_k|f16 : dequant_matmul(f32[3,0], $W[5,0], _, _, f32[5]) {act=sigmoid}",
    "$W=q4_0|q8_0|q4_k $T=f32|f16 : dequant_matmul($T[3,256]:strided, $W[5,256])",
    "$W=q4_0|q8_0|q4_k $T=f32|f16 : dequant_matmul($T[2,3,256]:strided, $W[5,256])",
    "dequant_matmul(f32[4,33]:strided, f16[9,33]:strided)",
    "$W=q4_0|q8_0|q4_k|f16 : dequant_matmul(f32[seq<=17,256], $W[5,256])",
    "$W=q4_0|q4_k|f16 : dequant_matmul(f16[b<=3,seq<=5,256], $W[5,256], _, _, f16[5], f16[b,1,5])",
    "$W=q4_0|q8_0|q4_k : dequant_matmul(f32[3,256]:zero, $W[5,256])",
    "dequant_matmul(f32[9,1]:extreme, f16[4,1])",

    /* ---- dequant_matmul: epilogues ----------------------------------------------------------- */
    "$W=q4_0|q4_k|f16 $T=f32|f16|bf16 $A=none|relu|gelu|gelu_tanh|silu|sigmoid|tanh|hard_swish"
    " $L=false|true : dequant_matmul($T[3,256], $W[9,256], _, _, $T[9], $T[3,9])"
    " {act=$A, act_last=$L}",
    "$W=q8_0|q6_k $R=[9]|[]|[3,1]|[1,1,9]|[2,3,9] :"
    " dequant_matmul(f32[2,3,256], $W[9,256], _, _, _, f32$R) {act=silu}",
    "$T=f16|bf16 $W=q8_0|q6_k : dequant_matmul($T[3,256], $W[9,256], _, _, f32[9], f32[3,9])",
    "$W=q8_0|q6_k : dequant_matmul(f32[256], $W[9,256], _, _, f32[9]) {act=relu}",

    /* ---- dequant_matmul: i8 and i4 block schemes --------------------------------------------- */
    "$T=f32|f16|bf16 $W=i8|u8 $Z=$W[9,3]|_ $M=1|5 :"
    " dequant_matmul($T[$M,48], $W[9,48], f32[9,3]:range(0.01,0.1), $Z) {block=16}",
    "$T=f32|f16|bf16 $W=i8|u8 $Z=$W[9,1]:extreme|_ :"
    " dequant_matmul($T[5,33], $W[9,33]:extreme, f32[9,1]:range(0.001,0.01), $Z)",
    "$T=f32|f16|bf16 $Z=u8[9,3]:int(0,16)|_ $M=1|5 :"
    " dequant_matmul($T[$M,48], u8[9,24]:int(0,256), f32[9,3]:range(0.01,0.1), $Z)"
    " {bits=4, block=16}",
    "$T=f32|f16 $Z=u8[9,1]:int(0,16)|_ :"
    " dequant_matmul($T[5,34], u8[9,17]:int(0,256), f32[9,1]:range(0.01,0.1), $Z) {bits=4}",
    "$Z=u8[9,14]:int(0,16)|_ $X=[42]|[2,3,42] :"
    " dequant_matmul(f32$X, u8[9,21]:int(0,256), f32[9,14]:range(0.01,0.1), $Z) {bits=4, block=3}",
    "$S=f32|f16|bf16 : dequant_matmul(f32[3,64], i8[9,64], $S[9,2]:range(0.01,0.1)) {block=32}",
    "$S=f32|f16|bf16 : dequant_matmul(f16[3,64], u8[9,32]:int(0,256), $S[9,2]:range(0.01,0.1))"
    " {block=32, bits=4}",
    "dequant_matmul(f32[3,64], i8[4,64], f32[4,64]:range(0.01,0.1)) {block=1, bits=8}",
    "$A=relu|gelu|tanh $L=false|true : dequant_matmul(f32[3,64], u8[9,32]:int(0,256),"
    " f32[9,2]:range(0.01,0.1), u8[9,2]:int(0,16), f32[9], f32[3,9])"
    " {bits=4, block=32, act=$A, act_last=$L}",
    "$X=:strided| : dequant_matmul(f32[3,64]:strided, i8[9,64]$X, f32[9,4]:range(0.01,0.1)$X,"
    " i8[9,4]$X) {block=16}",
    "dequant_matmul(f32[3,64]:strided, u8[9,32]:int(0,256):strided,"
    " f32[9,4]:range(0.01,0.1):strided, u8[9,4]:int(0,16):strided) {block=16, bits=4}",
    "dequant_matmul(f32[3,512], u8[65,256]:int(0,256):param, f16[65,16]:range(0.01,0.1):param)"
    " {bits=4, block=32}",
    "dequant_matmul(f32[3,0], i8[9,0], f32[9,0])",
    "dequant_matmul(f32[3,0], u8[9,0], f32[9,0]) {bits=4}",
    "dequant_matmul(f32[0,64], i8[9,64], f32[9,1])",
    "dequant_matmul(f32[3,64], i8[0,64], f32[0,2]) {block=32}",
    "dequant_matmul(f32[seq<=9,64], i8[9,64], f32[9,2]:range(0.01,0.1)) {block=32}",
    "dequant_matmul(f16[seq<=9,64], u8[9,32]:int(0,256), f32[9,2]:range(0.01,0.1))"
    " {block=32, bits=4}",

    /* ---- dequant_matmul: errors -------------------------------------------------------------- */
    "dequant_matmul(f32[3,48], q4_0[5,48]) !> multiple of 32",
    "dequant_matmul(f32[3,128], q4_k[5,128]) !> multiple of 256",
    "dequant_matmul(f32[3,64], q4_0[5,96]) !> operand 0 (x) expected with size 96 on axis 1",
    "dequant_matmul(f32[], q4_0[5,96]) !> operand 0 (x) expected of rank",
    "dequant_matmul(f32[3,96], q4_0[2,5,96]) !> operand 1 (w) expected of rank 2",
    "dequant_matmul(i8[3,96], q4_0[5,96]) !> operand 0 (x) expected of type",
    "$W=i32|i64|bool : dequant_matmul(f32[3,96], $W[5,96]) !> operand 1 (w) expected of",
    "dequant_matmul(f32[3,96], q4_0[5,96], f32[5,3]) !> scale is not expected here",
    "dequant_matmul(f32[3,96], q4_0[5,96], _, i8[5,3]) !> zero is not expected here",
    "dequant_matmul(f32[3,96], f16[5,96], f32[5,1]) !> scale is not expected here",
    "dequant_matmul(f32[3,96], q4_0[5,96]) {bits=4} !> bits and block are for a weight of",
    "dequant_matmul(f32[3,96], q4_0[5,96]) {block=32} !> bits and block are for a weight of",
    "dequant_matmul(f32[3,96], q4_0[5,96], _, _, f32[6]) !> operand 4 (bias) expected f32[5]",
    "dequant_matmul(f32[3,96], q4_0[5,96], _, _, f16[5]) !> operand 4 (bias) expected of type f32",
    "dequant_matmul(f32[3,96], q4_0[5,96], _, _, _, f32[4,5]) !> operand 5 (residual) expected",
    "dequant_matmul(f32[3,96], i8[5,96]) !> operand 2 (scale) expected",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5,2]) !> operand 2 (scale) expected f32[5,1]",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5]) {block=32} !> operand 2 (scale) expected f32[5,3]",
    "dequant_matmul(f32[3,96], i8[5,96], i32[5,1]) !> operand 2 (scale) expected of type",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5,1], u8[5,1]) !> (zero) expected of type i8",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5,1], i8[5,2]) !> operand 3 (zero) expected i8[5,1]",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5,3]) {block=36} !> expected a divisor of K = 96",
    "dequant_matmul(f32[3,96], i8[5,96], f32[5,3]) {block=-32} !> expected a divisor of K = 96",
    "$B=1|2|7|16 : dequant_matmul(f32[3,96], i8[5,96], f32[5,1]) {bits=$B} !> expected 4 or 8",
    "dequant_matmul(f32[3,96], i8[5,48], f32[5,1]) {bits=4} !> (w (bits = 4)) expected of type u8",
    "dequant_matmul(f32[3,95], u8[5,48], f32[5,1]) {bits=4} !> with size 96 on axis 1",
    "dequant_matmul(f32[3,seq<=9], i8[5,seq], f32[5,1]) !> w: expected fixed dimensions",

    /* ---- dequant_grouped_matmul -------------------------------------------------------------- */
    "$W=" BLOCK_32 "|" BLOCK_64 " $M=1|9 : dequant_grouped_matmul(f32[$M,64], $W[4,5,64],"
    " i32[$M]:int(0,4))",
    "$W=" BLOCK_256 " $M=1|9 : dequant_grouped_matmul(f32[$M,256], $W[3,5,256],"
    " i32[$M]:int(0,3))",
    "$T=f16|bf16 $W=q4_0|q8_0|q4_k|q6_k|f16|f32|bf16 $I=i32|i64 :"
    " dequant_grouped_matmul($T[17,256], $W[4,9,256], $I[17]:int(-4,4))",
    "$W=q4_0|q4_k : dequant_grouped_matmul(f32[33,512], $W[8,65,512], i32[33]:int(0,8))",
    "$W=q4_0|q4_k : dequant_grouped_matmul(f32[7,256], $W[3,5,256], i32[7]:int(-9,9))",
    "$W=q4_0|q4_k|f16 $S=0,256],$W[3,5,256],i32[0|4,0],$W[3,5,0],i32[4|4,256],$W[3,0,256],i32[4 :"
    " dequant_grouped_matmul(f32[$S]:fill(0))",
    "$W=q4_0|q4_k : dequant_grouped_matmul(f32[7,256]:strided, $W[3,5,256], i32[7]:int(0,3):const)",
    "$W=q4_0|q4_k : dequant_grouped_matmul(f32[seq<=9,256], $W[3,5,256], i32[seq]:int(0,3))",
    "dequant_grouped_matmul(f32[7,64], q4_0[3,5,32], i32[7]) !> (x) expected with size 32",
    "dequant_grouped_matmul(f32[7,64], q4_0[5,64], i32[7]) !> operand 1 (w) expected of rank 3",
    "dequant_grouped_matmul(f32[64], q4_0[3,5,64], i32[7]) !> operand 0 (x) expected of rank 2",
    "dequant_grouped_matmul(f32[7,64], i8[3,5,64], i32[7]) !> operand 1 (w) expected of",
    "dequant_grouped_matmul(f32[7,64], q4_0[3,5,64], i32[6]) !> operand 2 (ids) expected i32[7]",
    "dequant_grouped_matmul(f32[7,64], q4_0[3,5,64], u8[7]) !> operand 2 (ids) expected of type",
    "dequant_grouped_matmul(f32[7,64], q4_0[3,5,64], i32[7]:fill(3):const) !> ids[0] is 3",
    "dequant_grouped_matmul(f32[7,64], q4_0[0,5,64], i32[7]) !> at least one expert",

    /* ---- dequant_moe_weights ----------------------------------------------------------------- */
    "$W=" BLOCK_32 "|" BLOCK_64 "|" BLOCK_256 " $T=f32|f16|bf16 :"
    " dequant_moe_weights($W[3,2,256], i32[5]:int(0,3)) {to=$T}",
    "$W=f32|f16|bf16 $T=f32|f16|bf16 : dequant_moe_weights($W[3,4,17], i64[5]:int(-3,3)) {to=$T}",
    "$W=q4_0|q6_k : dequant_moe_weights($W[3,7,512], i32[2]:int(0,3))",
    "$W=q4_0|q6_k : dequant_moe_weights($W[3,7,256], i32[6]:int(-9,9))",
    "$W=q4_0|q6_k|f16 : dequant_moe_weights($W[3,7,256], i32[0])",
    "$W=q4_0|q6_k|f16 : dequant_moe_weights($W[3,0,256], i32[2]:int(0,3))",
    "$W=q4_0|q6_k|f16 : dequant_moe_weights($W[3,7,0], i32[2]:int(0,3))",
    "$W=q4_0|q6_k : dequant_moe_weights($W[3,7,256], i32[m<=5]:int(0,3))",
    "dequant_moe_weights(f32[3,4,17]:strided, i64[5]:int(0,3):strided)",
    "dequant_moe_weights(q4_0[7,64], i32[2]) !> operand 0 (w) expected of rank 3",
    "dequant_moe_weights(q4_0[3,7,64], i32[2,1]) !> operand 1 (ids) expected of rank 1",
    "dequant_moe_weights(q4_0[3,7,64], f32[2]) !> operand 1 (ids) expected of type i32 or i64",
    "dequant_moe_weights(q4_0[3,7,64], i64[2]:fill(-4):const) !> ids[0] is -4",
    "dequant_moe_weights(q4_0[3,7,64], i32[2]) {to=i32} !> result type expected f32, f16 or bf16",
    "dequant_moe_weights(u8[3,7,64], i32[2]) !> operand 0 (w) expected of",

    /* ---- qmatmul ----------------------------------------------------------------------------- */
    "$A=i8|u8 $B=i8|u8 $M=1|5|33 $K=1|17|65 $N=1|9 :"
    " qmatmul($A[$M,$K]:extreme, $B[$K,$N]:extreme) {a_zero=3, b_zero=7}",
    "$A=i8|u8 $B=i8|u8 $T=false|true $O=i8|u8 $S=[]|[17] :"
    " qmatmul($A[5,17]:extreme, $B[17,17]:extreme, f32$S:range(0.0001,0.002), i32[17])"
    " {a_zero=5, b_zero=100, y_zero=10, out=$O, trans_b=$T}",
    "$A=i8|u8 $B=_|i32[9]:int(-1000,1000) $S=_|f32[]:fill(0.01)|f32[9]:range(0.001,0.02) :"
    " qmatmul($A[3,31]:extreme, i8[31,9]:extreme, $S, $B) {a_zero=9}",
    "$O=i8|u8 : qmatmul(i8[3,5], i8[5,9], f32[]:fill(0.5)) {out=$O, y_zero=1}",
    "$O=i8|u8 : qmatmul(i8[3,5], i8[5,9], f32[9]:extreme) {out=$O, y_zero=3}",
    "qmatmul(i8[3,5]:extreme, i8[5,9]:extreme, _, i32[9]:extreme)",
    "$A=i8|u8 : qmatmul($A[65,129]:extreme, i8[129,67]:extreme, f32[]:fill(0.0003)) {b_zero=-3}",
    "$A=[17]|[1,17]|[2,1,3,17] $B=[17]|[17,9]|[4,17,9] : qmatmul(u8$A, i8$B) {a_zero=2}",
    "$A=[17]|[2,1,3,17] : qmatmul(u8$A, i8[4,9,17], f32[9]:range(0,1)) {a_zero=2, trans_b=true}",
    "$A=:strided| $B=:strided| :"
    " qmatmul(u8[2,5,17]$A, i8[2,17,9]$B, f32[9]:range(0,1):strided, i32[9]:strided)",
    "qmatmul(u8[0,5], i8[5,9])",
    "qmatmul(u8[3,0], i8[0,9], f32[], i32[9]) {y_zero=4}",
    "qmatmul(u8[3,5], i8[5,0], f32[0])",
    "qmatmul(u8[seq<=9,5], i8[5,9], f32[9]:range(0,1)) {a_zero=1}",
    "qmatmul(f32[3,5], i8[5,9]) !> operand 0 (a) expected of type i8 or u8",
    "qmatmul(i8[3,5], i32[5,9]) !> operand 1 (b) expected of type i8 or u8",
    "qmatmul(i8[3,5], i8[6,9]) !> operand 1 (b) expected with size 5 on axis 0",
    "qmatmul(i8[3,5], i8[5,9]) {a_zero=128} !> a_zero: expected a number of type i8, got 128",
    "qmatmul(i8[3,5], u8[5,9]) {b_zero=-1} !> b_zero: expected a number of type u8, got -1",
    "qmatmul(i8[3,5], i8[5,9], f32[]) {y_zero=-129} !> y_zero: expected a number of type i8",
    "qmatmul(i8[3,5], i8[5,9]) {y_zero=1} !> y_zero needs a scale",
    "qmatmul(i8[3,5], i8[5,9]) {out=i8} !> result type expected i32",
    "qmatmul(i8[3,5], i8[5,9], f32[]) {out=i32} !> result type expected i8 or u8",
    "qmatmul(i8[3,5], i8[5,9], f32[8]) !> operand 2 (scale) expected f32[9]",
    "qmatmul(i8[3,5], i8[5,9], f32[1]) !> operand 2 (scale) expected f32[9]",
    "qmatmul(i8[3,5], i8[5,9], f16[]) !> operand 2 (scale) expected of type f32",
    "qmatmul(i8[3,5], i8[5,9], _, f32[9]) !> operand 3 (bias) expected of type i32",
    "qmatmul(i8[3,5], i8[5,9], _, i32[3]) !> operand 3 (bias) expected i32[9]",
    "qmatmul(i8[2,3,5], i8[3,5,9]) !> broadcast",
    "qmatmul(i8[5], i8[5]) {trans_b=true} !> trans_b needs a matrix b",

    /* ---- quantize ---------------------------------------------------------------------------- */
    "$X=f32|f16|bf16 $S=f32|f16|bf16 $Q=i8|u8|i32 $Z=$Q[]|_ :"
    " quantize($X[3,17]:normal(0,5), $S[]:fill(0.25), $Z) {to=$Q}",
    "$X=f32|f16 $Q=i8|u8|i32 $Z=$Q[4]|_ $A=0|1|2|-1|-2 :"
    " quantize($X[4,4,4]:normal(0,5), f32[4]:range(0.05,0.2), $Z) {axis=$A, to=$Q}",
    "$X=f32|f16 $Q=i8|u8 $B=6,4,8]) {block=1|3,4,8]) {block=2|2,4,8]) {block=3|1,4,8]) {block=6 :"
    " quantize($X[6,4,8]:normal(0,5), f32[$B, to=$Q}",
    "$Q=i8|u8 : quantize(f32[6,4,8]:normal(0,5), f32[]:fill(0.3), $Q[]:fill(7)) {axis=1}",
    "$Q=i8|u8|i32 : quantize(f32[6,4,8]:normal(0,5), f32[2,4,8]:range(0.05,0.2), $Q[2,4,8])"
    " {axis=0, block=3}",
    "$Q=i8|u8|i32 : quantize(f32[6,4,8]:normal(0,5), f32[6,2,8]:range(0.05,0.2), $Q[6,2,8])"
    " {axis=1, block=2}",
    "$Q=i8|u8|i32 : quantize(f32[6,4,8]:normal(0,5), f32[6,4,1]:range(0.05,0.2), $Q[6,4,1])"
    " {axis=-1, block=8}",
    "$X=f32|f16|bf16 $Q=i8|u8|i32 : quantize($X[33,17]:extreme, f32[]:fill(1), $Q[]) {to=$Q}",
    "$Q=i8|u8|i32 : quantize(f32[33,17]:extreme, f32[17]:extreme) {axis=1, to=$Q}",
    "$Q=i8|u8|i32 : quantize(f32[33,17]:int(-600,600), f32[]:fill(2), $Q[]) {to=$Q}",
    "$Q=i8|u8 : quantize(f32[33,129]:int(-300,300), f32[]:fill(0.4), $Q[]) {to=$Q}",
    "$X=f32|f16 : quantize($X[129]:int(-30,30), f32[]:fill(4))",
    "quantize(f32[], f32[]:fill(0.1), u8[])",
    "quantize(f32[0,4], f32[4]) {axis=1}",
    "quantize(f32[4,0], f32[4])",
    "quantize(f32[0,4], f32[0,2]) {axis=1, block=2}",
    "$S=:strided| : quantize(f32[6,8]:strided, f32[6,2]:range(0.05,0.2)$S, i8[6,2]$S)"
    " {axis=1, block=4}",
    "quantize(f32[4,8]:strided, f32[8]:range(0.05,0.2):strided) {axis=-1}",
    "quantize(f32[seq<=9,8], f32[8]:range(0.05,0.2), u8[8]) {axis=1}",
    "quantize(f32[seq<=9,8], f32[seq,2]:range(0.05,0.2)) {axis=1, block=4}",
    "quantize(f32[seq<=9,8], f32[seq]:range(0.05,0.2))",
    "quantize(f32[129,257]:normal(0,20), f32[257]:range(0.1,0.5), i8[257]) {axis=1}",
    "quantize(i32[4], f32[]) !> operand 0 (x) expected of type",
    "quantize(f32[4]) !> quantize",
    "quantize(f32[4], i32[]) !> operand 1 (scale) expected of type",
    "quantize(f32[4,8], f32[8]) !> operand 1 (scale) expected f32[4]",
    "quantize(f32[4,8], f32[1,8]) {axis=1} !> operand 1 (scale) expected f32[8]",
    "quantize(f32[4,8], f32[8]) {axis=2} !> axis expected from -2 to 1, got 2",
    "quantize(f32[], f32[]) {axis=1} !> axis expected",
    "quantize(f32[4,8], f32[4,2]) {axis=1, block=3} !> expected a divisor of 8, got 3",
    "quantize(f32[4,8], f32[4,2]) {axis=1, block=-4} !> expected a divisor of 8, got -4",
    "quantize(f32[4,8], f32[4,4]) {axis=1, block=4} !> operand 1 (scale) expected f32[4,2]",
    "quantize(f32[], f32[]) {block=1} !> block needs an axis",
    "quantize(f32[seq<=8,4], f32[seq,4]) {block=2} !> block needs an axis with a fixed size",
    "quantize(f32[4,8], f32[], f32[]) !> result type expected i8, u8 or i32",
    "quantize(f32[4,8], f32[], u8[]) {to=i8} !> operand 2 (zero) expected of type i8",
    "quantize(f32[4,8], f32[4], i8[]) !> operand 2 (zero) expected i8[4]",
    "quantize(f32[4,8], f32[]) {to=i64} !> result type expected i8, u8 or i32",

    /* ---- dequantize -------------------------------------------------------------------------- */
    "$W=" BLOCK_32 "|" BLOCK_64 "|" BLOCK_256 " $T=f32|f16|bf16 $S=[256]|[3,256]|[2,2,512] :"
    " dequantize($W$S) {to=$T}",
    "$W=" BLOCK_32 " : dequantize($W[5,96])",
    "$W=q4_0|q4_k $S=0,256|3,0|0 : dequantize($W[$S])",
    "$X=i8|u8|i32 $S=f32|f16|bf16 $T=f32|f16|bf16 $Z=$X[]|_ :"
    " dequantize($X[3,17], $S[]:fill(0.25), $Z) {to=$T}",
    "$X=i8|u8 $Z=$X[]:extreme|_ : dequantize($X[3,17]:extreme, f32[]:fill(0.1), $Z)",
    "$X=i8|u8|i32 $Z=$X[4]|_ $A=0|1|2|-1|-2 :"
    " dequantize($X[4,4,4], f32[4]:range(0.05,0.2), $Z) {axis=$A}",
    "$X=i8|u8|i32 : dequantize($X[6,4,8], f32[2,4,8]:range(0.05,0.2), $X[2,4,8])"
    " {axis=0, block=3}",
    "$X=i8|u8|i32 : dequantize($X[6,4,8], f32[6,2,8]:range(0.05,0.2), $X[6,2,8])"
    " {axis=1, block=2}",
    "$X=i8|u8|i32 : dequantize($X[6,4,8], f32[6,4,1]:range(0.05,0.2), $X[6,4,1])"
    " {axis=-1, block=8}",
    "dequantize(i8[6,8]:strided, f32[6,2]:range(0.05,0.2):strided, i8[6,2]:strided)"
    " {axis=1, block=4}",
    "dequantize(i32[5,7]:int(-1000000,1000000), f32[7]:extreme, i32[7]) {axis=1}",
    "dequantize(i8[], f32[], i8[])",
    "dequantize(i8[0,4], f32[4]) {axis=1}",
    "dequantize(u8[seq<=9,8], f32[8]:range(0.05,0.2), u8[8]) {axis=1}",
    "dequantize(u8[seq<=9,8], f32[seq,2]:range(0.05,0.2)) {axis=1, block=4, to=f16}",
    "dequantize(i8[129,257]:extreme, f32[129]:range(0.1,0.5), i8[129])",
    "dequantize(f32[4], f32[]) !> operand 0 (x) expected of",
    "dequantize(i64[4], f32[]) !> operand 0 (x) expected of",
    "dequantize(i8[4]) !> operand 1 (scale) expected",
    "dequantize(i8[4], f32[3]) !> operand 1 (scale) expected f32[4]",
    "dequantize(i8[4], f32[], u8[]) !> operand 2 (zero) expected of type i8",
    "dequantize(i8[4], f32[]) {to=i32} !> result type expected f32, f16 or bf16",
    "dequantize(q4_0[3,32], f32[]) !> scale is not expected here",
    "dequantize(q4_0[3,32], _, u8[]) !> zero is not expected here",
    "dequantize(q4_0[3,32]) {axis=1} !> axis and block are not for x of the packed type q4_0",
    "dequantize(q4_0[3,32]) {block=32} !> axis and block are not for x of the packed type q4_0",
    "dequantize(q4_0[3,33]) !> multiple of 32",
    NULL,
};
