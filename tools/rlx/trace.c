/* SPDX-License-Identifier: MIT */
/* Writer of traces. */
#include "trace.h"

#include <string.h>

/* What every trace of rlx begins with. */
#define MAGIC "{\n  \"displayTimeUnit\""

bool trace_begin(report *r, const char *path, const char *unit, json *j)
{
    if (!report_open(r, path, "a trace"))
        return false;
    *j = (json){.f = r->f};
    json_object(j, NULL);
    json_text(j, "displayTimeUnit", unit);
    json_array(j, "traceEvents");
    return true;
}

bool trace_end(report *r, json *j)
{
    json_end(j);
    json_end(j);
    return report_close(r, strlen(MAGIC));
}
