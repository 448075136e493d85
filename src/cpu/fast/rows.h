/* SPDX-License-Identifier: MIT */
/* How the rows of the .def files of this folder become entries of a list of kernels. LEVEL is the
 * suffix of their names, ".avx2". */
#define KERNEL(op, name, fn, strided) {RX_OP_##op, name LEVEL, fn, strided, false, false},
#define KERNEL_INT(op, name, fn, strided) {RX_OP_##op, name LEVEL, fn, strided, true, false},
#define KERNEL_RARE(op, name, fn, strided) {RX_OP_##op, name LEVEL, fn, strided, false, true},
#define ELEMENTWISE(name, fn, strided) {RX_ALL_ELEMENTWISE, name LEVEL, fn, strided, false, false},
