/* SPDX-License-Identifier: MIT */
/* A reader of protobuf's wire format in place: fields are ranges of the bytes given, nothing is
 * copied or allocated. Groups, which no format here uses, are refused. */
#ifndef RX_IMPORT_PROTOBUF_H
#define RX_IMPORT_PROTOBUF_H

#include "base/file.h"

typedef enum rx_pb_wire { RX_PB_VARINT = 0, RX_PB_FIXED64 = 1, RX_PB_BYTES = 2, RX_PB_FIXED32 = 5
} rx_pb_wire;

/* The unread rest of a message, or of a packed list of numbers. */
typedef struct rx_pb {
    const unsigned char *at, *end;
} rx_pb;

typedef struct rx_pb_field {
    uint32_t number;
    rx_pb_wire wire;
    uint64_t value; /* of varint, fixed64 and fixed32 */
    rx_bytes bytes; /* of RX_PB_BYTES: a text, message or packed list; of numbers: their bytes */
} rx_pb_field;

static inline rx_pb rx_pb_open(rx_bytes b)
{
    return (rx_pb){b.data, (const unsigned char *)b.data + b.bytes};
}

/* Reads the next field: 1, or 0 at the end of the message, or -1 when it is damaged there. */
int rx_pb_next(rx_pb *m, rx_pb_field *f);
/* Reads one varint: false at the end, or when it is damaged. */
bool rx_pb_varint(rx_pb *m, uint64_t *v);
/* The number of varints in a packed list; false when the last one is cut off. */
bool rx_pb_count(rx_bytes list, size_t *n);

#endif
