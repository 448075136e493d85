/* SPDX-License-Identifier: MIT */
/* Cases of the reductions: reduce_*, argmax, argmin, cumsum, cumprod, cummax. */
#include "ops/optest.h"

#define KINDS "$K=sum|mean|max|min|prod|l1|l2|log_sum_exp|sum_square"
#define INT_KINDS "$K=sum|mean|max|min|prod|l1|sum_square"
#define FLOATS "$T=f32|f16|bf16"
#define INTS "$T=i8|u8|i32|i64"

const char *const rx_cases_reduce[] = {
    /* every kind, type and axis */
    KINDS " " FLOATS " $A=[0]|[1]|[2]|[-1]|[0,2]|[] $D=true|false"
          " : reduce_$K($T[3,5,7]) {axes=$A, keepdims=$D}",
    INT_KINDS " " INTS " $A=[1]|[0,-1]|[] : reduce_$K($T[3,5,7]) {axes=$A}",
    FLOATS " $A=[0]|[1,2]|[] : reduce_log_sum($T[3,5,7]:range(0.1,2)) {axes=$A}",
    "$K=any|all $A=[0]|[-1]|[1,0]|[] $D=true|false $P=0.5|0.03|0.97"
    " : reduce_$K(bool[4,6,5]:bool($P)) {axes=$A, keepdims=$D}",

    /* sizes, ranks, strides */
    KINDS " $N=1|3|17|31|33|65|129|1000 : reduce_$K(f32[4,$N]:range(-1,1)) {axes=[1]}",
    KINDS " $N=1|3|17|31|33|65|129|1000 : reduce_$K(f32[$N,4]:range(-1,1)) {axes=[0]}",
    KINDS " : reduce_$K(f32[2,1,3,2,2,1,3,2]) {axes=[1,-4,6]}",
    KINDS " : reduce_$K(f32[])",
    KINDS " $A=[0]|[1]|[2]|[2,0] : reduce_$K(f32[5,6,7]:strided) {axes=$A}",
    INT_KINDS " " INTS " : reduce_$K($T[9,4]:strided) {axes=[0]}",
    "$K=sum|mean|max : reduce_$K(f32[64,4097]) {axes=[1]}",
    "$K=sum|mean|max : reduce_$K(f32[4097,64]) {axes=[0]}",
    "$K=sum|max " FLOATS " : reduce_$K($T[262144])",
    "reduce_sum(f32[32,64,96]) {axes=[0,2]}",

    /* nothing to reduce */
    KINDS " " FLOATS " $A=[0]|[1]|[] : reduce_$K($T[0,3]) {axes=$A}",
    INT_KINDS " " INTS " : reduce_$K($T[3,0]) {axes=[1]}",
    "$K=any|all : reduce_$K(bool[2,0]) {axes=[1]}",
    "reduce_log_sum(f32[2,0]) {axes=[1]}",

    /* extreme values, wrapping integers */
    "$K=max|min|sum|mean|l1|l2|log_sum_exp " FLOATS " $N=1|2|5"
    " : reduce_$K($T[40,$N]:extreme) {axes=[1]}",
    "$K=max|min $N=64 : reduce_$K(f32[8,$N]:extreme) {axes=[1]}",
    "reduce_log_sum_exp(f32[6,9]:normal(500,100)) {axes=[1]}",
    "reduce_log_sum_exp(f32[6,9]:fill(-1000)) {axes=[1]}",
    "reduce_l2(f32[6,9]:normal(0,1e25)) {axes=[1]}",
    INT_KINDS " $T=i8|u8|i32 : reduce_$K($T[7,33]:extreme) {axes=[1]}",
    "$K=sum|max|min|prod|l1|sum_square : reduce_$K(i64[7,33]:extreme) {axes=[1]}",
    "$K=max|min : reduce_$K(i64[3,5]:int(9007199254740990,9007199254740999)) {axes=[1]}",

    /* squares, products and exponentials beyond f32, many magnitudes, NaN and infinities */
    "$K=l2|l1|mean|sum|max|log_sum_exp $F=tiny|huge|rows|wide $A=[0]|[1]"
    " : reduce_$K(f32[33,40]:$F) {axes=$A}",
    "$K=l2|sum|mean|l1|max|log_sum_exp $T=f16|bf16 $F=tiny|rows|wide : reduce_$K($T[33,40]:$F)"
    " {axes=[1]}",
    "$K=l2|l1|log_sum_exp " FLOATS " $F=huge : reduce_$K($T[9,40]:$F) {axes=[1]}",
    KINDS " " FLOATS " $F=poison(0.02)|poison_rows(0.3) $A=[0]|[1]"
          " : reduce_$K($T[17,21]:$F) {axes=$A}",
    "$K=l2|sum_square|sum|log_sum_exp $A=[0]|[1]|[] : reduce_$K(f32[17,21]:zeros) {axes=$A}",
    "$A=[0]|[1] $N=2|3|40 : reduce_log_sum_exp(f32[$N,$N]:range(-60,0)) {axes=$A}",
    "$A=[0]|[1] : reduce_sum_square(f32[30,30]:normal(0,1e-21)) {axes=$A}",
    "reduce_l2(f32[3,140000]:tiny) {axes=[1]}",
    "reduce_log_sum_exp(f32[2,140000]:normal(0,40)) {axes=[1]}",
    "$A=[0]|[1] : reduce_prod(f32[40,40]:wide) {axes=$A}",
    "$A=[0]|[1] " FLOATS " : reduce_prod($T[3,70,1200]:range(0.9,1.1)) {axes=$A}",
    "$S=[70000]|[2,70000]|[70000,3] " FLOATS " : reduce_prod($T$S:range(0.999,1.001))",
    INT_KINDS " " INTS " $S=[70001]|[3,33,800] $A=[]|[0] : reduce_$K($T$S) {axes=$A}",
    "$K=any|all $P=0|0.00001|0.99999|1 : reduce_$K(bool[2,70001]:bool($P)) {axes=[1]}",

    /* named dimensions */
    KINDS " $A=[0]|[1]|[2]|[] $D=true|false"
          " : reduce_$K(f32[batch<=3,seq<=9,5]) {axes=$A, keepdims=$D}",

    /* mistakes */
    "reduce_sum(f32[2,3]) {axes=[2]} !> axis expected from -2 to 1, got 2",
    "reduce_sum(f32[2,3]) {axes=[-3]} !> got -3",
    "reduce_sum(f32[2,3]) {axes=[0,-2]} !> axis 0 is there twice",
    "reduce_sum(bool[2,3]) !> got bool[2,3]",
    "reduce_any(f32[2,3]) !> expected of type bool, got f32[2,3]",
    "$K=l2|log_sum|log_sum_exp : reduce_$K(i32[2,3]) !> expected of type f32, f16, bf16 or f64",

    /* argmax, argmin */
    "$O=argmax|argmin $T=f32|f16|bf16|i8|u8|i32|i64 $A=0|1|2|-1 $L=true|false"
    " : $O($T[3,7,5]:ties) {axis=$A, last=$L}",
    "$O=argmax|argmin $D=true|false $I=i32|i64 : $O(f32[4,9]) {axis=1, keepdims=$D, out=$I}",
    "$O=argmax|argmin $N=1|3|17|31|33|65|129|1000|70000 : $O(f32[2,$N]) {axis=1}",
    "$O=argmax|argmin $L=true|false " FLOATS " : $O($T[50,4]:extreme) {axis=1, last=$L}",
    "$O=argmax|argmin $A=0|1 : $O(f32[6,5]:strided) {axis=$A}",
    "$O=argmax|argmin : $O(f32[3,1]) {axis=-1}",
    "$O=argmax|argmin : $O(f32[0,4]) {axis=1}",
    "$O=argmax|argmin : $O(i64[4,6]:int(9007199254740990,9007199254740999)) {axis=1}",
    "$O=argmax|argmin $A=0|1 : $O(f32[seq<=9,5]:ties) {axis=$A}",
    "argmax(f32[4,0]) {axis=1} !> axis 1 must have at least 1 element, got 0",
    "argmax(f32[]) !> rank 1 to 8",
    "argmax(f32[4]) {out=f32} !> result type expected",
    "argmax(bool[4]) !> got bool[4]",
    "argmin(f32[4]) {axis=1} !> axis expected from -1 to 0, got 1",

    /* cumsum, cumprod, cummax */
    "$O=cumsum|cumprod|cummax $T=f32|f16|bf16|i8|u8|i32|i64 $A=0|1|-1 $E=true|false $R=true|false"
    " : $O($T[3,5,4]) {axis=$A, exclusive=$E, reverse=$R}",
    "$O=cumsum|cumprod|cummax $N=1|3|17|31|33|65|129|1000"
    " : $O(f32[3,$N]:range(-1.2,1.2)) {axis=1}",
    "$O=cumsum|cummax $R=true|false : $O(f32[20000]) {reverse=$R}",
    "$O=cumsum|cummax : $O(f32[300,70]:strided) {axis=0}",
    "$O=cumsum|cumprod|cummax $T=f32|i32 : $O($T[6,5]:strided) {axis=1}",
    "$O=cumsum|cumprod|cummax $A=0|1 : $O(f32[0,3]) {axis=$A}",
    "$O=cumsum|cummax " FLOATS " : $O($T[30,4]:extreme) {axis=1}",
    "$O=cumsum|cumprod|cummax $T=i8|u8|i32|i64 : $O($T[6,9]:extreme) {axis=1}",
    "$O=cumsum|cumprod|cummax $A=0|1 $E=true|false"
    " : $O(f32[seq<=9,5]) {axis=$A, exclusive=$E}",
    "$O=cumsum|cumprod|cummax " FLOATS " $F=poison(0.05)|wide $A=0|1"
    " : $O($T[24,40]:$F) {axis=$A}",
    "$O=cumprod|cummax " FLOATS " $A=0|1 : $O($T[24,40]:zeros) {axis=$A}",
    "$O=cumsum|cumprod $A=0|1 : $O(f32[9,12]:rows) {axis=$A}",
    "$R=true|false : cumprod(f32[400,2]:range(0.2,3)) {axis=0, reverse=$R}",
    "cumsum(f32[]) !> rank 1 to 8",
    "cumsum(bool[3]) !> got bool[3]",
    "cumprod(f32[3,4]) {axis=-3} !> axis expected from -2 to 1, got -3",
    NULL,
};
