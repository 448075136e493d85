/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a chat template, rendered with a small conversation. */
#include "base/mem.h"
#include "model/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" S \"},"
    " {\"role\": \"user\", \"content\": \"U \\u00e9\"}, {\"role\": \"assistant\", \"content\":"
    " \"A\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]}],"
    " \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true,"
    " \"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}],"
    " \"n\": 3, \"l\": [3, 1, 2]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rx_arena arena = {0};
    const rx_json *json;
    rx_chat_template *t;
    rlx_error err;
    char *text = NULL;
    size_t length;
    if (rx_template_parse((const char *)data, n, &t, &err) != RLX_OK)
        return 0;
    if (rx_json_parse(&arena, "variables", variables, sizeof variables - 1, &json, &err) == RLX_OK)
        rx_template_render(t, json, 1700000000, &text, &length, &err);
    rx_free(text);
    rx_template_free(t);
    rx_arena_finish(&arena);
    return 0;
}
