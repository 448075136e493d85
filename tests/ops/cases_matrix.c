/* SPDX-License-Identifier: MIT */
/* Cases of the plain matrix products: matmul with its epilogues, dot_general, lora_matmul,
 * grouped_matmul. */
#include "ops/optest.h"

/* Fills whose numbers f16 does not hold, and poison that has to stay in its row. */
#define RANGES "range(-300000,300000)|wide|rows|huge|tiny|poison(0.0005)|poison_rows(0.05)"
/* Magnitudes near the ends of f32: their reciprocals, and sums times a scale, leave its range. */
#define ENDS "normal(0,2e-35)|normal(0,1e34)"

const char *const rx_cases_matrix[] = {
    /* ---- matmul: sizes, odd and large ------------------------------------------------------- */
    "$T=f32|f16|bf16|i8 $M=1|3|17|33 $K=1|7|64 $N=1|5|31 : matmul($T[$M,$K], $T[$K,$N])",
    "$T=f32|f16|bf16|i8 $M=1|3|17|33 $K=1|7|64 $N=1|5|31 :"
    " matmul($T[$M,$K], $T[$N,$K]) {trans_b=true}",
    "$T=f32|f16|bf16|i8 $B=false|true : matmul($T[65,129], $T[129,129]) {trans_b=$B}",
    "$T=f32|f16|bf16|i8 : matmul($T[1,1031], $T[257,1031]) {trans_b=true}",
    "$T=f32|f16|bf16|i8 : matmul($T[1,1031], $T[1031,257])",
    "$T=f32|f16 : matmul($T[128,256], $T[256,192])",
    "$T=f32|f16 : matmul($T[2,64,96], $T[96,160])",
    "$T=f32|f16|bf16 : matmul($T[70,192], $T[192,136], $T[136], $T[70,136]) {act=gelu}",
    /* As many tiles as a large GPU wants for its largest kernels. */
    "$N=3001|3072 : matmul(f16[3072,64], f16[64,$N], f16[$N]) {act=gelu}",
    /* 16 bits in loads of eight: along k, along the other axis, of one operand only */
    "$T=f16|bf16 $K=24|136 : matmul($T[40,$K], $T[$K,72])",
    "$T=f16|bf16 $K=24|136 : matmul($T[2,40,$K], $T[72,$K]) {trans_b=true}",
    "$K=24|28 : matmul(f16[72,$K]:strided, f16[$K,72])",
    /* b in rows of eight columns, past the end of k; and columns that are no such rows */
    "$T=f16|bf16 $N=168|161 : matmul($T[72,100], $T[100,$N])",
    "matmul(bf16[40,24], bf16[2,24,76])",
    "matmul(f16[2560,64], f16[64,2304], f16[2304], f16[2560,2304]) {act=silu}",
    "$T=f32|f16|bf16 : matmul($T[3,70,128], $T[3,128,72])",
    "$T=f32|f16|bf16 $M=20|150 : matmul($T[$M,512], $T[200,512]:param) {trans_b=true}",
    "$T=f32|f16|bf16|i8 : matmul($T[2,4099], $T[4099,3])",
    "$T=f32|f16 : matmul($T[8,512], $T[1000,512]:param) {trans_b=true}",
    "$T=f32|f16|bf16|i8 : matmul($T[9,33]:const, $T[33,8]:const)",

    /* ---- matmul: no elements ----------------------------------------------------------------- */
    "$T=f32|f16|bf16|i8 $S=0,4], $T[4,3|2,4], $T[4,0|0,0], $T[0,0|2,0], $T[0,3 : matmul($T[$S])",
    "$T=f32|i8 : matmul($T[0,2,3], $T[3,4])",
    "$T=f32|i8 : matmul($T[0,2,3], $T[1,3,4])",
    "$T=f32|f16 $A=none|relu|sigmoid :"
    " matmul($T[2,0], $T[0,3], $T[3], $T[2,3]) {act=$A}",
    "matmul(i8[2,0], i8[0,3], i32[3])",

    /* ---- matmul: vectors and batches --------------------------------------------------------- */
    "$T=f32|f16|bf16|i8 : matmul($T[17], $T[17])",
    "$T=f32|f16|bf16|i8 : matmul($T[17], $T[17,5])",
    "$T=f32|f16|bf16|i8 : matmul($T[17], $T[5,17]) {trans_b=true}",
    "$T=f32|f16|bf16|i8 : matmul($T[5,17], $T[17])",
    "$T=f32|i8 : matmul($T[17], $T[2,3,17,5])",
    "$T=f32|i8 : matmul($T[2,3,5,17], $T[17])",
    "$T=f32|f16|bf16 : matmul($T[17], $T[17], $T[1], $T[])",
    "$T=f32|f16|bf16|i8 $A=3|1 $B=3|1 : matmul($T[$A,5,7], $T[$B,7,4])",
    "$T=f32|f16|bf16|i8 $A=2,3|1,3|2,1|1,1|3 $B=2,3|1,3|2,1|1,1|3 $X=false|true :"
    " matmul($T[$A,4,5], $T[$B,5,5]) {trans_b=$X}",
    "$T=f32|i8 : matmul($T[2,1,3,1,2,1,4,5], $T[1,2,1,3,1,2,5,3])",
    "$T=f32|i8 : matmul($T[2,1,3,1,2,1,4,5], $T[2,3,5]) {trans_b=true}",

    /* ---- matmul: layouts --------------------------------------------------------------------- */
    "$T=f32|f16|bf16|i8 $A=:strided| $B=:strided| $X=[33,33]|[2,33,33] :"
    " matmul($T[2,33,33]$A, $T$X$B)",
    "$T=f32|f16|bf16|i8 $A=:strided| $B=:strided| :"
    " matmul($T[17,33]$A, $T[31,33]$B) {trans_b=true}",
    "$T=f32|i8 : matmul($T[33]:strided, $T[33,5]:strided)",
    "$T=f32|f16 : matmul($T[4,33]:strided, $T[33,5]:strided, $T[5]:strided, $T[4,5]:strided)"
    " {act=silu}",

    /* ---- matmul: epilogues ------------------------------------------------------------------- */
    "$T=f32|f16|bf16 $A=none|relu|gelu|gelu_tanh|silu|sigmoid|tanh|hard_swish"
    " $B=$T[9]|_ $R=$T[5,9]|_ $L=false|true :"
    " matmul($T[5,17], $T[17,9], $B, $R) {act=$A, act_last=$L}",
    "$T=f32|f16|bf16 $R=[9]|[1]|[]|[5,1]|[1,9]|[1,1,1]|[3,1,1]|[3,5,9] $L=false|true :"
    " matmul($T[3,5,7], $T[7,9], _, $T$R) {act=tanh, act_last=$L}",
    "$T=f16|bf16 $R=f32|$O $O=f32|$T :"
    " matmul($T[5,17], $T[9,17], $R[9], f32[5,9]) {trans_b=true, act=gelu, out=$O}",
    "$T=f16|bf16 : matmul($T[5,17], $T[17,9], f32[9], $T[5,9]) {act=silu}",
    "$T=f16|bf16 $R=f32|$T : matmul(f32[5,17], f32[17,9], $R[9], f32[5,9]) {out=$T}",
    "$T=f16|bf16 $O=f32|$T : matmul($T[33,129], $T[129,31]) {out=$O}",
    "$O=f32|f16|bf16 : matmul(f32[33,129], f32[129,31]) {out=$O}",
    "$B=i32[9]:extreme|_ $R=i32[5,9]:extreme|i32[9]|_ : matmul(i8[5,17], i8[17,9], $B, $R)",
    "$B=i32[9]|_ : matmul(i8[5,17], i8[9,17], $B) {trans_b=true, out=i32}",

    /* ---- matmul: long sums of few results ---------------------------------------------------- */
    "$T=f32|f16|bf16 $K=512|516|520 :"
    " matmul(f32[9,$K], f32[$K,17], f32[17], f32[9,17]) {act=gelu, out=$T}",
    "$A=:strided| $B=:strided| : matmul(f32[11,384]$A, f32[13,384]$B) {trans_b=true}",
    "$A=2|1 : matmul(f32[$A,9,256], f32[2,256,7], f32[7], f32[2,9,7]) {act=silu}",

    /* ---- matmul: values ---------------------------------------------------------------------- */
    "$T=f32|f16|bf16 : matmul($T[9,1]:extreme, $T[1,13]:extreme)",
    "$T=f32|f16|bf16 : matmul($T[9,5]:extreme, $T[5,3]:zero)",
    "$T=f32|f16|bf16 : matmul($T[9,1]:extreme, $T[1,3]:fill(1), $T[3]:extreme)",
    "$T=f32|f16|bf16 : matmul($T[7,33]:zero, $T[33,9])",
    "$T=f32|f16|bf16 : matmul($T[7,33]:fill(1), $T[33,9]:ties)",
    "matmul(i8[17,129]:extreme, i8[129,9]:extreme)",
    "$T=f32|f16 : matmul($T[1,1]:fill(60000), $T[1,3]:fill(2))",

    /* ---- matmul: magnitudes, in sizes that kernels which round to f16 under `fast` take ---- */
    "$A=" RANGES " : matmul(f32[70,192]:$A, f32[192,136])",
    "$A=" RANGES " : matmul(f32[70,192], f32[192,136]:$A)",
    "$A=" RANGES " : matmul(f32[20,512]:$A, f32[200,512]:param) {trans_b=true}",
    "$A=" RANGES " : matmul(f32[20,512], f32[200,512]:$A:param) {trans_b=true}",
    "$A=" ENDS " $M=1|5|20|150 $P=|:param :"
    " matmul(f32[$M,512]:$A, f32[200,512]$P, f32[200]:zero) {trans_b=true}",
    "$A=" ENDS " : matmul(f32[70,192], f32[192,136]:$A)",
    "matmul(f32[70,192]:normal(0,1e34), f32[192,136]:normal(0,2e-35))",
    "$A=huge|tiny|rows : matmul(f32[150,512]:$A, f32[200,512]:param, f32[200]) {trans_b=true}",
    "$A=rows|huge $B=tiny|rows : matmul(f32[70,192]:$A, f32[136,192]:$B) {trans_b=true}",
    "$A=rows|poison_rows(0.1) : matmul(f32[3,70,128]:$A, f32[3,128,72])",
    "$A=" RANGES " : matmul(f32[640,64]:$A, f32[64,576])",
    "$A=rows|tiny : matmul(f32[640,64], f32[576,64]:$A) {trans_b=true}",
    "matmul(f32[1152,64]:rows, f32[64,1344])",
    "matmul(f32[2560,64]:rows, f32[64,2304])",
    "matmul(f32[2560,64]:huge, f32[64,2304]:tiny, f32[2304]) {act=silu}",
    "$A=rows|huge|tiny : matmul(f32[5,192]:$A, f32[192,72])",

    /* ---- matmul: named dimensions ------------------------------------------------------------ */
    "$T=f32|f16|i8 : matmul($T[seq<=17,8], $T[8,5])",
    "$T=f32|f16|i8 : matmul($T[4,seq<=17], $T[seq,5])",
    "$T=f32|i8 : matmul($T[4,5], $T[5,seq<=17])",
    "$T=f32|i8 : matmul($T[b<=3,seq<=9,8], $T[b,past<=12,8]) {trans_b=true}",
    "matmul(f32[1,seq<=9,8], f32[b<=3,8,4], f32[4], f32[seq,4]) {act=relu}",

    /* ---- matmul: errors ---------------------------------------------------------------------- */
    "matmul(f32[3,4]) !> matmul",
    "matmul(f32[3,4], f32[5,6]) !> operand 1 (b) expected with size 4 on axis 0",
    "matmul(f32[3,4], f32[4,6]) {trans_b=true} !> operand 1 (b) expected with size 4 on axis 1",
    "matmul(f32[3,4], f32[4]) {trans_b=true} !> trans_b needs a matrix b",
    "matmul(f32[], f32[4]) !> operand 0 (a) expected of rank 1 to 8",
    "matmul(f32[4], f32[]) !> operand 1 (b) expected of rank 1 to 8",
    "matmul(f32[4], f32[5]) !> expected with size 4 on axis 0",
    "matmul(f32[2,3,4], f32[3,4,5]) !> broadcast",
    "matmul(f32[3,4], f16[4,6]) !> same type",
    "$T=u8|bool : matmul($T[3,4], $T[4,6]) !> operand 0 (a) expected of type",
    "matmul(f32[3,32], q8_0[32,32]) !> operand 1 (b) expected of type",
    "matmul(f32[3,4], f32[4,6], f32[5]) !> operand 2 (bias) expected f32[6]",
    "matmul(f32[3,4], f32[4,6], f32[1,6]) !> operand 2 (bias) expected f32[6]",
    "matmul(f32[3,4], f32[4,6], f16[6]) !> operand 2 (bias) expected of type f32",
    "matmul(f32[3,4], f32[4,6], _, f32[4,6]) !> operand 3 (residual) expected with a shape",
    "matmul(f32[3,4], f32[4,6], _, f32[2,3,6]) !> operand 3 (residual) expected with a shape",
    "matmul(f32[3,4], f32[4,6], _, i32[3,6]) !> operand 3 (residual) expected of type f32",
    "matmul(i8[3,4], i8[4,6], f32[6]) !> operand 2 (bias) expected of type i32",
    "matmul(i8[3,4], i8[4,6]) {act=relu} !> an integer product takes no activation",
    "$O=f32|f16|i8 : matmul(i8[3,4], i8[4,6]) {out=$O} !> result type expected i32",
    "matmul(f16[3,4], f16[4,6]) {out=bf16} !> result type expected f32 or f16",
    "matmul(f32[3,4], f32[4,6]) {out=i32} !> result type expected f32, f16 or bf16",
    "matmul(f32[seq<=8,4], f32[seq,4]) !> operand 1 (b) expected with size 4 on axis 0",
    "matmul(f32[seq<=8,2,4], f32[3,4,5]) !> broadcast",

    /* ---- dot_general ------------------------------------------------------------------------- */
    "$T=f32|f16|bf16|i8 : dot_general($T[5,17], $T[17,9]) {contract_a=[1], contract_b=[0]}",
    "$T=f32|f16|bf16|i8 $A=0|1|2|-1 $B=0|1|2|-2 :"
    " dot_general($T[5,5,5], $T[5,5,5]) {contract_a=[$A], contract_b=[$B]}",
    "$T=f32|f16|i8 $A=0],contract_a=[1|0],contract_a=[2|1],contract_a=[2|2],contract_a=[0"
    " $B=0],contract_b=[1|0],contract_b=[2|1],contract_b=[0|2],contract_b=[1 :"
    " dot_general($T[4,4,4], $T[4,4,4]) {batch_a=[$A], batch_b=[$B]}",
    "$T=f32|f16|i8 : dot_general($T[2,3,4,5], $T[5,2,6,3])"
    " {batch_a=[0,1], batch_b=[1,3], contract_a=[3], contract_b=[0]}",
    "$T=f32|i8 : dot_general($T[2,3,4,5], $T[3,5,4,7])"
    " {contract_a=[1,2,3], contract_b=[0,2,1]}",
    "$T=f32|i8 : dot_general($T[2,7,3,4], $T[4,2,6,3])"
    " {batch_a=[2,0], batch_b=[3,1], contract_a=[-1], contract_b=[-4]}",
    "$T=f32|i8 : dot_general($T[3,4], $T[5,2])",
    "$T=f32|i8 : dot_general($T[], $T[])",
    "$T=f32|i8 : dot_general($T[], $T[5,2])",
    "$T=f32|i8 : dot_general($T[3,4], $T[3,4]) {contract_a=[0,1], contract_b=[0,1]}",
    "$T=f32|i8 : dot_general($T[3,4], $T[4,3]) {batch_a=[0,1], batch_b=[1,0]}",
    "$T=f32|i8 : dot_general($T[2,1,2,1,2,1,2,3], $T[2,1,2,1,2,1,2,3])"
    " {batch_a=[0,1,2,3,4,5,6], batch_b=[0,1,2,3,4,5,6], contract_a=[7], contract_b=[7]}",
    "$T=f32|i8 : dot_general($T[2,1,2,1,2,1,2,1], $T[2,1,2,1,2,1,2,1])"
    " {batch_a=[0,1,2,3,4,5,6,7], batch_b=[0,1,2,3,4,5,6,7]}",
    "$T=f32|i8 $S=0|3 : dot_general($T[2,$S,4], $T[$S,4,0])"
    " {contract_a=[1,2], contract_b=[0,1]}",
    "$T=f32|i8 : dot_general($T[2,0,4], $T[4,0,3]) {contract_a=[1,2], contract_b=[1,0]}",
    "$T=f32|f16|i8 : dot_general($T[3,4,5]:strided, $T[5,6,3]:strided)"
    " {batch_a=[0], batch_b=[2], contract_a=[2], contract_b=[0]}",
    "$T=f32|f16 : dot_general($T[b<=3,seq<=7,4], $T[b,4,past<=9])"
    " {batch_a=[0], batch_b=[0], contract_a=[2], contract_b=[1]}",
    "dot_general(f32[seq<=7,b<=3,4,5], f32[b,4,5,6])"
    " {batch_a=[1], batch_b=[0], contract_a=[2,3], contract_b=[1,2]}",
    "dot_general(f32[seq<=7,4], f32[seq,5]) {contract_a=[0], contract_b=[0]}",
    "dot_general(f32[3,4], f32[4,5]) {contract_a=[2], contract_b=[0]} !> axis expected",
    "dot_general(f32[3,4], f32[4,5]) {contract_a=[1], contract_b=[-3]} !> axis expected",
    "dot_general(f32[3,4], f32[4,5]) {contract_a=[1], contract_b=[0,1]} !> as many axes",
    "dot_general(f32[3,4], f32[4,5]) {batch_a=[1], contract_a=[0], contract_b=[0]} !> as many axes",
    "dot_general(f32[3,4], f32[4,5]) {contract_a=[1], contract_b=[1]} !> size 4 on axis 1",
    "dot_general(f32[3,4], f32[4,5]) {batch_a=[0], batch_b=[0]} !> size 3 on axis 0",
    "dot_general(f32[3,3], f32[3,3]) {contract_a=[1,-1], contract_b=[0,1]} !> used twice",
    "dot_general(f32[3,3], f32[3,3]) {batch_a=[0], contract_a=[0]} !> used twice",
    "dot_general(f32[3,3], f32[3,3]) {batch_a=[0,1,0]} !> expected at most 2 axes",
    "dot_general(f32[1,1,1,1,1], f32[1,1,1,1]) !> rank 9",
    "dot_general(f32[3,4], f16[4,5]) {contract_a=[1], contract_b=[0]} !> same type",
    "dot_general(u8[3,4], u8[4,5]) {contract_a=[1], contract_b=[0]} !> operand 0 (a)",

    /* ---- lora_matmul ------------------------------------------------------------------------- */
    "$T=f32|f16|bf16 $X=[17]|[1,17]|[5,17]|[2,3,17] $R=1|4 $S=0|1|0.25|-2 :"
    " lora_matmul($T$X, $T[9,17], $T[$R,17], $T[9,$R]) {scale=$S}",
    "$T=f32|f16|bf16 : lora_matmul($T[33,129], $T[65,129], $T[16,129], $T[65,16]) {scale=0.5}",
    "$T=f32|f16|bf16 $W=f32|f16|bf16 : lora_matmul($T[3,17], $W[9,17], $T[2,17], $T[9,2])",
    "$T=f32|f16|bf16 $W=q4_0|q8_0|q5_1|iq4_nl $S=0|2 :"
    " lora_matmul($T[3,64], $W[9,64], $T[2,64], $T[9,2]) {scale=$S}",
    "$T=f32|f16 $W=q4_k|q6_k : lora_matmul($T[2,3,256], $W[9,256], $T[8,256], $T[9,8])",
    "lora_matmul(f32[0,17], f32[9,17], f32[2,17], f32[9,2]) {scale=2}",
    "lora_matmul(f32[4,17], f32[9,17], f32[0,17], f32[9,0]) {scale=2}",
    "lora_matmul(f32[4,0], f32[9,0], f32[2,0], f32[9,2])",
    "$T=f32|f16 : lora_matmul($T[b<=3,seq<=7,8], $T[9,8], $T[2,8], $T[9,2]) {scale=3}",
    "$T=f32|f16 : lora_matmul($T[5,17]:strided, $T[9,17]:strided, $T[2,17]:strided,"
    " $T[9,2]:strided)",
    "lora_matmul(f32[], f32[9,17], f32[2,17], f32[9,2]) !> operand 0 (x) expected of rank",
    "lora_matmul(f32[3,16], f32[9,17], f32[2,17], f32[9,2]) !> operand 1 (w) expected with size 16",
    "lora_matmul(f32[3,17], f32[1,9,17], f32[2,17], f32[9,2]) !> operand 1 (w) expected of rank 2",
    "lora_matmul(f32[3,17], f32[9,17], f32[2,16], f32[9,2]) !> operand 2 (down) expected with",
    "lora_matmul(f32[3,17], f32[9,17], f32[2,17], f32[9,3]) !> operand 3 (up) expected f32[9,2]",
    "lora_matmul(f32[3,17], f32[9,17], f16[2,17], f32[9,2]) !> operand 2 (down) expected of type",
    "lora_matmul(f32[3,17], f32[9,17], f32[2,17], f16[9,2]) !> operand 3 (up) expected of type",
    "lora_matmul(f32[3,17], i8[9,17], f32[2,17], f32[9,2]) !> operand 1 (w) expected of",
    "lora_matmul(i8[3,17], i8[9,17], i8[2,17], i8[9,2]) !> operand 0 (x) expected of type",

    /* ---- grouped_matmul ---------------------------------------------------------------------- */
    "$T=f32|f16|bf16 $I=i32|i64 $M=1|3|17|65 $E=1|4 :"
    " grouped_matmul($T[$M,7], $T[$E,7,5], $I[$M]:int(0,$E))",
    "$T=f32|f16|bf16 $I=i32|i64 $M=1|3|17|65 $E=1|4 :"
    " grouped_matmul($T[$M,33], $T[$E,9,33], $I[$M]:int(0,$E)) {trans_b=true}",
    "$T=f32|f16 $X=false|true :"
    " grouped_matmul($T[31,80], $T[8,80,80], i32[31]:int(0,8)) {trans_b=$X}",
    "$T=f32|f16 : grouped_matmul($T[9,7], $T[4,7,5], i32[9]:int(-4,4))",
    "$T=f32|f16 : grouped_matmul($T[8,7], $T[8,7,5], i32[8]:perm)",
    "$T=f32|f16 : grouped_matmul($T[9,7], $T[4,7,5], i32[9]:int(-9,9))",
    "$I=i32|i64 : grouped_matmul(f32[9,7], f32[4,7,5], $I[9]:int(-4,4):const)",
    "$T=f32|bf16 $S=0,7],$T[3,7,5],i32[0|4,0],$T[3,0,5],i32[4|4,7],$T[3,7,0],i32[4 :"
    " grouped_matmul($T[$S]:fill(0))",
    "$T=f32|f16 $X=false|true :"
    " grouped_matmul($T[9,33]:strided, $T[4,33,33]:strided, i64[9]:int(0,4):strided) {trans_b=$X}",
    "$T=f32|f16 : grouped_matmul($T[seq<=17,7], $T[4,7,5]:param, i32[seq]:int(0,4))",
    "grouped_matmul(f32[9,7], f32[4,7,5], i32[9]:fill(4):const) !> expected an expert from 0 to 3",
    "grouped_matmul(f32[9,7], f32[4,7,5], i64[9]:fill(-5):const) !> expected an expert from 0 to 3",
    "grouped_matmul(f32[9,7], f32[0,7,5], i32[9]) !> at least one expert",
    "grouped_matmul(f32[9,7], f32[4,8,5], i32[9]) !> operand 1 (experts) expected with size 7",
    "grouped_matmul(f32[9,7], f32[4,7,5], i32[9]) {trans_b=true} !> with size 7 on axis 2",
    "grouped_matmul(f32[9,7], f32[4,7,5], i32[8]) !> operand 2 (ids) expected i32[9]",
    "grouped_matmul(f32[9,7], f32[4,7,5], i32[9,1]) !> operand 2 (ids) expected i32[9]",
    "grouped_matmul(f32[9,7], f32[4,7,5], f32[9]) !> operand 2 (ids) expected of type i32 or i64",
    "grouped_matmul(f32[2,9,7], f32[4,7,5], i32[9]) !> operand 0 (x) expected of rank 2",
    "grouped_matmul(f32[9,7], f32[7,5], i32[9]) !> operand 1 (experts) expected of rank 3",
    "grouped_matmul(f32[9,7], f16[4,7,5], i32[9]) !> same type",
    "grouped_matmul(i8[9,7], i8[4,7,5], i32[9]) !> operand 0 (x) expected of type",
    NULL,
};
