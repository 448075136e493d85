/* SPDX-License-Identifier: MIT */
/* Cases of attention and rotary embedding. */
#include "ops/optest.h"

const char *const rx_cases_attention[] = {
    /* ---- attention: sizes and types */
    "$T=f32|f16|bf16 $D=1|3|16|33|64|80|128 : attention($T[1,2,3,$D], $T[1,2,5,$D], $T[1,2,5,$D])",
    "$T=f32|f16|bf16 $L=bhsd|bshd : attention($T[2,3,3,8], $T[2,3,3,8], $T[2,3,3,8]) {layout=$L}",
    "$Q=1|3|17|33 $K=1|3|17|31|65|129 : attention(f32[1,2,$Q,16], f32[1,2,$K,16], f32[1,2,$K,16])",
    "$T=f16|bf16 $K=1|17|129 : attention($T[1,2,5,16], $T[1,2,$K,16], $T[1,2,$K,16])",
    "$H=1|2|3|6 : attention(f32[2,6,5,8], f32[2,$H,7,8], f32[2,$H,7,8])",
    "$K=70000|300000 : attention(f32[1,1,1,8], f32[1,1,$K,8], f32[1,1,$K,8])",
    "$H=1|2|3|6 $C=false|true : attention(f16[2,5,6,8], f16[2,7,$H,8], f16[2,7,$H,8]) "
    "{layout=bshd, causal=$C}",
    "$V=1|5|8|40|129 : attention(f32[1,4,3,8], f32[1,2,9,8], f32[1,2,9,$V])",
    "$V=1|5|40 : attention(f32[1,3,4,8], f32[1,9,2,8], f32[1,9,2,$V]) {layout=bshd}",
    "$T=f16|bf16 $L=bhsd|bshd : attention(f32[2,4,4,8], $T[2,4,4,8], $T[2,4,4,8]) {layout=$L}",
    "$T=f16|bf16 : attention(f32[1,4,1,16], $T[1,2,65,16], $T[1,2,65,16], _, i32[1]:int(1,65)) "
    "{causal=true}",

    /* scale, soft cap */
    "$S=0.01|1|-0.5|3|2.2250738585072014e-308 : attention(f32[1,2,5,8], f32[1,2,9,8], "
    "f32[1,2,9,8]) {scale=$S}",
    "$C=0.5|5|50 $A=false|true : attention(f32[1,2,5,8]:normal(0,4), f32[1,2,9,8]:normal(0,4), "
    "f32[1,2,9,8]) {soft_cap=$C, causal=$A}",
    "$T=f16|bf16 : attention($T[1,2,5,8], $T[1,2,9,8], $T[1,2,9,8]) {soft_cap=2, scale=0.7}",
    "attention(f32[1,2,5,8]:normal(0,8), f32[1,2,9,8]:normal(0,8), f32[1,2,9,8])",

    /* causal, window */
    "$Q=1|4|17 $K=1|4|17|33 : attention(f32[2,2,$Q,8], f32[2,2,$K,8], f32[2,2,$K,8]) {causal=true}",
    "$W=1|2|5|17|100 $Q=1|9|17 : attention(f32[1,2,$Q,8], f32[1,2,17,8], f32[1,2,17,8]) "
    "{window=$W}",
    "$W=1|4|40 : attention(f16[1,9,4,8], f16[1,33,2,8], f16[1,33,2,8]) {window=$W, layout=bshd}",
    "$W=3|64 : attention(f32[1,2,65,16], f32[1,1,65,16], f32[1,1,65,16]) {window=$W, causal=true}",

    /* masks: every broadcast */
    "$M=[]|[9]|[5,9]|[5,1]|[1,9]|[4,1,1]|[4,5,9]|[2,1,1,9]|[2,1,5,9]|[1,4,1,9]|[2,4,5,9] : "
    "attention(f32[2,4,5,8], f32[2,2,9,8], f32[2,2,9,8], bool$M:bool(0.7))",
    "$M=[]|[9]|[5,9]|[5,1]|[1,9]|[4,1,1]|[4,5,9]|[2,1,1,9]|[2,1,5,9]|[1,4,1,9]|[2,4,5,9] : "
    "attention(f32[2,4,5,8], f32[2,2,9,8], f32[2,2,9,8], f32$M)",
    "$T=f16|bf16 $U=bool|f32|$T : attention($T[2,5,4,8], $T[2,9,2,8], $T[2,9,2,8], $U[2,1,5,9]) "
    "{layout=bshd}",
    "$P=0|0.1|0.5 : attention(f32[1,2,9,8], f32[1,2,5,8], f32[1,2,5,8], bool[9,5]:bool($P))",
    "$P=0.1|0.5 : attention(f32[1,2,9,8], f32[1,2,9,8], f32[1,2,9,8], bool[9,9]:bool($P)) "
    "{causal=true, window=4}",
    "$T=f32|f16|bf16 : attention($T[1,2,3,8], $T[1,2,5,8], $T[1,2,5,8], $T[3,5]:fill(-inf))",
    "attention(f32[1,2,5,8], f32[1,2,9,8], f32[1,2,9,8], f32[2,5,9]:normal(0,20)) {soft_cap=3}",
    "attention(f32[1,2,5,8], f32[1,2,9,8], f32[1,2,9,8], f32[5,9]:fill(-1e30))",

    /* lengths */
    "$T=i32|i64 $S=[]|[3] $C=false|true : attention(f32[3,2,2,8], f32[3,2,9,8], f32[3,2,9,8], _, "
    "$T$S:int(2,10)) {causal=$C}",
    "$N=0|1|2|9 $C=false|true : attention(f32[2,2,3,8], f32[2,2,9,8], f32[2,2,9,8], _, "
    "i32:fill($N)) {causal=$C}",
    "$N=-3|20 : attention(f32[2,2,3,8], f32[2,2,9,8], f32[2,2,9,8], _, i32:fill($N)) {causal=true}",
    "$W=1|3|8 : attention(f32[3,2,4,8], f32[3,17,2,8], f32[3,17,2,8], _, i32[3]:int(0,18)) "
    "{layout=bshd, window=$W}",
    "attention(f32[3,2,4,8], f32[3,2,17,8], f32[3,2,17,8], bool[3,1,4,17]:bool(0.6), "
    "i64[3]:int(0,18)) {causal=true}",
    /* more queries than keys: rows of padding in front of a prompt */
    "$T=f32|f16 $D=64|128 $O=causal=true|window=20 : attention(f32[3,80,4,$D], $T[3,133,2,$D], "
    "$T[3,133,2,$D], _, i32[3]:int(30,70)) {layout=bshd, $O}",

    /* what k and v hold where a query does not look: NaN and infinities */
    "$T=f32|f16|bf16 $D=8|16|64 $C=causal=true|window=2|causal=true, soft_cap=3 :"
    " attention($T[1,4,33,$D], $T[1,2,33,$D]:poison_rows(0.05), $T[1,2,33,$D]:poison_rows(0.05)) "
    "{$C}",
    "$T=f32|f16|bf16 $D=8|16|64 $Q=1|3|33 $M=bool[1,1,$Q,40]:bool(0.1)|$T[1,4,$Q,40]:mask(0.1) :"
    " attention($T[1,4,$Q,$D], $T[1,2,40,$D]:poison_rows(0.1), $T[1,2,40,$D]:poison(0.02), $M)",
    "$T=f32|f16|bf16 $D=8|64|128 $M=bool[70,131]:bool(0.02)|f32[70,131]:mask(0.02) :"
    " attention($T[1,2,70,$D], $T[1,1,131,$D]:poison_rows(0.1), $T[1,1,131,$D]:poison_rows(0.1), "
    "$M)",
    "$T=f32|f16 $D=8|64 $Q=1|5 $C=false|true : attention($T[3,4,$Q,$D], "
    "$T[3,2,70,$D]:poison_rows(0.02), $T[3,2,70,$D]:poison_rows(0.02), _, i32[3]:int(0,30)) "
    "{causal=$C}",
    "$T=f32|f16 $W=1|4|40 : attention($T[1,9,4,64], $T[1,133,2,64]:poison_rows(0.05), "
    "$T[1,133,2,64]:poison_rows(0.05)) {window=$W, layout=bshd}",
    "$T=f32|f16 $W=3|9 : attention($T[2,3,4,64], $T[9,4,2,64]:poison_rows(0.1), "
    "$T[9,4,2,64]:poison_rows(0.1), _, i32[2]:int(3,17), _, i32[2,4]:int(0,9)) "
    "{layout=bshd, page=4, window=$W}",
    "attention(f32[1,4,1,64], f32[1,2,1300,64]:poison_rows(0.02), f32[1,2,1300,64]:poison(0.002), "
    "bool[1,4,1,1300]:bool(0.01))",
    "$M=bool[33,40]:zero|f32[33,40]:fill(-inf) : attention(f32[1,2,33,16], "
    "f32[1,2,40,16]:poison(0.5), f32[1,2,40,16]:poison(0.5), $M, _, f32[2])",
    /* queries are independent */
    "$T=f32|f16|bf16 $D=8|64 $Q=3|33 : attention($T[2,4,$Q,$D]:poison_rows(0.2), $T[2,2,40,$D], "
    "$T[2,2,40,$D])",
    "$D=8|64 $Q=1|33 : attention(f32[2,4,$Q,$D]:rows, f32[2,2,40,$D], f32[2,2,40,$D])",
    /* magnitudes */
    "$F=huge|tiny|rows|wide $Q=1|33 $D=8|64 : attention(f32[1,4,$Q,$D], f32[1,2,40,$D], "
    "f32[1,2,40,$D]:$F) {causal=true}",
    "$F=huge|tiny|rows $Q=1|33 $D=8|64 : attention(f32[1,4,$Q,$D], f32[1,2,40,$D]:$F, "
    "f32[1,2,40,$D])",
    "$F=huge|tiny|rows $Q=1|33 $D=8|64 : attention(f32[1,4,$Q,$D]:$F, f32[1,2,40,$D], "
    "f32[1,2,40,$D])",
    "$F=normal(0,2e-35)|normal(0,1e34) $Q=1|33 $D=8|64 : attention(f32[1,4,$Q,$D], "
    "f32[1,2,40,$D], f32[1,2,40,$D]:$F)",
    "$F=normal(0,2e-35)|normal(0,1e34) $Q=1|33 $D=8|64 : attention(f32[1,4,$Q,$D]:$F, "
    "f32[1,2,40,$D], f32[1,2,40,$D])",
    "$T=f16|bf16 $F=tiny|rows $D=8|64 : attention($T[1,4,33,$D], $T[1,2,40,$D], $T[1,2,40,$D]:$F)",
    "$F=huge|tiny|rows|wide $D=32|64|128 $Q=1|70 : attention(f32[1,4,$Q,$D]:$F, "
    "f32[1,2,131,$D], f32[1,2,131,$D]) {causal=true}",
    "$F=huge|tiny|rows|wide $D=32|64|128 $Q=1|70 : attention(f32[1,4,$Q,$D], "
    "f32[1,2,131,$D], f32[1,2,131,$D]:$F) {causal=true}",
    /* Queries that f16 does not hold, over keys of a cache in half floats. */
    "$F=huge|tiny|rows $T=f16|bf16 $D=32|64|128 $Q=1|5|70 : attention(f32[1,4,$Q,$D]:$F, "
    "$T[1,2,131,$D], $T[1,2,131,$D]) {causal=true}",

    /* sinks */
    "$T=f32|f16|bf16 $L=bhsd|bshd : attention($T[2,4,4,8], $T[2,4,4,8], $T[2,4,4,8], _, _, f32[4]) "
    "{layout=$L, causal=true}",
    "$X=fill(-inf)|fill(0)|fill(30)|fill(-30)|normal(0,3) : attention(f32[1,4,3,8], f32[1,2,9,8], "
    "f32[1,2,9,8], bool[3,9]:bool(0.2), _, f32[4]:$X)",
    "attention(f32[2,4,3,8], f32[2,2,9,8], f32[2,2,9,8], f32[9], i32[2]:int(0,10), f32[4]) "
    "{window=5, soft_cap=4}",

    /* pages */
    "$T=f32|f16|bf16 $P=1|4|16 : attention($T[2,3,4,8], $T[7,$P,2,8], $T[7,$P,2,8], _, _, _, "
    "i32[2,3]:int(0,7)) {layout=bshd, page=$P}",
    "$C=false|true $N=[2]|[] : attention(f32[2,3,4,8], f32[9,4,2,8], f32[9,4,2,5], _, "
    "i32$N:int(3,21), _, i32[2,5]:int(0,9)) {layout=bshd, page=4, causal=$C}",
    "attention(f32[2,1,4,8], f16[9,8,2,8], f16[9,8,2,8], bool[2,1,1,24]:bool(0.7), "
    "i32[2]:int(1,25), f32[4], i32[2,3]:int(-9,9)) {layout=bshd, page=8, window=11}",
    "attention(f32[2,1,4,8], f32[3,4,2,8], f32[3,4,2,8], _, _, _, i32[2,2]:int(-5,9)) "
    "{layout=bshd, page=4}",
    "attention(f32[2,3,4,8], f32[7,4,2,8], f32[7,4,2,8], _, _, _, i32[2,0]) {layout=bshd, page=4}",
    "attention(f32[b<=2,s<=3,4,8], f32[7,4,2,8], f32[7,4,2,8], _, _, _, i32[b,n<=3]:int(0,7)) "
    "{layout=bshd, page=4}",

    /* zero sizes, strides, named dimensions, larger ones */
    "attention(f32[0,2,3,8], f32[0,2,5,8], f32[0,2,5,8])",
    "attention(f32[2,0,3,8], f32[2,0,5,8], f32[2,0,5,8])",
    "attention(f32[2,2,0,8], f32[2,2,5,8], f32[2,2,5,8]) {causal=true}",
    "$C=false|true : attention(f32[2,2,3,8], f32[2,2,0,8], f32[2,2,0,8]) {causal=$C}",
    "attention(f32[2,2,3,8], f32[2,2,0,8], f32[2,2,0,8], _, _, f32[2])",
    "attention(f32[1,2,3,0], f32[1,2,5,0], f32[1,2,5,4]) {causal=true}",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,0])",
    "$L=bhsd|bshd $T=f32|f16 : attention($T[2,3,3,8]:strided, $T[2,3,3,8]:strided, "
    "$T[2,3,3,8]:strided, bool[3,3]:strided) {layout=$L}",
    "attention(f32[2,3,4,8]:strided, f32[2,3,5,8]:strided, f32[2,3,5,6]:strided, "
    "f32[2,3,4,5]:strided)",
    "$C=false|true : attention(f32[b<=2,4,sq<=5,8], f32[b,2,sk<=17,8], f32[b,2,sk,8]) {causal=$C}",
    "attention(f32[2,sq<=5,4,8], f32[2,sk<=17,2,8], f32[2,sk,2,8], bool[2,1,sq,sk]:bool(0.8)) "
    "{layout=bshd}",
    "attention(f32[2,4,s<=9,8], f32[2,2,s,8], f32[2,2,s,8], f32[s,s]) {window=3}",
    "attention(f32[2,4,past<=6,8], f32[2,2,past+3,8], f32[2,2,past+3,8]) {causal=true}",
    "$C=false|true : attention(f32[1,4,64,64], f32[1,2,128,64], f32[1,2,128,64]) {causal=$C}",
    "attention(f16[1,8,1,128], f16[1,2,1000,128], f16[1,2,1000,128], _, i32:fill(777)) "
    "{causal=true}",
    "$Q=1|3 : attention(f32[2,6,$Q,4], f32[2,2,70,4], f32[2,2,70,4]) {causal=true}",
    "$T=f16|bf16 : attention($T[1,8,1,8], $T[1,2,300,8], $T[1,2,300,8], _, i32:fill(277))",
    "attention(f32[2,1,8,64], f16[2,600,2,64], f16[2,600,2,64], _, i32[2]:int(1,600)) "
    "{layout=bshd, causal=true, window=200}",
    "attention(f32[1,3,12,32], f16[1,600,1,32], f16[1,600,1,32], _, i64:fill(523)) "
    "{layout=bshd, causal=true}",
    "attention(f32[1,2,129,33], f32[1,2,129,33], f32[1,2,129,65]) {window=50}",

    /* more scores than the derivatives keep at once */
    "attention(f32[1,s<=523,4,2], f32[1,s,2,2], f32[1,s,2,2]) {layout=bshd, causal=true}",
    "attention(f32[1,48,173,1], f32[1,2,129,1], f32[1,2,129,2], f32[173,129], i32[1]:int(60,129), "
    "f32[48]) {window=90, soft_cap=3}",

    /* many rows in blocks of 16 and 64: what cooperative matrices take */
    "$T=f16|bf16 $D=64|128 $C=false|true : attention($T[1,4,70,$D], $T[1,2,131,$D], "
    "$T[1,2,131,$D]) {causal=$C}",
    "$T=f16|bf16 $D=64|128 $W=3|40|100 : attention($T[1,150,2,$D], $T[1,150,1,$D], "
    "$T[1,150,1,$D]) {layout=bshd, window=$W}",
    "$D=64|128 $N=0|5|64|99 : attention(f16[2,2,33,$D], f16[2,2,99,$D], f16[2,2,99,$D], _, "
    "i32:fill($N), f32[2]) {causal=true}",
    "$D=64|128 $M=bool[2,1,40,70]:bool(0.6)|f16[2,1,1,70]|f32[40,70]|f16[40,70]:fill(-inf) : "
    "attention(f16[2,2,40,$D], f16[2,1,70,$D], f16[2,1,70,$D], $M)",
    "$T=f16|bf16 : attention($T[1,65,2,64], $T[9,16,2,64], $T[9,16,2,64], _, i32:fill(77), _, "
    "i32[1,5]:int(-9,9)) {layout=bshd, page=16, causal=true, soft_cap=3}",
    "attention(f16[2,3,64,64]:strided, f16[2,3,64,64]:strided, f16[2,3,64,64]:strided) {scale=0.3}",
    /* maxima that grow on the way */
    "$T=f16|bf16 $D=64|128 : attention($T[1,2,300,$D]:normal(0,3), $T[1,2,600,$D]:normal(0,3), "
    "$T[1,2,600,$D]) {causal=true}",
    "$D=64|128 : attention(f16[1,2,200,$D]:normal(0,3), f16[1,1,400,$D]:normal(0,3), "
    "f16[1,1,400,$D], f32[200,400]:normal(0,9)) {window=150}",
    "$D=64|128 : attention(f16[1,2,40,$D], f16[1,1,4000,$D], f16[1,1,4000,$D]:normal(2,1))",

    /* few rows over many keys */
    "$T=f32|f16|bf16 $D=8|64|80|128|256 $H=1|2|8 : attention($T[2,$H,1,$D], $T[2,1,301,$D], "
    "$T[2,1,301,$D])",
    "$Q=1|2|4 $C=false|true : attention(f16[2,4,$Q,64], f16[2,1,517,64], f16[2,1,517,64], _, "
    "i32[2]:int(0,518), f32[4]) {causal=$C}",
    "$Q=1|3 $M=bool[2,1,$Q,200]:bool(0.5)|f32[200] : attention(f32[2,3,$Q,64], f16[2,3,200,64], "
    "f16[2,3,200,32], $M) {soft_cap=5}",
    "$P=1|16 : attention(f16[2,2,4,128], f16[40,$P,2,128], f16[40,$P,2,128], _, i32[2]:int(0,20), "
    "f32[4], i32[2,20]:int(0,40)) {layout=bshd, page=$P, window=9}",
    "$T=f32|f16 $H=3|8|16 $D=64|128 : attention($T[2,$H,1,$D], f16[2,1,1100,$D], "
    "f16[2,1,1100,$D], _, i32[2]:int(0,1101)) {causal=true}",
    /* windows that begin inside of a block, for few rows and for many */
    "$T=f32|f16 $W=300|77|513 : attention($T[1,4,3,64], $T[1,2,700,64], $T[1,2,700,64]) "
    "{window=$W}",
    "attention(f32[1,2,90,32], f32[1,2,1300,32], f32[1,2,1300,32]) {causal=true, window=301}",
    "attention(f32[1,8,3,128], f16[1,2,700,128], f16[1,2,700,128], bool[3,700]:bool(0.6)) "
    "{causal=true, window=300, soft_cap=7}",

    /* many short rows over few keys */
    "$T=f32|f16 $D=32|64 $C=false|true : attention($T[2,40,4,$D], $T[2,70,2,$D], $T[2,70,2,$D]) "
    "{layout=bshd, causal=$C}",
    "$M=bool[2,1,40,70]:bool(0.6)|f32[40,70] : attention(f32[2,2,40,32], f32[2,1,70,32], "
    "f32[2,1,70,32], $M) {soft_cap=5}",
    "attention(f32[2,2,33,32], f32[2,2,99,32], f32[2,2,99,32], _, i32[2]:int(0,100), f32[2]) "
    "{causal=true, window=20}",

    /* hidden keys take no part, whatever they hold; a row that sees none is 0 */
    "$T=f32|f16|bf16 $Q=1|3|17 $M=bool[$Q,70]:bool(0.2)|_ : attention($T[2,4,$Q,64], "
    "$T[2,2,70,64]:poison_rows(0.05), $T[2,2,70,64]:poison_rows(0.1), $M) {causal=true}",
    "$Q=1|3|17 $M=bool[$Q,70]:bool(0)|f32[$Q,70]:fill(-inf) : attention(f32[2,4,$Q,16], "
    "f32[2,2,70,16]:poison_rows(0.5), f32[2,2,70,16]:poison_rows(0.5), $M)",
    "$T=f32|f16 $Q=1|17 $W=3|20 : attention($T[2,4,$Q,64], $T[2,2,70,64]:poison(0.002), "
    "$T[2,2,70,64]:poison(0.01)) {window=$W, causal=true}",
    "$T=f32|f16 $Q=1|5|20 $D=8|128 : attention($T[2,4,$Q,$D], $T[2,2,700,$D]:poison_rows(0.1), "
    "$T[2,2,700,$D]:poison_rows(0.1), bool[2,4,$Q,700]:bool(0.01))",
    "$Q=1|4|18 : attention(f32[2,$Q,4,8], f32[9,4,2,8]:poison_rows(0.2), "
    "f32[9,4,2,8]:poison_rows(0.2), bool[2,1,$Q,20]:bool(0.3), i32[2]:int(3,21), f32[4], "
    "i32[2,5]:int(0,9)) {layout=bshd, page=4, causal=true}",
    "$Q=1|20 : attention(f32[3,2,$Q,16], f32[3,2,70,16]:poison_rows(0.3), "
    "f32[3,2,70,16]:poison_rows(0.3), _, i32[3]:int(0,71)) {window=9}",
    "$T=f16|bf16 $D=64|128 $M=_|bool[70,131]:bool(0.05)|f32[131]:poison(0.2) : "
    "attention($T[1,4,70,$D], $T[1,2,131,$D], $T[1,2,131,$D]:poison_rows(0.05), $M) {causal=true}",
    "$T=f32|f16 $D=32|64 : attention($T[2,4,40,$D], $T[2,2,70,$D]:poison_rows(0.03), "
    "$T[2,2,70,$D]:poison_rows(0.1), bool[2,1,40,70]:bool(0.1)) {causal=true}",
    /* biases of every size, and sinks that are not finite */
    "$Q=1|3|20 $B=huge|fill(-3.4e38)|fill(3e38)|poison(0.1) : attention(f32[1,2,$Q,16], "
    "f32[1,2,30,16], f32[1,2,30,16], f32[$Q,30]:$B)",
    "$Q=1|20 : attention(f32[2,4,$Q,16], f32[2,2,30,16], f32[2,2,30,16], _, _, f32[4]:poison(0.7))",

    /* what is refused */
    "attention(f32[2,3,8], f32[2,5,8], f32[2,5,8]) !> rank 4",
    "attention(f32[1,2,3,8], f32[2,5,8], f32[2,5,8]) !> (k)",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[2,5,8]) !> (v)",
    "attention(i32[1,2,3,8], i32[1,2,5,8], i32[1,2,5,8]) !> (q)",
    "attention(f16[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) !> (k)",
    "attention(f16[1,2,3,8], bf16[1,2,5,8], bf16[1,2,5,8]) !> (k)",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f16[1,2,5,8]) !> (v)",
    "attention(f32[2,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) !> (k)",
    "attention(f32[1,2,3,8], f32[1,2,5,7], f32[1,2,5,8]) !> (k)",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,6,8]) !> (v)",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,1,5,8]) !> (v)",
    "attention(f32[1,4,3,8], f32[1,3,5,8], f32[1,3,5,8]) !> multiple",
    "attention(f32[1,2,3,8], f32[1,4,5,8], f32[1,4,5,8]) !> multiple",
    "attention(f32[1,2,3,8], f32[1,0,5,8], f32[1,0,5,8]) !> multiple",
    "attention(f32[1,2,3,d<=8], f32[1,2,5,d], f32[1,2,5,8]) !> last axis of q",
    "attention(f32[1,2,3,8], f32[1,2,5,8]) !> operands",
    "attention(f32[1,2,3,8], f32[1,2,5,8], _) !> operand 2",
    "$M=[4]|[2,5]|[3,1,3,5]|[1,1,1,1,5] : attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8], "
    "bool$M) !> mask",
    "$T=i32|f16 : attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8], $T[3,5]) !> mask",
    "$L=f32|i32[2]|i32[1,1] : attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8], _, $L) "
    "!> lengths",
    "$S=f32|f32[1]|f16[2]|f32[2,1] : attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8], _, _, $S) "
    "!> sinks",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) {soft_cap=-1} !> soft_cap",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) {scale=inf} !> scale",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) {window=-1} !> window",
    "attention(f32[1,2,3,8], f32[1,2,5,8], f32[1,2,5,8]) {layout=hsbd} !> layout",
    "attention(f32[1,3,2,8], f32[4,2,2,8], f32[4,2,2,8]) {layout=bshd, page=2} !> pages",
    "attention(f32[1,3,2,8], f32[4,2,2,8], f32[4,2,2,8]) {layout=bshd, page=-2} !> page",
    "attention(f32[1,3,2,8], f32[1,2,2,8], f32[1,2,2,8], _, _, _, i32[1,2]) {layout=bshd} !> page",
    "attention(f32[1,3,2,8], f32[4,2,2,8], f32[4,2,2,8], _, _, _, i32[1,2]) {page=2} !> bshd",
    "attention(f32[1,3,2,8], f32[4,3,2,8], f32[4,3,2,8], _, _, _, i32[1,2]) {layout=bshd, page=2} "
    "!> (k)",
    "$P=i64[1,2]|i32[2]|i32[2,2]|f32[1,2] : attention(f32[1,3,2,8], f32[4,2,2,8], f32[4,2,2,8], _, "
    "_, _, $P) {layout=bshd, page=2} !> pages",

    /* ---- ragged attention: types, sizes, shared heads */
    "$T=f32|f16|bf16 $D=1|3|16|33|64|80|128 : ragged_attention($T[7,4,$D], $T[24,2,$D], "
    "$T[24,2,$D], i32[7]:int(0,3), i32[7]:int(0,17), i32[3,4]:int(0,6)) {page=4}",
    "$T=f16|bf16|q8_0|q4_0 $H=1|2|4 $D=32|64|128 : ragged_attention(f32[9,4,$D], $T[96,$H,$D], "
    "$T[96,$H,$D], i32[9]:int(0,3), i32[9]:int(0,65), i32[3,4]:int(0,6)) {page=16}",
    "$T=f16|bf16 $P=q8_0|q4_0 : ragged_attention($T[5,4,32], $P[96,2,32], $P[96,2,64], "
    "i32[5]:int(0,3), i32[5]:int(0,65), i32[3,4]:int(0,6)) {page=16}",
    "$V=1|5|40|129 $P=1|2|5 : ragged_attention(f32[5,3,8], f32[20,3,8], f32[20,3,$V], "
    "i32[5]:int(0,2), i32[5]:int(0,8), i32[2,7]:int(0,4)) {page=$P}",
    "$H=1|2|3|6|8|16|40 : ragged_attention(f32[5,$H,16], f32[64,1,16], f32[64,1,16], "
    "i32[5]:int(0,2), i32[5]:int(0,33), i32[2,4]:int(0,8)) {page=8}",
    /* chunks of prompts, single rows, padding */
    "$N=1|2|17|33|70 $T=f32|f16|q8_0 : ragged_attention(f32[$N,4,64], $T[256,2,64], $T[256,2,64], "
    "i32[$N]:zero, i32[$N]:int(0,129), i32[1,8]:int(0,16)) {page=16}",
    "$N=64|130 $T=f32|bf16|q4_0 : ragged_attention(f32[$N,3,32], $T[320,3,32], $T[320,3,32], "
    "i32[$N]:int(0,9), i32[$N]:int(0,321), i32[9,10]:int(0,10)) {page=32}",
    "ragged_attention(f32[6,4,8], f32[24,2,8], f32[24,2,8], i32[6]:int(0,3), i32[6]:zero, "
    "i32[3,4]:int(0,6)) {page=4}",
    /* long rows, in parts */
    "$T=f32|f16|q8_0 $L=513|1100|2000 : ragged_attention(f32[3,4,64], $T[2048,2,64], "
    "$T[2048,2,64], i32[3]:int(0,2), i32[3]:int(1,$L), i32[2,64]:int(0,64)) {page=32}",
    "ragged_attention(f32[2,2,8]:normal(0,3), f32[3000,1,8]:normal(0,3), f32[3000,1,8], "
    "i32[2]:zero, i32[2]:fill(3000), i32[1,3]:perm) {page=1000}",
    "ragged_attention(f32[70,8,16], f16[1024,2,16], f16[1024,2,16], i32[70]:zero, "
    "i32[70]:int(900,1025), i32[1,16]:int(0,16)) {page=64}",
    /* options */
    "$W=1|3|40|64|100 $T=f32|f16|q8_0 : ragged_attention(f32[9,4,32], $T[256,2,32], "
    "$T[256,2,32], i32[9]:int(0,3), i32[9]:int(0,129), i32[3,8]:int(0,16)) {page=16, window=$W}",
    "$W=300|700 : ragged_attention(f32[40,2,32], f32[1024,2,32], f32[1024,2,32], i32[40]:zero, "
    "i32[40]:int(800,1025), i32[1,32]:int(0,32)) {page=32, window=$W}",
    "$C=0.5|5|50 $S=0|0.01|-0.5|3 : ragged_attention(f32[5,4,8]:normal(0,3), f32[24,2,8], "
    "f32[24,2,8], i32[5]:int(0,3), i32[5]:int(0,17), i32[3,4]:int(0,6)) "
    "{page=4, soft_cap=$C, scale=$S}",
    "$X=fill(-inf)|fill(0)|fill(30)|normal(0,3)|poison(0.7) : ragged_attention(f32[7,4,16], "
    "f32[24,2,16], f32[24,2,16], i32[7]:int(0,3), i32[7]:int(0,17), i32[3,4]:int(0,6), "
    "f32[4]:$X) {page=4}",
    /* indices and lengths out of range are clamped */
    "ragged_attention(f32[9,4,8], f32[24,2,8], f32[24,2,8], i32[9]:int(-6,7), i32[9]:int(-4,30), "
    "i32[3,4]:int(-9,12)) {page=4}",
    /* keys that a row does not see take no part; rows are independent */
    "$T=f32|f16 $P=$T[64,2,64]:poison_rows(0.03), $T[64,2,64]|$T[64,2,64], "
    "$T[64,2,64]:poison_rows(0.03) $W=0|3|20 : ragged_attention($T[40,4,64], $P, i32[40]:int(0,3), "
    "i32[40]:int(0,33), i32[3,4]:int(0,8)) {page=8, window=$W}",
    "$T=f32|f16 : ragged_attention($T[9,4,64]:poison_rows(0.2), $T[64,2,64], $T[64,2,64], "
    "i32[9]:int(0,3), i32[9]:int(0,33), i32[3,4]:int(0,8)) {page=8}",
    "$F=huge|tiny|rows|wide : ragged_attention(f32[9,4,64], f32[64,2,64], f32[64,2,64]:$F, "
    "i32[9]:int(0,3), i32[9]:int(0,33), i32[3,4]:int(0,8)) {page=8}",
    "$F=huge|tiny|rows : ragged_attention(f32[9,4,64]:$F, f32[64,2,64], f32[64,2,64], "
    "i32[9]:int(0,3), i32[9]:int(0,33), i32[3,4]:int(0,8)) {page=8}",
    /* zero sizes, strides, named dimensions */
    "ragged_attention(f32[0,4,8], f32[24,2,8], f32[24,2,8], i32[0], i32[0], i32[3,4]:int(0,6)) "
    "{page=4}",
    "ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,8], i32[5]:zero, i32[5]:int(0,9), "
    "i32[3,0]) {page=4}",
    "ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,0], i32[5]:zero, i32[5]:int(0,9), "
    "i32[3,4]:int(0,6)) {page=4}",
    "$T=f32|f16 : ragged_attention($T[5,4,8]:strided, $T[24,2,8]:strided, $T[24,2,8]:strided, "
    "i32[5]:strided:int(0,3), i32[5]:strided:int(0,17), i32[3,4]:strided:int(0,6)) {page=4}",
    "ragged_attention(f32[n<=9,4,8], f32[24,2,8], f32[24,2,8], i32[n]:int(0,3), i32[n]:int(0,17), "
    "i32[s<=3,p<=4]:int(0,6)) {page=4}",
    /* what is refused */
    "ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,8], i32[5], i32[5], i32[3,4]) !> page",
    "ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,8], i32[5], i32[5], i32[3,4]) {page=5} "
    "!> whole pages",
    "ragged_attention(f32[5,8], f32[24,2,8], f32[24,2,8], i32[5], i32[5], i32[3,4]) {page=4} "
    "!> (q)",
    "$K=f32[24,2,9], f32[24,2,8]|i8[24,2,8], i8[24,2,8]|q5_0[24,2,32], q5_0[24,2,32] : "
    "ragged_attention(f32[5,4,8], $K, i32[5], i32[5], i32[3,4]) {page=4} !> (k)",
    "$K=f16[24,2,8], f32[24,2,8]|f32[24,2,8], f32[20,2,8]|f32[24,2,8], f32[24,1,8] : "
    "ragged_attention(f32[5,4,8], $K, i32[5], i32[5], i32[3,4]) {page=4} !> (v)",
    "ragged_attention(f32[5,4,8], f32[24,3,8], f32[24,3,8], i32[5], i32[5], i32[3,4]) {page=4} "
    "!> multiple",
    "$X=i64[5], i32[5]|i32[4], i32[5]|i32[5], i64[5]|i32[5], i32[6]|i32[5], i32[] : "
    "ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,8], $X, i32[3,4]) {page=4} !> ragged",
    "$P=i32[4]|i64[3,4] : ragged_attention(f32[5,4,8], f32[24,2,8], f32[24,2,8], i32[5], i32[5], "
    "$P) {page=4} !> pages",
    "$A=soft_cap=-1|scale=inf|window=-1|page=-4 : ragged_attention(f32[5,4,8], f32[24,2,8], "
    "f32[24,2,8], i32[5], i32[5], i32[3,4]) {page=4, $A} !> must",

    /* ---- rope */
    "$T=f32|f16|bf16 $I=false|true $S=[2,3,5,2], f32[9,1], f32[9,1]|[1,2,7,6], f32[7,3], f32[7,3]|"
    "[2,1,3,34], f32[5,17], f32[5,17]|[1,3,2,128], f32[2,64], f32[2,64] : rope($T$S) "
    "{interleaved=$I}",
    "$T=f32|f16|bf16 $I=false|true $L=bhsd|bshd $B=false|true : rope($T[2,5,5,8], f32[9,4], "
    "f32[9,4]) {interleaved=$I, layout=$L, backward=$B}",
    "$T=f16|bf16 : rope($T[2,3,5,8], $T[9,4], $T[9,4])",
    "$R=2|4|6 : rope(f32[2,5,5,8], f32[9,4], f32[9,4]) {n_rot=$R} !> cos",
    "$T=f32|f16|bf16 $I=false|true $B=false|true : rope($T[2,5,5,9], f32[9,2], f32[9,2]) "
    "{interleaved=$I, n_rot=4, backward=$B}",
    "$T=f32|f16 $I=false|true : rope($T[1,2,5,100], f32[9,10], f32[9,10]) "
    "{interleaved=$I, n_rot=20, layout=bshd}",
    "$I=i32|i64 $P=[5]|[2,5] $L=[2,3,5,8]|[2,1,5,8] : rope(f32$L, f32[17,4], f32[17,4], "
    "$I$P:int(0,17))",
    "$I=i32|i64 $P=[5]|[2,5] : rope(f16[2,5,3,8], f32[17,4], f32[17,4], $I$P:int(0,17)) "
    "{layout=bshd, interleaved=true}",
    "$P=[5]|[2,5] : rope(f32[2,3,5,8], f32[7,4], f32[7,4], i32$P:int(-9,12))",
    "$L=bhsd|bshd $I=false|true : rope(f32[3,4,4,8]:strided, f32[9,4]:strided, f32[9,4]:strided, "
    "i64[3,4]:strided:int(0,9)) {layout=$L, interleaved=$I}",
    "$S=[0,3,5,8]|[2,0,5,8]|[2,3,0,8] : rope(f32$S, f32[9,4], f32[9,4])",
    "rope(f32[2,3,5,0], f32[9,0], f32[9,0])",
    "rope(f32[2,3,0,8], f32[0,4], f32[0,4])",
    "rope(f32[2,3,0,8], f32[9,4], f32[9,4], i32[0])",
    "rope(f32[b<=2,4,s<=9,8], f32[9,4], f32[9,4])",
    "rope(f32[b<=2,s<=9,4,8], f32[s,4], f32[s,4]) {layout=bshd, interleaved=true}",
    "rope(f32[b<=2,s<=9,4,8], f32[33,4], f32[33,4], i32[b,s]:int(0,33)) {layout=bshd}",
    "$I=false|true : rope(f16[1,8,128,64], f32[256,32], f32[256,32], i32[128]:int(0,256)) "
    "{interleaved=$I}",
    "rope(f32[3,5,8], f32[9,4], f32[9,4]) !> rank 4",
    "rope(i32[2,3,5,8], f32[9,4], f32[9,4]) !> (x)",
    "rope(f32[2,3,5,8], f32[9,4]) !> operands",
    "rope(f32[2,3,5,8], _, f32[9,4]) !> cos",
    "rope(f32[2,3,5,8], f32[9,8], f32[9,8]) !> cos",
    "rope(f32[2,3,5,8], f32[4], f32[9,4]) !> cos",
    "rope(f32[2,3,5,8], f16[9,4], f16[9,4]) !> cos",
    "rope(f32[2,3,5,8], f32[9,4], f32[8,4]) !> sin",
    "rope(f16[2,3,5,8], f16[9,4], f32[9,4]) !> sin",
    "rope(f32[2,3,5,7], f32[9,4], f32[9,4]) !> n_rot",
    "$N=-2|3|10 : rope(f32[2,3,5,8], f32[9,4], f32[9,4]) {n_rot=$N} !> n_rot",
    "rope(f32[2,3,5,8], f32[4,4], f32[4,4]) !> row",
    "rope(f32[2,3,s<=5,8], f32[4,4], f32[4,4]) !> row",
    "rope(f32[2,3,5,d<=8], f32[9,4], f32[9,4]) !> last axis of x",
    "$P=f32[5]|i32[3]|i32[3,5]|i32[2,3]|i32|i32[1,2,5] : rope(f32[2,3,5,8], f32[9,4], "
    "f32[9,4], $P) !> positions",
    NULL,
};
