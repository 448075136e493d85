/* SPDX-License-Identifier: MIT */
/* The activations of rlx_act, by code. `act` is a constant, so the branches vanish. */
#ifndef ACT_GLSL
#define ACT_GLSL

const uint ACT_NONE = 0, ACT_RELU = 1, ACT_GELU = 2, ACT_GELU_TANH = 3, ACT_SILU = 4,
           ACT_SIGMOID = 5, ACT_TANH = 6, ACT_HARD_SWISH = 7;

float act_sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }

/* Of exp(-2|x|), which cannot overflow; x itself where the quotient would cancel. */
float act_tanh(float x)
{
    float a = abs(x), e = exp(-2.0 * a);
    float y = a < 0.015625 ? a - a * a * a * (1.0 / 3.0) : (1.0 - e) / (1.0 + e);
    return x < 0.0 ? -y : y;
}

/* Abramowitz and Stegun 7.1.26: within 1.5e-7. */
float act_erf(float x)
{
    float a = abs(x), t = 1.0 / (1.0 + 0.3275911 * a);
    float p = t * (0.254829592 +
                   t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    float y = 1.0 - p * exp(-a * a);
    return x < 0.0 ? -y : y;
}

float apply_act(uint act, float x)
{
    if (act == ACT_RELU)
        return x < 0.0 ? 0.0 : x;
    if (act == ACT_GELU)
        return 0.5 * x * (1.0 + act_erf(x * 0.70710678118));
    if (act == ACT_GELU_TANH)
        return 0.5 * x * (1.0 + act_tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    if (act == ACT_SILU)
        return x * act_sigmoid(x);
    if (act == ACT_SIGMOID)
        return act_sigmoid(x);
    if (act == ACT_TANH)
        return act_tanh(x);
    if (act == ACT_HARD_SWISH)
        return x * clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0);
    return x;
}

#endif
