// A whole model in the layout of native.py, and its output projection.
#pragma once
#include "kernels.h"

constexpr long BOS = 2, EOS = 3;  // <s> and </s>; ids before </s> are never generated
constexpr long LOGIT_ROWS = 128;  // rows whose logits stay in the cache
constexpr float CLOSE = 2;        // logits within so many nats of the largest are recomputed at least; see `Output`

struct Output {  // of the decoder's hidden states
    const Product* product;
    const Product* screen;  // eight-bit products, the largest of which are recomputed with the weights; or none
    const float *weights, *bias;
    long vocabulary, rounds_inputs;  // rounds_inputs: to bf16, for logits that are recomputed
    float norm, scale;               // the greatest norm of a row of weights, the greatest scale of one in eight bits

    void logits(float* to, float* x, long rows) const {
        const Product& used = screen ? *screen : *product;
        used.multiply(to, x, rows);
        for (; rows > 0; rows--, to += used.outputs, x += used.inputs) {
            std::fill(to + vocabulary, to + used.outputs, -INFINITY);
            if (screen) refine(to, x);
            for (long i = 0; bias && i < vocabulary; i++) to[i] += bias[i];
        }
    }

    // Rounding x and weights to multiples of their scales gives errors of a logit with a standard deviation of at most
    // (scale of x * norm of weights + scale of weights * norm of x) / sqrt(12). Logits within 8 of these deviations of
    // the largest may be the largest.
    float least_to_refine(float largest, const float* x) const {
        float most = 0, squares = 0;
        for (long i = 0; i < screen->inputs; i++) most = std::max(most, std::fabs(x[i])), squares += x[i] * x[i];
        return largest - std::max(CLOSE, 8 * (most / 127 * norm + scale * std::sqrt(squares)) / std::sqrt(12.0f));
    }

    // Recompute the largest of eight-bit logits; x is rounded in place, as its product with all weights would round it.
    void refine(float* logits, float* x) const {
        std::fill_n(logits, EOS, -INFINITY);  // which are never generated
        Bfloat16 rounded;
        for (long i = 0; rounds_inputs && i < screen->inputs; i++) rounded = x[i], x[i] = rounded;
        Floats largest = Floats{} - INFINITY;
        for (long i = 0; i < screen->outputs; i += LANES) largest = larger(largest, *(Floats*)(logits + i));
        const float least = least_to_refine(largest_of(largest), x);
        for (long i = 0; i < screen->outputs; i += LANES) {
            if (!any(*(Floats*)(logits + i) >= least)) continue;
            for (long token = i; token < i + LANES; token++) {
                if (!(logits[token] >= least)) continue;
                float sum = 0;
                for (long j = 0; j < screen->inputs; j++) sum += x[j] * weights[token * screen->inputs + j];
                logits[token] = sum;
            }
        }
    }
};

struct Model {
    Stack encoder, decoder;
    Embedding source, target;
    Output output;
    const Product* const* key_values;  // of each layer of the decoder
    long has_bf16_cells;
};

// Return what is subtracted from logits (stride), which are -inf behind the vocabulary: log(sum(exp)) if
// `as_log_probs`, else 0; but NaN if one of them is NaN, which a maximum would not keep.
static float normalizer_of(const float* logits, long vocabulary, long stride, bool as_log_probs) {
    Floats largest_in_lane = Floats{} - INFINITY;
    Ints not_numbers{};
    for (long i = 0; i < stride; i += LANES) {
        const Floats x = *(const Floats*)(logits + i);
        largest_in_lane = larger(largest_in_lane, x), not_numbers |= x != x;
    }
    if (any(not_numbers)) return NAN;
    if (!as_log_probs) return 0;
    const float largest = largest_of(largest_in_lane);
    float sum = 0;
    for (long i = 0; i < vocabulary; i++) sum += exponential(logits[i] - largest);
    return largest + std::log(sum);
}
