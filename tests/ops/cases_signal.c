/* SPDX-License-Identifier: MIT */
/* Cases of spectra and selections: fft, ifft, rfft, irfft, stft, log_mel, welch_peaks, knn,
 * group_limited_gate. */
#include "ops/optest.h"

#define FLOATS "$T=f32|f16|bf16"
#define NORMS "$M=backward|forward|ortho"
/* Powers of two, small primes, products of them, primes above the largest direct radix. */
#define LENGTHS \
    "$N=1|2|3|4|5|6|7|8|9|12|13|16|17|30|31|32|33|61|64|65|67|100|127|128|129|134|210|256"

const char *const rx_cases_signal[] = {
    /* fft, ifft */
    "$O=fft|ifft " LENGTHS " : $O(f32[3,$N,2]) {axis=-1}",
    "$O=fft|ifft " FLOATS " $N=8|15|67 " NORMS " : $O($T[2,$N,2]) {axis=1, norm=$M}",
    "$O=fft|ifft $A=0|1|2|-1|-2|-3 : $O(f32[4,6,5,2]) {axis=$A}",
    "$O=fft|ifft $A=0|1 $L=1|3|8|11|67 : $O(f32[6,5,2]) {axis=$A, n=$L, norm=ortho}",
    "$O=fft|ifft $A=0|1 : $O(f32[6,9,2]:strided) {axis=$A}",
    "$O=fft|ifft $N=1000|1021|1024|2187|4096|4489|5003 : $O(f32[2,$N,2]) {axis=-1}",
    "fft(f32[65536,2])",
    "$O=fft|ifft $N=64|128|256|512|1024|2048|4096|8192 $L=5|19 : $O(f32[$L,$N,2]) "
    "{axis=-1, norm=ortho}",
    "$O=fft|ifft $N=17|31|101|143|997|1994 $L=5|16|19|33 : $O(f32[$L,$N,2]) {axis=-1}",
    "$N=17|31|101|143|997|1994 $L=5|16|33|50 : rfft(f32[$L,$N]) {axis=-1}",
    "$N=9|52|500 $L=5|16|33|50 : irfft(f32[$L,$N,2]) {axis=-1}",
    "$O=fft|ifft : $O(f32[3,10007,2]) {axis=-1}",
    "$O=fft|ifft : $O(f32[0,6,2]) {axis=1}",
    "$O=fft|ifft : $O(f32[0,6,2]) {n=4}",
    "$O=fft|ifft : $O(f32[batch<=3,12,2]) {axis=1}",
    "$O=fft|ifft : $O(f32[2,seq<=20,2]) {axis=1}",
    "$O=fft|ifft : $O(f32[2,seq<=20,2]) {axis=1, n=16}",
    "$O=fft|ifft|irfft : $O(f32[4,6]) !> expected with size 2 on axis 1, got f32[4,6]",
    "$O=fft|ifft|irfft : $O(f32[2]) !> rank 2 to 8, got f32[2]",
    "$O=fft|ifft|rfft|irfft : $O(i32[4,2]) !> expected of type f32, f16, bf16 or f64, got i32[4,2]",
    "$O=fft|ifft|irfft : $O(f32[4,6,2]) {axis=2} !> axis expected from -2 to 1, got 2",
    "$O=fft|ifft|rfft|irfft : $O(f32[4,6,2]) {n=-4} !> n must be at least 1",
    "$O=fft|ifft : $O(f32[0,2]) !> at least 1 point, got 0",

    /* rfft, irfft */
    LENGTHS " : rfft(f32[3,$N]) {axis=-1}",
    "$N=2|3|4|5|6|7|8|9|10|16|17|31|32|33|34|64|65|68|100 : irfft(f32[3,$N,2]) {axis=-1}",
    "$L=1|2|3|4|5|7|8|15|16|17|31|61|64|67|128|134 : irfft(f32[3,17,2]) {axis=-1, n=$L}",
    FLOATS " $N=8|15|67 " NORMS " : rfft($T[2,$N]) {axis=1, norm=$M}",
    FLOATS " $L=8|15|67 " NORMS " : irfft($T[2,9,2]) {axis=1, n=$L, norm=$M}",
    "$A=0|1|2|-1|-2|-3 : rfft(f32[4,6,5]) {axis=$A}",
    "$A=0|1|2|-1|-2|-3 : irfft(f32[4,6,5,2]) {axis=$A}",
    "$A=0|1 $L=1|3|8|11|67 : rfft(f32[6,5]) {axis=$A, n=$L}",
    "$A=0|1 : rfft(f32[6,9]:strided) {axis=$A}",
    "$A=0|1 : irfft(f32[6,9,2]:strided) {axis=$A}",
    "$N=1000|1021|1024|4096|4489|5003 : rfft(f32[2,$N]) {axis=-1}",
    "$N=128|256|512|1024|2048|4096|8192|16384 $L=5|19 : rfft(f32[$L,$N]) {axis=-1, norm=forward}",
    "$N=65|129|257|501|511|513|1025|2049|4097|8193 : irfft(f32[5,$N,2]) {axis=-1}",
    "rfft(f32[0,6]) {axis=1}",
    "irfft(f32[0,6,2]) {axis=1}",
    "rfft(f32[batch<=3,12]) {axis=1}",
    "rfft(f32[2,seq<=20]) {axis=1}",
    "irfft(f32[2,seq<=20,2]) {axis=1, n=16}",
    "rfft(f32[]) !> rank 1 to 7",
    "rfft(f32[0]) !> at least 1 point, got 0",
    "rfft(f32[1,1,1,1,1,1,1,4]) !> rank 1 to 7",
    "irfft(f32[1,2]) !> n must be given when axis 0 has fewer than 2 bins, got 1",

    /* lines are independent: of other magnitudes, NaN or infinite */
    "$O=fft|ifft|irfft $N=8|15|16|67|134 $L=2|7|16|35 $F=poison_rows(0.01)|poison(0.003) :"
    " $O(f32[$L,$N,2]:$F) {axis=1}",
    "$N=8|15|16|67|134 $L=2|7|16|35 $F=rows|poison_rows(0.3)|poison(0.01) :"
    " rfft(f32[$L,$N]:$F) {axis=1}",
    "$O=fft|ifft|irfft $A=0|1|2 : $O(f32[4,6,5,2]:poison(0.01)) {axis=$A}",
    "$A=0|1|2 : rfft(f32[4,6,5]:poison(0.02)) {axis=$A}",
    "$O=fft|irfft $F=tiny|huge : $O(f32[5,24,2]:$F) {axis=1}",
    "$F=tiny|huge : rfft(f32[5,24]:$F) {axis=1}",
    FLOATS " $F=poison(0.02)|rows : rfft($T[5,24]:$F) {axis=1}",
    "$F=poison(0.01)|rows $W=_|f32[16] $S=true|false :"
    " stft(f32[5,70]:$F, $W) {n=16, hop=5, two_sided=$S}",
    "stft(f32[5,70]:rows, f32[16]:poison(0.1)) {n=16, hop=16}",

    /* stft */
    FLOATS " $W=_|$T[16] $S=true|false : stft($T[2,70], $W) {n=16, hop=5, two_sided=$S}",
    "$N=1|2|3|16|25|67|70 $H=1|3|16|100 : stft(f32[70]) {n=$N, hop=$H}",
    "$N=3|16|64 : stft(f32[3,64], f32[$N]:range(0,1)) {n=$N}",
    "stft(f32[2,3,2,2,2,40], f32[8]) {n=8, hop=4}",
    "stft(f32[50,3]:strided, f32[2]) {n=2, hop=1}",
    "stft(f32[16000], f32[400]:range(0,1)) {n=400, hop=160}",
    "stft(f32[0,40]) {n=8, hop=4}",
    "stft(f32[batch<=3,40], f32[8]) {n=8, hop=4}",
    "stft(f32[4]) {n=5} !> n must be from 1 to 4, the samples of x, got 5",
    "stft(f32[4]) !> n must be from 1 to 4, the samples of x, got 0",
    "stft(f32[9]) {n=4, hop=-1} !> hop must be at least 1",
    "stft(f32[9], f32[5]) {n=4} !> operand 1 (window) expected f32[4], got f32[5]",
    "stft(f32[9], f16[4]) {n=4} !> of the same type",
    "stft(f32[]) {n=4} !> rank 1 to 6",
    "stft(i32[9]) {n=4} !> expected of type f32, f16, bf16 or f64",

    /* log_mel */
    FLOATS " $P=true|false : log_mel($T[6,9,2], $T[4,9]:range(0,0.3)) {peak_per_frame=$P}",
    "$P=true|false : log_mel(f32[2,3,5,17,2], f32[8,17]:range(0,1)) {peak_per_frame=$P}",
    "$P=true|false : log_mel(f32[7,5,2]:normal(0,100), f32[3,5]:bool(0.2)) {peak_per_frame=$P}",
    "log_mel(f32[4,5,2]:zero, f32[3,5])",
    "log_mel(f32[4,5,2], f32[3,5])",
    "log_mel(f32[4,5,2]:strided, f32[3,5]:range(0,1):strided)",
    "log_mel(f32[98,201,2]:normal(0,5), f32[80,201]:range(0,0.02))",
    "$P=true|false : log_mel(f32[2,0,5,2], f32[3,5]) {peak_per_frame=$P}",
    "log_mel(f32[2,4,5,2], f32[0,5])",
    "$P=true|false : log_mel(f32[2,frames<=9,5,2], f32[3,5]:range(0,1)) {peak_per_frame=$P}",
    "$F=huge|tiny|wide|poison(0.02) $P=true|false :"
    " log_mel(f32[2,6,9,2]:$F, f32[4,9]:range(0.1,0.3)) {peak_per_frame=$P}",
    "log_mel(f32[4,5], f32[3,5]) !> rank 3 to 8",
    "log_mel(f32[4,5,3], f32[3,5]) !> expected with size 2 on axis 2, got f32[4,5,3]",
    "log_mel(f32[4,5,2], f32[3,6]) !> operand 1 (filters) expected with size 5 on axis 1",
    "log_mel(f32[4,5,2], f32[5]) !> rank 2",
    "log_mel(f32[4,5,2], f16[3,5]) !> of the same type",
    "log_mel(i32[4,5,2], f32[3,5]) !> operand 0 (spectrum)",

    /* welch_peaks */
    FLOATS " $K=1|3|9 : welch_peaks($T[4,9,2]:distinct) {k=$K}",
    "$B=1|2|3|17|65 : welch_peaks(f32[2,5,$B,2]) {k=1}",
    "welch_peaks(f32[2,3,4,12,2]) {k=5}",
    "welch_peaks(f32[3,12,2]:fill(1)) {k=12}",
    "welch_peaks(f32[3,12,2]:strided) {k=4}",
    "welch_peaks(f32[10,513,2]) {k=8}",
    "$F=wide|poison(0.02) : welch_peaks(f32[5,4,9,2]:$F) {k=3}",
    "welch_peaks(f32[0,4,6,2]) {k=2}",
    "welch_peaks(f32[batch<=3,4,6,2]) {k=2}",
    "welch_peaks(f32[4,6]) {k=2} !> rank 3 to 8",
    "welch_peaks(f32[4,6,3]) {k=2} !> expected with size 2 on axis 2",
    "welch_peaks(f32[4,6,2]) !> k must be from 1 to 6, the number of bins, got 0",
    "welch_peaks(f32[4,6,2]) {k=7} !> k must be from 1 to 6, the number of bins, got 7",
    "welch_peaks(f32[4,bins<=6,2]) {k=2} !> must have a fixed size",
    "welch_peaks(i32[4,6,2]) {k=2} !> operand 0 (spectra)",

    /* knn */
    FLOATS " $F=:ties|:range(0,9)|:extreme : knn($T[9,9]$F) {k=4}",
    "$N=2|3|17|31|33|65|129 : knn(f32[$N,$N]:ties) {k=1}",
    "$N=3|17|33 : knn(f32[$N,$N]:range(0,4)) {k=2}",
    "knn(f32[12,12]:range(0,4)) {k=11}",
    "knn(f32[12,12]:range(0,4):strided) {k=5}",
    "knn(f32[300,300]:range(0,4)) {k=10}",
    "knn(f32[n<=9,n]:range(0,4)) {k=4}",
    "knn(f32[4,5]) {k=2} !> expected with size 4 on axis 1, got f32[4,5]",
    "knn(f32[4]) {k=2} !> rank 2",
    "knn(f32[4,4]) {k=4} !> k must be from 1 to 3, the number of other points, got 4",
    "knn(f32[4,4]) !> k must be from 1 to 3, the number of other points, got 0",
    "knn(i32[4,4]) {k=1} !> operand 0 (distances)",

    /* group_limited_gate */
    FLOATS " $K=1|2|6 : group_limited_gate($T[5,16]:range(0,1)) {groups=4, keep_groups=2, k=$K}",
    "$G=1|2|4|8|16 : group_limited_gate(f32[7,16]:range(0,1)) {groups=$G, k=4}",
    "$H=1|2|7|8 : group_limited_gate(f32[7,16]:ties) {groups=8, keep_groups=$H, k=2, scale=2.5}",
    "group_limited_gate(f32[7,9]:range(0,1)) {groups=9, keep_groups=3, k=3}",
    "group_limited_gate(f32[6,8]:strided) {groups=2, keep_groups=1, k=4}",
    "group_limited_gate(f32[64,256]:range(0,1)) {groups=8, keep_groups=4, k=8, scale=2.5}",
    "group_limited_gate(f32[3,12]:range(0,1)) {k=1, scale=3}",
    "group_limited_gate(f32[0,8]) {groups=2, k=2}",
    "group_limited_gate(f32[rows<=6,8]:range(0,1)) {groups=4, keep_groups=2, k=3}",
    "group_limited_gate(f32[3,8]) {groups=3, k=1} !> groups must divide the 8 experts, got 3",
    "group_limited_gate(f32[3,8]) {groups=-1, k=1} !> got -1",
    "group_limited_gate(f32[3,8]) {groups=4, keep_groups=5, k=1} !> from 1 to the 4 groups, got 5",
    "group_limited_gate(f32[3,8]) {groups=4, keep_groups=2, k=5} !> k must be from 1 to 4",
    "group_limited_gate(f32[3,8]) !> k must be from 1 to 8",
    "group_limited_gate(f32[3,e<=8]) {k=1} !> axis 1 (experts) must have a fixed size",
    "group_limited_gate(f32[8]) {k=1} !> rank 2",
    "group_limited_gate(i32[3,8]) {k=1} !> operand 0 (scores)",
    NULL,
};
