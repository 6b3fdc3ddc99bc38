// The layers of encoder and decoder in a search or in forced decoding.
#include "kernels.h"

constexpr long AHEAD = 3;  // keys are prefetched so many tokens before they are read

static void prefetch(const void* numbers, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)numbers + i, 0, 2);
}

// Attention of one query of each hypothesis; its newest key and value are first written to their cell. Most of the time
// goes into reading keys and values. So all heads of a token, which lie side by side, are read together, and
// prefetched: tokens are far apart, and the hardware prefetches only what follows.
template <class Number>
static void attend(
    const Stack& stack, const Places& p, void* all_cells, float* out, const float* queries, const float* newest,
    long stride, long rows
) {
    const Space space((2 + stack.heads) * p.longest);
    long* offsets = (long*)space.numbers;            // (longest) offsets of the visible cells
    float* weights = space.numbers + 2 * p.longest;  // (heads, longest)
    Number* cells = (Number*)all_cells;
    const long dim = stack.dim, width = dim / stack.heads;
    for (long row = 0; row < rows; row++, queries += stride, out += dim, newest += newest ? stride : 0) {
        const long sentence = p.rows[row] / p.beam, count = std::min(p.lengths[sentence], p.longest);
        const int* ancestors = p.ancestors ? p.ancestors + p.rows[row] * p.ancestors_stride : nullptr;
        for (long i = 0; i < count; i++) {
            const long place_offset = ancestors ? ancestors[i] * p.place_stride : 0;
            offsets[i] = i * p.position_stride + sentence * p.sentence_stride + place_offset;
        }
        if (newest) {
            Number* newest_cell = cells + offsets[count - 1];
            for (long j = 0; j < 2 * dim; j++) newest_cell[j] = newest[j];
        }
        for (long i = 0; i < count; i++) {
            prefetch(cells + offsets[std::min(i + AHEAD, count - 1)], dim * sizeof(Number));
            prefetch(cells + offsets[i] + dim, dim * sizeof(Number));
            for (long head = 0; head < stack.heads; head++) {
                const Number* key = cells + offsets[i] + head * width;
                float sum = 0;
                for (long j = 0; j < width; j++) sum += queries[head * width + j] * (float)key[j];
                weights[head * p.longest + i] = sum / std::sqrt((float)width);
            }
        }
        for (long head = 0; head < stack.heads; head++) {
            float *head_weights = &weights[head * p.longest], largest = -INFINITY, total = 0;
            for (long i = 0; i < count; i++) largest = std::max(largest, head_weights[i]);
            for (long i = 0; i < count; i++) total += head_weights[i] = exponential(head_weights[i] - largest);
            for (long i = 0; i < count; i++) head_weights[i] /= total;
        }
        std::fill(out, out + dim, 0);
        for (long i = 0; i < count; i++)
            for (long head = 0; head < stack.heads; head++) {
                const Number* value = cells + offsets[i] + dim + head * width;
                const float weight = weights[head * p.longest + i];
                for (long j = 0; j < width; j++) out[head * width + j] += weight * (float)value[j];
            }
    }
}

// Write z = x + y (without y, z is x and not written) and its layer norm.
static void add_norm(
    float* z, float* out, const float* x, const float* y, const float* weight, const float* bias, long rows, long width,
    float epsilon
) {
    for (; rows > 0; rows--, z += width, out += width, x += width, y += y ? width : 0) {
        float sum = 0, squares = 0;
        for (long i = 0; i < width; i++) sum += out[i] = y ? x[i] + y[i] : x[i];
        if (y) std::copy(out, out + width, z);
        const float mean = sum / width;
        for (long i = 0; i < width; i++) squares += (out[i] - mean) * (out[i] - mean);
        const float scale = 1 / std::sqrt(squares / width + epsilon);
        for (long i = 0; i < width; i++) out[i] = (out[i] - mean) * scale * weight[i] + bias[i];
    }
}

// Rotary positions: rotate pairs of numbers of queries and keys, (3 * dim) with values, by the angles of a position.
static void rotate(const Stack& stack, float* first, long position) {
    if (!stack.rotations) return;
    const long half = stack.dim / stack.heads / 2;
    const float *cosines = stack.rotations + position * 2 * half, *sines = cosines + half;
    for (long head = 0; head < 2 * stack.heads; head++, first += 2 * half)
        for (long i = 0; i < half; i++) {
            const float x = first[i], y = first[half + i];
            first[i] = x * cosines[i] - y * sines[i], first[half + i] = y * cosines[i] + x * sines[i];
        }
}

// The error function (Abramowitz & Stegun 7.1.26), with an error of at most 1.5e-7.
static inline float error_function(float x) {
    const float t = 1 / (1 + 0.3275911f * std::fabs(x));
    const float y = (((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f;
    return std::copysign(1 - y * t * exponential(-x * x), x);
}

// The non-linearity of `count` numbers in place; SwiGLU makes one row of the two halves of each row.
static void activate(const Stack& stack, float* x, long rows) {
    const long count = rows * stack.inner;
    if (stack.activation == Stack::GELU)
        for (long i = 0; i < count; i++) x[i] *= 0.5f * (1 + error_function(x[i] * (float)M_SQRT1_2));
    if (stack.activation == Stack::SWISH)
        for (long i = 0; i < count; i++) x[i] /= 1 + exponential(-x[i]);
    if (stack.activation == Stack::SWIGLU)
        for (long row = 0; row < rows; row++) {
            const float *gate = x + row * 2 * stack.inner, *inner = gate + stack.inner;
            float* out = x + row * stack.inner;
#pragma GCC ivdep
            for (long i = 0; i < stack.inner; i++) out[i] = gate[i] / (1 + exponential(-gate[i])) * inner[i];
        }
}

// The rows x (rows, dim) of a stack, first embeddings and last hidden states, and buffers for intermediate results.
struct Workspace {
    const Stack& stack;
    float *x, *normalized, *attended, *y, *wide;  // the last one for queries, keys and values, or the inner layer
    long rows;
    const float* pending = nullptr;  // with pre-norm: the output of the sublayer before, which the next norm adds
    Space space;

    Workspace(const Stack& stack, float* x, long rows)
        : stack(stack), x(x), rows(rows),
          space(rows * (3 * stack.dim + std::max(3 * stack.dim, stack.layers->inner->outputs))) {
        const long size = rows * stack.dim;
        normalized = space.numbers, attended = normalized + size, y = attended + size, wide = y + size;
    }

    void multiply(const Product* product, const float* from, float* to, bool relu = false) const {
        product->multiply(to, from, rows, relu);
    }

    // y = f(norm(x)), to be added later; with post-norm, x = norm(x + f(x)). `write_y` computes f.
    template <class Function>
    void sublayer(const float* const (&norm)[2], Function write_y) {
        if (stack.is_pre_norm) {
            add_norm(x, normalized, x, pending, norm[0], norm[1], rows, stack.dim, stack.epsilon);
            write_y(normalized);
            pending = y;
        } else {
            write_y(x);
            add_norm(normalized, x, x, y, norm[0], norm[1], rows, stack.dim, stack.epsilon);
        }
    }

    void feed_forward(const Layer& layer) {
        sublayer(layer.norms[2], [&](const float* input) {
            multiply(layer.inner, input, wide, stack.activation == Stack::RELU);
            activate(stack, wide, rows);
            multiply(layer.outer, wide, y);
        });
    }

    void end() {
        if (!stack.is_pre_norm) return;
        add_norm(x, normalized, x, pending, stack.last_norm[0], stack.last_norm[1], rows, stack.dim, stack.epsilon);
        std::copy(normalized, normalized + rows * stack.dim, x);
    }
};

// Compute the hidden states of the newest token of each hypothesis. `places` are those of the target and those of the
// source; `cells` has, for each layer, the cells of the target and those of the source.
template <class Number>
static void decode(
    const Stack& stack, const Embedding& embedding, const long* tokens, const Places (&places)[2], void* const* cells,
    float* x, long rows
) {
    const auto position = [&](long row) { return places[0].lengths[places[0].rows[row] / places[0].beam] - 1; };
    for (long row = 0; row < rows; row++)
        embedding.write(x + row * stack.dim, tokens[places[0].rows[row]], position(row), stack.dim);
    Workspace s(stack, x, rows);
    for (const Layer* layer = stack.layers; layer < stack.layers + stack.count; layer++, cells += 2) {
        s.sublayer(layer->norms[0], [&](const float* input) {
            s.multiply(layer->query_key_value, input, s.wide);
            for (long row = 0; row < rows; row++) rotate(stack, s.wide + row * 3 * stack.dim, position(row));
            const float* newest = s.wide + stack.dim;
            attend<Number>(stack, places[0], cells[0], s.attended, s.wide, newest, 3 * stack.dim, rows);
            s.multiply(layer->output, s.attended, s.y);
        });
        s.sublayer(layer->norms[1], [&](const float* input) {
            s.multiply(layer->query, input, s.wide);
            attend<Number>(stack, places[1], cells[1], s.attended, s.wide, nullptr, stack.dim, rows);
            s.multiply(layer->source_output, s.attended, s.y);
        });
        s.feed_forward(*layer);
    }
    s.end();
}

// Add the weights of all heads of a layer, from queries, keys, and log(sum(exp)) of the scores, times a factor.
static void add_weights(const Source& source, const RowsAttention& a, float factor) {
    const float scale = 1 / std::sqrt((float)a.width);
    float* to = source.weights;
    for (long pair = 0; pair < a.sentences; pair++) {
        const long keys = a.key_offsets[pair + 1] - a.key_offsets[pair];
        for (long row = a.query_offsets[pair]; row < a.query_offsets[pair + 1]; row++, to += keys) {
            for (long head = 0; head < a.heads; head++) {
                const float* query = (float*)a.queries + row * a.query_stride + head * a.width;
                const float* key = (float*)a.keys + a.key_offsets[pair] * a.key_stride + head * a.width;
                for (long j = 0; j < keys; j++, key += a.key_stride) {
                    float sum = 0;
                    for (long k = 0; k < a.width; k++) sum += query[k] * key[k];
                    to[j] += factor * exponential(sum * scale - a.logsumexp[row * a.heads + head]);
                }
            }
        }
    }
}

void pass_rows(const Stack& stack, const RowsAttention& sentences, float* x, const Source* source) {
    RowsAttention rows = sentences;
    Workspace s(stack, x, rows.query_offsets[rows.sentences]);
    rows.output = s.attended, rows.output_stride = stack.dim;
    rows.logsumexp = s.normalized;  // (rows, heads), in a buffer that is not needed any more
    RowsAttention cross = rows;
    rows.queries = s.wide, rows.keys = s.wide + stack.dim, rows.values = s.wide + 2 * stack.dim;
    rows.query_stride = rows.key_stride = 3 * stack.dim, rows.causal = source != nullptr;
    if (source) {
        cross.key_offsets = source->offsets, cross.query_stride = stack.dim, cross.longest = 0;
        for (long i = 0; i < rows.sentences; i++)
            cross.longest = std::max(cross.longest, source->offsets[i + 1] - source->offsets[i]);
        cross.keys = source->keys_values, cross.values = source->keys_values + stack.dim;
        cross.queries = s.wide, cross.key_stride = 2 * stack.dim;
    }
    for (long layer = 0; layer < stack.count; layer++) {
        const Layer& l = stack.layers[layer];
        s.sublayer(l.norms[0], [&](const float* input) {
            s.multiply(l.query_key_value, input, s.wide);
            for (long sentence = 0; stack.rotations && sentence < rows.sentences; sentence++)
                for (long row = rows.query_offsets[sentence]; row < rows.query_offsets[sentence + 1]; row++)
                    rotate(stack, s.wide + row * 3 * stack.dim, row - rows.query_offsets[sentence]);
            attend_rows(rows);
            s.multiply(l.output, s.attended, s.y);
        });
        if (source)
            s.sublayer(l.norms[1], [&](const float* input) {
                const Product& product = *source->key_values[layer];
                const long count = source->offsets[rows.sentences];
                product.multiply(source->keys_values, source->memory, count);
                s.multiply(l.query, input, s.wide);
                attend_rows(cross);
                if (source->weights) add_weights(*source, cross, 1.0f / (stack.count * stack.heads));
                s.multiply(l.source_output, s.attended, s.y);
            });
        s.feed_forward(l);
    }
    s.end();
}

extern "C" {
Decode* decode_fp32 = decode<float>;
Decode* decode_bf16 = decode<Bfloat16>;
}
