/* SPDX-License-Identifier: MIT */
/* Cases of the elementwise operations: each function on each type, sizes that are no multiple of a
 * vector, broadcasts on every axis, strides, extreme values, errors. CASES.md has the language. */
#include "ops/names.h"
#include "ops/optest.h"

#define FLOATS "f32|f16|bf16"
#define INTS "i8|u8|i32|i64"
#define NUMBERS FLOATS "|" INTS
#define PLAIN NUMBERS "|bool"

const char *const rx_cases_elementwise[] = {
    /* ---- one operand: every function, every type ---- */
    "$F=" ANYWHERE " $T=" FLOATS " : $F($T[7,33]:normal(0,3))",
    "$F=" ANYWHERE " $T=" FLOATS " : $F($T[129]:extreme)",
    "$F=" POSITIVE " $T=" FLOATS " : $F($T[5,31]:range(0.01,20))",
    "$F=" UNIT " $T=" FLOATS " : $F($T[3,65]:range(-1,1))",
    "$T=" FLOATS " : acosh($T[3,65]:range(1,50))",
    "$F=" POSITIVE "|" UNIT "|acosh $T=" FLOATS " : $F($T[129]:extreme)",
    "$F=relu|neg|abs|sign $T=" INTS " : $F($T[3,17]:int(-100,100))",
    "$F=relu|neg|abs|sign $T=" INTS " : $F($T[65]:extreme)",
    "$T=" INTS "|bool : not($T[3,17])",
    "$T=" INTS "|bool : not($T[65]:extreme)",

    /* values where naive formulas overflow or cancel */
    "$F=gelu|gelu_tanh|silu|sigmoid|tanh|softplus|log_sigmoid|mish|erf|elu|selu|celu $T=" FLOATS
    " $R=range(-120,120)|range(-12,12)|range(-0.001,0.001) : $F($T[257]:$R)",
    "$F=exp|exp2|sinh|cosh $R=range(-104,89)|range(-0.001,0.001) : $F(f32[257]:$R)",
    "$F=sin|cos|tan : $F(f32[257]:range(-1000,1000))",
    "$F=log|log2 : $F(f32[257]:range(0.9,1.1))",
    "$F=round|floor|ceil $T=" FLOATS " : $F($T[257]:range(-4,4))",
    "$F=round|floor|ceil $V=0.5|1.5|2.5|-0.5|-1.5|-2.5|0.49999997|8388607.5 : $F(f32[3]:fill($V))",
    "$F=asinh|acosh|atanh $R=range(1e-4,2e-4)|range(1e4,1e5)|range(0.999,1) : $F(f32[65]:$R)",

    /* signed zeros and subnormals, many magnitudes, tails that are small beside 1 */
    "$F=" ANYWHERE "|" POSITIVE "|" UNIT " $T=" FLOATS " $L=zeros|wide : $F($T[129]:$L)",
    "$F=gelu|gelu_tanh $T=" FLOATS " $R=range(-5,-1)|range(-13,-4) : $F($T[257]:$R)",
    /* small normal numbers, of which no part may be taken for 0 on the way to a normal result */
    "$F=gelu|gelu_tanh|silu|mish|hard_swish|tanh|erf|softsign $T=f32|bf16"
    " $R=range(-2e-37,-5e-38)|range(5e-38,2e-37) : $F($T[65]:$R)",
    "$F=soft_cap|celu $A=30|1e9 $T=f32|bf16 $R=range(-2e-37,-5e-38)|range(5e-38,2e-37)"
    " : $F($T[65]:$R) {alpha=$A}",
    "$F=sin|tan|asin|atan|sinh|asinh|atanh|elu|selu $T=f32|bf16"
    " $R=range(-2e-37,-5e-38)|range(5e-38,2e-37) : $F($T[65]:$R)",
    "$F=silu|sigmoid|mish|softplus $T=" FLOATS " $R=range(-20,-8)|range(-91,-80) : $F($T[257]:$R)",
    "$F=tanh|erf|atan|softsign|elu|selu|sin|asinh|sinh $R=tiny|huge : $F(f32[129]:$R)",
    "$F=" ARITHMETIC "|atan2|mod $T=" FLOATS " $L=zeros|wide : $F($T[129]:$L, $T[129]:$L)",

    /* sizes, ranks, strides, named dimensions */
    "$F=relu|gelu|exp|neg $D=1|3|17|31|33|65|129|4097 : $F(f32[$D])",
    "$F=silu|abs|tanh $D=0|2,0|0,3|1,1,1|2,3,4,5|1,2,1,2,1,2,1,2 $T=f32|f16 : $F($T[$D])",
    "$F=relu|sigmoid|neg|is_nan $T=" FLOATS " : $F($T[])",
    "$F=relu|gelu|sqrt $T=" FLOATS " $D=5,7|3,5,17|2,3,4,5 : $F($T[$D]:range(0,2):strided)",
    "$F=not|neg|abs $T=i32|i64|u8 $D=5,7|3,5,17 : $F($T[$D]:strided)",
    "$F=relu|erf|mish $T=" FLOATS " : $F($T[seq<=16,5])",
    "$F=silu|hard_swish : $F(f32[2,seq<=9,17]:strided)",
    "$F=relu|gelu|tanh $T=f32|f16 : $F($T[512,1024])",

    /* parameters */
    "$F=elu|celu|leaky_relu $A=0.5|2|-0.25 $T=" FLOATS " : $F($T[3,33]:normal(0,2)) {alpha=$A}",
    "$A=1.5|2 $B=0.5|1.25 $T=" FLOATS " : selu($T[3,33]) {alpha=$A, beta=$B}",
    "$A=0.16666667|0.5 $B=0.25|1 $T=" FLOATS
    " : hard_sigmoid($T[3,33]:normal(0,4)) {alpha=$A, beta=$B}",

    /* ---- two operands ---- */
    "$F=" ARITHMETIC " $T=" NUMBERS " : $F($T[5,33], $T[5,33])",
    "$F=" ARITHMETIC " $T=" NUMBERS " : $F($T[129]:extreme, $T[129]:extreme)",
    "$F=" ARITHMETIC "|pow|and|or|xor $T=" INTS " : $F($T[65]:int(0,120), $T[65]:int(0,120))",
    "$F=" COMPARE " $T=" PLAIN " : $F($T[5,33]:ties, $T[5,33]:ties)",
    "$F=" COMPARE " $T=" PLAIN " : $F($T[129]:extreme, $T[129]:extreme)",
    "$F=and|or|xor $T=" INTS "|bool : $F($T[5,33], $T[5,33])",
    "$F=and|or|xor $T=" INTS "|bool : $F($T[129]:extreme, $T[129]:extreme)",

    /* broadcasts on every axis, both ways, all ranks */
    "$F=add|sub|lt $A=5|1|3,1|1,7|3,7|2,1,7|2,3,1|1,1,1|1,3,7|2,3,7"
    " : $F(f32[$A], f32[])",
    "$F=sub|div|max $T=f32|f16|i32 $B=7|1|3,7|1,7|3,1|2,1,1|1,3,1|1,1,7|2,3,7|2,3,1|2,1,7|1,3,7"
    " : $F($T[2,3,7], $T[$B])",
    "$F=sub|gt $B=7|3,1|2,1,1|1,3,1 $T=f32|bf16|i64 : $F($T[$B], $T[2,3,7])",
    "$F=sub|mul|eq $A=2,1,5|1,3,1|4,1,1,5 $B=3,1|4,2,1,1|1,3,5 : $F(f32[$A], f32[$B]:ties)",
    "$F=sub|pow : $F(f32[2,1,2,1,2,1,2,1]:range(0.5,2), f32[1,3,1,2,1,2,1,2]:range(-2,2))",
    "$F=sub|max $T=f32|f16|i32 : $F($T[17,33]:strided, $T[1,33])",
    "$F=sub|le $T=f32|i8 : $F($T[17,33]:strided, $T[17,33]:strided)",
    "$F=sub|le $T=f32|i8 : $F($T[4,5,6], $T[5,6]:strided)",
    "$F=add|mul|ge $A=0|3,0|1,0 $B=1|3,1|1,1 : $F(f32[$A], f32[$B])",
    "$F=add|ge $B=1|1,1|1,5|0,5 : $F(f32[0,1], f32[$B])",
    "$F=add|sub $T=f32|f16|i32 : $F($T[seq<=16,5], $T[5])",
    "$F=add|ne : $F(f32[seq<=16,1], f32[1,5])",
    "$F=sub|mul : $F(f32[batch<=4,seq<=7,3], f32[seq<=7,1])",
    "$F=add|mul $T=f32|f16 : $F($T[512,1024], $T[1024])",
    "$F=add|div : $F(f32[1000001], f32[1])",
    "$F=add|mul $T=" FLOATS " : $F($T[3,17], $T[17]:const)",
    "$F=add|mul $T=" FLOATS " : $F($T[3,17]:param, $T[]:const)",

    /* division, remainder, power, shifts: where integers are special */
    "$T=" NUMBERS " $L=false|true : mod($T[5,33], $T[5,33]) {floored=$L}",
    "$T=" NUMBERS " $L=false|true : mod($T[129]:extreme, $T[129]:extreme) {floored=$L}",
    "$T=" FLOATS " $L=false|true : mod($T[65]:range(-50,50), $T[65]:range(-3,3)) {floored=$L}",
    "$T=i8|i32|i64 $L=false|true : mod($T[65]:int(-100,100), $T[65]:int(-7,8)) {floored=$L}",
    "$F=div|mod|pow $T=" INTS " : $F($T[33]:extreme, $T[33]:fill(0))",
    "$F=div|mod|pow $T=i8|i32|i64 : $F($T[33]:extreme, $T[33]:fill(-1))",
    "$T=" FLOATS " : pow($T[65]:range(0,4), $T[65]:range(-2,3))",
    "$T=" FLOATS " : pow($T[129]:extreme, $T[129]:extreme)",
    "$T=" FLOATS " : pow($T[65]:normal(0,2), $T[65]:int(-4,5))",
    "$T=" FLOATS " $E=2|3|-1|0.5|0|-3 : pow($T[65]:normal(0,2), $T[]:fill($E))",
    "$T=" INTS " : pow($T[65]:int(-3,4), $T[65]:int(0,6))",
    "$T=i8|i32|i64 : pow($T[65]:int(-2,3), $T[65]:int(-4,5))",
    "$F=shl|shr $T=" INTS " : $F($T[65]:extreme, $T[65]:int(0,9))",
    "$F=shl|shr $T=i8|i32|i64 : $F($T[65]:extreme, $T[65]:int(-3,70))",
    "$F=shl|shr $T=i32|i64 : $F($T[65]:int(-100000,100000), $T[65]:int(0,40))",
    "$F=shl|shr : $F(u8[65]:int(0,256), u8[65]:int(0,12))",
    "$T=" FLOATS " : atan2($T[5,33], $T[5,33])",
    "$T=" FLOATS " : atan2($T[257]:extreme, $T[257]:extreme)",

    /* ---- where, clamp, fma, cast ---- */
    "$T=" PLAIN " : where(bool[5,33], $T[5,33], $T[5,33])",
    "$T=" PLAIN " : where(bool[129], $T[129]:extreme, $T[129]:extreme)",
    "$T=f32|f16|i64 $C=3,7|7|1|3,1|2,1,1|2,3,7 $A=2,3,7|7|2,1,1 : where(bool[$C], $T[$A], $T[1,7])",
    "$T=f32|i32 : where(bool[], $T[3,5], $T[])",
    "$T=f32|u8 : where(bool[5,7]:strided, $T[5,7]:strided, $T[7])",
    "where(bool[seq<=9,1], f32[seq<=9,5], f32[5])",
    "where(bool[0,3], f32[1,3], f32[])",
    "where(bool[1,1024], f32[512,1], f32[512,1024])",

    "$T=" FLOATS " $B=lo=-1, hi=1|hi=6|lo=-0.1|lo=0.25, hi=0.3 : clamp($T[5,33]:normal(0,2)) {$B}",
    "$T=" FLOATS " $B=lo=-inf, hi=1|lo=-1, hi=inf|lo=-inf, hi=inf|lo=2, hi=1"
    " : clamp($T[129]:extreme) {$B}",
    "$T=" INTS " $B=lo=-3, hi=2|lo=2, hi=100|lo=-inf, hi=3|lo=3, hi=inf|lo=-1000, hi=1000"
    " : clamp($T[65]:extreme) {$B}",
    "clamp(f32[seq<=9,5]:strided) {lo=-0.5, hi=0.5}",
    "clamp(f32[]) {lo=1, hi=2}",

    "$T=" FLOATS " : fma($T[5,33], $T[5,33], $T[5,33])",
    "$T=" FLOATS " : fma($T[257]:extreme, $T[257]:extreme, $T[257]:extreme)",
    "$T=" FLOATS " : fma($T[2,3,1]:strided, $T[5], $T[3,1])",
    "$T=" FLOATS " : fma($T[], $T[0,3], $T[1,3])",
    "$T=" FLOATS " : fma($T[1025]:range(1,2), $T[1025]:range(1,2), $T[1025]:range(-2,-1))",
    "fma(f32[seq<=9,5], f32[5], f32[])",

    "$T=" PLAIN " $U=" PLAIN " : cast($T[5,33]) {to=$U}",
    "$T=" PLAIN " $U=" PLAIN " : cast($T[257]:extreme) {to=$U}",
    "$T=" FLOATS " $U=" INTS " : cast($T[257]:range(-300,300)) {to=$U}",
    "$T=i32|i64 $U=" FLOATS "|i8|u8 : cast($T[257]:int(-100000,100000)) {to=$U}",
    "$U=" FLOATS "|i32 : cast(i64[257]:int(-9000000000000000,9000000000000000)) {to=$U}",
    "$U=f16|i32|bool $D=0|1|3,0|2,3,4,5 : cast(f32[$D]) {to=$U}",
    "$U=f16|i64 : cast(f32[seq<=9,5]:strided) {to=$U}",
    "$U=f16|bf16|f32 : cast(f32[512,1024]) {to=$U}",

    /* ---- regions ---- */
    "$T=" FLOATS " : region($T[3,33], $T[33])"
    " {t0 = add(a0, a1): $T; t1 = gelu(t0): $T; return t1}",
    "$T=f32|f16 : region($T[2,1,5], $T[3,1], $T[])"
    " {t0 = mul(a0, a1): $T; t1 = sub(t0, a2): $T; return t0, t1}",
    "$T=f32|bf16 : region($T[3,17], i32[17])"
    " {t0 = cast(a1): $T; t1 = lt(a0, t0): bool; t2 = where(t1, a0, t0): $T; return t1, t2}",
    "region(f32[4,7], f32[1,7]:strided, bool[4,1])"
    " {t0 = clamp(a0, -0.5, 0.5): f32; t1 = where(a2, t0, a1): f32; t2 = tanh(t1): f32; return t2}",
    "region(i64[9]:extreme, i64[9]) {t0 = add(a0, a1): i64; t1 = xor(t0, a0): i64; "
    "t2 = cast(t1): u8; return t2, t1}",
    "region(f32[33]) {t0 = cast(a0): f16; t1 = cast(t0): f32; t2 = sub(a0, t1): f32; return t2}",
    "region(f32[33], f32[33]) {t0 = mod(a0, a1, 1, 0): f32; t1 = leaky_relu(t0, 0.1, 0): f32; "
    "return t1}",
    "region(f32[seq<=9,5], f32[5]) {t0 = mul(a0, a1): f32; t1 = exp(a1): f32; return t1, t0}",
    "region(f32[0,3], f32[3]) {t0 = add(a0, a1): f32; return t0}",
    /* more operands than a GPU kernel binds: values in the middle go through memory */
    "$T=f32|f16 : region($T[5,33], $T[33], $T[5,1], $T[], $T[5,33], $T[5,33], $T[33], $T[5,33],"
    " $T[5,33], $T[1,33], $T[5,33], i64[5,33]) {t0 = add(a0, a1): $T; t1 = mul(t0, a2): $T;"
    " t2 = sub(t1, a3): $T; t3 = tanh(a4): $T; t4 = fma(t3, a5, a6): $T; t5 = max(t4, t2): $T;"
    " t6 = mul(a7, a8): $T; t7 = add(t6, a9): $T; t8 = lt(t7, t5): bool; t9 = cast(a11): $T;"
    " t10 = where(t8, a10, t9): $T; t11 = add(t10, t0): $T; return t11, t8, t5}",
    "region(f32[]) {t0 = neg(a0): f32; return t0}",
    "region(f32[256,512], f32[512], f32[256,1]) {t0 = fma(a0, a1, a2): f32; t1 = silu(t0): f32; "
    "return t1}",

    /* ---- errors ---- */
    "$F=gelu|exp|sqrt|round|erf|is_nan|elu $T=i32|bool|u8 : $F($T[3])"
    " !> operand 0 (x) expected of type",
    "$F=neg|abs|relu : $F(bool[3]) !> operand 0 (x) expected of type",
    "not(f32[3]) !> operand 0 (x) expected of type",
    "$F=relu|neg|add : $F(q8_0[2,32]) !> $F",
    "$F=add|sub|mul|div|max|min|pow|mod : $F(bool[3], bool[3]) !> operand 0 (a) expected of type",
    "$F=and|or|xor|shl|shr : $F(f32[3], f32[3]) !> operand 0 (a) expected of type",
    "$F=shl|shr : $F(bool[3], bool[3]) !> operand 0 (a) expected of type",
    "atan2(i32[3], i32[3]) !> operand 0 (a) expected of type",
    "$F=add|max|eq|pow $U=f16|i32|f32 : $F(bf16[3], $U[3]) !> same type",
    "$F=add|lt|pow $A=3|2,3|4,1,3 $B=2|4|5,2 : $F(f32[$A], f32[$B]) !> broadcast",
    "add(f32[seq<=4], f32[4]) !> broadcast",
    "add(f32[seq<=4], f32[other<=4]) !> broadcast",
    "add(f32[3]) !> operands",
    "add(f32[3], f32[3], f32[3]) !> operands",
    "relu(f32[3], f32[3]) !> operands",
    "add(f32[3], _) !> operand 1 (b) expected",
    "where(f32[3], f32[3], f32[3]) !> operand 0 (cond) expected of type bool",
    "where(bool[3], f32[3], f16[3]) !> same type",
    "where(bool[2], f32[3], f32[3]) !> broadcast",
    "where(bool[3], q8_0[32], q8_0[32]) !> operand 1 (a) expected",
    "fma(i32[3], i32[3], i32[3]) !> operand 0 (a) expected of type",
    "fma(f32[3], f32[3], f16[3]) !> same type",
    "fma(f32[3], f32[2], f32[1]) !> broadcast",
    "cast(f32[3]) !> attribute to",
    "cast(f32[32]) {to=q8_0} !> attribute to",
    "cast(q8_0[2,32]) {to=f32} !> operand 0 (x) expected",
    "clamp(f32[3]) {lo=nan} !> NaN",
    "clamp(i32[3]) {lo=0.5, hi=2} !> whole numbers",
    "clamp(bool[3]) {hi=1} !> operand 0 (x) expected of type",
    "elu(f32[3]) {alpha=inf} !> finite",
    "elu(f32[3]) {beta=1} !> beta is not used",
    "relu(f32[3]) {alpha=1} !> alpha",
    "region(f32[3]) {t0 = add(a0, a1): f32; return t0} !> region",
    "region(f32[3]) {t0 = exp(a0): f16; return t0} !> expected result type f32, got f16",
    "region(f32[3]) {t0 = not(a0): f32; return t0} !> it takes no arguments of type f32",
    "region(f32[3], i32[3]) {t0 = add(a0, a1): i32; return t0} !> expected type i32, got f32",
    "region(f32[3]) {t0 = softmax(a0): f32; return t0} !> region",
    "region(f32[3], f32[2]) {t0 = add(a0, a1): f32; return t0} !> broadcast",
    NULL,
};
