/* SPDX-License-Identifier: MIT */
/* Cases of convolutions, pools and resizing. */
#include "ops/optest.h"

/* Fills whose numbers f16 does not hold, and poison. */
#define RANGES "range(-300000,300000)|wide|rows|huge|tiny|poison(0.0005)"
/* Magnitudes near the ends of f32: their reciprocals, and sums times a scale, leave its range. */
#define ENDS "normal(0,2e-35)|normal(0,1e34)"

const char *const rx_cases_conv[] = {
    /* ---- conv1d, conv2d, conv3d */
    "$T=f32|f16|bf16 $C=1|3|17 $O=1|5|33 : conv2d($T[2,$C,7,9], $T[$O,$C,3,3]:param)",
    "$T=f32|f16|bf16 $K=1|2|3|5 $S=1|2|3 $P=0|1|2 : "
    "conv2d($T[1,4,9,11], $T[6,4,$K,$K]:param, $T[6]:param) {stride=[$S,$S], pads=[$P,$P,$P,$P]}",
    "$D=1|2|3 $S=1|2 : conv2d(f32[2,3,13,14], f32[4,3,3,2]:param) {dilation=[$D,1], stride=[1,$S]}",
    "$P=[0,1,2,3]|[3,0,0,1]|[0,0,4,0]|[5,5,5,5] : "
    "conv2d(f32[1,2,5,6], f32[3,2,3,3], f32[3]) {pads=$P}",
    "$T=f32|f16|bf16 : conv2d($T[2,8,6,5], $T[16,8,3,3]:param) {dilation=[2,2]}",
    "$T=f32|f16|bf16 : conv2d($T[2,8,6,5], $T[16,4,3,3]:param, $T[16]) {groups=2}",
    "$T=f32|f16|bf16 : conv2d($T[2,8,6,5], $T[12,2,3,3]:param, $T[12]) {groups=4}",
    "$T=f32|f16|bf16 $K=1|3|5|7 $S=1|2 : conv2d($T[2,17,12,13], $T[17,1,$K,$K]:param, $T[17]) "
    "{groups=17, stride=[$S,$S], pads=[2,2,2,2]}",
    "conv2d(f32[1,3,8,8], f32[9,1,3,3], f32[9]) {groups=3, pads=[1,1,1,1]}",
    "$W=2|3|5|7|14|28|57|112 $K=3|5 $S=1|2 : "
    "conv2d(f32[2,20,9,$W], f32[20,1,$K,$K]:param, f32[20]) "
    "{groups=20, stride=[$S,$S], pads=[2,2,2,2], act=relu}",
    "$W=3|5|7|14|28|57|112 $K=2|3|5 $S=1|2 : conv2d(f32[1,3,31,$W], f32[3,1,$K,$K]:param) "
    "{groups=3, stride=[$S,$S], pads=[2,1,2,1]}",
    "$T=f32|f16|bf16 : conv2d($T[1,33,40,39], $T[33,1,3,3]:param, $T[33], $T[1,33,40,39]) "
    "{groups=33, pads=[1,1,1,1], act=silu}",
    "$T=f32|f16|bf16 : conv2d($T[1,33,40,39], $T[33,1,5,5]:param, $T[33], $T[1,33,20,20]) "
    "{groups=33, stride=[2,2], pads=[2,2,2,2], act=relu, act_last=true}",
    "$C=16|20|64 $F=16|33|70 $W=8|9|23 : conv2d(f32[2,$C,11,$W], f32[$F,$C,3,3]:param, f32[$F]) "
    "{pads=[1,1,1,1], act=relu}",
    "$P=[0,0,0,0]|[2,1,0,3]|[1,0,1,2] : conv2d(f32[1,17,30,29], f32[40,17,3,3]:param) {pads=$P}",
    "$T=f32|f16|bf16 : conv2d($T[2,24,14,15], $T[40,24,3,3]:param, $T[40], $T[2,40,14,15]) "
    "{pads=[1,1,1,1], act=silu, act_last=true}",
    "$C=128|256|512 : conv2d(f32[1,$C,9,10], f32[36,$C,3,3]:param, f32[36]) {pads=[1,1,1,1]}",
    "conv2d(f32[n<=2,16,h<=12,w<=17], f32[32,16,3,3]:param, f32[32]) {pads=[1,1,1,1]}",
    "$T=f32|f16|bf16 $A=none|relu|gelu|gelu_tanh|silu|sigmoid|tanh|hard_swish : "
    "conv2d($T[1,3,5,6], $T[4,3,3,3], $T[4]) {act=$A}",
    "$A=none|relu|silu $L=true|false $B=_|f32[4] : "
    "conv2d(f32[2,3,5,6], f32[4,3,3,3], $B, f32[2,4,5,6]) {act=$A, act_last=$L, pads=[1,1,1,1]}",
    "$T=f16|bf16 $B=$T|f32 $R=$T|f32 : "
    "conv2d($T[2,3,5,6], $T[4,3,1,1], $B[4], $R[2,4,5,6]) {act=relu}",
    "$T=f32|f16|bf16 $N=1|3|17|31|33|65|129 : conv2d($T[1,3,$N,5], $T[2,3,1,3]:param)",
    "$T=f32|f16|bf16 : conv2d($T[2,6,7,5]:strided, $T[4,6,3,3]:strided, $T[4]:strided, "
    "$T[2,4,5,3]:strided)",
    "conv2d(f32[1,2,5,5], f32[3,2,5,5])",
    "conv2d(f32[1,2,5,5], f32[3,2,7,7]) {pads=[1,1,1,1]}",
    "conv2d(f32[1,1,1,1], f32[1,1,1,1])",
    "conv2d(f32[1,2,5,5]:const, f32[3,2,3,3]:const)",
    "conv2d(f32[1,2,1000,3], f32[3,2,900,2]) {stride=[50,1]}",
    "$D=[0,3,5,5]|[2,3,0,5]|[2,3,5,0] : conv2d(f32$D, f32[4,3,3,3], f32[4])",
    "conv2d(f32[2,3,0,5], f32[4,3,3,3], f32[4]) {pads=[2,1,1,1]}",
    "conv2d(f32[2,0,5,5], f32[4,0,3,3], f32[4])",
    "conv2d(f32[2,3,5,5], f32[0,3,3,3])",
    "$T=f32|f16 : conv2d($T[n<=3,4,h<=9,w<=8], $T[5,4,3,3]:param, $T[5]) {pads=[1,1,1,1]}",
    "conv2d(f32[2,3,h<=17,w<=9], f32[4,3,3,3]) {stride=[2,3], pads=[1,2,1,2]}",
    "conv2d(f32[2,3,h<=17,9], f32[4,3,5,3]) {stride=[3,1], dilation=[2,1], pads=[4,0,4,0]}",
    "conv2d(f32[n<=2,3,h<=6,w<=7], f32[4,3,3,3], f32[4], f32[n,4,h,w]) "
    "{act=relu, act_last=true, pads=[1,1,1,1]}",
    "conv2d(f32[2,3,h<=9,5], f32[4,3,4,3])",
    "conv2d(f32[1,32,28,28], f32[64,32,3,3]:param, f32[64]) {pads=[1,1,1,1], act=relu}",
    "conv2d(f32[1,64,14,14], f32[128,64,1,1]:param, f32[128]) {stride=[2,2]}",
    "$T=f32|f16 : conv2d($T[1,3,64,64], $T[16,3,7,7]:param, $T[16]) "
    "{stride=[2,2], pads=[3,3,3,3], act=silu}",
    "conv2d(f32[1,96,28,28], f32[96,1,3,3]:param) {groups=96, pads=[1,1,1,1], act=hard_swish}",
    "$K=3|5 $S=1|2 : conv2d(f32[2,37,15,17], f32[37,1,$K,$K]:param, f32[37]:extreme) "
    "{groups=37, stride=[$S,$S], pads=[1,2,1,2], act=hard_swish}",
    "$T=f32|f16|bf16 $N=1|3|9 : conv2d($T[$N,70,1,1], $T[37,70,1,1]:param, $T[37], $T[$N,37,1,1]) "
    "{act=relu}",
    "$N=1|5 : conv1d(f32[$N,33,1], f32[130,33,1]:param) {act=hard_swish}",
    "$T=f32|f16|bf16 : conv2d($T[2,40,13,23], $T[50,40,1,1]:param, $T[50], $T[2,50,13,23]) "
    "{act=hard_swish}",
    "$T=f16|bf16 $S=1|2 $P=0|1 : conv2d($T[2,64,14,15], $T[72,64,3,3]:param, $T[72]) "
    "{stride=[$S,$S], pads=[$P,1,1,$P], act=relu}",
    "$T=f16|bf16 : conv2d($T[3,80,9,7], $T[128,40,3,3], f32[128], $T[3,128,9,7]) "
    "{groups=2, pads=[1,1,1,1], act=silu}",
    "conv2d(f16[2,96,16,16], f16[130,96,2,3]:param, f16[130]) {pads=[1,1,0,1], dilation=[1,2]}",
    /* rows of four neighbours, in which taps share what they read */
    "$T=f16|bf16 $P=0|1 $Q=1|2 : conv2d($T[5,64,10,12], $T[72,64,3,3]:param, $T[72]) "
    "{pads=[$P,$Q,1,$Q], act=relu}",
    "$T=f32|f16 $D=1|2 : conv2d($T[1,72,9,20], $T[64,36,5,5]:param) "
    "{groups=2, pads=[2,2,2,2], dilation=[$D,1]}",
    "conv2d(f16[2,40,11,18], f16[64,40,2,3]:param) {pads=[0,0,1,0]}",
    "conv2d(f16[9,64,8,8], f16[72,64,3,3]:param, f16[72], f16[9,72,8,8]) {pads=[1,1,1,1]}",
    "conv3d(f16[2,48,3,6,8], f16[48,48,2,3,3]:param) {pads=[1,1,1,0,1,1]}",
    "$P=0|1 : conv2d(f16[4,128,31,32], f16[64,128,1,1]:param) {stride=[2,2], pads=[$P,0,0,0]}",
    "$T=f32|f16|bf16 : conv2d($T[2,64,14,14], $T[192,64,1,1]:param, $T[192], $T[2,192,14,14]) "
    "{act=relu, act_last=true}",
    "$T=f32|f16|bf16 : conv2d($T[3,192,7,7], $T[400,96,1,1]:param, $T[400]) {groups=2, act=silu}",
    "$T=f32|f16|bf16 : conv2d($T[1,512,8,8], $T[192,512,1,1]:param, $T[192]) {act=relu}",
    "$T=f32|f16|bf16 : conv2d($T[1,1024,6,6], $T[128,1024,1,1]:param, $T[128])",
    "$T=f32|f16|bf16 : conv2d($T[1,1024,7,7], $T[96,1024,1,1]:param, $T[96])",
    "$T=f32|bf16 : conv2d($T[1,96,12,13], $T[40,96,3,3]:param) "
    "{pads=[2,2,2,1], dilation=[2,1]}",
    "conv3d(f16[1,64,3,5,6], f16[64,64,3,3,3]:param) {pads=[1,1,1,1,1,1]}",
    "$T=f32|f16|bf16 $S=1|2 : conv2d($T[2,3,37,41], $T[64,3,7,7]:param, $T[64]) "
    "{stride=[2,$S], pads=[3,3,3,3], dilation=[1,$S], act=relu}",
    "conv2d(f16[2,10,30,28], f16[96,5,3,5]) {groups=2, pads=[0,1,2,3]}",
    "conv3d(f16[1,33,4,6,7], f16[70,33,3,3,3]:param) {pads=[1,1,1,1,1,1]}",
    /* Magnitudes, in sizes that kernels which round to f16 under `fast` take. */
    "$A=" RANGES " : conv2d(f32[2,24,17,15]:$A, f32[40,24,3,3]:param, f32[40]) {pads=[1,1,1,1]}",
    "$A=wide|rows|huge|tiny : conv2d(f32[2,24,17,16], f32[40,24,3,3]:$A:param) {pads=[1,1,1,1]}",
    "conv2d(f32[2,24,17,15]:zero, f32[40,24,3,3]:param, f32[40]) {pads=[1,1,1,1]}",
    "$A=" RANGES " : conv2d(f32[2,64,14,14]:$A, f32[192,64,1,1]:param, f32[192])",
    "$A=" ENDS " : conv2d(f32[2,24,17,15]:$A, f32[40,24,3,3]:param) {pads=[1,1,1,1]}",
    "$A=" ENDS " : conv2d(f32[2,24,17,15], f32[40,24,3,3]:$A:param) {pads=[1,1,1,1]}",
    "$A=" ENDS " : conv2d(f32[2,64,14,14]:$A, f32[192,64,1,1]:param)",
    "$A=" ENDS " : conv2d(f32[2,3,37,41]:$A, f32[64,3,7,7]:param) {pads=[3,3,3,3]}",
    "$A=" ENDS " : conv2d(f32[2,17,11,40]:$A, f32[17,1,3,3]:param) {groups=17, pads=[1,1,1,1]}",
    "$A=" ENDS " : conv_transpose2d(f32[1,32,9,9]:$A, f32[32,16,3,3]:param)",
    "$A=rows|huge|tiny : conv2d(f32[1,512,8,8]:$A, f32[192,512,1,1]:param)",
    "$A=rows|tiny : conv2d(f32[1,1024,6,6]:$A, f32[128,1024,1,1]:$A:param)",
    "$A=rows|huge|tiny $S=1|2 : conv2d(f32[2,3,37,41]:$A, f32[64,3,7,7]:param, f32[64]) "
    "{stride=[$S,$S], pads=[3,3,3,3]}",
    "$A=rows|huge|tiny $S=1|2 : conv2d(f32[1,72,9,20]:$A, f32[64,36,5,5]:param) "
    "{groups=2, stride=[$S,1], pads=[2,2,2,2], dilation=[1,2]}",
    "$A=rows|tiny : conv2d(f32[4,128,31,31]:$A, f32[64,128,1,1]:param) {stride=[2,2]}",
    "$A=rows|tiny : conv2d(f32[3,32,28,28]:$A, f32[48,32,1,3]:param) {stride=[2,1], "
    "pads=[0,1,0,1]}",
    "$A=huge|tiny : conv3d(f32[1,32,5,7,8]:$A, f32[32,32,2,3,3]:param) {pads=[1,1,1,0,1,1]}",
    "$A=huge|tiny|rows : conv_transpose2d(f32[1,32,9,9]:$A, f32[32,16,3,3]:param)",
    "$T=f32|f16|bf16 $W=1|3|17|31|33|65|129 $K=1|3 : "
    "conv1d($T[2,5,$W], $T[7,5,$K]:param, $T[7]) {pads=[1,1]}",
    "$S=1|2|3 $D=1|2 $G=1|3 : "
    "conv1d(f32[2,3,20], f32[6,1,4]:param) {groups=3, stride=[$S], dilation=[$D], pads=[$G,0]}",
    "conv1d(f32[2,3,9], f32[4,3,3], f32[4], f32[2,4,9]) {pads=[1,1], act=gelu, act_last=true}",
    "conv1d(f32[2,3,w<=9], f32[4,3,3], f32[4], f32[2,4,w]) {pads=[1,1], act=gelu}",
    "$T=f32|f16 : conv1d($T[n<=2,3,w<=21]:strided, $T[4,3,3]) {stride=[2], pads=[2,1]}",
    "conv1d(f32[2,3,0], f32[4,3,1])",
    "conv1d(f32[1,80,300], f32[64,80,3]:param, f32[64]) {stride=[2], pads=[1,1], act=gelu}",
    "$T=f32|f16|bf16 $S=1|2 $P=0|1 : conv3d($T[1,3,5,6,7], $T[4,3,3,2,3]:param, $T[4]) "
    "{stride=[$S,1,$S], pads=[$P,0,1,0,$P,1]}",
    "conv3d(f32[2,4,5,4,6], f32[4,2,2,2,2], f32[4]) {groups=2, dilation=[2,1,3]}",
    "conv3d(f32[1,2,3,4,5], f32[3,2,3,3,3], f32[3], f32[1,3,3,4,5]) "
    "{pads=[1,1,1,1,1,1], act=relu}",
    "conv3d(f32[n<=2,2,d<=5,h<=4,w<=6]:strided, f32[3,2,3,1,3]) {pads=[1,0,1,1,0,1]}",
    "conv3d(f32[1,0,3,3,3], f32[3,0,3,3,3], f32[3])",
    "conv3d(f32[1,8,8,16,16], f32[8,8,3,3,3]:param) {pads=[1,1,1,1,1,1]}",
    "conv2d(i32[1,2,5,5], f32[3,2,3,3]) !> (x)",
    "conv2d(f32[1,2,5,5], f16[3,2,3,3]) !> (w)",
    "conv2d(f32[2,5,5], f32[3,2,3,3]) !> rank",
    "conv1d(f32[1,2,5,5], f32[3,2,3]) !> rank",
    "conv3d(f32[1,2,3,5,5], f32[3,2,3,3]) !> rank",
    "conv2d(f32[1,2,5,5], f32[3,3,3,3]) !> (w)",
    "conv2d(f32[1,4,5,5], f32[3,2,3,3]) {groups=2} !> output channels",
    "conv2d(f32[1,5,5,5], f32[4,2,3,3]) {groups=2} !> input channels",
    "$G=-1|3 : conv2d(f32[1,4,5,5], f32[4,4,3,3]) {groups=$G} !> groups",
    "conv2d(f32[1,2,5,5], f32[3,2,6,3]) !> fit",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {dilation=[3,1]} !> fit",
    "conv2d(f32[1,2,5,5], f32[3,2,0,3]) !> kernel",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {stride=[0,1]} !> stride",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {stride=[1]} !> stride",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {stride=[4611686018427387904,1]} !> stride",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {dilation=[1,-1]} !> dilation",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {pads=[1,1]} !> pads",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {pads=[1,1,1,-1]} !> pads",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3]) {output_pad=[1,1]} !> output_pad",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3], f32[2]) !> bias",
    "conv2d(f16[1,2,5,5], f16[3,2,3,3], bf16[3]) !> bias",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3], _, f32[1,3,1,1]) !> residual",
    "conv2d(f32[1,2,5,5], f32[3,2,3,3], _, f16[1,3,3,3]) !> residual",
    "conv2d(f32[1,c<=2,5,5], f32[3,2,3,3]) !> channels",
    "conv2d(f32[1,2,5,5], _) !> w",

    /* NaN and infinities reach what sees them, not their tiles, nor windows that see the padding
     * there; magnitudes */
    "$T=f32|f16|bf16 $F=poison(0.01)|huge|tiny|rows :"
    " conv2d($T[2,20,11,12]:$F, $T[24,20,3,3]:param, $T[24]) {pads=[1,1,1,1], act=relu}",
    "$T=f32|f16 $F=poison(0.003) :"
    " conv2d($T[2,20,11,12], $T[24,20,3,3]:param:$F, $T[24]) {pads=[1,1,1,1]}",
    "$F=poison(0.01)|rows $A=none|relu :"
    " conv2d(f32[1,16,9,10]:$F, f32[16,16,3,3]:param, f32[16], f32[1,16,9,10]) "
    "{pads=[1,1,1,1], act=$A, act_last=true}",
    "$T=f32|f16|bf16 $F=poison(0.02)|huge|wide $L=|:param $S=1|2 :"
    " conv2d($T[2,3,9,8], $T[5,3,3,3]$L:$F, $T[5]) {pads=[2,1,1,2], stride=[$S,$S]}",
    "$F=poison(0.02)|rows|tiny $S=1|2 $P=0|1 :"
    " conv2d(f32[2,3,9,8]:$F, f32[5,3,3,3]) {pads=[$P,1,1,$P], stride=[$S,$S]}",
    "$W=9|40 $F=poison(0.05)|wide|huge $K=3|5 $S=1|2 : conv2d(f32[2,17,11,$W], "
    "f32[17,1,$K,$K]:param:$F, f32[17]) {groups=17, stride=[$S,$S], pads=[2,2,2,2]}",
    "$W=9|40 $F=poison(0.01)|rows|tiny $K=3|5 $S=1|2 : conv2d(f32[2,17,11,$W]:$F, "
    "f32[17,1,$K,$K]:param) {groups=17, stride=[$S,$S], pads=[2,2,2,2]}",
    "$F=poison(0.02)|wide : conv1d(f32[2,3,19], f32[5,3,4]:$F, f32[5]) {pads=[2,3]}",
    "$F=poison(0.02)|rows : conv1d(f32[2,3,19]:$F, f32[5,3,4], f32[5]) {pads=[2,3]}",
    "$F=poison(0.02)|wide : conv3d(f32[1,2,4,5,6], f32[3,2,3,3,3]:$F) {pads=[1,1,1,1,1,1]}",
    "$F=poison(0.02)|rows : conv3d(f32[1,2,4,5,6]:$F, f32[3,2,3,3,3]) {pads=[1,1,1,1,1,1]}",
    "$G=1|2 $F=poison(0.02)|wide : conv_transpose2d(f32[2,4,5,6], f32[4,3,3,3]:$F, _) "
    "{groups=$G, stride=[2,1], pads=[1,1,1,1]}",
    "$G=1|2 $F=poison(0.02)|rows|huge|tiny : conv_transpose2d(f32[2,4,5,6]:$F, f32[4,3,3,3], _) "
    "{groups=$G, stride=[2,1], pads=[1,1,1,1]}",
    "$F=poison(0.1)|zeros : im2col(f32[2,3,5,6]:$F) {kernel=[3,2], pads=[1,0,2,1]}",

    /* ---- conv_transpose2d */
    "$T=f32|f16|bf16 $K=1|2|3|4 $S=1|2|3 $P=0|1 : conv_transpose2d($T[2,3,5,4], "
    "$T[3,5,$K,$K]:param, $T[5]) {stride=[$S,$S], pads=[$P,0,0,$P]}",
    "$S=2|3 $O=0|1 $D=1|2 : conv_transpose2d(f32[1,4,5,6], f32[4,3,3,2], f32[3]) "
    "{stride=[$S,$S], output_pad=[$O,1], dilation=[$D,2]}",
    "$T=f32|f16|bf16 $G=1|2|4 : conv_transpose2d($T[2,4,5,3], $T[4,3,3,3]:param) "
    "{groups=$G, stride=[2,1], pads=[1,1,1,1]}",
    "$A=none|relu|tanh : conv_transpose2d(f32[1,2,3,4], f32[2,3,2,2], f32[3]) {act=$A}",
    "$T=f16|bf16 : conv_transpose2d($T[1,2,3,4], $T[2,3,2,2], f32[3])",
    "$T=f32|f16 : conv_transpose2d($T[2,3,4,5]:strided, $T[3,2,3,3]:strided, $T[2]:strided)",
    "$D=[0,3,5,5]|[2,3,0,5]|[2,3,5,0] : conv_transpose2d(f32$D, f32[3,4,3,3], f32[4])",
    "$D=[2,3,0,5]|[2,3,5,0] : conv_transpose2d(f32$D, f32[3,4,1,1]) {stride=[2,2]}",
    "conv_transpose2d(f32[1,0,3,3], f32[0,4,3,3], f32[4])",
    "conv_transpose2d(f32[n<=2,3,h<=5,w<=6], f32[3,4,4,4]:param, f32[4]) "
    "{stride=[2,2], pads=[1,1,1,1]}",
    "conv_transpose2d(f32[1,3,h<=5,4], f32[3,2,2,2]) {stride=[3,1], pads=[1,0,1,0]}",
    "conv_transpose2d(f32[1,32,14,14], f32[32,16,4,4]:param, f32[16]) "
    "{stride=[2,2], pads=[1,1,1,1]}",
    "conv_transpose2d(f32[1,2,3], f32[2,3,2,2]) !> rank",
    "conv_transpose2d(i8[1,2,3,3], i8[2,3,2,2]) !> (x)",
    "conv_transpose2d(f32[1,2,3,3], f32[3,2,2,2]) !> (w)",
    "conv_transpose2d(f32[1,3,3,3], f32[3,2,2,2]) {groups=2} !> groups",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2], f32[2]) !> bias",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2]) {output_pad=[1,0]} !> output_pad",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2]) {stride=[2,2], output_pad=[0,2]} !> output_pad",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2]) {stride=[2,2], output_pad=[-1,0]} !> output_pad",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2]) {pads=[2,0,2,0]} !> pads",
    "conv_transpose2d(f32[1,2,3,3], f32[2,3,2,2], _, f32[1,3,4,4]) !> operands",

    /* ---- qconv2d */
    "$X=i8|u8 $W=i8|u8 $B=_|i32[5] : qconv2d($X[2,3,6,7], $W[5,3,3,3], _, $B)",
    "$X=i8|u8 $S=1|2 $Z=0|3 : qconv2d($X[1,4,9,8], i8[6,2,3,3], f32[6]:range(0.01,0.1), i32[6]) "
    "{groups=2, stride=[$S,1], pads=[1,0,1,2], x_zero=$Z, w_zero=-2, y_zero=1}",
    "$O=i8|u8 $S=f32|f32[6] : qconv2d(u8[1,6,5,5], u8[6,1,3,3], $S:range(0.001,0.2)) "
    "{groups=6, x_zero=7, w_zero=128, y_zero=100, out=$O, dilation=[2,1]}",
    "qconv2d(i8[1,64,8,8]:int(-128,128), i8[32,64,3,3]:int(-128,128), f32:fill(0.0005)) "
    "{pads=[1,1,1,1]}",
    "qconv2d(u8[1,64,8,8]:int(0,256), i8[32,64,3,3]:int(-128,128)) {x_zero=255, w_zero=-128}",
    "qconv2d(i8[2,3,6,7]:strided, i8[5,3,3,3]:strided, f32[5]:strided, i32[5]:strided)",
    "$X=i8|u8 $W=i8|u8 $C=1|5|70 : qconv2d($X[2,$C,9,21], $W[37,$C,1,1]:param, "
    "f32[37]:range(0.001,0.02), i32[37]) {x_zero=5, w_zero=7, y_zero=9}",
    "$X=i8|u8 $W=i8|u8 $C=3|70 $S=1|2 : qconv2d($X[2,$C,11,19], $W[$C,1,3,3]:param, "
    "f32[$C]:range(0.001,0.2), i32[$C]) {groups=$C, stride=[$S,$S], pads=[1,2,0,1], x_zero=5, "
    "w_zero=3, y_zero=3}",
    "$W=1|17|40 : qconv2d(u8[1,6,5,$W], i8[35,6,3,3]:param, f32[35]:extreme) "
    "{dilation=[1,2], pads=[1,2,1,2], x_zero=200, y_zero=1}",
    "qconv2d(u8[1,20,9,7], u8[20,1,3,3]) {groups=20, dilation=[2,1], x_zero=255, w_zero=255}",
    "qconv2d(u8[1,4,300,1], i8[3,4,5,1], f32:fill(0.01)) {stride=[2,1], pads=[2,0,2,0]}",
    "qconv2d(u8[1,4,1,300]:strided, i8[40,4,1,5], f32:fill(0.01)) {stride=[1,3], pads=[0,2,0,2]}",
    "$X=i8|u8 : qconv2d($X[2,16,33,20], i8[40,16,3,3], f32[40]:range(0.001,0.01), i32[40]) "
        "{pads=[1,0,1,2], stride=[1,2], x_zero=5, w_zero=-3}",
    "qconv2d(u8[1,16,33,20], u8[40,8,3,2], f32:fill(0.001)) {groups=2, pads=[1,0,1,2], x_zero=9}",
    "$D=[0,3,5,5]|[2,3,0,5] : qconv2d(i8$D, i8[5,3,3,3])",
    "qconv2d(i8[n<=2,3,h<=6,w<=7], i8[5,3,3,3], _, i32[5]) {pads=[1,1,1,1], x_zero=2}",
    "qconv2d(f32[1,3,5,5], i8[5,3,3,3]) !> (x)",
    "qconv2d(i8[1,3,5,5], i32[5,3,3,3]) !> (w)",
    "qconv2d(i8[1,3,5,5], i8[5,2,3,3]) !> (w)",
    "qconv2d(i8[1,3,5], i8[5,3,3,3]) !> rank",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3]) {x_zero=128} !> x_zero",
    "qconv2d(u8[1,3,5,5], i8[5,3,3,3]) {x_zero=-1} !> x_zero",
    "qconv2d(i8[1,3,5,5], u8[5,3,3,3]) {w_zero=256} !> w_zero",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3]) {y_zero=1} !> y_zero",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], f32) {y_zero=200} !> y_zero",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3]) {out=i8} !> type",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], f32) {out=i32} !> type",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], f32[3]) !> scale",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], f16) !> scale",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], f32, f32[5]) !> bias",
    "qconv2d(i8[1,3,5,5], i8[5,3,3,3], _, i32[3]) !> bias",

    /* ---- pools */
    "$T=f32|f16|bf16 $M=max|average|lp $K=1|2|3 $S=1|2|3 : "
    "pool2d($T[2,3,9,10]) {kind=$M, kernel=[$K,$K], stride=[$S,$S]}",
    "$T=i8|u8 $K=2|3 $S=1|2 : pool2d($T[2,3,9,7]:strided) {kernel=[$K,3], stride=[$S,2], "
    "pads=[1,0,1,2]}",
    "$M=max|average|lp $P=[0,1,1,0]|[1,1,1,1]|[2,0,1,2] $I=true|false : "
    "pool2d(f32[2,3,9,10]) {kind=$M, kernel=[3,3], stride=[2,2], pads=$P, count_include_pad=$I}",
    "$M=max|average|lp $K=2|3|5 $S=2|3|4 $P=[0,0,0,0]|[1,1,1,1]|[0,1,1,0] : "
    "pool2d(f32[1,2,9,11]) {kind=$M, kernel=[$K,2], stride=[$S,$S], pads=$P, ceil_mode=true}",
    "$K=2|3|4 $S=2|3|5 $P=0|1 : pool2d(f32[1,2,10,7]) {kind=average, kernel=[$K,$K], "
    "stride=[$S,$S], pads=[$P,$P,$P,$P], ceil_mode=true, count_include_pad=true}",
    "$M=max|average|lp $D=1|2|3 $C=true|false : pool2d(f32[1,2,11,12]) "
    "{kind=$M, kernel=[3,2], dilation=[$D,2], stride=[2,1], pads=[1,1,1,0], ceil_mode=$C}",
    "$M=max|average|lp : pool2d(f32[1,2,1,4]) {kind=$M, kernel=[2,2], dilation=[2,1], "
    "pads=[1,0,1,0]}",
    "$P=1|2|3|5 : pool2d(f32[2,3,6,7]) {kind=lp, kernel=[2,3], p=$P}",
    "$T=f32|f16|bf16 $M=max|average|lp $N=1|3|17|31|33|65|129 : pool2d($T[1,3,$N,5]) {kind=$M}",
    "$M=max|average|lp : pool2d(f32[2,3,0,5]) {kind=$M}",
    "$M=max|average|lp $D=[0,3,5,5]|[2,0,5,5]|[2,3,0,5] : pool2d(f32$D) {kind=$M, kernel=[2,2]}",
    "$M=max|average|lp : pool2d(f32[n<=2,c<=3,h<=9,w<=8]) {kind=$M}",
    "$M=max|average|lp : pool2d(f32[n<=2,3,h<=9,w<=8]) {kind=$M, kernel=[3,2], stride=[2,2], "
    "pads=[1,1,1,0]}",
    "$M=max|average : pool2d(f32[1,2,h<=9,w<=8]) {kind=$M, kernel=[3,2], stride=[2,2], "
    "pads=[1,0,0,0], ceil_mode=true}",
    "$T=f32|f16 : pool2d($T[2,3,7,8]:extreme) {kernel=[3,3]}",
    "$T=f32|f16|bf16 $M=max|average : pool2d($T[2,5,7,8]:strided) {kind=$M, kernel=[2,3]}",
    "pool2d(f32[1,3,9,9]:ties) {kernel=[3,3], stride=[3,3]}",
    "$M=max|average : pool2d(f32[1,64,56,56]) {kind=$M, kernel=[3,3], stride=[2,2], "
    "pads=[1,1,1,1]}",
    "$T=f32|f16|bf16 $M=max|average|lp $K=1|2|5 $S=1|3 : "
    "pool1d($T[2,3,17]) {kind=$M, kernel=[$K], stride=[$S]}",
    "$M=max|average|lp $C=true|false : pool1d(f32[2,3,20]) {kind=$M, kernel=[3], stride=[2], "
    "pads=[1,2], dilation=[2], ceil_mode=$C}",
    "$M=max|average|lp : pool1d(f32[2,c<=3,w<=17]) {kind=$M}",
    "pool1d(i8[2,3,17]) {kernel=[4]}",
    "pool1d(f32[2,3,w<=17]:strided) {kind=average, kernel=[4], stride=[4]}",
    "$T=f32|f16|bf16 $M=max|average|lp $C=true|false : pool3d($T[1,2,5,6,7]) "
    "{kind=$M, kernel=[2,3,2], stride=[2,2,3], pads=[1,1,0,0,1,1], ceil_mode=$C}",
    "$M=max|average|lp : pool3d(f32[2,3,3,4,5]) {kind=$M}",
    "$M=max|average|lp $T=f32|f16 : pool3d($T[2,3,3,14,150]) {kind=$M}",
    "$M=max|average : pool3d(f32[1,3,9,14,150]) {kind=$M, kernel=[3,2,3], stride=[2,1,2], "
        "pads=[1,1,1,1,0,1]}",
    "$I=true|false : pool3d(f32[1,2,4,4,4]:strided) {kind=average, kernel=[3,3,3], "
    "pads=[1,1,1,1,1,1], count_include_pad=$I}",
    "pool3d(f32[n<=2,2,d<=5,h<=4,w<=6]) {kernel=[2,2,2], pads=[1,0,1,0,1,0]}",
    "$T=f32|f16|bf16 $M=max|average|lp $F=poison(0.03)|wide|tiny|rows $K=[3,2]|[7,9] :"
    " pool2d($T[2,3,7,9]:$F) {kind=$M, kernel=$K, pads=[1,0,1,1]}",
    "$M=max|average|lp $F=poison(0.01)|rows|tiny : pool2d(f32[2,17,9,9]:$F) {kind=$M}",
    "$T=f32|bf16 $F=huge|tiny $P=1|2|3|7 :"
    " pool1d($T[2,3,40]:$F) {kind=lp, kernel=[5], pads=[2,2], p=$P}",
    "$F=huge|tiny|poison(0.01) $P=2|5 : pool3d(f32[2,3,5,6,7]:$F) {kind=lp, kernel=[3,3,3], p=$P}",
    "$F=poison(0.01)|rows : pool3d(f32[2,3,5,6,7]:$F) {kind=average, kernel=[3,3,3]}",
    "pool2d(i32[1,2,5,5]) {kernel=[2,2]} !> (x)",
    "$T=i8|bool : pool2d($T[1,2,5,5]) {kind=average, kernel=[2,2]} !> (x)",
    "pool2d(f32[2,5,5]) {kernel=[2,2]} !> rank",
    "pool2d(f32[1,2,5,5]) {kernel=[2]} !> kernel",
    "pool2d(f32[1,2,5,5]) {kernel=[0,2]} !> kernel",
    "pool2d(f32[1,2,5,5]) {kernel=[6,2]} !> fit",
    "pool2d(f32[1,2,5,5]) {kernel=[2,2], pads=[2,0,0,0]} !> pads",
    "pool2d(f32[1,2,5,5]) {kernel=[2,2], pads=[0,0,0,2]} !> pads",
    "pool2d(f32[1,2,5,5]) {kernel=[2,2], stride=[0,2]} !> stride",
    "pool2d(f32[1,2,5,5]) {stride=[2,2]} !> global",
    "pool2d(f32[1,2,5,5]) {pads=[1,1,1,1]} !> global",
    "pool2d(f32[1,2,5,5]) {kernel=[2,2], p=2} !> p expected",
    "pool2d(f32[1,2,5,5]) {kind=lp, kernel=[2,2], p=-1} !> p expected",
    "pool2d(f32[1,2,h<=5,5]) {kernel=[2,2], stride=[3,1], ceil_mode=true} !> ceil_mode",

    /* ---- im2col */
    "$T=f32|f16|bf16|i8|u8|i32|i64|bool : im2col($T[2,3,5,6]) {kernel=[3,2], pads=[1,0,2,1]}",
    "$K=1|2|3 $S=1|2 $D=1|2 : im2col(f32[2,3,7,8]:strided) {kernel=[$K,2], stride=[$S,2], "
    "dilation=[$D,1]}",
    "$D=[0,3,5,5]|[2,0,5,5]|[2,3,0,5] : im2col(f32$D) {kernel=[2,2]}",
    "im2col(f32[n<=2,c<=3,h<=6,w<=5]) {kernel=[3,3], pads=[1,1,1,1]}",
    "im2col(f32[1,2,h<=7,w<=6]) {kernel=[2,3], stride=[2,3], pads=[1,1,1,1]}",
    "im2col(f32[1,16,32,32]) {kernel=[3,3], pads=[1,1,1,1]}",
    "im2col(f32[1,2,3]) {kernel=[2,2]} !> rank",
    "im2col(f32[1,2,3,3]) !> kernel",
    "im2col(f32[1,2,3,3]) {kernel=[2,0]} !> kernel",
    "im2col(f32[1,2,3,3]) {kernel=[4,2]} !> fit",
    "im2col(f32[1,2,3,3]) {kernel=[2,2], stride=[1,0]} !> stride",
    "im2col(q8_0[1,2,3,32]) {kernel=[2,2]} !> (x)",

    /* ---- resize_nearest_2x, resize */
    "$T=f32|f16|bf16|i8|u8|i32|i64|bool : resize_nearest_2x($T[2,3,5,7])",
    "$D=[0,3,5,7]|[2,0,5,7]|[2,3,0,7]|[1,1,1,1] : resize_nearest_2x(f32$D)",
    "$T=f32|i8 : resize_nearest_2x($T[2,3,5,7]:strided)",
    "resize_nearest_2x(f32[n<=2,c<=3,h<=5,w<=7])",
    "resize_nearest_2x(f32[1,16,64,64])",
    "resize_nearest_2x(f32[2,3,5]) !> rank",
    "$T=f32|f16|bf16|i8|u8|i32|i64|bool : resize($T[1,2,4,5]) {sizes=[1,2,7,3]}",
    "$C=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric "
    "$N=round_prefer_floor|round_prefer_ceil|floor|ceil $S=[1,2,8,10]|[1,2,3,2]|[1,2,1,9] : "
    "resize(f32[1,2,4,5]) {sizes=$S, coord=$C, nearest=$N}",
    "$C=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric "
    "$M=linear|cubic $S=[1,2,8,10]|[1,2,3,2]|[1,2,1,9]|[1,2,4,5]|[2,3,7,5] $X=true|false : "
    "resize(f32[1,2,4,5]) {sizes=$S, coord=$C, mode=$M, exclude_outside=$X}",
    "$T=f16|bf16 $M=linear|cubic : resize($T[1,2,6,5]) {sizes=[1,2,11,3], mode=$M}",
    "$M=linear|cubic $S=[1,2,3,4]|[1,2,2,1]|[1,2,20,7]|[1,2,5,9] $X=true|false : "
    "resize(f32[1,2,9,13]) {sizes=$S, mode=$M, antialias=true, exclude_outside=$X}",
    "$C=align_corners|asymmetric|pytorch_half_pixel $M=linear|cubic : "
    "resize(f32[1,1,9,13]) {sizes=[1,1,4,5], coord=$C, mode=$M, antialias=true}",
    "$A=-0.5|-1 : resize(f32[1,1,5,6]) {sizes=[1,1,9,4], mode=cubic, cubic_a=$A}",
    "$M=nearest|linear|cubic $C=half_pixel|half_pixel_symmetric|asymmetric : "
    "resize(f32[1,2,4,5]) {sizes=[1,2,10,4], mode=$M, coord=$C, scale=[1,1,2.6,0.81]}",
    "$M=nearest|linear|cubic : resize(f32[1,1,5,5]) {sizes=[1,1,5,6], mode=$M, "
    "scale=[1,1,1.15,1.3]}",
    "$M=linear|cubic : resize(f32[1,1,8,9]) {sizes=[1,1,4,3], mode=$M, antialias=true, "
    "scale=[1,1,0.55,0.4]}",
    "$M=nearest|linear|cubic $E=0|10 : resize(f32[1,1,6,7]) {sizes=[1,1,5,8], mode=$M, "
    "coord=tf_crop_and_resize, roi=[0,0,0.12,-0.2,1,1,0.93,1.3], extrapolation=$E}",
    "$M=nearest|linear|cubic : resize(f32[1,1,6,7]) {sizes=[1,1,1,1], mode=$M, "
    "coord=tf_crop_and_resize, roi=[0,0,0.2,0.4,1,1,0.7,0.8]}",
    "$M=nearest|linear : resize(f32[1,1,6,7]) {sizes=[1,1,4,9], mode=$M, "
    "coord=tf_crop_and_resize}",
    "resize(i32[1,1,6,7]) {sizes=[1,1,5,8], coord=tf_crop_and_resize, "
    "roi=[0,0,0.12,-0.2,1,1,0.93,1.3], extrapolation=-3}",
    "$M=linear|cubic $D=[5]|[3,4]|[2,3,5] : resize(f32$D) {mode=$M, sizes=$D}",
    "$M=nearest|linear|cubic : resize(f32[5]) {sizes=[9], mode=$M}",
    "$M=nearest|linear|cubic : resize(f32[3,4,5]) {sizes=[5,3,8], mode=$M}",
    "$M=nearest|linear|cubic : resize(f32[2,2,3,4,3]:strided) {sizes=[2,2,4,3,5], mode=$M}",
    "$M=nearest|linear|cubic $N=1|3|17|33|65|129 : resize(f32[1,1,3,$N]) "
    "{sizes=[1,1,4,31], mode=$M}",
    "$M=nearest|linear : resize(f32[1,2,h<=5,w<=6]) {sizes=[1,2,h,w], mode=$M}",
    "$M=nearest|linear : resize(f32[n<=2,2,5,6]) {sizes=[n,2,7,4], mode=$M}",
    "$D=[0,2,4,5]|[1,0,4,5] : resize(f32$D) {sizes=$D}",
    "$M=nearest|linear : resize(f32[1,2,4,5]) {sizes=[1,2,0,5], mode=$M}",
    "resize(f32) {mode=linear}",
    "$M=nearest|linear|cubic : resize(f32[1,16,48,48]) {sizes=[1,16,96,80], mode=$M}",
    "$T=f32|f16|bf16 $M=nearest|linear|cubic $F=poison(0.03)|wide|zeros "
    "$S=[1,2,11,9]|[1,2,12,14]|[1,2,3,4] : resize($T[1,2,6,7]:$F) {sizes=$S, mode=$M}",
    "$M=linear|cubic $F=poison(0.03)|huge|tiny $X=true|false : resize(f32[1,2,6,7]:$F) "
    "{sizes=[1,2,5,13], mode=$M, exclude_outside=$X, coord=align_corners}",
    "$M=linear|cubic : resize(f32[1,2,9,13]:poison(0.02)) "
    "{sizes=[1,2,4,5], mode=$M, antialias=true}",
    "resize(f32[1,2,4,5]) {sizes=[1,2,4]} !> sizes",
    "resize(f32[1,2,4,5]) !> sizes",
    "resize(f32[1,2,0,5]) {sizes=[1,2,4,5]} !> sizes",
    "resize(f32[1,2,4,5]) {sizes=[1,2,-1,5]} !> sizes",
    "$T=i32|bool : resize($T[1,2,4,5]) {sizes=[1,2,8,5], mode=linear} !> (x)",
    "resize(f32[1,2,4,5]) {sizes=[1,2,8,5], antialias=true} !> antialias",
    "resize(f32[1,2,4,5]) {sizes=[1,2,8,5], mode=linear, cubic_a=-0.5} !> cubic_a",
    "resize(f32[1,2,4,5]) {sizes=[1,2,8,5], scale=[1,1,-2]} !> scale",
    "resize(f32[4,5]) {sizes=[8,5], scale=[2,1,1]} !> scale",
    "resize(f32[4,5]) {sizes=[8,5], roi=[0,0,1,1]} !> roi",
    "resize(f32[4,5]) {sizes=[8,5], extrapolation=1} !> extrapolation",
    NULL,
};
