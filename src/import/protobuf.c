/* SPDX-License-Identifier: MIT */
/* Protobuf's wire format: tags, varints, fixed-width numbers and byte ranges, all checked against
 * the end of the message. */
#include "import/protobuf.h"

bool rx_pb_varint(rx_pb *m, uint64_t *v)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char c = *m->at++;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *v = value;
            return true;
        }
    }
    return false;
}

bool rx_pb_count(rx_bytes list, size_t *n)
{
    const unsigned char *p = list.data;
    *n = 0;
    for (size_t i = 0; i < list.bytes; i++)
        *n += !(p[i] & 0x80);
    return !list.bytes || !(p[list.bytes - 1] & 0x80);
}

static bool read_fixed(rx_pb *m, int bytes, rx_pb_field *f)
{
    if (m->end - m->at < bytes)
        return false;
    for (int i = bytes; i--;)
        f->value = f->value << 8 | m->at[i];
    f->bytes = (rx_bytes){m->at, (size_t)bytes};
    m->at += bytes;
    return true;
}

static bool read_bytes(rx_pb *m, rx_pb_field *f)
{
    uint64_t n;
    if (!rx_pb_varint(m, &n) || n > (uint64_t)(m->end - m->at))
        return false;
    f->bytes = (rx_bytes){m->at, (size_t)n};
    m->at += n;
    return true;
}

int rx_pb_next(rx_pb *m, rx_pb_field *f)
{
    uint64_t tag;
    *f = (rx_pb_field){0};
    if (m->at == m->end)
        return 0;
    if (!rx_pb_varint(m, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return -1;
    f->number = (uint32_t)(tag >> 3);
    f->wire = (rx_pb_wire)(tag & 7);
    const unsigned char *begin = m->at;
    bool ok = false;
    switch (f->wire) {
    case RX_PB_VARINT:
        ok = rx_pb_varint(m, &f->value);
        f->bytes = (rx_bytes){begin, (size_t)(m->at - begin)};
        break;
    case RX_PB_FIXED64: ok = read_fixed(m, 8, f); break;
    case RX_PB_BYTES: ok = read_bytes(m, f); break;
    case RX_PB_FIXED32: ok = read_fixed(m, 4, f); break;
    default: break;
    }
    return ok ? 1 : -1;
}
