# SPDX-License-Identifier: MIT
# Plain C comments to Doxygen comments: the second line describes the file, a rule of dashes opens a
# group, a comment after code describes what stands before it, any other what follows.
1d
2s,^/\* ,/** @file\n * ,
s,^/\* ---- \(.*\) --*\(-\| \)\*/$,/** @name \1 */,
s,^\( *\)/\* ,\1/** ,
s,^\( *[^ /].*[^ ]\)  */\* ,\1 /**< ,
s,\\x,\\\\x,g
