/* SPDX-License-Identifier: MIT */
/* Cases of the index family: gather, gather_elements, gather_nd, scatter_elements, scatter_nd,
 * scatter_add. Indices stay in range except where clamping or an error is the point. */
#include "ops/optest.h"

#define ALL "f32|f16|bf16|i8|u8|i32|i64|bool"
#define NUMBERS "f32|f16|bf16|i8|u8|i32|i64"
#define PACKED32 "q4_0|q4_1|q5_0|q5_1|q8_0|iq4_nl|mxfp4"
#define PACKED256                                                                      \
    "q2_k|q3_k|q4_k|q5_k|q6_k|q8_k|iq4_xs|iq1_s|iq1_m|iq2_xxs|iq2_xs|iq2_s|iq3_xxs|iq3_s|" \
    "tq1_0|tq2_0|nvfp4"

const char *const rx_cases_index[] = {
    /* gather */
    "$T=" ALL " $I=i32|i64 : gather($T[7,5], $I[3,2]:int(-7,7)) {axis=0}",
    "$A=0|1|2|-1|-3 $S=[]|[1]|[4]|[2,3]|[2,1,2] :"
        " gather(f32[3,4,5], i32$S:int(-3,3)) {axis=$A}",
    "$A=0|1 : gather(f16[33,17]:strided, i64[9]:int(-17,17):strided) {axis=$A}",
    "$T=i32|i64 : gather(f32[5,3], $T[6]:int(-5,5):const)",
    "$S=[0]|[2,0] : gather(f32[5,3], i32$S) {axis=1}",
    "gather(f32[0,3], i32[0])",
    "gather(f32[5,0], i32[4]:int(0,5))",
    "gather(f32[1024,129], i32[65]:int(0,1024))",
    "gather(f32[65], i32[1024]:int(0,65))",
    "gather(f32[2,2,2,2,2,2,2,2], i32[2]:int(0,2)) {axis=5}",
    "gather(f32[9,4], i32[seq<=16]:int(0,9))",
    "gather(f32[9,4], i64[b<=3,seq<=16]:int(-9,9))",
    "gather(f32[4,9], i32[b<=3,seq<=16]:int(0,9)) {axis=1}",
    "gather(f32[seq<=16,4], i32[3]:zero) {axis=1}",
    "gather(f32[5,3], i32[8]:int(-20,20)) {axis=0}",
    "gather(f32[5,3], i64[4]:fill(4000000000)) {axis=1}",
    "$T=" PACKED32 " : gather($T[17,96], i32[5]:int(-17,17))",
    "$T=" PACKED256 " : gather($T[5,512], i64[2,3]:int(0,5))",
    "gather(q4_0[9,64], i32[])",
    "gather(q4_0[9,64], i32[seq<=16]:int(0,9))",
    "gather(q6_k[3,256], i32[7]:int(-9,9))",
    "gather(q4_0[9,64], i64[4]:fill(4000000000))",
    "gather(q4_0[9,64], i32[2]) {axis=1} !> expected rank 2 and axis 0",
    "gather(q4_0[2,9,64], i32[2]) !> expected rank 2 and axis 0",
    "gather(f32[5], i32[2]:fill(5):const) !> got 5",
    "gather(f32[5], i64[2]:fill(-6):const) !> expected from -5 to 4, got -6",
    "gather(f32[0], i32[2]) !> at least one element",
    "gather(f32[5], f32[2]) !> operand 1 (index) expected of type i32 or i64",
    "gather(f32[5], i32[2]) {axis=1} !> axis expected",
    "gather(f32[], i32[2]) !> axis expected",
    "gather(f32[2,2,2,2,2], i32[1,1,1,1,1]) !> at most 8",
    "gather(f32[5]) !> operands",

    /* gather_elements */
    "$T=" ALL " $I=i32|i64 : gather_elements($T[4,5], $I[3,5]:int(-4,4)) {axis=0}",
    "$A=0|1|2|-1 : gather_elements(f32[3,4,5], i32[3,4,5]:int(-3,3)) {axis=$A}",
    "$A=0|1 : gather_elements(f16[33,33]:strided, i32[17,31]:int(-33,33):strided) {axis=$A}",
    "gather_elements(f32[3,4], i32[3,9]:int(0,4)) {axis=1}",
    "gather_elements(f32[5], i64[1]:int(0,5))",
    "gather_elements(f32[3,4], i32[0,9]) {axis=1}",
    "gather_elements(f32[3,4], i32[3,0]) {axis=1}",
    "gather_elements(f32[3,4], i32[3,6]:int(-20,20)) {axis=1}",
    "gather_elements(f32[512,129], i32[512,65]:int(0,129)) {axis=1}",
    "gather_elements(f32[seq<=16,5], i32[seq,3]:int(0,5)) {axis=1}",
    "gather_elements(f32[7,5], i32[seq<=16,5]:int(0,7))",
    "gather_elements(f32[3,4], i32[2,2]:int(0,2):const)",
    "gather_elements(f32[3,4], i32[2,2]:fill(3):const) !> got 3",
    "gather_elements(f32[3,4], i32[3,5]) !> size of index on axis 1 must be at most 4, got 5",
    "gather_elements(f32[3,4], i32[3]) !> of rank 2",
    "gather_elements(f32[3,4], f32[3,4]) !> i32 or i64",
    "gather_elements(f32[], i32[]) !> axis expected",
    "gather_elements(q4_0[2,32], i32[2,32]) !> expected of type",

    /* gather_nd */
    "$T=" ALL " $I=i32|i64 : gather_nd($T[4,5], $I[3,2]:int(-4,4))",
    "$K=1|2|3 $Q=|2,|2,3, : gather_nd(f32[3,4,5], i32[$Q$K]:int(-3,3))",
    "$K=1|2 : gather_nd(f32[3,4,5], i32[3,7,$K]:int(-4,4)) {batch_dims=1}",
    "gather_nd(f32[3,4,5], i32[3,4,1]:int(-5,5)) {batch_dims=2}",
    "gather_nd(f32[3,4,5], i32[3,4,2,1]:int(-5,5)) {batch_dims=2}",
    "gather_nd(f16[17,9,3]:strided, i64[17,31,1]:int(-9,9):strided) {batch_dims=1}",
    "gather_nd(f32[3,4], i32[0,2])",
    "gather_nd(f32[3,0], i32[5,1]:int(0,3))",
    "gather_nd(f32[3,4], i32[6,2]:int(-20,20))",
    "gather_nd(f32[512,65], i32[1000,2]:int(0,65))",
    "gather_nd(f32[5,4], i32[seq<=16,1]:int(0,5))",
    "gather_nd(f32[b<=3,5,4], i32[b,2,1]:int(0,5)) {batch_dims=1}",
    "gather_nd(f32[3,4], i32[1,2]:fill(3):const) !> got 3",
    "gather_nd(f32[3,4], i32[5,3]) !> last axis of size 1 to 2",
    "gather_nd(f32[3,4], i32[5,0]) !> last axis of size 1 to 2",
    "gather_nd(f32[3,4], i32[]) !> of rank 1",
    "gather_nd(f32[3,4], i32[2,1]) {batch_dims=1} !> expected with size 3 on axis 0",
    "gather_nd(f32[3,4], i32[3,4,1]) {batch_dims=2} !> batch_dims expected from 0 to 1",
    "gather_nd(f32[3,4], i32[3]) {batch_dims=1} !> of rank 2",
    "gather_nd(f32[], i32[1]) !> batch_dims",

    /* scatter_elements */
    "$T=" ALL " $I=i32|i64 : scatter_elements($T[6], $I[6]:perm, $T[6])",
    "$T=" ALL " : scatter_elements($T[5,4], i32[3,4]:int(-5,5), $T[3,4])",
    "$T=" NUMBERS " $M=add|mul|min|max $A=0|1|-1 :"
        " scatter_elements($T[5,4], i32[3,4]:int(-4,4), $T[3,4]) {axis=$A, mode=$M}",
    "$M=none|min|max $A=0|1|2 :"
        " scatter_elements(f32[3,4,5]:strided, i64[2,3,4]:int(-2,2):strided, f32[2,3,4]:strided)"
        " {axis=$A, mode=$M}",
    "$T=i8|u8|i32|i64 $M=add|mul|min|max :"
        " scatter_elements($T[3]:extreme, i32[40]:int(0,3), $T[40]:extreme) {mode=$M}",
    "$T=f32|f16 $M=min|max : scatter_elements($T[9]:extreme, i32[40]:int(0,9), $T[40]:extreme)"
        " {mode=$M}",
    "$T=f32|f16|i32 $M=add|none : scatter_elements($T[2,3], i32[500,3]:int(0,2), $T[500,3])"
        " {mode=$M}",
    "$M=none|add : scatter_elements(f32[3,4], i32[0,4], f32[0,4]) {mode=$M}",
    "$T=" ALL " $N=5|6|64|4099 : scatter_elements($T[3,$N], i32[0,$N], $T[0,$N])",
    "scatter_elements(f32[3,64]:strided, i32[0,64], f32[0,64])",
    "scatter_elements(f32[0,4], i32[0,4], f32[0,4])",
    "scatter_elements(f32[3,4], i32[3,6]:int(-20,20), f32[3,6]) {axis=1}",
    "scatter_elements(f32[512,65], i32[512,129]:int(0,65), f32[512,129]) {axis=1, mode=add}",
    "scatter_elements(f32[seq<=16,5], i32[seq,3]:int(0,5), f32[seq,3]) {axis=1}",
    "scatter_elements(f32[3], i32[2]:fill(3):const, f32[2]) !> got 3",
    "scatter_elements(f32[3], i32[2], f32[3]) !> operand 2 (update) expected",
    "scatter_elements(f32[3], i32[2], f16[2]) !> same type",
    "scatter_elements(f32[3,3], i32[2], f32[2]) !> of rank 2",
    "scatter_elements(f32[3,3], i32[2,4], f32[2,4]) !> at most 3, got 4",
    "scatter_elements(bool[3], i32[2], bool[2]) {mode=add} !> expected of type",
    "scatter_elements(f32[], i32[], f32[]) !> rank",
    "scatter_elements(f32[3], i32[2], f32[2]) {axis=1} !> axis expected",
    "scatter_elements(f32[3], i32[2]) !> operands",

    /* scatter_nd */
    "$T=" ALL " $I=i32|i64 : scatter_nd($T[5,4], $I[3,1]:int(-5,5), $T[3,4])",
    "$T=" NUMBERS " $M=add|mul|min|max : scatter_nd($T[5,4], i32[6,2]:int(-4,4), $T[6])"
        " {mode=$M}",
    "$M=none|add : scatter_nd(f32[3,4,5]:strided, i32[2,3,2]:int(-3,3), f32[2,3,5]:strided)"
        " {mode=$M}",
    "scatter_nd(f32[3,4,5], i32[3]:int(0,3), f32[])",
    "scatter_nd(f32[3,4,5], i32[1]:int(0,3), f32[4,5])",
    "scatter_nd(f32[3,4,5], i32[7,3]:int(-3,3), f32[7])",
    "scatter_nd(f32[3,4], i32[0,2], f32[0])",
    "scatter_nd(f32[3,0], i32[2,1]:int(0,3), f32[2,0])",
    "scatter_nd(f32[3,4], i32[6,2]:int(-20,20), f32[6]) {mode=max}",
    "scatter_nd(f32[257,65], i32[129,1]:int(0,257), f32[129,65]) {mode=add}",
    "scatter_nd(f32[9,3], i32[seq<=16,1]:int(0,9), f32[seq,3])",
    "scatter_nd(f32[3,4], i32[1,2]:fill(3):const, f32[1]) !> got 3",
    "scatter_nd(f32[3,4], i32[5,3], f32[5]) !> last axis of size 1 to 2",
    "scatter_nd(f32[3,4], i32[5,1], f32[5]) !> operand 2 (update) expected f32[5,4]",
    "scatter_nd(f32[3,4], i32[5,1], i32[5,4]) !> same type",
    "scatter_nd(f32[3,4], i32[5,1], f32[5,4]) {axis=1} !> axis is not used",
    "scatter_nd(f32[3,4], f32[5,1], f32[5,4]) !> i32 or i64",

    /* scatter_add */
    "$T=" NUMBERS " $I=i32|i64 : scatter_add($T[5,4], $I[7]:int(-5,5), $T[7,4])",
    "$N=1|3|17 : scatter_add(f32[$N,$N,$N], i32[5]:int(-1,1), f32[5,$N,$N]) {axis=0}",
    "scatter_add(f32[3,4,5]:strided, i32[7]:int(-4,4), f32[3,7,5]:strided) {axis=1}",
    "scatter_add(f32[3,4,5], i32[7]:int(-5,5), f32[3,4,7]) {axis=-1}",
    "scatter_add(f32[5,4], i32[0], f32[0,4])",
    "scatter_add(f32[0,4], i32[0], f32[0,4])",
    "scatter_add(f32[5,0], i32[3]:int(0,5), f32[3,0])",
    "scatter_add(f32[5,4], i32[7]:int(-20,20), f32[7,4])",
    "scatter_add(f32[1000,65], i32[3000]:int(0,1000), f32[3000,65])",
    "scatter_add(f32[9,4], i32[seq<=16]:int(0,9), f32[seq,4])",
    "scatter_add(f32[5,4], i32[7]:fill(-6):const, f32[7,4]) !> got -6",
    "scatter_add(f32[5,4], i32[7,1], f32[7,4]) !> of rank 1",
    "scatter_add(f32[5,4], i32[7], f32[6,4]) !> operand 2 (update) expected f32[7,4]",
    "scatter_add(bool[5], i32[2], bool[2]) !> expected of type",
    "scatter_add(f32[5,4], i32[7], f32[7,4]) {axis=2} !> axis expected",
    NULL
};
