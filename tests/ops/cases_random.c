/* SPDX-License-Identifier: MIT */
/* Cases of random numbers and of sampling: random_uniform, random_normal, sample. */
#include "ops/optest.h"

#define FLOATS "$T=f32|f16|bf16"

const char *const rx_cases_random[] = {
    /* random_uniform, random_normal */
    "$O=random_uniform|random_normal " FLOATS " $S=[]|[1]|[3]|[17]|[4,33]|[0,4]|[2,3,5]"
    " : $O() {shape=$S, out=$T}",
    "$O=random_uniform|random_normal $E=0|1|-1|42|1234567890123456789"
    " : $O() {shape=[65], seed=$E}",
    "$O=random_uniform|random_normal $I=i64|i32 : $O($I[]:int(-1000000,1000000)) {shape=[129]}",
    "$O=random_uniform|random_normal : $O(i64[]:fill(5000000000)) {shape=[9], seed=3}",
    /* seeds that are no constants are not folded */
    "$O=random_uniform|random_normal " FLOATS " $N=1|255|257|20003"
    " : $O(i64[]:fill(-77)) {shape=[$N], lo=1, hi=3, out=$T}",
    "$O=random_uniform|random_normal : $O(i64[]:fill(12345678901)) {shape=[300,1001]}",
    "random_uniform() {shape=[200], lo=-3, hi=5.5}",
    "random_uniform() {shape=[200], lo=1, hi=1.0000005}",
    FLOATS " : random_uniform() {shape=[5000], lo=0.25, hi=0.75, out=$T}",
    "random_uniform() {shape=[100], lo=-1}",
    "random_normal() {shape=[200], lo=4, hi=0.5}",
    "$O=random_uniform|random_normal : $O() {shape=[100000], seed=7}",
    "$O=random_uniform|random_normal : $O() {shape=[2,2,2,2,2,2,2,2]}",
    "random_uniform() {shape=[3], lo=2, hi=1} !> lo < hi, got 2 and 1",
    "random_uniform() {shape=[3], hi=1e39} !> f32 numbers",
    "random_normal() {shape=[3], hi=-1} !> hi (deviation) above 0",
    "$O=random_uniform|random_normal : $O() {shape=[3,-1]} !> dimension 1 must be at least 0",
    "$O=random_uniform|random_normal : $O() {shape=[1,1,1,1,1,1,1,1,1]} !> at most 8 dimensions",
    "$O=random_uniform|random_normal : $O(f32[]) {shape=[3]} !> operand 0 (seed)",
    "$O=random_uniform|random_normal : $O(i64[2]) {shape=[3]} !> rank 0",
    "$O=random_uniform|random_normal : $O() {shape=[3], out=i32} !> result type expected",

    /* sample */
    FLOATS " : sample($T[5,33])",
    FLOATS " $C=top_k=5|top_p=0.7|min_p=0.1|top_k=20, top_p=0.9, min_p=0.02"
           " : sample($T[40,33]:normal(0,2)) {temperature=0.8, $C, seed=11}",
    "$E=0.01|0.5|1|3|100|1e30 : sample(f32[60,17]) {temperature=$E, seed=5}",
    "$V=1|3|17|31|33|65|129|1000 : sample(f32[9,$V]) {temperature=1, seed=3}",
    "$K=1|2|32|33|100 : sample(f32[20,33]) {temperature=1.5, top_k=$K}",
    "$P=0.0001|0.5|0.999|1 : sample(f32[20,33]) {temperature=1, top_p=$P}",
    "$P=0.0001|0.5|1 : sample(f32[20,33]) {temperature=1, min_p=$P}",
    "$E=0|1 : sample(f32[30,9]:ties) {temperature=$E, seed=2}",
    "$E=0|1 : sample(f32[30,9]:extreme) {temperature=$E, seed=2}",
    "$V=nan|-inf $T=f32|f16 $K=0|3 : sample($T[6,33]:fill($V)) {temperature=1, top_k=$K, seed=2}",
    "$I=i64|i32 : sample(f32[12,20], $I[]:int(0,1000)) {temperature=1}",
    "sample(f32[12,20], i64[], f32[4]:range(0.3,0.9)) {temperature=5}",
    "sample(f32[12,20], _, f32[4]:zero) {temperature=5}",
    "sample(f32[12,20], _, f32[4]:fill(3))",
    "sample(f32[12,20], _, f32[4]:extreme)",
    /* rows with seeds and parameters of their own */
    "$I=i64|i32 : sample(f32[12,20], $I[12]:int(-1000,1000)) {temperature=1}",
    "$I=_|i64[]|i64[12] : sample(f32[12,20], $I, f32[12,4]:range(0.3,0.9))",
    "$I=_|i64[12] : sample(f32[12,20], $I, f32[12,4]:range(-1,9)) {temperature=1}",
    "sample(f32[12,20], i64[12], f32[12,4]:extreme)",
    "sample(f32[12,20]:strided, i32[12]:strided, f32[12,4]:strided:range(0.3,2))",
    "$V=9|9000 : sample(f32[batch<=5,$V], i64[batch], f32[batch,4]:range(0.3,0.9))",
    "$T=f32|f16 $F=range(0.3,0.9)|range(0,60)|zero : sample($T[7,9000], i64[7], f32[7,4]:$F)",
    "$I=i64[12]|i32[12] : sample(f32[12,20000]:normal(0,3), $I, f32[4]:range(0.3,0.9))",
    "$S=i64[11]|i64[12,1]|f32[12] : sample(f32[12,20], $S) !> seed",
    "$P=f32[11,4]|f32[12,3]|f32[12]|f32[1,12,4] : sample(f32[12,20], _, $P) !> params",
    "sample(f32[2,6,20], i64[12]) !> seed",
    "sample(f32[2,6,20], _, f32[12,4]) !> params",
    "sample(f32[2,3,4,9]) {temperature=1}",
    "sample(f32[50]) {temperature=1}",
    "sample(f32[40,9]:strided) {temperature=1}",
    "sample(f32[0,9]) {temperature=1}",
    "sample(f32[batch<=5,9]) {temperature=1}",
    "sample(f32[4,32000]:normal(0,3)) {temperature=0.7, top_k=40, top_p=0.95}",
    "sample(f32[4,32000]:normal(0,3)) {temperature=1, seed=9}",
    "$K=300|511|512|513|2000 : sample(f32[3,5000]:normal(0,3)) {temperature=1.2, top_k=$K, seed=4}",
    "$K=2|40 : sample(f32[5,1500]:ties) {temperature=1, top_k=$K, top_p=0.9, seed=6}",
    /* rows that several workgroups share */
    "$C=temperature=0|temperature=0.8, top_k=40, top_p=0.95|temperature=0.8"
    "|temperature=0.8, top_p=0.9|temperature=1.5, min_p=0.01|temperature=2, top_p=0.7, min_p=0.001"
    "|temperature=1, top_k=300, top_p=0.8, min_p=0.02 $V=8192|8195|40000|128256"
    " : sample(f32[1,$V]:normal(0,3)) {$C, seed=21}",
    FLOATS " $K=0|1|7|100 : sample($T[3,20001]:normal(2,2)) {temperature=0.9, top_k=$K, seed=5}",
    FLOATS " $S=1|2|3|4 : sample($T[2,9001]) {temperature=0.5, top_p=0.95, seed=$S}",
    "$F=ties|extreme|fill(-2)|zero|distinct $C=temperature=0|temperature=1|temperature=1, top_k=20"
    "|temperature=3, top_p=0.5|temperature=1, top_k=50, top_p=0.9, min_p=0.1|temperature=1e30"
    " : sample(f32[2,8200]:$F) {$C, seed=8}",
    /* Not 0.6: with equal weights rounding would say whether token 18000 is the last. */
    "$E=1e-9|0.02|5|100|1e9 $P=|, top_p=0.60001 : "
    "sample(f32[1,30000]:normal(0,2)) {temperature=$E$P}",
    "$M=1e-9|0.3|1 $P=|, top_p=0.99 : sample(f32[2,8192]) {temperature=1, min_p=$M$P, seed=31}",
    "$K=79|80|81|255|256|257|8191|8192|9000 : sample(f32[1,8192]) {temperature=2, top_k=$K}",
    "$E=0|0.5|1|40 : sample(f32[2,9000], i64[], f32[4]:fill($E)) {temperature=5}",
    "sample(f32[2,9000], i32[], f32[4]:range(0.3,0.9))",
    "sample(f32[2,3,8200]:range(-1,1)) {temperature=0.8, seed=77}",
    "sample(f32[batch<=5,8200]:range(-1,1)) {temperature=0.8, top_p=0.9}",
    "$K=0|40 : sample(f32[2,8200]:strided) {temperature=1, top_k=$K}",
    "$K=0|40 : sample(f32[2,8300]:range(1000,1001)) {temperature=0.01, top_k=$K, top_p=0.9}",
    "$K=600|3000|100000 : sample(f32[1,128256]:normal(0,3)) {temperature=1, top_k=$K, top_p=0.9}",
    "$C=temperature=1|temperature=1, top_k=50|temperature=1, top_p=0.5"
    " : sample(f32[1,128256]:ties) {$C, seed=3}",
    "sample(f32[]) !> rank 1 to 8",
    "sample(i32[4]) !> operand 0 (logits)",
    "sample(f32[3,0]) !> must have 1 to 2147483647 elements, got 0",
    "sample(f32[4], f32[]) !> operand 1 (seed)",
    "sample(f32[4], i64[1]) !> rank 0",
    "sample(f32[4], _, f32[3]) !> operand 2 (params) expected f32[4], got f32[3]",
    "sample(f32[4], _, f16[4]) !> operand 2 (params)",
    "sample(f32[4]) {temperature=-1} !> temperature must be at least 0, got -1",
    "sample(f32[4]) {top_k=-1} !> top_k must be at least 0, got -1",
    "sample(f32[4]) {top_p=1.5} !> top_p must be from 0 to 1, got 1.5",
    "sample(f32[4]) {min_p=-0.5} !> min_p must be from 0 to 1, got -0.5",
    NULL,
};
