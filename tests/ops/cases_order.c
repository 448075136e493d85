/* SPDX-License-Identifier: MIT */
/* Cases of order and places: top_k, sort, argsort, histogram, one_hot, range, nonzero. */
#include "ops/optest.h"

#define NUMBERS "$T=f32|f16|bf16|i8|u8|i32|i64"
#define FLOATS "$T=f32|f16|bf16"

const char *const rx_cases_order[] = {
    /* top_k */
    NUMBERS " $A=0|1|2|-1 $S=true|false $F=:ties|"
            " : top_k($T[4,6,5]$F) {k=3, axis=$A, smallest=$S}",
    "$N=1|3|17|31|33|65|129|1000 $K=1 : top_k(f32[3,$N]) {k=$K, axis=1}",
    "$N=3|17|31|33|65|129|1000 : top_k(f32[3,$N]:ties) {k=3, axis=1}",
    "$N=1|3|17|31|33|65|129|1000 $S=true|false : top_k(f32[3,$N]) {k=$N, axis=1, smallest=$S}",
    "$I=i32|i64 : top_k(f32[5,9]) {k=4, axis=1, out=$I}",
    "$K=1|8|64|100 $S=true|false : top_k(f32[2,50000]) {k=$K, axis=-1, smallest=$S}",
    "$N=256|300|1021|4096|4100 $K=7|64 $F=:ties|:extreme| $S=true|false"
    " : top_k(f32[3,$N]$F) {k=$K, axis=1, smallest=$S}",
    "$T=f16|i32|u8 $N=1024|4099 $F=:ties| : top_k($T[3,$N]$F) {k=40, axis=1, out=i32}",
    "$K=200|256 $S=true|false : top_k(f32[2,4096]:ties) {k=$K, axis=1, smallest=$S}",
    "$K=1|40 : top_k(f32[600,8]) {k=$K}",
    FLOATS " $S=true|false : top_k($T[30,9]:extreme) {k=5, axis=1, smallest=$S}",
    "$T=i8|u8|i32|i64 $S=true|false : top_k($T[9,9]:extreme) {k=5, axis=1, smallest=$S}",
    "top_k(i64[4,6]:int(9007199254740990,9007199254740999)) {k=6, axis=1}",
    "$A=0|1 : top_k(f32[7,6]:strided) {k=2, axis=$A}",
    "top_k(f32[0,6]) {k=2, axis=1}",
    "top_k(f32[batch<=4,6]) {k=2, axis=1}",
    "$T=f32|i32 $S=true|false : top_k($T[3,seq<=9]) {k=4, axis=1, smallest=$S}",
    "top_k(f32[3,4]) {axis=1} !> k must be from 1 to 4, the size of axis 1 of x, got 0",
    "top_k(f32[3,4]) {k=5, axis=1} !> k must be from 1 to 4, the size of axis 1 of x, got 5",
    "top_k(f32[3,seq<=4]) {k=5, axis=1} !> k must be from 1 to 4",
    "top_k(f32[3,4]) {k=-1} !> got -1",
    "top_k(f32[3,4]) {k=1, axis=2} !> axis expected from -2 to 1, got 2",
    "top_k(f32[3,4]) {k=1, out=f32} !> result type expected",
    "top_k(f32[]) {k=1} !> rank 1 to 8",
    "top_k(bool[4]) {k=1} !> got bool[4]",

    /* sort, argsort */
    "$O=sort|argsort " NUMBERS " $A=0|1|-1 $D=true|false $F=:ties|"
    " : $O($T[4,6,5]$F) {axis=$A, descending=$D}",
    "$O=sort|argsort $N=1|3|17|31|33|65|129|1000|4096|10000 : $O(f32[2,$N]) {axis=1}",
    "$O=sort|argsort " FLOATS " $D=true|false : $O($T[20,9]:extreme) {axis=1, descending=$D}",
    "$O=sort|argsort $T=i8|u8|i32|i64 : $O($T[5,9]:extreme) {axis=1}",
    "$O=sort|argsort $A=0|1 : $O(f32[7,6]:strided) {axis=$A}",
    "$O=sort|argsort $A=0|1 : $O(f32[0,3]) {axis=$A}",
    "$O=sort|argsort $A=0|1 $D=true|false : $O(f32[seq<=9,4]:ties) {axis=$A, descending=$D}",
    "$O=sort|argsort : $O(i64[4,6]:int(9007199254740990,9007199254740999)) {axis=1}",
    "$I=i32|i64 : argsort(f32[3,7]) {axis=1, out=$I}",
    "argsort(f32[100,300]:ties) {axis=0}",
    "sort(f32[3]) {out=i32} !> sort gives the type of x",
    "argsort(f32[3]) {out=i8} !> result type expected",
    "sort(f32[]) !> rank 1 to 8",
    "sort(bool[3]) !> got bool[3]",
    "argsort(f32[3]) {axis=1} !> axis expected from -1 to 0, got 1",

    /* histogram */
    NUMBERS " $B=1|3|10|17 : histogram($T[6,35]) {bins=$B, lo=-3, hi=3}",
    "$B=1|7|64|256|1000 : histogram(f32[5000]) {bins=$B, lo=-2.5, hi=1.5}",
    "$B=10|30 : histogram(f32[2000]:range(0,1)) {bins=$B, lo=0.1, hi=0.7}",
    "$T=f32|i32 : histogram($T[20,20]:ties) {bins=3, lo=-1, hi=2}",
    FLOATS " : histogram($T[200]:extreme) {bins=5, lo=-1, hi=1}",
    "histogram(f32[12,9]:strided) {bins=4, lo=-1, hi=1}",
    "histogram(f32[]) {bins=4, lo=-1, hi=1}",
    "histogram(f32[0,3]) {bins=4, lo=-1, hi=1}",
    "histogram(f32[seq<=40]) {bins=4, lo=-1, hi=1}",
    "histogram(f32[100000]) {bins=100, lo=-3, hi=3}",
    "histogram(f32[4]) {bins=0, lo=0, hi=1} !> bins must be from 1",
    "histogram(f32[4]) {bins=4} !> lo < hi",
    "histogram(f32[4]) {bins=4, lo=1, hi=-1} !> got lo = 1 and hi = -1",
    "histogram(bool[4]) {bins=4, hi=1} !> got bool[4]",

    /* one_hot */
    "$T=i8|u8|i32|i64 $O=f32|f16|bf16|i8|u8|i32|i64|bool"
    " : one_hot($T[3,4]) {depth=5, axis=-1, out=$O}",
    "$A=0|1|2|-1|-2|-3 : one_hot(i32[3,4]:int(-6,8)) {depth=5, axis=$A}",
    "$D=1|2|33|129 : one_hot(i64[7]:int(-3,40)) {depth=$D, axis=-1, on=2.5, off=-0.5}",
    "$O=i32|f16 : one_hot(i32[5]) {depth=4, axis=0, on=0, off=7, out=$O}",
    "one_hot(i32[]) {depth=6}",
    "one_hot(i32[0,2]) {depth=3, axis=1}",
    "one_hot(i32[4,3]:strided) {depth=6, axis=1}",
    "$A=0|-1 : one_hot(i32[seq<=9,2]) {depth=4, axis=$A}",
    "one_hot(i32[1000]:int(0,1000)) {depth=1000, axis=-1}",
    "one_hot(i64[4]:int(-9007199254740999,9007199254740999)) {depth=3, axis=-1}",
    "one_hot(f32[3]) {depth=4} !> operand 0 (index) expected of type i8, u8, i32, i64, i16",
    "one_hot(i32[3]) !> depth must be at least 1, got 0",
    "one_hot(i32[3]) {depth=4, axis=2} !> axis expected from -2 to 1, got 2",
    "one_hot(i32[1,1,1,1,1,1,1,1]) {depth=4} !> rank 0 to 7",

    /* range */
    NUMBERS " $N=0|1|3|17|129 : range() {start=3, step=-2, n=$N, out=$T}",
    FLOATS " : range() {start=0.5, step=0.25, n=33, out=$T}",
    "range() {n=1000}",
    "$T=i32|i64|f32 : range() {start=7, n=70000, out=$T}",
    "range() {start=9007199254740000, step=-3, n=50, out=i64}",
    "range() {start=0.5, n=3, out=i32} !> must be integers for type i32, got 0.5 and 1",
    "range() {step=1.5, n=3, out=i64} !> must be integers for type i64",
    "range() {n=-1} !> n must be at least 0 or a named dimension",
    "range() {n=3, out=bool} !> result type expected",

    /* nonzero */
    "$T=f32|f16|bf16|i8|u8|i32|i64|bool : nonzero($T[3,4,5]:ties)",
    "$P=0|0.1|0.9|1 : nonzero(bool[5,13]:bool($P))",
    "$N=1|3|17|31|33|65|129|1000 : nonzero(i32[$N]:int(-1,2))",
    "nonzero(f32[40]:extreme)",
    "$F=:fill(2)|:zero : nonzero(f32[]$F)",
    "nonzero(f32[0,3])",
    "nonzero(i32[5,6]:int(-1,2):strided)",
    "nonzero(i32[seq<=9,3]:int(-1,2))",
    "nonzero(i32[2,1,2,1,2,1,2,1]:int(-1,2))",
    "nonzero(bool[300,300]:bool(0.3))",
    NULL,
};
