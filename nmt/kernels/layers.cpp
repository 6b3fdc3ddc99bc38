// The layers of encoder and decoder in a search or in forced decoding.
#include "kernels.h"

constexpr long AHEAD = 3;  // keys are prefetched so many tokens before they are read

static void prefetch(const void* numbers, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)numbers + i, 0, 2);
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
    std::vector<long> positions;
    const float* pending = nullptr;  // with pre-norm: the output of the sublayer before, which the next norm adds
    Space space;

    Workspace(const Stack& stack, float* x, long rows)
        : stack(stack), x(x), rows(rows),
          space(rows * (3 * stack.dim + std::max(3 * stack.dim, stack.layers->inner->outputs))) {
        const long size = rows * stack.dim;
        normalized = space.numbers, attended = normalized + size, y = attended + size, wide = y + size;
        positions.reserve(rows);
    }

    void embed(const Embedding& embedding, long token, long position) {
        embedding.write(x + positions.size() * stack.dim, token, position, stack.dim);
        positions.push_back(position);
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

    // Pass all rows through all layers. The functions write `attended` from `wide`: from queries, keys and values of
    // these rows, or, in a decoder, from their queries for the source.
    template <class Function, class SourceFunction>
    void pass(Function attend, SourceFunction attend_source) {
        for (long i = 0; i < stack.count; i++) {
            const Layer& layer = stack.layers[i];
            sublayer(layer.norms[0], [&](const float* input) {
                multiply(layer.query_key_value, input, wide);
                for (long row = 0; row < rows; row++) rotate(stack, wide + row * 3 * stack.dim, positions[row]);
                attend(i);
                multiply(layer.output, attended, y);
            });
            if (layer.query)
                sublayer(layer.norms[1], [&](const float* input) {
                    multiply(layer.query, input, wide);
                    attend_source(i);
                    multiply(layer.source_output, attended, y);
                });
            sublayer(layer.norms[2], [&](const float* input) {
                multiply(layer.inner, input, wide, stack.activation == Stack::RELU);
                activate(stack, wide, rows);
                multiply(layer.outer, wide, y);
            });
        }
        if (!stack.is_pre_norm) return;
        add_norm(x, normalized, x, pending, stack.last_norm[0], stack.last_norm[1], rows, stack.dim, stack.epsilon);
        std::copy(normalized, normalized + rows * stack.dim, x);
    }
};

// Attention of one query of each hypothesis; with ancestors, its newest key and value are first written to their cell.
// Most of the time goes into reading keys and values. So all heads of a token, which lie side by side, are read
// together, and prefetched: tokens are far apart, and the hardware prefetches only what follows.
template <class Number>
static void attend(const Workspace& s, const Places<Number>& p, long layer) {
    const long heads = s.stack.heads, dim = s.stack.dim, width = dim / heads;
    const Space space((2 + heads) * p.longest);
    long* offsets = (long*)space.numbers;            // (longest) offsets of the visible cells
    float* weights = space.numbers + 2 * p.longest;  // (heads, longest)
    Number* cells = p.cells + layer * p.layer_stride * 2 * dim;
    const long stride = p.ancestors ? 3 * dim : dim;
    const float* queries = s.wide;
    float* out = s.attended;
    for (long row = 0; row < s.rows; row++, queries += stride, out += dim) {
        const long sentence = p.rows[row] / p.beam, count = std::min(p.lengths[sentence], p.longest);
        const int* ancestors = p.ancestors ? p.ancestors + p.rows[row] * 2 * p.longest : nullptr;
        for (long i = 0; i < count; i++)
            offsets[i] =
                (i * p.position_stride + sentence * p.sentence_stride + (ancestors ? ancestors[i] : 0)) * 2 * dim;
        if (ancestors) {
            const float* newest = queries + dim;
            Number* newest_cell = cells + offsets[count - 1];
            for (long j = 0; j < 2 * dim; j++) newest_cell[j] = newest[j];
        }
        for (long i = 0; i < count; i++) {
            prefetch(cells + offsets[std::min(i + AHEAD, count - 1)], dim * sizeof(Number));
            prefetch(cells + offsets[i] + dim, dim * sizeof(Number));
            for (long head = 0; head < heads; head++) {
                const Number* key = cells + offsets[i] + head * width;
                float sum = 0;
                for (long j = 0; j < width; j++) sum += queries[head * width + j] * (float)key[j];
                weights[head * p.longest + i] = sum / std::sqrt((float)width);
            }
        }
        for (long head = 0; head < heads; head++) {
            float *head_weights = &weights[head * p.longest], largest = -INFINITY, total = 0;
            for (long i = 0; i < count; i++) largest = std::max(largest, head_weights[i]);
            for (long i = 0; i < count; i++) total += head_weights[i] = exponential(head_weights[i] - largest);
            for (long i = 0; i < count; i++) head_weights[i] /= total;
        }
        std::fill(out, out + dim, 0);
        for (long i = 0; i < count; i++)
            for (long head = 0; head < heads; head++) {
                const Number* value = cells + offsets[i] + dim + head * width;
                const float weight = weights[head * p.longest + i];
                for (long j = 0; j < width; j++) out[head * width + j] += weight * (float)value[j];
            }
    }
}

template <class Number>
void decode(
    const Stack& stack, const Embedding& embedding, const long* tokens, const Places<Number>& target,
    const Places<Number>& source, float* x, long rows
) {
    Workspace s(stack, x, rows);
    for (const long* place = target.rows; place < target.rows + rows; place++)
        s.embed(embedding, tokens[*place], target.lengths[*place / target.beam] - 1);
    s.pass([&](long layer) { attend(s, target, layer); }, [&](long layer) { attend(s, source, layer); });
}
template decltype(decode<float>) decode<float>;
template decltype(decode<Bfloat16>) decode<Bfloat16>;

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

void pass_rows(
    const Stack& stack, const Embedding& embedding, const Sentences& sentences, float* x, const Source* source
) {
    Workspace s(stack, x, sentences.rows());
    for (long sentence = 0; sentence < sentences.count; sentence++) {
        const long first = sentences.offsets[sentence], end = sentences.offsets[sentence + 1];
        for (long row = first; row < end; row++) s.embed(embedding, sentences.ids[row], row - first);
    }
    RowsAttention a{};
    a.query_offsets = a.key_offsets = sentences.offsets, a.sentences = sentences.count, a.longest = sentences.longest();
    a.heads = stack.heads, a.width = stack.dim / stack.heads, a.threads = 1, a.causal = source != nullptr;
    a.output = s.attended, a.output_stride = stack.dim;
    a.logsumexp = s.normalized;  // (rows, heads), in a buffer that is not needed any more
    a.queries = s.wide, a.keys = s.wide + stack.dim, a.values = s.wide + 2 * stack.dim;
    a.query_stride = a.key_stride = 3 * stack.dim;
    const auto attend = [&](long) { attend_rows(a); };
    if (!source) return s.pass(attend, attend);  // an encoder has no other attention
    const Space keys_values(source->sentences.rows() * 2 * stack.dim);
    RowsAttention cross = a;
    cross.key_offsets = source->sentences.offsets, cross.longest = source->sentences.longest(), cross.causal = false;
    cross.keys = keys_values.numbers, cross.values = keys_values.numbers + stack.dim;
    cross.query_stride = stack.dim, cross.key_stride = 2 * stack.dim;
    s.pass(attend, [&](long layer) {
        source->key_values[layer]->multiply(keys_values.numbers, source->memory, source->sentences.rows());
        attend_rows(cross);
        if (source->weights) add_weights(*source, cross, 1.0f / (stack.count * stack.heads));
    });
}
